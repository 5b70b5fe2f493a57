package desk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/action/desk"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
)

// changeSet is a subject that is no run: a set of changes that people approve.
const changeSet approval.SubjectType = "change_set"

// changeSets is the domain of such subjects. It decides what follows from a decision.
type changeSets struct {
	db       *db.Pool
	applied  atomic.Int64
	attended atomic.Int64
}

func (c *changeSets) SealEdit(context.Context, uuid.UUID, string, json.RawMessage) (string, error) {
	return "", fault.Invalid("/edited_args", "unknown", "A set of changes has no arguments to edit.")
}

func (c *changeSets) SealResponse(_ context.Context, _ uuid.UUID, _ string, response json.RawMessage) (string, error) {
	return string(response), nil
}

func (c *changeSets) Count(ctx context.Context, tenant uuid.UUID, _ string, decision uuid.UUID) (out flow.Decided, err error) {
	err = c.db.InTenant(ctx, tenant, func(tx pgx.Tx) error {
		counting, err := approval.Open(ctx, tx, tenant, decision)
		if err != nil {
			return err
		}
		if out.Code = counting.Refusal(time.Now()); out.Code != "" {
			return nil
		}
		if _, err := counting.Take(ctx, tx); err != nil {
			return err
		}
		_, enough := counting.Asked.Tally()
		end := approval.Closing{Status: governance.ApprovalRejected, By: counting.Decision.By.UserID()}
		switch {
		case counting.Decision.Approve && !enough:
			return nil
		case counting.Decision.Approve:
			end.Status = governance.ApprovalApproved
			c.applied.Add(1)
		}
		out.Closed = true
		return approval.CloseIn(ctx, tx, tenant, counting.Asked.ID, end)
	})
	return out, err
}

// Unattended implements approval.Owner: it closes what is overdue.
func (c *changeSets) Unattended(ctx context.Context, w approval.Waiting, _ bool) error {
	c.attended.Add(1)
	b := &db.Batch{}
	approval.Close(b, w.TenantID, w.ID, approval.Closing{Status: governance.ApprovalExpired, Reason: "Nobody decided in time."})
	return c.db.Send(ctx, w.TenantID, b)
}

// nudges records which workflows were told to look again. No workflow exists.
type nudges struct{ told []string }

func (n *nudges) Decide(_ context.Context, id string, _ flow.Decision) (flow.Decided, bool, error) {
	return flow.Decided{}, false, fmt.Errorf("%s is no ActionRun workflow", id)
}

func (n *nudges) IsOpen(context.Context, string) (open, found bool, err error) {
	return false, false, nil
}

func (n *nudges) Nudge(_ context.Context, id string) (bool, error) {
	n.told = append(n.told, id)
	return false, nil
}

// subjects is a desk over two tenants, with an approval of a set of changes.
type subjects struct {
	*office
	desk    *desk.Desk
	sets    *changeSets
	told    *nudges
	journal *audit.Journal
	pool    *db.Pool
	owner   actor.Actor
}

func newSubjects(t *testing.T) *subjects {
	t.Helper()
	d := testkit.Database(t)
	s := &subjects{office: officeOver(t, d), sets: &changeSets{db: d.Pool}, told: &nudges{}, pool: d.Pool}
	var err error
	s.journal, err = audit.NewJournal(audit.JournalConfig{}, audit.JournalDeps{DB: d.Pool, Log: testkit.Quiet()})
	require.NoError(t, err)
	s.desk, err = desk.New(desk.Deps{DB: d.Pool, Journal: s.journal, Workflows: s.told, Subjects: map[approval.SubjectType]desk.Subjects{changeSet: s.sets}})
	require.NoError(t, err)
	s.owner = s.who
	return s
}

// ask asks for the approval of a set of changes that a workflow waits for; "" for none.
func (s *subjects) ask(t *testing.T, workflowID string, required int32, expires time.Time) string {
	t.Helper()
	return s.askBy(t, nil, workflowID, required, expires)
}

// askBy is ask for a requester.
func (s *subjects) askBy(t *testing.T, requester *actor.Caller, workflowID string, required int32, expires time.Time) string {
	t.Helper()
	rule := governance.DefaultApproval()
	rule.Required = required
	driver := flow.DriverMap
	if workflowID == "run:one" {
		driver = flow.DriverRun
	}
	n := approval.New{
		Requester: requester,
		ID:        approval.NewID(), Kind: governance.ApprovalOfHold, Reason: "It changes three records.", Args: json.RawMessage(`{}`),
		Subject: approval.Subject{
			TenantID: s.owner.TenantID, Type: changeSet, ID: "exec_1/changes", Attempt: 1, ExecutionID: "exec_1", WorkflowID: workflowID, Driver: driver,
		},
		Requirements: []governance.Requirement{{Rule: rule}}, ExpiresAt: expires,
	}
	b := &db.Batch{}
	approval.Ask(b, n)
	require.NoError(t, s.pool.Send(t.Context(), s.owner.TenantID, b))
	return n.ID
}

// sweeper looks after the approvals of sets of changes.
func (s *subjects) sweeper(t *testing.T) *approval.Sweeper {
	t.Helper()
	sweeper, err := approval.NewSweeper(approval.SweeperConfig{},
		approval.SweeperDeps{DB: s.pool, Workflows: s.told, Log: testkit.Quiet(), Now: time.Now})
	require.NoError(t, err)
	sweeper.Own(changeSet, s.sets)
	return sweeper
}

func TestAnySubjectCanAskForApproval(t *testing.T) {
	t.Parallel()
	s := newSubjects(t)
	for workflow, told := range map[string][]string{"": nil, "map:exec_1": {"map:exec_1"}} {
		s.told.told = nil
		before := s.sets.applied.Load()
		id := s.ask(t, workflow, 1, time.Now().Add(time.Hour))
		listed, _, err := s.desk.List(t.Context(), s.owner.TenantID, desk.Filter{Status: governance.ApprovalPending, Limit: 10})
		require.NoError(t, err)
		require.Equal(t, id, listed[0].ID)
		require.Empty(t, listed[0].RunState)
		_, err = s.desk.Decide(t.Context(), s.foreign, id, desk.Input{Approve: true})
		require.True(t, fault.HasCode(err, fault.CodeApprovalNotFound), "another tenant's: %v", err)
		_, err = s.desk.Decide(t.Context(), s.owner, id, desk.Input{Approve: true, EditedArgs: json.RawMessage(`{}`)})
		require.True(t, fault.HasCode(err, fault.CodeValidation), "%v", err)

		a, err := s.desk.Decide(t.Context(), s.owner, id, desk.Input{Approve: true})
		require.NoError(t, err)
		require.Equal(t, governance.ApprovalApproved, a.Status)
		require.Equal(t, before+1, s.sets.applied.Load())
		require.Equal(t, told, s.told.told, "the workflow is told to look, once the row says what was decided")
		_, err = s.desk.Decide(t.Context(), s.owner, id, desk.Input{Approve: true})
		require.True(t, fault.HasCode(err, fault.CodeApprovalNotPending), "%v", err)
		require.Equal(t, before+1, s.sets.applied.Load())
	}
}

func TestSubjectWithoutAWorkflowNeedsItsQuorum(t *testing.T) {
	t.Parallel()
	s := newSubjects(t)
	id := s.ask(t, "", 2, time.Now().Add(time.Hour))
	a, err := s.desk.Decide(t.Context(), s.owner, id, desk.Input{Approve: true})
	require.NoError(t, err)
	require.Equal(t, governance.ApprovalPending, a.Status)
	_, err = s.desk.Decide(t.Context(), s.owner, id, desk.Input{Approve: true})
	require.True(t, fault.HasCode(err, fault.CodeConflict), "one user counts once: %v", err)
	require.Zero(t, s.sets.applied.Load())
	a, err = s.desk.Decide(t.Context(), s.owner, id, desk.Input{Reason: "on second thought"})
	require.NoError(t, err)
	require.Equal(t, governance.ApprovalRejected, a.Status)
}

// Reasons go into rows and the audit trail, which nobody can change later.
func TestSecretInAReasonIsNotStored(t *testing.T) {
	t.Parallel()
	s := newSubjects(t)
	const told = "I tried with password: hunter2-canary."
	for _, approve := range []bool{true, false} {
		a, err := s.desk.Decide(t.Context(), s.owner, s.ask(t, "", 1, time.Now().Add(time.Hour)), desk.Input{Approve: approve, Reason: told})
		require.NoError(t, err)
		require.Equal(t, "I tried with password: [masked]", a.Decisions[0].Reason)
	}
	require.NoError(t, s.journal.Flush(t.Context()))
	for _, table := range []string{"approvals", "approval_decisions", "audit_records"} {
		require.Equal(t, "0", s.text(`SELECT count(*)::text FROM `+table+` r WHERE r::text LIKE '%canary%'`), table)
	}
	require.NotEqual(t, "0", s.text(`SELECT count(*)::text FROM approval_decisions r WHERE r::text LIKE '%[masked]%'`))
}

// An approval without a workflow waits for people only. It does not look abandoned.
func TestSweeperLeavesASubjectWithoutAWorkflowAlone(t *testing.T) {
	t.Parallel()
	s := newSubjects(t)
	id := s.ask(t, "", 1, time.Now().Add(time.Hour))
	s.exec(`UPDATE approvals SET watched_at = now() - interval '1 hour'`)
	sweeper := s.sweeper(t)
	require.NoError(t, sweeper.Once(t.Context()))
	a, err := s.desk.Get(t.Context(), s.owner.TenantID, id)
	require.NoError(t, err)
	require.Equal(t, governance.ApprovalPending, a.Status)
	require.Equal(t, "true", s.text(`SELECT (watched_at > now() - interval '1 minute')::text FROM approvals`))
}

func TestOverdueSubjectWithoutAWorkflowIsGivenToItsDomain(t *testing.T) {
	t.Parallel()
	s := newSubjects(t)
	id := s.ask(t, "", 1, time.Now().Add(-time.Minute))
	sweeper := s.sweeper(t)
	require.NoError(t, sweeper.Once(t.Context()))
	a, err := s.desk.Get(t.Context(), s.owner.TenantID, id)
	require.NoError(t, err)
	require.Equal(t, governance.ApprovalExpired, a.Status)
	require.EqualValues(t, 1, s.sets.attended.Load())
	require.NoError(t, sweeper.Once(t.Context()))
	require.EqualValues(t, 1, s.sets.attended.Load(), "once it is closed, nothing is left to do")
}

func TestRefusedDecisionsAreRecorded(t *testing.T) {
	t.Parallel()
	s := newSubjects(t)
	id := s.ask(t, "", 2, time.Now().Add(time.Hour))
	member := s.owner
	member.Role = actor.RoleMember
	decide := func(who actor.Actor, in desk.Input, want fault.Code) {
		t.Helper()
		_, err := s.desk.Decide(t.Context(), who, id, in)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.True(t, fault.HasCode(err, want), "%v", err)
		}
	}
	decide(member, desk.Input{Approve: true}, fault.CodeApproverNotEligible)
	decide(member, desk.Input{Approve: true}, fault.CodeApproverNotEligible)
	decide(s.owner, desk.Input{Approve: true}, "")
	decide(s.owner, desk.Input{Approve: true}, fault.CodeConflict)
	decide(s.owner, desk.Input{Reason: "no"}, "")
	decide(s.owner, desk.Input{Reason: "no"}, fault.CodeApprovalNotPending)
	require.NoError(t, s.journal.Flush(t.Context()))
	require.Equal(t, "approve APPROVER_NOT_ELIGIBLE 1, approve CONFLICT 1, reject APPROVAL_NOT_PENDING 1, approve APPROVER_NOT_ELIGIBLE 1", s.text(
		`SELECT string_agg(concat_ws(' ', details->>'decision', details->>'code', details->>'count'), ', ' ORDER BY id)
		   FROM audit_records WHERE action = 'approval.refused' AND subject_id = '`+id+`' AND actor_type = 'user'`))
}

func TestWhoMayNotDecideIsToldWhy(t *testing.T) {
	t.Parallel()
	s := newSubjects(t)
	member := s.owner
	member.Role = actor.RoleMember
	for name, c := range map[string]struct {
		requester *actor.Caller
		who       actor.Actor
		says      string
	}{
		"an owner's own": {actor.CallerOf(nil, &s.owner.ID), s.owner, "You asked for this or edited it, so another user must decide it."},
		"a member":       {nil, member, "You may not decide this approval. It needs the role owner, admin or approver."},
		"a member's own": {actor.CallerOf(nil, &member.ID), member, "It needs the role owner, admin or approver."},
	} {
		id := s.askBy(t, c.requester, "", 1, time.Now().Add(time.Hour))
		_, err := s.desk.Decide(t.Context(), c.who, id, desk.Input{Approve: true})
		require.True(t, fault.HasCode(err, fault.CodeApproverNotEligible), "%s: %v", name, err)
		require.Contains(t, fault.As(err).Message, c.says, name)
	}
}
