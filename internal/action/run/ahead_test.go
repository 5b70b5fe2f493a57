package run_test

import (
	"encoding/json"
	"testing"
	"time"

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

// makes makes a call of a Map's step to its end. between runs after the step was judged ahead, and
// with each claim.
func (r *rig) makes(verbName, path string, between func()) (run.Progress, error) {
	r.t.Helper()
	parent := "exec_parent"
	req := run.Request{
		Verb: "shop:" + verbName, Args: json.RawMessage(`{}`), Metadata: json.RawMessage(`{}`), StepKey: run.StepKey(parent, path, 0, 1),
		Origin: run.Origin{Kind: actor.Map, ParentID: &parent, Step: &path, WorkflowID: parentWorkflow, Driver: flow.DriverMap},
	}
	return r.Step(r.t.Context(), r.caller(), req, func(*db.Batch, string) { between() })
}

// made is makes for a step that ends, and returns its run.
func (r *rig) made(verbName, path string, between func()) run.Run {
	r.t.Helper()
	at, err := r.makes(verbName, path, between)
	require.NoError(r.t, err)
	require.True(r.t, at.Step.Done)
	return at.Run
}

func nothing() {}

// The first step of a process reads what calls of the verb need, and the next ones are judged by that.
func TestStepAfterAnotherTakesTwoTrips(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	count := r.counting(true)
	require.Equal(t, run.StateExecuted, r.made("pay", "steps/0", nothing).State)
	for _, path := range []string{"steps/1", "steps/2"} {
		before := count.n.Load()
		x := r.made("pay", path, nothing)
		require.EqualValues(t, 2, count.n.Load()-before)
		require.Equal(t, run.StateExecuted, x.State)
		require.EqualValues(t, 1, x.Sends)
		require.Equal(t, "run.notified run.executed", r.text(`SELECT string_agg(action, ' ' ORDER BY id) FROM audit_records WHERE execution_id = '`+x.ExecutionID+`'`))
	}
	before := count.n.Load()
	again := r.made("pay", "steps/2", nothing)
	require.EqualValues(t, 3, r.provider.effects.Load(), "a repeat of the step sends nothing")
	require.EqualValues(t, 2, count.n.Load()-before)
	require.Equal(t, run.StateExecuted, again.State)
	r.ahead.Add(int64(6 * time.Second))
	before = count.n.Load()
	r.made("pay", "steps/3", nothing)
	require.EqualValues(t, 3, count.n.Load()-before, "what was read is too old")
	before = count.n.Load()
	r.made("read", "steps/4", nothing)
	require.EqualValues(t, 3, count.n.Load()-before, "nothing was read for this verb")
}

// What changes between the judgement and the claim counts: nothing is sent, and nothing is left of the
// claim that was judged by what was before.
func TestStepJudgedAheadHeedsWhatChangesBeforeItsClaim(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(r *rig)
		state  run.State
		code   fault.Code
	}{
		"a policy blocks":      {func(r *rig) { r.policies(rule(governance.ActionBlock, "pay")) }, run.StateBlocked, fault.CodeGovernanceBlocked},
		"the key is revoked":   {func(r *rig) { r.admin(`UPDATE api_keys SET revoked_at = now()`) }, run.StateRefused, fault.CodeAPIKeyRevoked},
		"a kill switch is set": {func(r *rig) { r.switchOff(false) }, run.StateClaimed, ""},
		"the verb is gone": {func(r *rig) {
			r.admin(`DELETE FROM verbs WHERE name = 'pay'`)
			r.targets.gone.Store(true)
		}, "", fault.CodeVerbNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.made("pay", "steps/0", nothing)
			changed := false
			at, err := r.makes("pay", "steps/1", func() {
				if !changed {
					changed = true
					c.change(r)
				}
			})
			require.EqualValues(t, 1, r.provider.effects.Load())
			require.Equal(t, 1, r.count(`SELECT count(*) FROM audit_records WHERE action = 'run.notified'`), "that of the first step")
			if c.state == "" {
				require.True(t, fault.HasCode(err, c.code), "%v", err)
				require.Equal(t, 1, r.count(`SELECT count(*) FROM runs`))
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.state, at.Run.State)
			require.Equal(t, c.code, at.Run.ErrorCode)
			require.Equal(t, 2, r.count(`SELECT count(*) FROM runs`))
		})
	}
}

// A credential that was stored after the judgement is the one that the call uses.
func TestStepJudgedAheadUsesTheNewestCredential(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	store := func() uuid.UUID {
		id := uuid.Must(uuid.NewV7())
		r.admin(`INSERT INTO credentials (id, tenant_id, provider, type, label, allowed_hosts, status, version, kek_id, wrapped_key, ciphertext, created_by, created_at, updated_at)
			VALUES ($1, $2, 'shop', 'bearer', '', '{}', 'active', 1, '', '', '', '', clock_timestamp(), now())`, id, r.tenant)
		r.targets.credential.Store(&id)
		return id
	}
	used := func(x run.Run) string {
		return r.text(`SELECT credential_id::text FROM runs WHERE execution_id = '` + x.ExecutionID + `'`)
	}
	old := store()
	require.Equal(t, old.String(), used(r.made("pay", "steps/0", nothing)))
	require.Equal(t, old.String(), used(r.made("pay", "steps/1", nothing)))
	var newest uuid.UUID
	x := r.made("pay", "steps/2", func() {
		if newest == uuid.Nil {
			newest = store()
		}
	})
	require.Equal(t, newest.String(), used(x))
	require.EqualValues(t, 3, r.provider.effects.Load())
}

// A process dies after the claim and the mark, with the call on its way: it is not sent again.
func TestStepThatDiesAfterItsClaimAheadIsNotSentTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.made("pay", "steps/0", nothing)
	r.provider.replies(func(int64) run.Answer { panic("the process dies") })
	_, err := r.makes("pay", "steps/1", nothing)
	require.Error(t, err)
	r.provider.replies(func(int64) run.Answer {
		return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{}`)}
	})
	at, err := r.makes("pay", "steps/1", nothing)
	require.NoError(t, err)
	require.Equal(t, run.StateSending, at.Step.State, "the mark is recent")
	r.admin(`UPDATE runs SET updated_at = now() - interval '1 minute' WHERE state = 'sending'`)
	at, err = r.makes("pay", "steps/1", nothing)
	require.NoError(t, err)
	require.Equal(t, run.StateOutcomeUnknown, at.Run.State)
	require.EqualValues(t, 2, r.provider.effects.Load())
}
