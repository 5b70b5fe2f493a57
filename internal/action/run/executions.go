package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
)

// sees reports whether the actor may see the run. A key sees its own runs, a user all runs of
// the tenant.
func sees(who actor.Actor, r Run) bool {
	key := who.KeyID()
	return key == nil || r.KeyID != nil && *r.KeyID == *key
}

// Get returns an execution by its execution_id or by any key that names it, with what of it
// opens, see Run.Unreadable. The error is
// EXECUTION_NOT_FOUND where there is none, where the actor may not see it, and for a key of
// a step; and that of WithRoom.
func (s *Service) Get(ctx context.Context, who actor.Actor, executionID string) (Run, error) {
	if strings.HasPrefix(executionID, stepPrefix) {
		return Run{}, fault.New(fault.CodeExecutionNotFound, "")
	}
	r, found, err := s.toShow(ctx, who.TenantID, executionID)
	if err != nil {
		return Run{}, err
	}
	if !found || !sees(who, r) {
		return Run{}, fault.New(fault.CodeExecutionNotFound, "")
	}
	return r, nil
}

// Filter narrows a list. A field with its zero value does not narrow it.
type Filter struct {
	Status    string
	Provider  string
	Verb      string // provider:verb_name, checked by the caller
	SessionID string
	DryRun    *bool
	// CustomerID is the customer that the call named.
	CustomerID string
	Decision   string
	RiskLevel  string
	// AgentID selects the calls of one agent, MapID those of one Map, and ParentID those of one execution of a
	// Map or message.
	AgentID, MapID *uuid.UUID
	ParentID       string
	// KeyID selects the runs of one key.
	KeyID *uuid.UUID
	// PolicyID selects the runs that a policy matched, ApprovalID the run that an approval is
	// about, and GrantID the runs that a grant let through.
	PolicyID   *uuid.UUID
	ApprovalID string
	GrantID    *uuid.UUID
	Since      *time.Time
	Until      *time.Time
	// Begins is the beginning of a name of the run.
	Begins string
	// Before continues a list after the run with this id; nil for the first page.
	Before *uuid.UUID
	// Limit is the most runs of a page.
	Limit int
}

// List returns the newest executions first, without their arguments and results and with
// their metadata masked, and whether there are more.
func (s *Service) List(ctx context.Context, who actor.Actor, f Filter) (runs []Run, more bool, err error) {
	if own := who.KeyID(); own != nil {
		if f.KeyID != nil && *f.KeyID != *own {
			return nil, false, nil
		}
		f.KeyID = own
	}
	p := dbsqlc.ListRunsParams{
		DryRun: f.DryRun, Customer: db.Optional(f.CustomerID), Decision: db.Optional(f.Decision), RiskLevel: db.Optional(f.RiskLevel),
		AgentID: f.AgentID, MapID: idText(f.MapID), ParentID: db.Optional(f.ParentID),
		PolicyID: f.PolicyID, ApprovalID: db.Optional(f.ApprovalID), GrantID: f.GrantID,
		TenantID: who.TenantID, KeyID: f.KeyID, Before: f.Before, Since: f.Since, Until: f.Until,
		Provider: db.Optional(f.Provider), Verb: db.Optional(f.Verb), SessionID: db.Optional(f.SessionID), Most: int32(f.Limit + 1),
	}
	p.Low, p.High = db.IDsOf(f.Since, f.Until)
	if f.Status != "" {
		p.States, _ = StatesOf(f.Status)
	}
	lists, err := s.narrowByName(ctx, p, f.Begins)
	if err != nil {
		return nil, false, err
	}
	var rows []dbsqlc.ListRunsRow
	for _, list := range lists {
		if f.PolicyID != nil {
			among, err := s.ofPolicy(ctx, list, f)
			if err != nil {
				return nil, false, err
			}
			list.Among = both(list.Among, among)
		}
		some, err := s.listed(ctx, list)
		if err != nil {
			return nil, false, fmt.Errorf("run: list: %w", err)
		}
		rows = append(rows, some...)
	}
	rows, more = db.Page(newest(rows, p.Most), f.Limit)
	mask := s.d.Targets.MaskMetadata(ctx, who.TenantID)
	for _, row := range rows {
		r := fromListed(row)
		r.Metadata = mask(r.Verb, r.Metadata)
		runs = append(runs, r)
	}
	return runs, more, nil
}

// mostBegin is how many names may begin with one text. Runs with one of them are found at once, and
// then sorted.
const mostBegin = 500

// narrowByName returns the lists of the runs of which a name begins so: none, one, or two that have no run
// in common. The names that we make are made of the ids, in whose order the list is, so they are found
// however many there are. Callers may have made names that begin as ours do.
func (s *Service) narrowByName(ctx context.Context, p dbsqlc.ListRunsParams, begins string) ([]dbsqlc.ListRunsParams, error) {
	if begins == "" {
		return []dbsqlc.ListRunsParams{p}, nil
	}
	named, err := s.q.RunsNamed(ctx, s.d.DB.Reading(p.TenantID, db.ListLimit),
		dbsqlc.RunsNamedParams{TenantID: p.TenantID, Low: begins, High: begins + "\x7f", Most: mostBegin + 1})
	if err != nil {
		return nil, fmt.Errorf("run: list by name: %w", err)
	}
	var lists []dbsqlc.ListRunsParams
	low, high, ours := db.IDsNamed(begins)
	switch {
	case ours:
		own := p
		own.Low, own.High = db.Within(p.Low, p.High, low, high)
		lists = append(lists, own)
		if len(named) > mostBegin {
			return lists, nil // nearly all of them are ours
		}
		named = slices.DeleteFunc(named, func(id uuid.UUID) bool {
			return bytes.Compare(id[:], low[:]) >= 0 && (high == nil || bytes.Compare(id[:], high[:]) < 0)
		})
	case len(named) > mostBegin:
		return nil, fault.Invalid("query.q", "tooMany", fmt.Sprintf("More than %d names of runs begin so. Write more of the id.", mostBegin))
	}
	if len(named) > 0 {
		p.Among = named
		lists = append(lists, p)
	}
	return lists, nil
}

// newest returns the first of the rows of several lists, the newest first.
func newest(rows []dbsqlc.ListRunsRow, most int32) []dbsqlc.ListRunsRow {
	slices.SortFunc(rows, func(a, b dbsqlc.ListRunsRow) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	return rows[:min(len(rows), int(most))]
}

// both returns what is in both lists. nil stands for all.
func both(a, b []uuid.UUID) []uuid.UUID {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return slices.DeleteFunc(a, func(id uuid.UUID) bool { return !slices.Contains(b, id) })
}

// listed returns the rows of a page. A customer has several names: each is a list of its own in
// the order of an index, and the page is merged of them.
func (s *Service) listed(ctx context.Context, p dbsqlc.ListRunsParams) ([]dbsqlc.ListRunsRow, error) {
	reading := s.d.DB.Reading(p.TenantID, db.ListLimit)
	if p.Customer == nil {
		return s.q.ListRuns(ctx, reading, p)
	}
	names, err := s.q.CustomerNames(ctx, reading, dbsqlc.CustomerNamesParams{TenantID: p.TenantID, Reference: *p.Customer})
	if err != nil {
		return nil, err
	}
	var rows []dbsqlc.ListRunsRow
	for _, name := range names {
		p.Customer = &name
		more, err := s.q.ListRuns(ctx, reading, p)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return newest(rows, p.Most), nil
}

// fewMatches is up to how many runs of a policy are looked up one by one. Of a policy that
// matched more, a page is soon found in the order of the list.
const fewMatches = 1000

// ofPolicy returns the runs that the policy of the filter matched and among which the page is,
// nil where they are too many.
func (s *Service) ofPolicy(ctx context.Context, p dbsqlc.ListRunsParams, f Filter) ([]uuid.UUID, error) {
	ids, err := s.q.RunsOfPolicy(ctx, s.d.DB.Reading(p.TenantID, db.ListLimit), dbsqlc.RunsOfPolicyParams{
		TenantID: p.TenantID, PolicyID: *f.PolicyID, Before: p.Before, Low: p.Low, High: p.High, Most: fewMatches + 1,
	})
	if err != nil {
		return nil, fmt.Errorf("run: list those of a policy: %w", err)
	}
	if len(ids) > fewMatches {
		return nil, nil
	}
	return append([]uuid.UUID{}, ids...), nil
}

// Cancel ends a run that was not sent, also one that waits for approval, and cancels its
// approval. The error is CONFLICT where the run was sent or has ended, and
// EXECUTION_NOT_FOUND as for Get.
func (s *Service) Cancel(ctx context.Context, who actor.Actor, executionID string) (Run, error) {
	r, err := s.Get(ctx, who, executionID)
	if err != nil {
		return Run{}, err
	}
	b := &db.Batch{}
	db.QueueExec(b, s.q.AwaitRun, dbsqlc.AwaitRunParams{TenantID: r.TenantID, ID: r.ID})
	changed := db.Queue(b, s.q.RequestCancel, dbsqlc.RequestCancelParams{TenantID: r.TenantID, ID: r.ID})
	s.requireChanged(b, r)
	approval.CloseOf(b, r.subject(), approval.Closing{
		Status: governance.ApprovalCancelled, Reason: "The execution was cancelled.", By: who.UserID(),
	})
	audit.Queue(b, recordBy(who, r, audit.RunCancelled, StateCancelled))
	if r.ApprovalID != nil && (r.State == StatePending || r.State == StateIntercepted) {
		r.emitDecided(b, event.Decided{ApprovalID: *r.ApprovalID, Status: string(governance.ApprovalCancelled), DecidedBy: who.String(), Reason: "The execution was cancelled."})
	}
	done, found, err := s.change(ctx, r, b, changed)
	if err == nil && !found {
		f := fault.Newf(fault.CodeConflict, "The execution can no longer be cancelled: its status is %s.", s.statusNow(ctx, r))
		return Run{}, s.noteConflict(ctx, who, r, "cancel", f)
	}
	if err == nil && done.ApprovalID != nil {
		s.nudge(ctx, done)
	}
	return done, err
}

// Resolution is what people found out about a run whose outcome is unknown.
type Resolution struct {
	// Executed: the call had its effect. Otherwise the run is settled as failed.
	Executed bool
	Result   json.RawMessage // the provider's object, where known
	Reason   string          // stored without what looks like a secret in it
}

// Resolve settles a run in outcome_unknown. The error is CONFLICT for a run in any other
// state, and EXECUTION_NOT_FOUND as for Get.
func (s *Service) Resolve(ctx context.Context, who actor.Actor, executionID string, res Resolution) (Run, error) {
	r, err := s.Get(ctx, who, executionID)
	if err != nil {
		return Run{}, err
	}
	res.Reason = redact.Text(res.Reason)
	p := dbsqlc.ResolveRunParams{
		TenantID: r.TenantID, ID: r.ID, State: string(StateExecuted), ResolveReason: res.Reason, ResolvedBy: who.UserID(),
	}
	switch {
	case !res.Executed:
		p.State, p.ErrorCode = string(StateFailed), string(fault.CodeProviderError)
		p.ErrorMessage = "An operator settled this run as failed: " + res.Reason
	case res.Result != nil && r.key == nil:
		return Run{}, r.unreadable()
	case res.Result != nil:
		p.Result = r.sealOptional(datakey.RunResult, res.Result)
	default:
		// It tells nothing, so it needs no seal, and no key that opens.
		p.Result = new("{}")
	}
	b := &db.Batch{}
	changed := db.Queue(b, s.q.ResolveRun, p)
	s.requireChanged(b, r)
	rec := recordBy(who, r, audit.RunResolved, State(p.State))
	rec.Details = mustJSON(map[string]string{"reason": res.Reason})
	audit.Queue(b, rec)
	approval.Wrote(b, r.TenantID, db.Text(r.ParentID), who.UserID()) // the result, or the reason, is what its Map or agent goes on with
	s.emitResolved(ctx, b, r, p, res.Result)
	done, found, err := s.change(ctx, r, b, changed)
	if err == nil && !found {
		f := fault.Newf(fault.CodeConflict, "Only an execution with status outcome_unknown can be resolved; this one is %s.", s.statusNow(ctx, r))
		return Run{}, s.noteConflict(ctx, who, r, "resolve", f)
	}
	if err == nil && done.ParentID != nil {
		s.tellDrivers(context.WithoutCancel(ctx), done.ref()) // the Map, or the message, waits for this
	}
	return done, err
}

// change applies a batch that a person or a key asked for, and tells those who wait.
func (s *Service) change(ctx context.Context, r Run, b *db.Batch, changed *db.Answer[[]dbsqlc.Run]) (done Run, found bool, err error) {
	if done, found, err = s.apply(ctx, r, b, changed); found {
		s.ended(done)
	}
	return done, found, err
}

func (s *Service) statusNow(ctx context.Context, r Run) string {
	if now, err := s.glance(ctx, r.TenantID, r.ID); err == nil {
		r = now
	}
	return r.State.Status()
}

// recordBy returns the audit record of what an actor did with the run.
func recordBy(who actor.Actor, r Run, action audit.Action, outcome State) audit.Record {
	return audit.Record{
		TenantID: r.TenantID, ActorType: who.Kind, ActorID: who.IDText(), Action: action,
		Provider: r.Verb.Provider, Verb: r.Verb.Verb, RiskLevel: string(r.Risk), Decision: r.Decision, Outcome: string(outcome),
		ExecutionID: r.ExecutionID, SessionID: r.SessionID, RequestID: who.RequestID, SourceAddr: who.SourceAddr,
	}
}

// Shown returns the run as others than its caller may see it: the arguments that are sent, the
// metadata and the result are masked.
func (s *Service) Shown(ctx context.Context, r Run) Run {
	args := r.Effective()
	if len(args) == 0 {
		args = nil // what does not open is not masked
	}
	t := Texts{Args: args, Metadata: r.Metadata, Result: r.Result}
	if r.masking != nil {
		t = s.d.Targets.MaskRead(ctx, r.TenantID, r.Verb, r.account(), t, r.masking)
	} else {
		t = s.d.Targets.Mask(ctx, r.TenantID, r.Verb, t)
	}
	r.Args, r.Metadata, r.Result, r.Note = t.Args, t.Metadata, t.Result, r.Note.Masked()
	if r.EditedArgs != nil {
		r.EditedArgs = t.Args
	}
	return r
}
