// Package policy keeps the rules of each tenant: its policies with all their versions,
// and its masks. It compiles both for the run path. It warns about a policy that looks
// wrong (Warning), says what one would have changed (Simulate), and how often one matched
// (Coverage). The api package manages policies through it, and internal/service/dispatch
// takes the compiled sets. It never judges a call: internal/action/governance does.
package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/turns"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/quota"
)

// Policy is a rule as the API shows it. Approval counts where Action is
// require_approval.
type Policy struct {
	governance.Policy
	Description string
	CreatedAt   time.Time
	CreatedBy   string // "user:<id>" or "key:<id>"
	UpdatedAt   time.Time
	UpdatedBy   string
}

// Change is what a version did to a policy.
type Change string

// Changes.
const (
	Created  Change = "created"
	Updated  Change = "updated"
	Deleted  Change = "deleted"
	Restored Change = "restored"
)

// action is the change as the audit trail names it.
func (c Change) action() audit.Action {
	switch c {
	case Created:
		return audit.PolicyCreated
	case Updated:
		return audit.PolicyUpdated
	case Restored:
		return audit.PolicyRestored
	default:
		return audit.PolicyDeleted
	}
}

// Version is one state that a policy has been in.
type Version struct {
	Version   int32
	Change    Change
	Policy    Policy
	ChangedAt time.Time
	ChangedBy string
}

// Subject is a verb as it is now, for calls that are judged and not sent.
type Subject interface {
	// Call is a call of the verb, to be judged.
	Call(args json.RawMessage, about governance.Context) governance.Call
	// Check returns what is wrong with arguments, with places from /args on.
	Check(args json.RawMessage) []fault.Detail
	// Connected returns why the provider of the verb cannot be called, nil where it can.
	Connected() *fault.Error
	// Mask returns the arguments as they may be shown.
	Mask(args json.RawMessage) json.RawMessage
	// Answer returns the JSON Schema of what the verb answers, nil where none is known.
	Answer(ctx context.Context) (json.RawMessage, error)
}

// Subjects finds verbs; VERB_NOT_FOUND where the tenant has none of the name.
type Subjects interface {
	Subject(ctx context.Context, tenant uuid.UUID, name verb.Name) (Subject, error)
	// MaskOwn returns arguments with the tenant's own stored secrets hidden.
	MaskOwn(ctx context.Context, tenant uuid.UUID, args json.RawMessage) json.RawMessage
}

// Keys finds the key under which the runs of a tenant are sealed.
type Keys interface {
	Key(ctx context.Context, tenant uuid.UUID) (*datakey.Key, error)
}

// Deps are the collaborators of a Service; database, subjects and keys are required.
type Deps struct {
	DB       *db.Pool
	Subjects Subjects
	Keys     Keys
	Now      func() time.Time // nil is time.Now
	// SimulationLimit is how long a simulation takes at most; 0 is 20 s.
	SimulationLimit time.Duration
	// Quotas bound how many policies a tenant has.
	Quotas quota.Limits
	// Log is told of windows that cannot be filled with the change of their policy; nil for nobody.
	Log *slog.Logger
}

// Service manages policies. It is safe for concurrent use.
type Service struct {
	db       *db.Pool
	subjects Subjects
	keys     Keys
	now      func() time.Time
	q        *dbsqlc.Queries
	// turns bounds how many simulations run at once, of all tenants and of one.
	turns           *turns.Turns
	simulationLimit time.Duration
	quotas          quota.Limits
	log             *slog.Logger
}

// New builds a Service.
func New(d Deps) (*Service, error) {
	if d.DB == nil || d.Subjects == nil || d.Keys == nil {
		return nil, errors.New("policy: database, subjects and keys are required")
	}
	if d.SimulationLimit == 0 {
		d.SimulationLimit = simulationLimit
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{
		db: d.DB, subjects: d.Subjects, keys: d.Keys, now: db.Clock(d.Now), q: dbsqlc.New(),
		turns: newTurns(d.SimulationLimit), simulationLimit: d.SimulationLimit, quotas: d.Quotas, log: d.Log,
	}, nil
}

func notFound() error { return fault.New(fault.CodePolicyNotFound, "") }

// readError is why a policy could not be read.
func readError(err error) error {
	if db.IsNoRows(err) {
		return notFound()
	}
	return fmt.Errorf("policy: read: %w", err)
}

// document is what is stored of a policy, and of each of its versions.
type document struct {
	Name         string                   `json:"name"`
	Description  string                   `json:"description"`
	Enabled      bool                     `json:"enabled"`
	Mode         governance.Mode          `json:"mode"`
	Priority     int32                    `json:"priority"`
	VerbMatchers []governance.Matcher     `json:"verbMatchers"`
	Match        governance.Narrowing     `json:"match,omitzero"`
	Conditions   []governance.Condition   `json:"conditions"`
	Lookups      []governance.Lookup      `json:"lookups,omitempty"`
	Action       governance.Action        `json:"action"`
	Approval     *governance.ApprovalRule `json:"approval"`
}

func encode(p Policy) (json.RawMessage, error) {
	d := document{
		Name: p.Name, Description: p.Description, Enabled: p.Enabled, Mode: p.Mode, Priority: p.Priority,
		VerbMatchers: p.Matchers, Match: p.Match, Conditions: p.Conditions, Lookups: p.Lookups, Action: p.Action,
	}
	if p.Action == governance.ActionRequireApproval {
		d.Approval = &p.Approval
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("policy: encode: %w", err)
	}
	return raw, nil
}

func decode(raw json.RawMessage) (Policy, error) {
	var d document
	if err := json.Unmarshal(raw, &d); err != nil {
		return Policy{}, fmt.Errorf("policy: decode: %w", err)
	}
	p := Policy{Policy: governance.Policy{
		Name: d.Name, Enabled: d.Enabled, Mode: d.Mode, Priority: d.Priority,
		Matchers: d.VerbMatchers, Match: d.Match, Conditions: d.Conditions, Lookups: d.Lookups, Action: d.Action,
	}, Description: d.Description}
	switch {
	case d.Approval != nil:
		p.Approval = *d.Approval
	case d.Action == governance.ActionRequireApproval:
		return Policy{}, errors.New("policy: decode: an approval rule is missing")
	}
	return p, nil
}

func fromRow(r dbsqlc.Policy) (Policy, error) {
	p, err := decode(r.Document)
	if err != nil {
		return Policy{}, err
	}
	p.ID, p.Version = r.ID, r.Version
	p.CreatedAt, p.CreatedBy = r.CreatedAt.UTC(), r.CreatedBy
	p.UpdatedAt, p.UpdatedBy = r.UpdatedAt.UTC(), r.UpdatedBy
	return p, nil
}
