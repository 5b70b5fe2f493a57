package run_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/fault"
)

// noted returns what the journal has recorded, in the order of the calls.
func (r *rig) noted() string {
	r.t.Helper()
	require.NoError(r.t, r.journal.Flush(r.t.Context()))
	return r.text(`SELECT coalesce(string_agg(concat_ws(' ', action, verb, outcome, execution_id, details->>'code', details->>'args_match', details->>'count'), ', ' ORDER BY id), '')
	                 FROM audit_records WHERE details->>'count' IS NOT NULL`)
}

func TestRepeatsAreRecordedWithoutATrip(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 4 {
		_, err := r.do("read", "x", `{"a":1}`)
		require.NoError(t, err)
	}
	_, err := r.do("read", "x", `{"a":2}`)
	require.NoError(t, err)
	require.Equal(t, 2, r.count(`SELECT count(*) FROM audit_records`), "of the run itself: nothing is written while the caller waits")
	require.Equal(t, "run.repeated read executed x true 1, run.repeated read executed x false 1, run.repeated read executed x true 2", r.noted())
	require.Equal(t, "key req_test 192.0.2.1 low allow", r.text(`SELECT DISTINCT concat_ws(' ', actor_type, request_id, source_addr, risk_level, decision) FROM audit_records WHERE action = 'run.repeated'`))
}

func TestRefusalsWithoutARunAreRecorded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	header := func(q *run.Request) { q.KeyByHeader = true; q.IdempotencyKey, q.ExecutionID = q.ExecutionID, "" }
	_, err := r.do("read", "x", `{"a":1}`)
	require.NoError(t, err)
	_, err = r.do("read", "y", `{"a":1}`)
	require.NoError(t, err)
	for want, call := range map[fault.Code]func() error{
		fault.CodeVerbNotFound:         func() error { _, err := r.do("nothing", "z", `{}`); return err },
		fault.CodeIdempotencyKeyReused: func() error { _, err := r.do("read", "x", `{"a":2}`, header); return err },
		fault.CodeIdempotencyConflict: func() error {
			_, err := r.do("read", "x", `{"a":1}`, func(q *run.Request) { q.IdempotencyKey = "y" })
			return err
		},
	} {
		err := call()
		require.True(t, fault.HasCode(err, want), "%v", err)
	}
	_, err = r.do("no verb", "x", `{}`)
	require.Error(t, err)
	f := fault.New(fault.CodeInsufficientPermissions, "")
	require.NoError(t, r.Refused(t.Context(), r.caller(), f))
	require.NoError(t, r.Refused(t.Context(), r.caller(), fault.New(fault.CodeInvalidAPIKey, "")), "401 leaves none")
	got := r.noted()
	for _, want := range []string{
		"run.refused nothing refused z VERB_NOT_FOUND 1", "run.refused read refused x IDEMPOTENCY_KEY_REUSED 1",
		"run.refused read refused x IDEMPOTENCY_CONFLICT 1", "run.refused  refused  INSUFFICIENT_PERMISSIONS 1",
	} {
		require.Contains(t, got, want)
	}
	require.Equal(t, 4, r.count(`SELECT count(*) FROM audit_records WHERE action = 'run.refused'`))
}

// Another caller who reads a stored result is on record with their own key and address.
func TestRepeatByAnotherCallerIsRecordedAsTheirs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.do("read", "x", `{}`)
	require.NoError(t, err)
	other := actor.Actor{Kind: actor.Key, TenantID: r.tenant, ID: uuid.New(), RequestID: "req_other", SourceAddr: "198.51.100.7"}
	_, err = r.Do(t.Context(), other, run.Request{Verb: "shop:read", Args: json.RawMessage(`{}`), ExecutionID: "x", Metadata: json.RawMessage(`{}`)})
	_ = err // whether another key may read the result is not what this test is about
	require.NoError(t, r.journal.Flush(t.Context()))
	require.Equal(t, other.ID.String()+" req_other 198.51.100.7", r.text(`SELECT concat_ws(' ', actor_id, request_id, source_addr) FROM audit_records WHERE details->>'count' = '1'`))
}

// Neither arguments nor answers of a repeat reach its record.
func TestRecordsOfRepeatsContainNoSecret(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.provider.replies(func(int64) run.Answer {
		return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{"token":"canary-answer"}`)}
	})
	for _, args := range []string{`{"password":"canary-args"}`, `{"password":"canary-args"}`, `{"canary-name":"canary-other"}`} {
		_, err := r.do("pay", "x", args, func(q *run.Request) { q.Metadata = json.RawMessage(`{"note":"canary-metadata"}`) })
		require.NoError(t, err)
	}
	_, err := r.do("refund", "x", `{"password":"canary-refused"}`)
	require.Error(t, err)
	require.NoError(t, r.journal.Flush(t.Context()))
	require.Equal(t, 3, r.count(`SELECT count(*) FROM audit_records WHERE details->>'count' IS NOT NULL`))
	require.Zero(t, r.count(`SELECT count(*) FROM audit_records a WHERE details->>'count' IS NOT NULL AND a::text LIKE '%canary%'`))
}

func TestCredentialOfACallIsOnRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := uuid.New()
	r.targets.credential.Store(&id)
	out, err := r.do("pay", "x", `{}`)
	require.NoError(t, err)
	require.Equal(t, []string{id.String(), "bearer", "the shop's"}, []string{out.Run.CredentialID.String(), out.Run.CredentialType, out.Run.CredentialLabel})
	listed, _, err := r.List(t.Context(), r.caller(), run.Filter{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, "the shop's", listed[0].CredentialLabel)
	require.Equal(t, id.String()+" bearer the shop's", r.text(`SELECT concat_ws(' ', details->>'credential_id', details->>'credential_type', details->>'credential_label')
	                                                            FROM audit_records WHERE action IN ('run.allowed', 'run.notified')`))
}

func TestResolutionKeepsWhyGovernanceDecided(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.provider.replies(func(int64) run.Answer { return run.Answer{Phase: attempt.Sent, Timeout: true} })
	out, err := r.do("pay", "x", `{}`)
	require.NoError(t, err)
	require.Equal(t, run.StateOutcomeUnknown, out.Run.State)
	require.NotEmpty(t, out.Run.Reason)
	require.Nil(t, out.Run.ResolvedAt)

	owner := actor.Actor{Kind: actor.User, TenantID: r.tenant, ID: r.tenant, Role: actor.RoleOwner}
	done, err := r.Resolve(t.Context(), owner, "x", run.Resolution{Executed: true, Reason: "the order is there, token=canary"})
	require.NoError(t, err)
	require.Equal(t, out.Run.Reason, done.Reason, "why governance decided")
	require.Equal(t, "the order is there, token=[masked]", done.ResolveReason)
	require.Equal(t, "0", r.text(`SELECT count(*)::text FROM audit_records a WHERE a::text LIKE '%canary%'`))
	require.Equal(t, "0", r.text(`SELECT count(*)::text FROM runs a WHERE a::text LIKE '%canary%'`))
	require.Equal(t, r.tenant, *done.ResolvedBy)
	require.Equal(t, *done.FinishedAt, *done.ResolvedAt)
}

func TestRefusedCancelAndResolveAreRecorded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.do("read", "x", `{}`)
	require.NoError(t, err)
	owner := actor.Actor{Kind: actor.User, TenantID: r.tenant, ID: r.tenant, Role: actor.RoleOwner}
	_, err = r.Cancel(t.Context(), owner, "x")
	require.True(t, fault.HasCode(err, fault.CodeConflict), "%v", err)
	_, err = r.Resolve(t.Context(), owner, "x", run.Resolution{Reason: "no"})
	require.True(t, fault.HasCode(err, fault.CodeConflict), "%v", err)
	require.Equal(t, "run.refused read executed x CONFLICT 1, run.refused read executed x CONFLICT 1", r.noted())
	require.Equal(t, "cancel,resolve", r.text(`SELECT string_agg(details->>'operation', ',' ORDER BY id) FROM audit_records WHERE action = 'run.refused'`))
}

func TestRunKeepsItsSessionAndMetadata(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, id := range []string{"one", "two"} {
		_, err := r.do("pay", id, `{}`, func(q *run.Request) { q.SessionID, q.Metadata = "s-"+id, json.RawMessage(`{"why":"`+id+`"}`) })
		require.NoError(t, err)
	}
	listed, _, err := r.List(t.Context(), r.caller(), run.Filter{SessionID: "s-two", Limit: 10})
	require.NoError(t, err)
	require.Len(t, listed, 1)
	kept, err := r.Get(t.Context(), r.caller(), "two")
	require.NoError(t, err)
	require.JSONEq(t, `{"why":"two"}`, string(kept.Metadata))
	require.Equal(t, "one s-one,two s-two", r.text(`SELECT string_agg(DISTINCT execution_id || ' ' || session_id, ',') FROM audit_records WHERE execution_id IS NOT NULL`))
}
