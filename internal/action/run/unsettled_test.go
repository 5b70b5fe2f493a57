package run_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// message stores a message of a session, and returns nothing but its name: the execution that asked for it
// may be "".
func (r *rig) message(session uuid.UUID, name, parent string) {
	r.admin(`INSERT INTO conversations (tenant_id, id, agent_id, turns, version, created_at, updated_at) VALUES ($1, $2, $2, 1, 1, now(), now())
	         ON CONFLICT DO NOTHING`, r.tenant, session)
	r.admin(`INSERT INTO turns (tenant_id, id, execution_id, agent_id, version, conversation, state, status, fingerprint, message, metadata, request_id, source_addr,
	                            workflow_id, updated_at, parent_id)
	         VALUES ($1, $2, $3, $2, 1, $4, 'ended', 'completed', '', '', '{}', '', '', $3, now(), nullif($5, ''))`, r.tenant, uuid.New(), name, session, parent)
}

// mapExecution stores an execution of a Map.
func (r *rig) mapExecution(name, parent string) {
	r.admin(`INSERT INTO map_executions (id, tenant_id, execution_id, map_id, version, map_type, dry_run, fingerprint, payload, metadata, origin, request_id,
	                                     source_addr, workflow_id, updated_at, parent_id)
	         VALUES ($1, $2, $3, $1, 1, '', false, '', '', '{}', 'key', '', '', $3, now(), nullif($4, ''))`, uuid.New(), r.tenant, name, parent)
}

// asks makes the call of a step.
func (r *rig) asks(parent, step, verb, args string, with run.Unsettled) (run.Progress, error) {
	req := run.Request{
		Verb: "shop:" + verb, Args: json.RawMessage(args), Metadata: json.RawMessage(`{}`), StepKey: run.StepKey(parent, step, 0, 0), Unsettled: with,
		Origin: run.Origin{Kind: actor.Agent, ParentID: &parent, Step: &step, WorkflowID: parentWorkflow, Driver: flow.DriverMessage},
	}
	return r.Step(r.t.Context(), r.caller(), req, func(*db.Batch, string) {})
}

// What a model asks for is not made where its chain has made an equal write whose outcome is unknown.
func TestEqualWriteOfUnknownOutcomeIsNotRepeated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := uuid.New(), uuid.New()
	r.message(one, "message", "")
	r.message(one, "later message", "")
	r.message(uuid.New(), "asked agent", "message")
	r.mapExecution("map of an agent", "asked agent")
	r.mapExecution("map of a map", "map of an agent")
	r.message(two, "other session", "")
	r.mapExecution("map", "")
	r.mapExecution("sub map", "map")
	r.mapExecution("other map", "")

	r.provider.replies(func(int64) run.Answer { return run.Answer{Phase: attempt.Sent} })
	lost := map[string]string{} // the execution whose outcome is unknown, by what has made it
	for _, by := range []string{"asked agent", "map"} {
		at, err := r.asks(by, "first", "pay", `{"amount":100,"to":"é","n":{"a":1,"b":2}}`, run.UnsettledOfChain)
		require.NoError(t, err)
		require.Equal(t, run.StateOutcomeUnknown, at.Run.State)
		lost[by] = at.Run.ExecutionID
	}
	const same = `{"to":"\u00e9","n":{"b":2,"a":1e0},"amount":1e2}`
	for i, c := range []struct {
		by, verb, args string
		with           run.Unsettled
		equal          string
	}{
		{"asked agent", "pay", same, run.UnsettledOfChain, "asked agent"},
		{"message", "pay", same, run.UnsettledOfChain, "asked agent"},
		{"later message", "pay", `{"amount":100.0,"to":"é","n":{"a":1,"b":2}}`, run.UnsettledOfChain, "asked agent"},
		{"map of a map", "pay", same, run.UnsettledOfChain, "asked agent"},
		{"map of a map", "pay", same, run.UnsettledOfOthers, "asked agent"},
		{"map", "pay", same, run.UnsettledOfChain, "map"},
		{"sub map", "pay", same, run.UnsettledOfChain, "map"},
		{"map", "pay", same, run.UnsettledOfOthers, ""},
		{"sub map", "pay", same, "", ""},
		{"other map", "pay", same, run.UnsettledOfChain, ""},
		{"other session", "pay", same, run.UnsettledOfChain, ""},
		{"message", "pay", `{"amount":101,"to":"é","n":{"a":1,"b":2}}`, run.UnsettledOfChain, ""},
		{"message", "refund", same, run.UnsettledOfChain, ""},
		{"message", "read", same, run.UnsettledOfChain, ""},
	} {
		name, before := fmt.Sprint(i, " ", c), r.provider.effects.Load()
		at, err := r.asks(c.by, fmt.Sprint("step ", i), c.verb, c.args, c.with)
		if c.equal == "" {
			require.NoError(t, err, name)
			require.NotEmpty(t, at.Run.ExecutionID, name)
			r.admin(`UPDATE runs SET state = 'failed' WHERE id = $1`, at.Run.ID) // it is not compared with what follows
			continue
		}
		f := fault.As(err)
		require.NotNil(t, f, name)
		require.Equal(t, fault.CodeOutcomeUnknown, f.Code, name)
		require.Equal(t, lost[c.equal], f.ExecutionID, name)
		require.Contains(t, f.Message, lost[c.equal], name)
		require.Equal(t, before, r.provider.effects.Load(), name)
		equal, found, err := r.Unsettled(t.Context(), r.tenant, f)
		require.NoError(t, err)
		require.True(t, found, name)
		require.Equal(t, lost[c.equal], equal.Run.ExecutionID, name)
	}
}

// Once people have settled the outcome, another try is another call. The step that was refused gets a run.
func TestSettledWriteMayBeMadeAgain(t *testing.T) {
	t.Parallel()
	for _, executed := range []bool{true, false} {
		r := newRig(t)
		r.message(uuid.New(), "message", "")
		r.provider.replies(func(int64) run.Answer { return run.Answer{Phase: attempt.Sent} })
		first, err := r.asks("message", "first", "pay", `{}`, run.UnsettledOfChain)
		require.NoError(t, err)
		again, err := r.asks("message", "first", "pay", `{}`, run.UnsettledOfChain)
		require.NoError(t, err, "a step repeats its own claim after a crash")
		require.Equal(t, first.Run.ID, again.Run.ID)
		_, err = r.asks("message", "second", "pay", `{}`, run.UnsettledOfChain)
		require.True(t, fault.HasCode(err, fault.CodeOutcomeUnknown))
		require.EqualValues(t, 1, r.provider.effects.Load())

		_, err = r.Resolve(t.Context(), actor.Actor{Kind: actor.User, TenantID: r.tenant, ID: r.user("owner")}, first.Run.ExecutionID, run.Resolution{Executed: executed, Reason: "looked"})
		require.NoError(t, err)
		second, err := r.asks("message", "second", "pay", `{}`, run.UnsettledOfChain)
		require.NoError(t, err)
		require.NotEqual(t, first.Run.ID, second.Run.ID)
		require.EqualValues(t, 2, r.provider.effects.Load())
	}
}

// A write that is at the provider for another execution of the chain has an outcome that nobody knows yet.
func TestEqualWriteUnderWayIsNotRepeated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	session := uuid.New()
	r.message(session, "message", "")
	r.message(session, "later message", "")
	r.message(uuid.New(), "other session", "")
	r.mapExecution("map of an agent", "message")
	at, err := r.asks("map of an agent", "first", "pay", `{"amount":1}`, run.UnsettledOfOthers)
	require.NoError(t, err)
	r.admin(`UPDATE runs SET state = 'sending' WHERE id = $1`, at.Run.ID)
	_, err = r.asks("later message", "again", "pay", `{"amount":1}`, run.UnsettledOfChain)
	require.True(t, fault.HasCode(err, fault.CodeConflict), "%v", err)
	require.Equal(t, at.Run.ExecutionID, fault.As(err).ExecutionID)
	for _, other := range []string{"map of an agent", "other session"} {
		_, err = r.asks(other, "again", "pay", `{"amount":1}`, run.UnsettledOfChain)
		require.NoError(t, err, other)
	}
	require.EqualValues(t, 3, r.provider.effects.Load())
}

// What people have edited is compared as it was sent.
func TestEditedWriteIsComparedByWhatWasSent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.message(uuid.New(), "message", "")
	r.provider.replies(func(int64) run.Answer { return run.Answer{Phase: attempt.Sent} })
	asked, err := r.asks("message", "first", "pay", `{"amount":100}`, run.UnsettledOfChain)
	require.NoError(t, err)
	sent, err := r.asks("message", "second", "pay", `{"amount":80}`, run.UnsettledOfChain)
	require.NoError(t, err)
	r.admin(`UPDATE runs SET sent_fingerprint = (SELECT fingerprint FROM runs WHERE id = $2) WHERE id = $1`, asked.Run.ID, sent.Run.ID)
	r.admin(`UPDATE runs SET state = 'failed' WHERE id = $1`, sent.Run.ID)
	_, err = r.asks("message", "third", "pay", `{"amount":80}`, run.UnsettledOfChain)
	require.True(t, fault.HasCode(err, fault.CodeOutcomeUnknown), "%v", err)
	_, err = r.asks("message", "fourth", "pay", `{"amount":100}`, run.UnsettledOfChain)
	require.NoError(t, err)
}

// Equal writes of one chain are claimed together and sent together, and each answer is lost at once. One has its
// effect. The others are refused, with or without a run of their own.
func TestEqualWritesAtOnceAreSentOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.provider.replies(func(int64) run.Answer { return run.Answer{Phase: attempt.Sent} })
	type asked struct {
		at  run.Progress
		err error
	}
	for try := range int64(20) {
		name := fmt.Sprint("message ", try)
		r.message(uuid.New(), name, "")
		by := map[string]run.Unsettled{name: run.UnsettledOfChain}
		for _, started := range []string{" first", " second"} {
			r.mapExecution(name+started, name)
			by[name+started] = run.UnsettledOfOthers
		}
		answers := make(chan asked, len(by))
		for parent, with := range by {
			go func() {
				at, err := r.asks(parent, "step", "pay", fmt.Sprintf(`{"amount":%d}`, try), with)
				answers <- asked{at, err}
			}()
		}
		unknown := 0
		for range by {
			a := <-answers
			f := fault.As(a.err)
			if a.err == nil {
				f = a.at.Run.Fault()
			}
			require.NotNil(t, f, "%+v", a)
			require.Contains(t, []fault.Code{fault.CodeOutcomeUnknown, fault.CodeConflict}, f.Code, "%v", f)
			switch {
			case a.err != nil:
			case a.at.Run.State == run.StateOutcomeUnknown:
				unknown++
			default:
				require.Equal(t, run.StateRefused, a.at.Run.State)
				require.Zero(t, a.at.Run.Sends)
			}
		}
		require.Equal(t, 1, unknown, "try %d", try)
		require.Equal(t, try+1, r.provider.effects.Load(), "try %d", try)
	}
}

// Two equal calls of a session are held. The one that people approve later is compared again before it is sent.
func TestEqualHeldWritesAreSentOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	session := uuid.New()
	r.message(session, "message", "")
	r.message(session, "later message", "")
	r.message(uuid.New(), "other session", "")
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	r.provider.replies(func(int64) run.Answer { return run.Answer{Phase: attempt.Sent} })
	var held []run.Run
	for _, by := range []string{"message", "later message", "other session"} {
		at, err := r.asks(by, "step", "pay", `{"amount":1}`, run.UnsettledOfChain)
		require.NoError(t, err)
		require.NotEmpty(t, at.Step.ApprovalID)
		r.handOver(at.Run)
		held = append(held, r.read(at.Run))
	}
	approved := func(x run.Run) run.Run {
		require.True(t, r.decide(x, r.user("approver"), "approve").Closed)
		return r.wake(r.read(x))
	}
	first := approved(held[0])
	require.Equal(t, run.StateOutcomeUnknown, first.State)
	second := approved(held[1])
	require.Equal(t, run.StateRefused, second.State)
	require.Equal(t, fault.CodeOutcomeUnknown, second.ErrorCode)
	require.Contains(t, second.Fault().Message, first.ExecutionID)
	require.EqualValues(t, 1, r.provider.effects.Load())
	require.Equal(t, run.StateOutcomeUnknown, approved(held[2]).State, "another chain")
	require.EqualValues(t, 2, r.provider.effects.Load())
}
