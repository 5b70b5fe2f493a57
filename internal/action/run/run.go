// Package run is the core of the service: one governed action run. It claims an id in the
// fence, starts the workflow, decides about the call and sends it. It sends a call that may
// not be repeated at most once. It tells every waiting caller the outcome. The api package
// and the activities call it. It reaches the workflow engine, the catalog, the vault and
// the provider only through interfaces that it declares.
package run

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/circuit"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/share"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/providererror"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/ended"
	"agentruntime/internal/record/quota"
)

// Fault returns the refusal that answers the caller of a run without a result. It returns
// nil for a run that is executed, intercepted or still running.
func (r Run) Fault() *fault.Error {
	var f *fault.Error
	switch r.State {
	case StateBlocked, StatePending, StateRejected, StateExpired:
		f = r.governed()
	case StateFailed, StateRefused, StateOutcomeUnknown:
		f = fault.New(r.ErrorCode, r.message())
		f.Details, f.ProviderStatus = r.ErrorDetails, r.ProviderStatus
		f.Retryable, f.RetryAfter = r.Retryable, r.RetryAfter
		if r.ProviderError != nil {
			f.ProviderError = mustJSON(r.ProviderError)
		}
	case StateCancelled:
		f = fault.New(fault.CodeConflict, "This execution was cancelled before it was sent. Use a new execution_id to run the call.")
	case StateClaimed, StateSending, StateExecuted, StateIntercepted:
		return nil
	}
	f.ExecutionID, f.Status = r.ExecutionID, r.State.Status()
	return f
}

// governed returns the refusal of a run that governance or people did not let through. What
// was rejected or has expired is blocked for good.
func (r Run) governed() *fault.Error {
	f := fault.New(fault.CodeGovernanceBlocked, r.Reason)
	f.Decision, f.Reason = r.Decision, r.Reason
	if r.State == StatePending {
		f.ApprovalRequired = true
		f.Message += ". Nothing was sent. The call runs by itself once it is approved. To learn what came of it, repeat it with the same id, or read the execution."
	}
	if r.State == StateRejected || r.State == StateExpired {
		f.Decision, f.Reason = string(governance.Block), r.ErrorMessage
		f.Message = "Nobody approved the call in time. Nothing was sent, and nothing will be under this id. To ask again, use another id."
		if r.State == StateRejected {
			f.Message = "The call was rejected" + because(r.ErrorMessage) + ". Nothing was sent, and nothing will be under this id. To ask again, use another id."
		}
	}
	if r.ApprovalID != nil {
		f.ApprovalID = *r.ApprovalID
	}
	return f
}

// because returns ": reason" without the reason's own full stop, or "".
func because(reason string) string {
	if reason = strings.TrimRight(reason, ". "); reason == "" {
		return ""
	}
	return ": " + reason
}

// Target is a verb of the tenant, ready to be judged and called.
type Target interface {
	Risk() verb.Risk
	Operation() verb.Operation
	Idempotency() verb.Idempotency
	// Connected returns nil where the provider needs no credential or has an active one,
	// otherwise the refusal that says what is missing.
	Connected() *fault.Error
	// ReadBack returns how to find out whether a call of the verb took effect, once that is not
	// known; nil where its document declares nothing.
	ReadBack() *verb.ReadBack
	// Normalizer returns the program that makes the normalized form of a result; "" where the verb
	// has none.
	Normalizer() string
	// CredentialID returns the credential that a call uses; nil where the provider needs
	// none.
	CredentialID() *uuid.UUID
	// CredentialName returns the type and the label of that credential; "" where there is
	// none.
	CredentialName() (kind, label string)
	// SchemaHash returns the SHA-256 of the verb's schema and of how a request is built from
	// arguments: method, address and the place of the credential.
	SchemaHash() []byte
	// Judge decides about a call of the verb by the policies of PolicyVersion, or blocks it where
	// an import has quarantined the verb. The error is
	// that of a context that has ended: nobody waits for the verdict.
	Judge(ctx context.Context, args json.RawMessage, about governance.Context) (governance.Verdict, error)
	// Trusts reports whether what came back has no words of others than the tenant. wrapped is that of the
	// Answer. whole: the result of the verb is all that came back, without an error or headers with words.
	Trusts(result json.RawMessage, wrapped string, whole bool) bool
	// Quarantined reports whether an import has quarantined the verb.
	Quarantined() bool
	// StoppedBy returns the kill switch that covers a call of the verb, nil where none does.
	StoppedBy(about governance.Context) *governance.KillSwitch
	// Circuit returns what a call finds at the circuit of the provider, as it was when the verb
	// was read.
	Circuit() circuit.Gate
	// CustomerNames returns the texts that name the customer that the target was read for: ids
	// and external ids of one record, or the one text that names no record.
	CustomerNames() []string
	// Meets reports whether the conditions of a grant are true for a call; one that
	// cannot be judged is not.
	Meets(conditions []governance.Condition, args json.RawMessage, about governance.Context) bool
	// PolicyVersion returns the version of the policies that Judge applies; 0 where there
	// are none.
	PolicyVersion() int64
	// Read says how new the provider and the credential are that the target was made of.
	Read() Read
	// Check returns where the arguments do not fit the verb's schema.
	Check(args json.RawMessage) []fault.Detail
	// Mask returns the arguments as they may be shown and stored.
	Mask(args json.RawMessage) json.RawMessage
	// MaskResult returns a result as others than the caller may see it.
	MaskResult(result json.RawMessage) json.RawMessage
	// Words returns what an answer says, masked as results are.
	Words(answer providererror.Answer) *providererror.Error
	// Prepare builds the request and opens the credential. A fault refuses the call, except
	// SERVICE_UNAVAILABLE, after which the step is repeated.
	Prepare(ctx context.Context, args json.RawMessage) (Call, error)
}

// Read says when what a target was made of was last changed. A nil time is not compared.
type Read struct{ ProviderAt, CredentialAt *time.Time }

// Call is one request to a provider, ready to be sent once.
type Call interface {
	// Preview returns the request of args as it would be sent, masked.
	Preview(args json.RawMessage) json.RawMessage
	// Send makes exactly one attempt. key is the idempotency key for providers that take
	// one; other providers do not get it. mayBegin is asked right before the first byte
	// leaves: where it is false, nothing is sent. The answer contains no secret.
	Send(ctx context.Context, key string, mayBegin func() bool) Answer
	// Look is Send for a read that no run has as its result. A file with which it is answered is not stored.
	Look(ctx context.Context) Answer
}

// Account says in whose name a call is made at the provider.
type Account struct {
	// Customer is a text that names the customer whose own credential is used where there is one,
	// otherwise the tenant's; "" where the call is for none.
	Customer string
	// Credential is the only one that may be used; nil for the newest active one.
	Credential *uuid.UUID
}

// Targets finds verbs.
type Targets interface {
	// Target returns the verb with the credential that a call of it uses. args are those of the call; Mask of the target hides what in them is a secret
	// that the tenant has stored. The error is the fault VERB_NOT_FOUND where the tenant has
	// no such verb.
	Target(ctx context.Context, tenant uuid.UUID, name verb.Name, by Account, args json.RawMessage) (Target, error)
	// TargetRead is Target without the read: read is what the SQL function call_target
	// returned for the call a moment ago.
	TargetRead(ctx context.Context, tenant uuid.UUID, name verb.Name, by Account, args, read json.RawMessage) (Target, error)
	// Named returns the arguments of a call by the names that the verb has for them: the tool that
	// a chat model gets may have others. The error is VALIDATION_ERROR where one is there by both.
	Named(ctx context.Context, tenant uuid.UUID, name verb.Name, args json.RawMessage) (json.RawMessage, error)
	// Digests returns what call_target compares with the secrets that the tenant has stored:
	// the digests of the values in the arguments that may be one.
	Digests(key *datakey.Key, args json.RawMessage) [][]byte
	// Mask returns the texts of a run as others than its caller may see them, also those of
	// a verb that the tenant no longer has. A text that is nil stays nil.
	Mask(ctx context.Context, tenant uuid.UUID, name verb.Name, texts Texts) Texts
	// MaskRead is Mask with what the SQL function call_target has returned for the run's verb and
	// account a moment ago.
	MaskRead(ctx context.Context, tenant uuid.UUID, name verb.Name, by Account, texts Texts, read json.RawMessage) Texts
	// MaskMetadata is Mask for the metadata of many runs. It reads once what they have in
	// common.
	MaskMetadata(ctx context.Context, tenant uuid.UUID) func(name verb.Name, metadata json.RawMessage) json.RawMessage
}

// Texts are what callers and providers wrote of a run.
type Texts struct{ Args, Metadata, Result json.RawMessage }

// Engine runs workflows. They are named by their ids.
type Engine interface {
	// StartRun starts a workflow for the claim. A start that was made before is not an
	// error. Operators find the workflow by listing.
	StartRun(ctx context.Context, in flow.ActionRunInput, workflowID string, listing flow.Listing) error
	// IsOpen reports whether the workflow is open. found is false where the engine does not
	// know the workflow.
	IsOpen(ctx context.Context, workflowID string) (open, found bool, err error)
	// Nudge tells the workflow to read its row again. open is false where no such workflow
	// is open.
	Nudge(ctx context.Context, workflowID string) (open bool, err error)
}

// Config has the times of the service; zero values take the defaults.
type Config struct {
	// DefaultWait is how long a call waits for its run, MaxWait the most that it may ask
	// for (30 s, 60 s).
	DefaultWait, MaxWait time.Duration
	// PollEvery is how often a waiting call reads the row in case a notice was lost (2 s).
	PollEvery time.Duration
	// SweepEvery is how often the sweeper looks for unfinished runs, SweepAfter how long
	// such a run must be without a change (5 s, 10 s).
	SweepEvery, SweepAfter time.Duration
	// OneProcess: callers wait, and workflows run, in this process. Then a claim hands its
	// row to the workflow.
	OneProcess bool
	// PublicURL is the address of the API for people, "" where it is not known.
	PublicURL string
	// Sends is how many calls to providers this process makes at once (DefaultSends).
	Sends int
	// ResultsKept is how long arguments and results are kept after the end of their run
	// (DefaultResultsKept).
	ResultsKept time.Duration
	// Patience is how long a step waits for its call before it is said to be under way (1 s).
	Patience time.Duration
}

// DefaultResultsKept is how long results are kept where the operator says nothing.
const DefaultResultsKept = 30 * 24 * time.Hour

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
	// Most providers answer sooner, and then the workflow needs no second task.
	set(&c.Patience, time.Second)
	set(&c.ResultsKept, DefaultResultsKept)
	if c.Sends == 0 {
		c.Sends = DefaultSends
	}
	return c
}

// Deps are the collaborators; all are required but Now and Quotas.
type Deps struct {
	DB      *db.Pool
	Targets Targets
	Engine  Engine
	// Approvals tells the workflows of held runs of changes. The caller names the service as
	// the owner of approval.SubjectRun.
	Approvals *approval.Sweeper
	// Journal records the calls that change nothing.
	Journal *audit.Journal
	// Notices tell other processes of ended runs.
	Notices *ended.Notices
	// Keys finds the key that seals the arguments and results of a tenant's runs.
	Keys Keys
	Log  *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Quotas bound how many runs of a tenant wait for approval.
	Quotas quota.Limits
}

// Service runs actions.
type Service struct {
	d       Deps
	q       *dbsqlc.Queries
	cfg     Config
	hub     *ended.Hub[Run]
	carried *carried
	// sends divides the calls to providers among tenants; underway are those that have begun.
	sends    *share.Pool
	underway *underway
	sweeping *sweeping
	before   *claimedBefore
	polled   *polled
	seen     *seenCalls
}

// New checks the collaborators.
func New(cfg Config, d Deps) (*Service, error) {
	if d.DB == nil || d.Targets == nil || d.Engine == nil || d.Approvals == nil || d.Journal == nil || d.Notices == nil || d.Keys == nil || d.Log == nil {
		return nil, errors.New("run: database, targets, engine, approvals, journal, notices, keys and log are required")
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	cfg = cfg.withDefaults()
	s := &Service{
		d: d, q: dbsqlc.New(), cfg: cfg, hub: ended.NewHub[Run](), carried: newCarried(),
		sends: share.New(sendShares(cfg.Sends)), underway: newUnderway(), sweeping: newSweeping(), before: newClaimedBefore(), polled: newPolled(),
		seen: newSeenCalls(),
	}
	d.Notices.OnNotice(s.hear)
	return s, nil
}
