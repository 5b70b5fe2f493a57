// Package run is the heart of the service: one governed action run. It claims an
// id in the fence, has a workflow started, decides about the call, sends it at most
// once where it may not be repeated, and tells every waiting caller what came of it.
// The api package and the activities call it; it reaches the workflow engine, the
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
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/governance"
	"agentruntime/internal/kernel/verb"
)

// State of a run's row.
type State string

// The states. claimed → sending → executed | failed | outcome_unknown, with
// pending_approval before sending where a human has to release the run; blocked,
// refused, rejected, expired, intercepted and cancelled end a run before anything was
// sent. All of these but the last two free the id: the same call may run later under
// it. An intercepted run (a dry run of a write) can still be released by a human.
const (
	StateClaimed        State = "claimed"
	StatePending        State = "pending_approval"
	StateSending        State = "sending"
	StateExecuted       State = "executed"
	StateFailed         State = "failed"
	StateOutcomeUnknown State = "outcome_unknown"
	StateBlocked        State = "blocked"
	StateRefused        State = "refused"
	StateIntercepted    State = "intercepted"
	StateCancelled      State = "cancelled"
	StateRejected       State = "rejected"
	StateExpired        State = "expired"
)

// Ended reports whether nothing more will happen to the run by itself.
func (s State) Ended() bool { return s != StateClaimed && s != StateSending && s != StatePending }

// Answers reports whether a caller is told the state rather than kept waiting: it has
// ended, or a human has to be waited for.
func (s State) Answers() bool { return s.Ended() || s == StatePending }

// Status is the public name of the state.
func (s State) Status() string {
	switch s {
	case StateClaimed, StateSending:
		return "running"
	case StateRefused:
		return "failed"
	default:
		return string(s)
	}
}

// Run is one run as it stands in the database.
type Run struct {
	ID           uuid.UUID
	TenantID     uuid.UUID
	ExecutionID  string
	ClaimKey     string
	Attempt      int32
	State        State
	Verb         verb.Name
	Args         json.RawMessage
	Fingerprint  []byte
	DryRun       bool
	SessionID    *string
	Metadata     json.RawMessage
	KeyID        *uuid.UUID
	RequestID    string
	SourceAddr   string
	GiveUpAt     time.Time
	Risk         verb.Risk
	Operation    verb.Operation
	Decision     string
	PolicyName   string
	Reason       string
	ApprovalID   *string
	CredentialID *uuid.UUID
	// Held: a human's approval was asked for, and nothing else releases the run.
	Held bool
	// GrantID names the standing approval that let the run through.
	GrantID *uuid.UUID
	// EditedArgs are what an approver made of Args; nil where nobody did.
	EditedArgs json.RawMessage
	Sends      int32
	// MaybeSent: a write of which an attempt may have had its effect.
	MaybeSent      bool
	Result         json.RawMessage
	ProviderStatus int
	ErrorCode      fault.Code
	ErrorMessage   string
	ErrorDetails   []fault.Detail
	Retryable      bool
	RetryAfter     time.Duration
	CreatedAt      time.Time
	UpdatedAt      time.Time
	SentAt         *time.Time
	FinishedAt     *time.Time
}

// Effective are the arguments that are judged and sent.
func (r Run) Effective() json.RawMessage {
	if r.EditedArgs != nil {
		return r.EditedArgs
	}
	return r.Args
}

// Took is how long the run took, up to now while it runs.
func (r Run) Took(now time.Time) time.Duration {
	if r.FinishedAt != nil {
		now = *r.FinishedAt
	}
	return max(0, now.Sub(r.CreatedAt))
}

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

// Ref names a claim of a run: the row and the attempt that a workflow acts for.
type Ref struct {
	TenantID uuid.UUID
	ID       uuid.UUID
	Attempt  int32
}

func (r Run) ref() Ref { return Ref{TenantID: r.TenantID, ID: r.ID, Attempt: r.Attempt} }

// Step is what a step of the workflow came to.
type Step struct {
	State State
	// Done: the run ended, or is not this attempt's any more.
	Done bool
	// After is how long to wait before the next attempt to send, or for a human.
	After time.Duration
	// ApprovalID is the approval that is waited for; "" where none is.
	ApprovalID string
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
	// Hold reports whether the conditions of a grant hold for a call; what cannot be
	// judged does not.
	Hold(conditions []governance.Condition, args json.RawMessage, about governance.Context) bool
	// PolicyVersion is that of the policies which Judge goes by; 0 where there are none.
	PolicyVersion() int64
	// Check holds the arguments against the verb's schema.
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
	// take one, else ignored. The answer holds no secret.
	Send(ctx context.Context, key string) Answer
}

// Targets finds a verb; VERB_NOT_FOUND where the tenant has none.
type Targets interface {
	Target(ctx context.Context, tenant uuid.UUID, name verb.Name) (Target, error)
	// Mask returns arguments as they may be shown, also those of a verb that the tenant
	// has no more.
	Mask(ctx context.Context, tenant uuid.UUID, name verb.Name, args json.RawMessage) json.RawMessage
}

// Engine runs workflows.
type Engine interface {
	// StartRun makes sure that a workflow of the claim runs; a start that was made
	// before is not an error. summary is what operators read.
	StartRun(ctx context.Context, ref Ref, claimKey, summary string) error
	// RunOpen reports whether the workflow of the claim is open; found is false
	// where the engine knows none.
	RunOpen(ctx context.Context, tenant uuid.UUID, claimKey string) (open, found bool, err error)
	// Nudge has the workflow of the claim look at its row again; open is false where
	// none is open.
	Nudge(ctx context.Context, tenant uuid.UUID, claimKey string) (open bool, err error)
}

// Config holds the times of the service; zero values take the defaults.
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
	Deps
	cfg      Config
	hub      *hub
	prepared *preparedRuns
}

// New checks the collaborators.
func New(cfg Config, d Deps) (*Service, error) {
	if d.DB == nil || d.Targets == nil || d.Engine == nil || d.Log == nil {
		return nil, errors.New("run: database, targets, engine and log are required")
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Service{Deps: d, cfg: cfg.withDefaults(), hub: newHub(), prepared: newPreparedRuns()}, nil
}
