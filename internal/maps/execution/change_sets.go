package execution

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
)

// SetStatus says how far the changes of a dry run are as a whole. Rows store it as text.
type SetStatus string

// The statuses of a set of changes.
const (
	SetProposed SetStatus = "proposed" // people are asked
	SetApplying SetStatus = "applying"
	SetApplied  SetStatus = "applied"
	// SetStopped: a change failed or has drifted, and those after it were not applied.
	SetStopped  SetStatus = "stopped"
	SetRejected           = SetStatus(governance.ApprovalRejected)
	SetExpired            = SetStatus(governance.ApprovalExpired) // nobody decided in time
)

// Selection says which changes of a dry run are approved, and which are rejected. All stands for
// those that the other list does not name.
type Selection struct {
	Approve, Reject       []string
	ApproveAll, RejectAll bool
}

// Proposal is a decision about the changes of a dry run that can be made.
type Proposal struct {
	ApprovalID string
	// Approve is false where all changes are rejected. Chosen are the ids of those that are approved,
	// as approval.Subjects takes them.
	Approve bool
	Chosen  json.RawMessage
	// Made: people decided so before.
	Made bool
}

// Propose returns the decision about the changes of a completed dry run. The error is
// VALIDATION_ERROR where the selection does not say of each change what becomes of it, and CONFLICT
// where there is nothing to decide or people decided otherwise. Where they could not be asked at the
// end of the dry run, they are asked now; the error is QUOTA_EXCEEDED where they still cannot be.
func (s *changes) Propose(ctx context.Context, e Execution, sel Selection) (p Proposal, err error) {
	if err := s.undecidable(ctx, e); err != nil {
		return p, err
	}
	rows, err := s.q.MapChangesToDecide(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.MapChangesToDecideParams{TenantID: e.TenantID, DryRun: e.ID})
	if err != nil {
		return p, fmt.Errorf("execution: changes: %w", err)
	}
	if len(rows) == 0 {
		return p, fault.New(fault.CodeConflict, "The dry run would change nothing, so there is nothing to decide.")
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	approved, err := sel.Approved(ids)
	if err != nil {
		return p, err
	}
	set, err := s.askedSet(ctx, e, int64(len(rows)))
	if err != nil {
		return p, err
	}
	p.ApprovalID, p.Approve, p.Chosen = set.ApprovalID, len(approved) > 0, mustJSON(approved)
	switch {
	case SetStatus(set.Status) == SetProposed:
		return p, nil
	case slices.Equal(set.Decision, decisionHash(approved)):
		p.Made = true
		return p, nil
	case SetStatus(set.Status) == SetExpired:
		return p, fault.New(fault.CodeConflict, "Nobody decided about the changes in time. Make another dry run.")
	default:
		return p, fault.New(fault.CodeConflict, "Another decision about the changes was made before. GET /v1/executions/{id}/changes shows what became of each.")
	}
}

// undecidable returns why nobody decides about the changes of the execution; nil where people do.
func (s *changes) undecidable(ctx context.Context, e Execution) error {
	switch {
	case e.ErasedAt != nil:
		return fault.New(fault.CodeResultExpired, "")
	case !e.DryRun:
		return fault.New(fault.CodeConflict, "The execution is no dry run: it has made its changes.")
	case e.changesOf != nil:
		of, err := s.readExecution(ctx, e.TenantID, *e.changesOf)
		if err != nil {
			return err
		}
		return fault.Newf(fault.CodeConflict, "A step of %s started this dry run. Decide about its changes there, with those of the others.", of.ExecutionID)
	case e.Status != stepmachine.StatusCompleted:
		return fault.Newf(fault.CodeConflict, "People decide about the changes of a dry run that has completed. The status of this one is %s.", e.Status)
	}
	return nil
}

// askedSet returns the set of changes with its approval. People are asked where they were not.
func (s *changes) askedSet(ctx context.Context, e Execution, changes int64) (set dbsqlc.GetMapChangeSetRow, err error) {
	read := func() (bool, error) {
		rows, err := s.q.GetMapChangeSet(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.GetMapChangeSetParams{TenantID: e.TenantID, Execution: e.ID})
		if err != nil {
			return false, fmt.Errorf("execution: change set: %w", err)
		}
		for _, row := range rows {
			set = row
		}
		return len(rows) > 0, nil
	}
	if asked, err := read(); asked || err != nil {
		return set, err
	}
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return set, fmt.Errorf("execution: %w", err)
	}
	b := &db.Batch{}
	s.steps.queueAskChanges(b, key, e, changes)
	if err := s.d.DB.Send(ctx, e.TenantID, b); err != nil && !db.IsUnique(err, "map_change_sets_pkey") && !db.IsRaced(err) {
		return set, err
	}
	_, err = read()
	return set, err
}

// Approved returns which of the changes with the ids are approved, in their order. The error is
// VALIDATION_ERROR where the selection does not say of each what becomes of it.
func (sel Selection) Approved(ids []string) ([]string, error) {
	f := fault.New(fault.CodeValidation, "")
	wrong := func(path, rule, message string) {
		f.Details = append(f.Details, fault.Detail{Path: path, Rule: rule, Message: message})
	}
	says := map[string]bool{}
	known := map[string]bool{}
	for _, id := range ids {
		known[id] = true
	}
	for i, id := range sel.Approve {
		if !known[id] {
			wrong(fmt.Sprintf("/approve/%d", i), "unknown", "The dry run has no such change.")
		}
		says[id] = true
	}
	for i, id := range sel.Reject {
		at := fmt.Sprintf("/reject/%d", i)
		if !known[id] {
			wrong(at, "unknown", "The dry run has no such change.")
		}
		if says[id] {
			wrong(at, "unique", "The change is also in approve.")
		}
		says[id] = false
	}
	if sel.ApproveAll && sel.RejectAll {
		wrong("/reject", "unique", "Only one of approve and reject can be all.")
	}
	approved := []string{}
	for _, id := range ids {
		approve, said := says[id]
		switch {
		case said && approve, !said && sel.ApproveAll:
			approved = append(approved, id)
		case !said && !sel.RejectAll && len(f.Details) == 0:
			wrong("/approve", "undecided", "Neither approve nor reject names the change "+id+", and neither is all.")
		}
	}
	if len(f.Details) > 0 {
		f.Message = f.Details[0].Message
		return nil, f
	}
	return approved, nil
}

// decisionHash is what a decision is known by.
func decisionHash(approved []string) []byte {
	sum := sha256.Sum256([]byte(strings.Join(approved, "\n")))
	return sum[:]
}

// withoutDependents returns the approved changes but those that depend, directly or through others, on one that
// is not approved.
func withoutDependents(rows []dbsqlc.MapChangesToDecideRow, approved []string) []string {
	wanted, in, all := map[string]bool{}, map[string]bool{}, true
	for _, id := range approved {
		wanted[id] = true
	}
	out := []string{}
	for _, row := range rows { // a change depends on earlier ones
		in[row.ID] = wanted[row.ID] && !slices.ContainsFunc(row.DependsOn, func(on string) bool { return on != stepmachine.AnyChange && !in[on] }) &&
			(all || !slices.Contains(row.DependsOn, stepmachine.AnyChange))
		if in[row.ID] {
			out = append(out, row.ID)
		}
		all = all && in[row.ID]
	}
	return out
}

// ChangeSets is the service as the domain of approvals of changes.
type ChangeSets struct{ s *changes }

// ChangeSets returns the domain of approvals of changes.
func (s *changes) ChangeSets() ChangeSets { return ChangeSets{s} }

// SealEdit implements desk.Subjects: a change is applied as the dry run has shown it, or not at all.
func (ChangeSets) SealEdit(context.Context, uuid.UUID, string, json.RawMessage) (string, error) {
	return "", fault.Invalid("/edited_args", "unknown", "The changes of a dry run cannot be edited. Reject those that are wrong.")
}

// SealResponse implements desk.Subjects: the ids of the changes that are approved.
func (c ChangeSets) SealResponse(ctx context.Context, tenant uuid.UUID, subject string, chosen json.RawMessage) (string, error) {
	key, err := c.s.d.Keys.Key(ctx, tenant)
	if err != nil {
		return "", fmt.Errorf("execution: %w", err)
	}
	return key.Seal(decisionPlace(tenant, subject, datakey.MapResponse), chosen), nil
}

// Count implements desk.Subjects: it counts a decision about the changes in the rows, and has the
// approved ones applied.
func (c ChangeSets) Count(ctx context.Context, tenant uuid.UUID, subject string, decision uuid.UUID) (out flow.Decided, err error) {
	e, l, err := c.s.people.ofSubject(ctx, tenant, subject)
	if err != nil {
		return out, err
	}
	applies := false
	err = c.s.d.DB.InTenant(ctx, tenant, func(tx pgx.Tx) error {
		sets, err := c.s.q.LockMapChangeSet(ctx, tx, dbsqlc.LockMapChangeSetParams{TenantID: tenant, Execution: e.ID})
		if err != nil {
			return err
		}
		asked, err := approval.Open(ctx, tx, tenant, decision)
		if err != nil {
			return err
		}
		if !asked.Decision.Counted && (len(sets) == 0 || SetStatus(sets[0]) != SetProposed) {
			out.Code = fault.CodeApprovalNotPending
			return nil
		}
		d := deciding{Counting: asked, s: c.s.people, e: e, key: l.key}
		out, applies, err = d.countChanges(ctx, tx)
		return err
	})
	switch {
	case db.IsNoRows(err), db.IsNotChanged(err):
		// The decision was withdrawn, or the approval was closed.
		return flow.Decided{Code: fault.CodeApprovalNotPending}, nil
	case err != nil:
		return out, fmt.Errorf("execution: count a decision: %w", err)
	}
	failpoint.Hit("after_changes_decided", e.ID)
	if applies {
		if err := c.s.startApply(ctx, e); err != nil {
			c.s.d.Log.WarnContext(ctx, "apply not started", "execution_id", e.ExecutionID, "error", err) // the sweeper starts it
		}
	}
	return out, nil
}

// countChanges counts a decision about the changes of a dry run.
func (d *deciding) countChanges(ctx context.Context, tx pgx.Tx) (out flow.Decided, applies bool, err error) {
	out.Closed = d.Asked.Status != governance.ApprovalPending
	if d.Decision.Counted {
		return out, false, nil
	}
	if out.Code = d.Refusal(d.s.d.Now()); out.Code != "" {
		return out, false, nil
	}
	rows, err := d.s.q.MapChangesToDecide(ctx, tx, dbsqlc.MapChangesToDecideParams{TenantID: d.e.TenantID, DryRun: d.e.ID})
	if err != nil {
		return out, false, err
	}
	chosen, err := d.chosen(rows)
	if err != nil {
		return out, false, err
	}
	approved := withoutDependents(rows, chosen)
	if out.Why, err = d.whyUnreadable(ctx, tx, rows, approved); err != nil || out.Why != "" {
		out.Code = fault.CodeConflict
		return out, false, err
	}
	taken, err := d.Take(ctx, tx)
	if err != nil || !taken {
		out.Code = fault.CodeApprovalNotPending
		return out, false, err
	}
	if _, enough := d.Asked.Tally(); d.Decision.Approve && !enough {
		b := &db.Batch{}
		out.Closed = d.countApproval(b)
		return out, false, b.SendIn(ctx, tx)
	}
	status := SetApplying
	if len(approved) == 0 {
		status = SetRejected
	}
	b := &db.Batch{}
	db.QueueExec(b, d.s.q.DecideMapChanges, dbsqlc.DecideMapChangesParams{TenantID: d.e.TenantID, DryRun: d.e.ID, Approved: approved})
	db.QueueExec(b, d.s.q.SetMapChangeSet, dbsqlc.SetMapChangeSetParams{
		TenantID: d.e.TenantID, Execution: d.e.ID, Status: string(status), Decision: decisionHash(chosen), Now: d.s.d.Now(),
	})
	rec := audit.Change(d.Decision.By, audit.MapChangesDecided, audit.SubjectMap, d.e.MapID.String())
	rec.ExecutionID, rec.SessionID, rec.Outcome = d.e.ExecutionID, db.Optional(d.e.SessionID), string(status)
	audit.Queue(b, rec.With(map[string]any{
		"approval_id": d.Asked.ID, "approved": len(approved), "rejected": len(rows) - len(approved), "approved_ids": approved[:min(len(approved), mostTold)],
	}))
	out.Closed = true
	if d.Decision.Approve {
		d.countApproval(b)
	} else {
		d.closeApproval(b, governance.ApprovalRejected, audit.ApprovalRejected, map[string]any{"reason": d.Decision.Reason})
	}
	return out, len(approved) > 0, b.SendIn(ctx, tx)
}

// mostTold is the most ids of changes that an audit record has.
const mostTold = 100

// chosen returns the ids of the changes that the decision approves: all where it names none.
func (d *deciding) chosen(rows []dbsqlc.MapChangesToDecideRow) (ids []string, err error) {
	ids = []string{}
	switch {
	case !d.Decision.Approve:
		return ids, nil
	case d.Decision.Response == "":
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
		return ids, nil
	}
	text, err := d.key.Open(decisionPlace(d.e.TenantID, d.Asked.About.ID, datakey.MapResponse), d.Decision.Response)
	if err != nil {
		return nil, fmt.Errorf("execution: chosen changes: %w", err)
	}
	return ids, json.Unmarshal(text, &ids)
}

// Unattended implements approval.Owner: it closes an approval whose time is over. Where people have
// decided, it starts the workflow that applies the changes.
func (c ChangeSets) Unattended(ctx context.Context, w approval.Waiting, _ bool) error {
	id, err := executionOfSubject(w.SubjectID)
	if err != nil {
		return fmt.Errorf("execution: subject of an approval: %w", err)
	}
	e, err := c.s.readExecution(ctx, w.TenantID, id)
	if err != nil {
		return err
	}
	sets, err := c.s.q.GetMapChangeSet(ctx, c.s.d.DB.Tenant(e.TenantID), dbsqlc.GetMapChangeSetParams{TenantID: e.TenantID, Execution: e.ID})
	if err != nil || len(sets) == 0 {
		return err
	}
	switch {
	case SetStatus(sets[0].Status) == SetApplying:
		return c.s.startApply(ctx, e)
	case sets[0].ExpiresAt == nil || c.s.d.Now().Before(*sets[0].ExpiresAt):
		return nil
	}
	return c.s.expireChanges(ctx, e)
}

// expireChanges ends a set of changes that nobody decided about in time.
func (s *changes) expireChanges(ctx context.Context, e Execution) error {
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return fmt.Errorf("execution: %w", err)
	}
	read := &db.Batch{}
	set := db.Queue(read, s.q.LockMapChangeSet, dbsqlc.LockMapChangeSetParams{TenantID: e.TenantID, Execution: e.ID})
	pending := db.Queue(read, s.q.LockAskOfMap, dbsqlc.LockAskOfMapParams{TenantID: e.TenantID, SubjectType: string(approval.SubjectMapChanges), SubjectID: e.ID.String()})
	err = s.d.DB.ReadAndWrite(ctx, e.TenantID, read, func() (*db.Batch, error) {
		if len(pending.Value) == 0 || len(set.Value) == 0 {
			return nil, nil //nolint:nilnil // nothing to write is a value here
		}
		b, id := &db.Batch{}, pending.Value[0]
		end := approval.Closing{Status: governance.ApprovalExpired, Reason: timeOver}
		approval.Close(b, e.TenantID, id, end)
		db.QueueExec(b, s.q.LeaveMapChanges, dbsqlc.LeaveMapChangesParams{TenantID: e.TenantID, DryRun: e.ID})
		db.QueueExec(b, s.q.SetMapChangeSet, dbsqlc.SetMapChangeSetParams{TenantID: e.TenantID, Execution: e.ID, Status: string(SetExpired), Now: s.d.Now()})
		audit.Queue(b, recordOf(actor.Actor{Kind: actor.System, TenantID: e.TenantID}, e, audit.ApprovalExpired, id, end.Status, map[string]any{}))
		queueDecidedEvent(b, key, e, event.Decided{ApprovalID: id, Status: string(end.Status), Reason: end.Reason})
		return b, nil
	})
	if err != nil && !db.IsNotChanged(err) {
		return fmt.Errorf("execution: expire changes: %w", err)
	}
	return nil
}

// AwaitApply waits until no change of the dry run is being applied, at most until the given time, and
// reports whether none is.
func (s *changes) AwaitApply(ctx context.Context, e Execution, until time.Time) (ended bool, err error) {
	poll := time.NewTicker(applyPoll)
	defer poll.Stop()
	for {
		rows, err := s.q.MapChangeSetStatus(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.MapChangeSetStatusParams{TenantID: e.TenantID, Execution: e.ID})
		switch {
		case err != nil:
			return false, fmt.Errorf("execution: await the apply: %w", err)
		case len(rows) == 0 || SetStatus(rows[0]) != SetApplying:
			return true, nil
		case !s.d.Now().Before(until):
			return false, nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// applyPoll is how often a waiting call looks whether the apply has ended.
const applyPoll = 200 * time.Millisecond
