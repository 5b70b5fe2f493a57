package desk

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
)

// Input is a decision that a user wants to make.
type Input struct {
	Approve bool
	// Reason is stored without what looks like a secret in it.
	Reason string
	// EditedArgs replace the call's arguments; nil leaves them as they are.
	EditedArgs json.RawMessage
	// Response answers the approval's form; nil for none.
	Response json.RawMessage
	// Chosen says what of several changes is approved, as their domain has checked it; nil for all.
	Chosen json.RawMessage
}

// reasonMost is the most characters of a reason.
const reasonMost = 2000

// Decide has a user's decision counted and returns the approval as it is then. After an edit
// it returns the approval that replaced it. It refuses with APPROVAL_NOT_FOUND,
// APPROVAL_NOT_PENDING (also where it was decided a moment ago), APPROVER_NOT_ELIGIBLE,
// CONFLICT (the same user has approved already), VALIDATION_ERROR (no reason where the
// policy asks for one), INVALID_ARGS (the response does not fit the form) and, for edited
// arguments, with what SealEdit returns. A refused decision is recorded.
func (s *Desk) Decide(ctx context.Context, who actor.Actor, id string, in Input) (Detailed, error) {
	a, err := s.Get(ctx, who.TenantID, id)
	if err != nil {
		return Detailed{}, err
	}
	out, err := s.decideAbout(ctx, who, a, in)
	if f := fault.As(err); f != nil {
		return Detailed{}, cmp.Or(s.noteRefusal(ctx, who, a.Approval, in, f), err)
	}
	return out, err
}

// noteRefusal records a decision that was refused. A malformed one leaves no record, and
// neither does a failure of ours.
func (s *Desk) noteRefusal(ctx context.Context, who actor.Actor, a Approval, in Input, f *fault.Error) error {
	switch f.Code.Spec().Status {
	case http.StatusForbidden, http.StatusConflict, http.StatusUnprocessableEntity:
	default:
		return nil
	}
	decision := "reject"
	if in.Approve {
		decision = "approve"
	}
	return s.d.Journal.Add(ctx, audit.Note{
		By: who, About: a.ID,
		Record: audit.Record{
			Action: audit.ApprovalRefused, Provider: a.Provider, Verb: a.Verb, RiskLevel: a.RiskLevel, Outcome: string(s.shownStatus(a)),
			SubjectType: audit.SubjectApproval, SubjectID: a.ID, ExecutionID: a.ExecutionID,
		},
		Details: map[string]any{"approval_id": a.ID, "code": f.Code, "decision": decision, "edited": in.EditedArgs != nil},
	})
}

func (s *Desk) decideAbout(ctx context.Context, who actor.Actor, a Detailed, in Input) (out Detailed, err error) {
	vote := governance.Vote{Voter: a.asked.Voter(who.ID, who.Role), Approve: in.Approve, Reason: in.Reason}
	switch code := governance.Refusal(a.asked.Asking, vote, s.d.Now()); code {
	case "":
	case fault.CodeApproverNotEligible:
		return Detailed{}, notEligible(a.SubjectType, a.asked.Asking, vote.Voter)
	default:
		return Detailed{}, s.refusal(a.Approval, code)
	}
	if len([]rune(in.Reason)) > reasonMost {
		return Detailed{}, fault.Invalid("/reason", "length", fmt.Sprintf("reason has at most %d characters.", reasonMost))
	}
	subjects, known := s.d.Subjects[a.SubjectType]
	if !known {
		return Detailed{}, fmt.Errorf("desk: no domain decides subjects of type %q", a.SubjectType)
	}
	p := approval.Proposal{
		ID: uuid.Must(uuid.NewV7()), ApprovalID: a.ID, By: who, Approve: in.Approve, Reason: redact.Text(in.Reason),
	}
	if in.EditedArgs != nil {
		if p.EditedArgs, err = subjects.SealEdit(ctx, who.TenantID, a.SubjectID, in.EditedArgs); err != nil {
			return Detailed{}, err
		}
	}
	if in.Response != nil {
		if err := checkResponse(a.Approval, in.Response); err != nil {
			return Detailed{}, err
		}
		if p.Response, err = subjects.SealResponse(ctx, who.TenantID, a.SubjectID, in.Response); err != nil {
			return Detailed{}, err
		}
	}
	if in.Chosen != nil {
		if p.Response, err = subjects.SealResponse(ctx, who.TenantID, a.SubjectID, in.Chosen); err != nil {
			return Detailed{}, err
		}
	}
	if err := s.decide(ctx, a.Approval, subjects, p); err != nil {
		return Detailed{}, err
	}
	return s.after(ctx, who.TenantID, a.ID, in)
}

// mostResponse is the most bytes of a response. The state of an execution has it.
const mostResponse = 32 << 10

// checkResponse returns why the response does not answer the approval's form.
func checkResponse(a Approval, response json.RawMessage) error {
	if a.Form == nil {
		return fault.Invalid("/response", "unknown", "The approval has no form, so it takes no response.")
	}
	if len(response) > mostResponse {
		return fault.Invalid("/response", "length", fmt.Sprintf("response has at most %d bytes.", mostResponse))
	}
	schema, err := argschema.Compile(a.Form)
	if err != nil {
		return fmt.Errorf("desk: form of %s: %w", a.ID, err)
	}
	details := schema.Validate(response)
	if len(details) == 0 {
		return nil
	}
	f := fault.New(fault.CodeInvalidArgs, "The response does not fit the form.")
	for _, d := range details {
		d.Path = "/response" + strings.TrimPrefix(d.Path, "/args")
		f.Details = append(f.Details, d)
	}
	return f
}

// decide stores the decision and has it counted. One that does not count is withdrawn.
func (s *Desk) decide(ctx context.Context, a Approval, subjects Subjects, p approval.Proposal) error {
	tx := s.d.DB.Tenant(p.By.TenantID)
	if err := approval.Propose(ctx, tx, p); err != nil {
		return err
	}
	out, err := s.counted(ctx, a, subjects, p)
	switch {
	case err != nil:
		// The decision may have reached the workflow. So the proposal stays, and the approval
		// shows whether it was counted.
		return err
	case out.Code != "":
		if err := approval.Withdraw(ctx, tx, p.By.TenantID, p.ID); err != nil {
			return err
		}
		if out.Why != "" {
			return fault.New(out.Code, out.Why)
		}
		return s.refusal(Approval{Status: a.Status}, out.Code)
	}
	return nil
}

// Where the engine lost a decision, it is handed over again: how often, and how soon. It is
// counted once, by its id.
const (
	countTries = 4
	countPause = 100 * time.Millisecond
	countFor   = 5 * time.Second
)

// counted has the decision counted and returns what came of it. In a race the engine may
// answer with an error of its own: a workflow task that failed, or a workflow that ended,
// takes the answer along. The rows know what came of the decision, so they are asked.
func (s *Desk) counted(ctx context.Context, a Approval, subjects Subjects, p approval.Proposal) (flow.Decided, error) {
	began := time.Now()
	for try := 1; ; try++ {
		out, err := s.count(ctx, a, subjects, p)
		if err == nil && out.Code != fault.CodeApprovalNotPending {
			return out, nil
		}
		if in, known := s.inRows(ctx, p); known {
			return in, nil
		}
		if err == nil || try == countTries || time.Since(began) > countFor {
			return out, err
		}
		select {
		case <-ctx.Done():
			return flow.Decided{}, err
		case <-time.After(countPause):
		}
	}
}

// inRows returns what came of a decision as the rows say. known is false while the approval
// waits and the decision is not counted.
func (s *Desk) inRows(ctx context.Context, p approval.Proposal) (out flow.Decided, known bool) {
	tenant := p.By.TenantID
	// The approval is read first: a decision that is not counted when it is closed never is.
	now, err := s.Get(ctx, tenant, p.ApprovalID)
	if err != nil {
		return flow.Decided{}, false
	}
	closed := now.Status != governance.ApprovalPending
	d, err := approval.ReadDecision(ctx, s.d.DB.Tenant(tenant), tenant, p.ID)
	switch {
	case err != nil && !db.IsNoRows(err):
		return flow.Decided{}, false
	case err == nil && d.Counted:
		return flow.Decided{Closed: closed}, true
	case closed:
		return flow.Decided{Code: fault.CodeApprovalNotPending, Closed: true}, true
	}
	return flow.Decided{}, false
}

// count hands the decision to the run's own workflow, which counts one after the other. For
// every other subject its domain counts the decision in the rows. It does so too for a run
// whose workflow was not started yet.
func (s *Desk) count(ctx context.Context, a Approval, subjects Subjects, p approval.Proposal) (flow.Decided, error) {
	if a.Driver == flow.DriverRun {
		d := flow.Decision{ApprovalID: a.ID, DecisionID: p.ID}
		out, open, err := s.d.Workflows.Decide(ctx, a.WorkflowID, d)
		if err != nil || open {
			return out, err
		}
		open, found, err := s.d.Workflows.IsOpen(ctx, a.WorkflowID)
		switch {
		case err != nil:
			return flow.Decided{}, err
		case open: // it has just been started
			out, _, err := s.d.Workflows.Decide(ctx, a.WorkflowID, d)
			return out, err
		case found: // it has ended
			return flow.Decided{Code: fault.CodeApprovalNotPending}, nil
		}
	}
	out, err := subjects.Count(ctx, p.By.TenantID, a.SubjectID, p.ID)
	if err == nil && out.Code == "" && a.WorkflowID != "" && a.Driver != flow.DriverRun {
		// The decision is counted. Where this fails, the sweeper tells the workflow.
		_, _ = s.d.Workflows.Nudge(ctx, a.WorkflowID)
	}
	return out, err
}

// refusal returns the fault that tells the user why a decision does not count.
func (s *Desk) refusal(a Approval, code fault.Code) error {
	switch code {
	case fault.CodeApprovalNotPending:
		if status := s.shownStatus(a); status != governance.ApprovalPending {
			return fault.Newf(code, "The approval does not wait for a decision: it is %s.", status)
		}
		return fault.New(code, "")
	case fault.CodeConflict:
		return fault.New(code, "You have approved this already; it waits for others.")
	case fault.CodeValidation:
		return fault.Invalid("/reason", "required", "The policy asks for a reason when a call is rejected.")
	default:
		return fault.New(code, "")
	}
}

// notEligible returns the fault that tells the user why they may not decide, and who may.
func notEligible(about approval.SubjectType, a governance.Asking, v governance.Voter) error {
	own := v.Self
	v.Self = false
	if own && v.Role.Valid() && governance.MayDecide(a.Requirements, v, a.Escalated) {
		return fault.New(fault.CodeApproverNotEligible, ownRefused(about))
	}
	return fault.New(fault.CodeApproverNotEligible, "You may not decide this approval. It needs "+whoMay(a)+".")
}

// ownRefused says why users may not approve what they have asked for themselves.
func ownRefused(about approval.SubjectType) string {
	switch about {
	case approval.SubjectRun:
		return "You asked for this call, or you wrote a text that its arguments are made of (an edit, a signal, a response, its Map), so another user must decide it. Its policies do not allow self_approval. You may reject it, which ends the call."
	case approval.SubjectMapStep:
		return "You started this Map or wrote a text that it goes on with (an edit, a signal, a response), so another user must decide it. The step does not allow self_approval. You may reject it, which fails the step."
	case approval.SubjectMapChanges:
		return "You started this dry run or wrote a text that it goes on with, so another user must decide about its changes. You may reject them."
	default:
		return "You asked for this or edited it, so another user must decide it. You may reject it."
	}
}

// whoMay names the roles that may decide, and says whether users may whom a requirement lists.
func whoMay(a governance.Asking) string {
	var roles []string
	add := func(role string) {
		if role != "" && !slices.Contains(roles, role) {
			roles = append(roles, role)
		}
	}
	if a.Escalated {
		add(string(actor.RoleOwner))
		add(string(actor.RoleAdmin))
	}
	users := false
	for _, r := range a.Requirements {
		for _, one := range r.Rule.Approvers {
			if one.Type == governance.ApproverRole {
				add(one.Value)
			} else {
				users = true
			}
		}
	}
	const listed = "a user whom its requirements list"
	if len(roles) == 0 {
		return listed
	}
	last := len(roles) - 1
	text := "the role " + roles[last]
	if last > 0 {
		text = "the role " + strings.Join(roles[:last], ", ") + " or " + roles[last]
	}
	if users {
		text += ", or " + listed
	}
	return text
}

// shownStatus returns the status as users see it. An approval whose time is over is shown as
// expired, also before its workflow has closed it.
func (s *Desk) shownStatus(a Approval) governance.ApprovalStatus {
	if a.Status == governance.ApprovalPending && a.ExpiresAt != nil && !s.d.Now().Before(*a.ExpiresAt) {
		return governance.ApprovalExpired
	}
	return a.Status
}

// after returns the approval as it is after the decision.
func (s *Desk) after(ctx context.Context, tenant uuid.UUID, id string, in Input) (Detailed, error) {
	a, err := s.Get(ctx, tenant, id)
	if err == nil && in.EditedArgs != nil && a.SupersededBy != nil {
		return s.Get(ctx, tenant, *a.SupersededBy)
	}
	return a, err
}
