// Package run is the heart of the service: one governed action run. It claims an
// id in the fence, has a workflow started, decides about the call, sends it at most
// once where it may not be repeated, and tells every waiting caller the outcome.
// The api package and the activities call it. It reaches the workflow engine, the
// catalog, the vault and the provider through interfaces that it declares.
package run

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/governance"
	"agentruntime/internal/kernel/verb"
	"agentruntime/internal/record/approval"
)

// Fault returns how the run is answered where it did not run to a result; nil for
// executed, intercepted and running ones.
func (r Run) Fault() *fault.Error {
	var f *fault.Error
	switch r.State {
	case StateBlocked, StatePending, StateRejected, StateExpired:
		f = r.governed()
	case StateFailed, StateRefused, StateOutcomeUnknown:
		f = fault.New(r.ErrorCode, r.ErrorMessage)
		f.Details, f.ProviderStatus = r.ErrorDetails, r.ProviderStatus
		f.Retryable, f.RetryAfter = r.Retryable, r.RetryAfter
	case StateCancelled:
		f = fault.New(fault.CodeConflict, "This execution was cancelled before it was sent. Use a new execution_id to run the call.")
	case StateClaimed, StateSending, StateExecuted, StateIntercepted:
		return nil
	}
	f.ExecutionID = r.ExecutionID
	return f
}

// governed is the refusal of a run that governance did not let through.
func (r Run) governed() *fault.Error {
	message := r.Reason
	if r.State == StatePending {
		message += ". Nothing was sent. The call runs once it is approved; repeat it with the same execution_id, or read the execution, to learn what came of it."
	} else if r.State != StateBlocked {
		message = r.ErrorMessage
	}
	f := fault.New(fault.CodeGovernanceBlocked, message)
	f.Decision = r.Decision
	f.ApprovalRequired = r.State == StatePending
	if r.ApprovalID != nil {
		f.ApprovalID = *r.ApprovalID
	}
	return f
}

// Target is a verb of the tenant, ready to be judged and called.
type Target interface {
	Risk() verb.Risk
	Operation() verb.Operation
	Idempotency() verb.Idempotency
	// Connected is nil where the provider needs no credential or has an active one,
	// else the refusal that says what is missing.
	Connected() *fault.Error
	// CredentialID is nil where the provider needs none.
	CredentialID() *uuid.UUID
	// SchemaHash is the SHA-256 of the verb's schema and of how its request is made of
	// arguments: method, address and the place of the credential.
	SchemaHash() []byte
	// Judge decides about a call of the verb by the tenant's policies as they stand.
	Judge(args json.RawMessage, about governance.Context) governance.Verdict
	// Meets reports whether the conditions of a grant are true for a call; one that
	// cannot be judged is not.
	Meets(conditions []governance.Condition, args json.RawMessage, about governance.Context) bool
	// PolicyVersion is that of the policies which Judge goes by; 0 where there are none.
	PolicyVersion() int64
	// Check returns where the arguments do not fit the verb's schema.
	Check(args json.RawMessage) []fault.Detail
	// Mask returns the arguments as they may be shown and stored.
	Mask(args json.RawMessage) json.RawMessage
	// Prepare builds the request and resolves the credential. A fault is a refusal.
	Prepare(ctx context.Context, args json.RawMessage) (Call, error)
}

// Call is one request to a provider, ready to be sent once.
type Call interface {
	// Preview is the request of args as it would be sent, masked.
	Preview(args json.RawMessage) json.RawMessage
	// Send makes exactly one attempt. key is the idempotency key for providers that
	// take one, else ignored. The answer contains no secret.
	Send(ctx context.Context, key string) Answer
}

// Targets finds a verb; VERB_NOT_FOUND where the tenant has none.
type Targets interface {
	// Target returns the verb with the credential that a call of it uses: the customer's
	// own where there is one, else the tenant's. customer is "" where the call is for none.
	Target(ctx context.Context, tenant uuid.UUID, name verb.Name, customer string) (Target, error)
	// Mask returns arguments as they may be shown, also those of a verb that the tenant
	// no longer has.
	Mask(ctx context.Context, tenant uuid.UUID, name verb.Name, args json.RawMessage) json.RawMessage
}

// Engine runs workflows. They are named by their ids.
type Engine interface {
	// StartRun makes sure that a workflow of the claim runs; a start that was made
	// before is not an error. summary is what operators read.
	StartRun(ctx context.Context, in flow.ActionRunInput, workflowID, summary string) error
	// IsOpen reports whether the workflow is open; found is false where the engine knows
	// none.
	IsOpen(ctx context.Context, workflowID string) (open, found bool, err error)
	// Nudge has the workflow look at its row again; open is false where none is open.
	Nudge(ctx context.Context, workflowID string) (open bool, err error)
}

// Config has the times of the service; zero values take the defaults.
type Config struct {
	// DefaultWait and MaxWait bound how long a call waits for its run (30 s, 60 s).
	DefaultWait, MaxWait time.Duration
	// PollEvery is how often a waiting call looks at the row in case a notice was
	// lost (2 s).
	PollEvery time.Duration
	// SweepEvery and SweepAfter say how often, and after how long without a change,
	// an unfinished run is looked after (5 s, 10 s).
	SweepEvery, SweepAfter time.Duration
	// OneProcess: callers wait, and workflows run, in this process. Then a claim's row
	// is carried to its workflow, and notices to other processes are gathered.
	OneProcess bool
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.DefaultWait, 30*time.Second)
	set(&c.MaxWait, time.Minute)
	set(&c.PollEvery, 2*time.Second)
	set(&c.SweepEvery, 5*time.Second)
	set(&c.SweepAfter, 10*time.Second)
	return c
}

// Deps are the collaborators; all are required but Now.
type Deps struct {
	DB      *db.Pool
	Targets Targets
	Engine  Engine
	Log     *slog.Logger
	Now     func() time.Time
}

// Service runs actions.
type Service struct {
	d       Deps
	q       *dbsqlc.Queries
	cfg     Config
	hub     *hub
	carried *carried
	// approvals has the workflows of held runs notice what has changed.
	approvals *approval.Sweeper
}

// New checks the collaborators.
func New(cfg Config, d Deps) (*Service, error) {
	if d.DB == nil || d.Targets == nil || d.Engine == nil || d.Log == nil {
		return nil, errors.New("run: database, targets, engine and log are required")
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	s := &Service{d: d, q: dbsqlc.New(), cfg: cfg.withDefaults(), hub: newHub(), carried: newCarried()}
	var err error
	s.approvals, err = approval.NewSweeper(approval.SweeperDeps{
		DB: d.DB, Workflows: d.Engine, Owners: map[approval.SubjectType]approval.Owner{approval.SubjectRun: s}, Log: d.Log, Now: d.Now,
	})
	return s, err
}
