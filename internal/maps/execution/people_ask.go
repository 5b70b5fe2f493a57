package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
	"agentruntime/internal/record/quota"
)

// What a step asks of people is an approval. Its subject is the step in one attempt of the
// execution, so a step that asks again finds what was decided. What they decide about is a stored
// value, sealed; the approval shows it masked.

// subjectOf returns the id of the step as the subject of an approval.
func subjectOf(ref flow.MapRef, step stepmachine.Ref) string {
	return ref.ID.String() + "/" + strconv.Itoa(int(ref.Attempt)) + pathOf(step)
}

// StepOfSubject returns the place of a step, from its id as a subject.
func StepOfSubject(subject string) string {
	const id = len("00000000-0000-0000-0000-000000000000/")
	if len(subject) < id {
		return ""
	}
	if i := strings.IndexByte(subject[id:], '/'); i >= 0 {
		return subject[id+i:]
	}
	return ""
}

// executionOfSubject returns the execution that a subject is a step of.
func executionOfSubject(subject string) (uuid.UUID, error) {
	id, _, _ := strings.Cut(subject, "/")
	return uuid.Parse(id)
}

// askedValue is the name of the stored value that people decide about.
func askedValue(subject string) string { return "asked:" + subject }

// decisionPlace is where a text of a decision about the subject is sealed.
func decisionPlace(tenant uuid.UUID, subject string, f datakey.Field) datakey.Place {
	return datakey.Place{Tenant: tenant, Row: uuid.NewSHA1(uuid.NameSpaceURL, []byte(subject)), Field: f}
}

// Ask asks people on behalf of a step. It can be repeated: a step asks once. The result says where the
// tenant has as many open approvals as it may have.
func (s *people) Ask(ctx context.Context, in flow.MapAsk) (flow.MapAsked, error) {
	out := flow.MapAsked{Private: flow.IsPrivate()}
	e, err := s.readHead(ctx, in.MapRef)
	if err != nil {
		return out, err
	}
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return out, fmt.Errorf("execution: %w", err)
	}
	payload, err := s.Resolve(ctx, e, in.Ask.Payload, in.Commands)
	if errors.Is(err, stepmachine.ErrTooLarge) {
		out.Failure = stepmachine.NewError(expression.CodeLimit, "payload: it has more than 32 MiB")
		_, err = s.steps.Write(ctx, in.MapWrites)
		return out, err
	}
	if err != nil {
		return out, err
	}
	if payload == nil {
		payload = json.RawMessage("null")
	}
	if title := in.Ask.StoredTitle; title != nil {
		if in.Ask.Title, err = s.titleOf(ctx, e, *title, in.Commands); err != nil {
			return out, err
		}
	}
	n := askingOf(e, in)
	read, b := &db.Batch{}, &db.Batch{}
	shown, err := s.views.queueShown(ctx, read, e.TenantID, payload)
	if err != nil {
		return out, err
	}
	title, err := s.views.queueShown(ctx, read, e.TenantID, mustJSON(n.Reason))
	if err != nil {
		return out, err
	}
	if err := s.steps.Queue(ctx, b, e, in.MapWrites); err != nil {
		return out, err
	}
	rows := approval.QueueAsks(read, e.TenantID, n.Type, []string{n.Subject.ID})
	failpoint.Hit("before_map_ask", e.ID)
	err = s.d.DB.ReadAndWrite(ctx, e.TenantID, read, func() (*db.Batch, error) {
		if len(rows.Value) > 0 {
			n.ID = rows.Value[0].ID
			out.Closed = rows.Value[0].Status != string(governance.ApprovalPending)
			return b, nil
		}
		n.Args = shown()
		if err := json.Unmarshal(title(), &n.Reason); err != nil {
			return nil, fmt.Errorf("execution: title of a question: %w", err)
		}
		approval.Ask(b, n)
		db.QueueExec(b, s.q.MapHasAsked, dbsqlc.MapHasAskedParams{TenantID: e.TenantID, ID: e.ID})
		s.queueValue(b, key, e, askedValue(n.Subject.ID), stepmachine.Value{JSON: payload, Invented: in.Ask.Payload.Invented})
		rec := audit.Change(e.actor(), audit.MapAsked, audit.SubjectApproval, n.ID)
		rec.ExecutionID, rec.SessionID, rec.Outcome = e.ExecutionID, db.Optional(e.SessionID), string(governance.ApprovalPending)
		audit.Queue(b, rec.With(map[string]any{"approval_id": n.ID, "map_id": e.MapID, "step": pathOf(in.Ask.Ref)}))
		queueRequestedEvent(b, key, e, n)
		s.d.Quotas.Queue(b, e.TenantID, quota.Held)
		return b, nil
	})
	failpoint.Hit("after_map_ask", e.ID)
	if f := fault.As(err); fault.HasCode(err, fault.CodeQuotaExceeded) {
		out.Failure = stepmachine.NewError(string(f.Code), f.Message)
		_, err := s.steps.Write(ctx, in.MapWrites)
		return out, err
	}
	if err != nil {
		return out, fmt.Errorf("execution: ask: %w", err)
	}
	asking := governance.Asking{Requirements: n.Requirements, ExpiresAt: in.Ask.ExpiresAt}
	if len(rows.Value) > 0 { // some may have approved it already
		if asking, err = s.askingNow(ctx, e.TenantID, n.ID); err != nil {
			return out, err
		}
	}
	out.Details = flow.HoldDetails(flow.Hold{
		Step: pathOf(in.Ask.Ref), ApprovalID: n.ID, Who: asking.InWords(), Until: asking.ExpiresAt, PublicURL: s.cfg.PublicURL,
	})
	return out, nil
}

// askingNow returns how an approval stands, with its votes.
func (s *people) askingNow(ctx context.Context, tenant uuid.UUID, id string) (governance.Asking, error) {
	b := &db.Batch{}
	reading := approval.QueueRead(b, tenant, id)
	if err := s.d.DB.Send(ctx, tenant, b); err != nil {
		return governance.Asking{}, fmt.Errorf("execution: approval %s: %w", id, err)
	}
	asked, err := reading.Asked()
	return asked.Asking, err
}

// mostTitle is the most bytes of a title that an approval shows.
const mostTitle = 4 << 10

// titleOf returns a title that is stored, cut where it is long.
func (s *people) titleOf(ctx context.Context, e Execution, title stepmachine.Value, unwritten []stepmachine.Command) (text string, err error) {
	raw, err := s.Resolve(ctx, e, title, unwritten)
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("execution: title: %w", err)
	}
	if len(text) > mostTitle {
		text = strings.ToValidUTF8(text[:mostTitle], "") + " …"
	}
	return text, nil
}

// askingOf returns the approval that a step asks for, but for what people are shown.
func askingOf(e Execution, in flow.MapAsk) approval.New {
	rule := governance.DefaultApproval()
	rule.Required, rule.SelfApproval = int32(in.Ask.Required), in.Ask.SelfApproval
	if len(in.Ask.Approvers) > 0 {
		rule.Approvers = in.Ask.Approvers
	}
	return approval.New{
		ID: approval.NewID(), Kind: governance.ApprovalOfStep, Reason: redact.Text(in.Ask.Title), Form: in.Ask.Form,
		Subject: approval.Subject{
			TenantID: e.TenantID, Type: approval.SubjectMapStep, ID: subjectOf(in.MapRef, in.Ask.Ref), Attempt: in.Attempt,
			ExecutionID: e.ExecutionID, WorkflowID: in.Workflow, Driver: flow.DriverMap,
		},
		Requester: actor.CallerOf(e.KeyID, e.UserID), Requirements: []governance.Requirement{{Rule: rule}}, ExpiresAt: in.Ask.ExpiresAt,
	}
}

// CloseAsk ends the question of a step, where it has no decision, and returns how it ended. The
// row decides between people and the end of their time.
func (s *people) CloseAsk(ctx context.Context, in flow.MapAskEnd) (flow.MapDecision, error) {
	e, err := s.readHead(ctx, in.MapRef)
	if err != nil {
		return flow.MapDecision{}, err
	}
	end, as := approval.Closing{Status: governance.ApprovalCancelled, Reason: "The execution goes on without the step, or has ended."}, stepmachine.Reject
	if in.Expired {
		as = stepmachine.Expired
		end = approval.Closing{Status: governance.ApprovalExpired, Reason: timeOver}
	}
	if err := s.closeAsk(ctx, e, subjectOf(in.MapRef, in.Ref), end); err != nil {
		return flow.MapDecision{}, err
	}
	decisions, err := s.readDecisions(ctx, e, in.MapRef, []stepmachine.Ref{in.Ref}, as)
	if err != nil {
		return flow.MapDecision{}, err
	}
	if len(decisions) == 0 {
		// An edit took the question's place at this moment; the next try finds that one.
		return flow.MapDecision{}, fmt.Errorf("execution: the question of %s is still open", in.Ref)
	}
	return flow.MapDecision{Private: flow.IsPrivate(), Decided: decisions[0]}, nil
}

// closeAsk closes the subject's pending approval, if any, with its audit record and event.
func (s *people) closeAsk(ctx context.Context, e Execution, subject string, end approval.Closing) error {
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return fmt.Errorf("execution: %w", err)
	}
	action := audit.ApprovalCancelled
	if end.Status == governance.ApprovalExpired {
		action = audit.ApprovalExpired
	}
	read := &db.Batch{}
	pending := db.Queue(read, s.q.LockAskOfMap, dbsqlc.LockAskOfMapParams{TenantID: e.TenantID, SubjectType: string(approval.SubjectMapStep), SubjectID: subject})
	err = s.d.DB.ReadAndWrite(ctx, e.TenantID, read, func() (*db.Batch, error) {
		if len(pending.Value) == 0 {
			return nil, nil //nolint:nilnil // nothing to write is a value here
		}
		b, id := &db.Batch{}, pending.Value[0]
		approval.Close(b, e.TenantID, id, end)
		audit.Queue(b, recordOf(actor.Actor{Kind: actor.System, TenantID: e.TenantID}, e, action, id, end.Status, map[string]any{}))
		queueDecidedEvent(b, key, e, event.Decided{ApprovalID: id, Status: string(end.Status), Reason: end.Reason})
		return b, nil
	})
	if err != nil && !db.IsNotChanged(err) {
		return fmt.Errorf("execution: close an approval: %w", err)
	}
	return nil
}

// decisionsForLook returns the decisions about steps that wait for people. A question whose time is over, by
// its row, is closed on the way.
func (s *people) decisionsForLook(ctx context.Context, e Execution, in flow.MapLook) ([]stepmachine.Decided, error) {
	overdue, err := s.q.OverdueAsksOfMap(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.OverdueAsksOfMapParams{
		TenantID: e.TenantID, ExecutionID: e.ExecutionID, Now: new(s.d.Now()),
	})
	if err != nil {
		return nil, fmt.Errorf("execution: overdue approvals: %w", err)
	}
	for _, subject := range overdue {
		if err := s.closeAsk(ctx, e, subject, approval.Closing{Status: governance.ApprovalExpired, Reason: timeOver}); err != nil {
			return nil, err
		}
	}
	// Nobody decides a question that the execution itself withdraws.
	return s.readDecisions(ctx, e, in.MapRef, in.Asks, "")
}

const timeOver = "No user decided in time."

// readDecisions returns what people decided about the steps, of those that are decided. withdrawn is the
// decision of a question that the execution has withdrawn; "" for none.
func (s *people) readDecisions(ctx context.Context, e Execution, ref flow.MapRef, steps []stepmachine.Ref, withdrawn stepmachine.Decision) ([]stepmachine.Decided, error) {
	bySubject, subjects := map[string]stepmachine.Ref{}, []string{}
	for _, step := range steps {
		subject := subjectOf(ref, step)
		bySubject[subject], subjects = step, append(subjects, subject)
	}
	b := &db.Batch{}
	rows := approval.QueueAsks(b, e.TenantID, approval.SubjectMapStep, subjects)
	if err := s.d.DB.Send(ctx, e.TenantID, b); err != nil {
		return nil, fmt.Errorf("execution: decisions: %w", err)
	}
	var out []stepmachine.Decided
	for _, row := range rows.Value {
		d, err := s.openDecision(ctx, e, row)
		if err != nil {
			return nil, err
		}
		if governance.ApprovalStatus(row.Status) == governance.ApprovalCancelled {
			d.Decision, d.Reason = withdrawn, row.ClosedReason
		}
		if d.Decision != "" {
			d.Ref = bySubject[row.SubjectID]
			out = append(out, d)
		}
	}
	return out, nil
}

// openDecision returns the decision in the row of an approval; none while it waits.
func (s *people) openDecision(ctx context.Context, e Execution, row approval.AskRow) (d stepmachine.Decided, err error) {
	d.Reason = row.Reason
	if row.DecidedBy != nil {
		d.By = actor.Actor{Kind: actor.User, ID: *row.DecidedBy}.String()
	}
	switch governance.ApprovalStatus(row.Status) {
	case governance.ApprovalApproved:
	case governance.ApprovalRejected:
		d.Decision = stepmachine.Reject
		return d, nil
	case governance.ApprovalExpired:
		d.Decision = stepmachine.Expired
		return d, nil
	case governance.ApprovalPending, governance.ApprovalCancelled, governance.ApprovalSuperseded, governance.ApprovalBlocked:
		return d, nil
	}
	d.Decision = stepmachine.Approve
	if row.Response != nil {
		key, err := s.d.Keys.Key(ctx, e.TenantID)
		if err != nil {
			return d, fmt.Errorf("execution: %w", err)
		}
		text, err := key.Open(decisionPlace(e.TenantID, row.SubjectID, datakey.MapResponse), *row.Response)
		if err != nil {
			return d, fmt.Errorf("execution: response to %s: %w", row.ID, err)
		}
		d.Decision, d.Response = stepmachine.Respond, stepmachine.Of(text)
	}
	if row.EditedFrom != nil {
		l, err := s.newLoader(ctx, e, nil)
		if err != nil {
			return d, err
		}
		name := askedValue(row.SubjectID)
		text, err := l.load(stepmachine.Stored{ID: name})
		if err != nil {
			return d, err
		}
		d.Decision, d.Payload = stepmachine.Edit, stepmachine.Of(text)
		if len(text) > stepmachine.MaxInline {
			d.Payload = Reference(name, text, nil)
		}
	}
	return d, nil
}

// Unattended implements approval.Owner: it closes the approval of an execution that has ended, or
// that goes on in another attempt. The workflow of any other is started by Sweep, and asks again.
func (s *people) Unattended(ctx context.Context, w approval.Waiting, _ bool) error {
	id, err := executionOfSubject(w.SubjectID)
	if err != nil {
		return fmt.Errorf("execution: subject of an approval: %w", err)
	}
	e, err := s.readExecution(ctx, w.TenantID, id)
	if err != nil || !e.Ended() && e.WorkflowID == w.WorkflowID {
		return err
	}
	return s.closeAsk(ctx, e, w.SubjectID, approval.Closing{Status: governance.ApprovalCancelled, Reason: "The execution has ended."})
}
