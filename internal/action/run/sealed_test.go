package run_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/run"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/attempt"
	"agentruntime/internal/kernel/governance"
)

// rawRuns is what the rows have in the columns that are sealed.
const rawRuns = `SELECT string_agg(concat_ws(' ', args, edited_args, result), ' ' ORDER BY id) FROM runs`

func TestArgumentsAndResultsAreSealedInTheRow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.provider.replies(func(int64) run.Answer {
		return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{"note":"canary-result"}`)}
	})
	first, err := r.do("pay", "one", `{"note":"canary-args"}`)
	require.NoError(t, err)
	again, err := r.do("pay", "one", `{"note":"canary-args"}`)
	require.NoError(t, err)
	require.True(t, again.Cached)
	for _, out := range []run.Outcome{first, again} {
		require.JSONEq(t, `{"note":"canary-result"}`, string(out.Run.Result))
	}
	require.JSONEq(t, `{"note":"canary-args"}`, r.provider.last())
	_, err = r.do("pay", "two", `{"note":"canary-args"}`, func(q *run.Request) { q.DryRun = true })
	require.NoError(t, err)
	raw := r.text(rawRuns)
	require.Contains(t, raw, "s1.")
	require.NotContains(t, raw, "canary")
}

func TestEditedArgumentsAreSealedInTheRow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	x := r.held("pay", "one", `{"note":"canary"}`)
	edit, err := r.SealEdit(t.Context(), r.tenant, x.ID.String(), json.RawMessage(`{"note":"canary-edited"}`))
	require.NoError(t, err)
	require.NotContains(t, edit, "canary")
	require.Empty(t, r.decide(x, r.user("owner"), "approve", edit).Code)
	require.NotContains(t, r.text(rawRuns), "canary")
	now := r.wake(x)
	require.Empty(t, r.decide(now, r.user("approver"), "approve").Code)
	require.Equal(t, run.StateExecuted, r.wake(now).State)
	require.JSONEq(t, `{"note":"canary-edited"}`, r.provider.last())
	require.NotContains(t, r.text(rawRuns), "canary")
}

// A process of an earlier release has stored rows in plain text.
func TestRowsStoredInPlainTextAreRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies(rule(governance.ActionRequireApproval, "pay"))
	x := r.held("pay", "one", `{"n":1}`)
	r.admin(`UPDATE runs SET args = '{"n":1}', edited_args = NULL`)
	// The fingerprint of {"args":{"n":1},"dryRun":false,"verb":"shop:pay"} had no key.
	const sum = `sha256(convert_to('{"args":{"n":1},"dryRun":false,"verb":"shop:pay"}', 'UTF8'))`
	require.Equal(t, 0, r.count(`SELECT count(*) FROM runs JOIN approvals ON true WHERE fingerprint = `+sum+` OR call_hash = `+sum), "it has a key now")
	r.admin(`UPDATE runs SET fingerprint = ` + sum)
	r.admin(`UPDATE approvals SET call_hash = ` + sum)
	require.Empty(t, r.decide(x, r.user("approver"), "approve").Code)
	require.Equal(t, run.StateExecuted, r.wake(x).State)
	require.JSONEq(t, `{"n":1}`, r.provider.last())
	r.admin(`UPDATE runs SET result = '{"old":true}'`)
	same, err := r.do("pay", "one", `{"n":1.0}`, func(q *run.Request) { q.KeyByHeader = true })
	require.NoError(t, err)
	require.Empty(t, same.ArgsDiffer)
	again, err := r.do("pay", "one", `{"n":2}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"old":true}`, string(again.Run.Result))
	require.Equal(t, []string{"/args/n"}, again.ArgsDiffer)
}

// A claim draws an id for a new run, and finds an old one: its arguments are sealed for that.
func TestIDClaimedAgainReadsItsNewArguments(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.do("pay", "one", `{"bad":true}`)
	require.NoError(t, err)
	out, err := r.do("pay", "one", `{"note":"canary"}`, func(q *run.Request) { q.IdempotencyKey = "two" })
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, out.Run.State)
	now, err := r.Get(t.Context(), actor.SystemOf(r.tenant), "two")
	require.NoError(t, err)
	require.Equal(t, out.Run.ID, now.ID)
	require.JSONEq(t, `{"note":"canary"}`, string(now.Args))
	require.NotContains(t, r.text(rawRuns), "canary")
}

func TestRowCopiedToAnotherRunDoesNotOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, id := range []string{"one", "two"} {
		_, err := r.do("pay", id, `{"id":"`+id+`"}`)
		require.NoError(t, err)
	}
	r.admin(`UPDATE runs SET args = (SELECT args FROM runs WHERE execution_id = 'one') WHERE execution_id = 'two'`)
	_, err := r.Get(t.Context(), actor.SystemOf(r.tenant), "two")
	require.ErrorContains(t, err, "does not open")
	_, err = r.Get(t.Context(), actor.SystemOf(r.tenant), "one")
	require.NoError(t, err)
}
