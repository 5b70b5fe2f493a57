package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

func TestRepeatWaitsForTheOriginal(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, lane string) {
		t.Helper()
		g, tenant := connected(t, s)
		other := tenant.Runtime
		if lane == split {
			// The duplicate comes to another process and is told by notice.
			other = &rig.Client{Base: sharedSplit().second.APIURL, Key: tenant.Runtime.Key, HTTP: rig.NewHTTP()}
		}
		id := ids(1)[0]
		original := create(tenant.Runtime, id, modeHold)
		g.awaitArrival(t)
		duplicate := create(other, id, modeHold)
		early := createNow(other, id, modeHold, "Prefer: wait=0")
		require.Equal(t, http.StatusAccepted, early.Status, "%s", early.Body)
		g.open()
		first, second := requireRun(t, awaitAnswer(t, original)), requireRun(t, awaitAnswer(t, duplicate))
		require.Equal(t, "executed", first.FenceStatus)
		require.Equal(t, "cached", second.FenceStatus)
		require.JSONEq(t, string(first.Result), string(second.Result))
		require.Len(t, g.of(id), 1)
	})
}

func TestCallLongerThanItsWaitIsAccepted(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		list := ids(2)
		for i, prefer := range []string{"Prefer: wait=0", "Prefer: wait=1"} {
			id := list[i]
			a := createNow(tenant.Runtime, id, modeHold, prefer)
			require.Equal(t, http.StatusAccepted, a.Status, "%s", a.Body)
			require.Equal(t, "/v1/executions/"+id, a.Header.Get("Location"))
			var d rig.RunData
			a.Data(t, &d)
			require.Equal(t, "running", d.Status)
			require.Equal(t, id, d.ExecutionID)
			require.Equal(t, "running", executionOf(t, tenant.Runtime, id).Status)
		}
		g.open()
		for _, id := range list {
			done := awaitStatus(t, tenant.Runtime, id, "executed")
			require.JSONEq(t, `{"id":"`+id+`","hit":1}`, string(done.Result))
		}
		require.Len(t, g.all(), 2)
	})
}

func TestRunContinuesWhenCallerDisconnects(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		id := ids(1)[0]
		ctx, leave := context.WithCancel(t.Context())
		body := `{"verb":"gate:create_thing","args":{"id":"` + id + `","mode":"hold"},"execution_id":"` + id + `"}`
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.APIURL+"/v1/runtime/actions/run", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-API-Key", tenant.Runtime.Key)
		left := make(chan error, 1)
		go func() {
			res, err := rig.NewHTTP().Do(req)
			if err == nil {
				res.Body.Close()
			}
			left <- err
		}()
		g.awaitArrival(t)
		leave()
		require.ErrorIs(t, <-left, context.Canceled)
		g.open()
		awaitStatus(t, tenant.Runtime, id, "executed")
		require.Equal(t, "cached", requireRun(t, createNow(tenant.Runtime, id, modeHold)).FenceStatus)
		require.Len(t, g.of(id), 1)
	})
}

func TestRevokedKeyEndsRequestsInFlight(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, lane string) {
		t.Helper()
		g, tenant := connected(t, s)
		key, keyID := newKey(t, tenant)
		owner := tenant.User
		if lane == split {
			// Revoked on the one process, in flight on the other.
			owner = &rig.Client{Base: sharedSplit().second.APIURL, Token: tenant.User.Token, HTTP: rig.NewHTTP()}
		}
		id := ids(1)[0]
		waiting := create(key, id, modeHold)
		g.awaitArrival(t)
		started := time.Now()
		require.Equal(t, http.StatusOK, owner.Do(http.MethodDelete, "/v1/api-keys/"+keyID, nil).Status)
		requireCode(t, awaitAnswer(t, waiting), http.StatusUnauthorized, "API_KEY_REVOKED")
		t.Logf("answered %s after the DELETE was sent", time.Since(started).Round(time.Millisecond))
		requireCode(t, createNow(key, id, ""), http.StatusUnauthorized, "API_KEY_REVOKED")
		require.Equal(t, http.StatusNotFound, owner.Do(http.MethodDelete, "/v1/api-keys/"+keyID, nil).Status)
		// What was at the provider already is recorded, and the owner reads it.
		g.open()
		awaitStatus(t, tenant.User, id, "executed")
		require.Len(t, g.of(id), 1)
	})
}

// TestRevokedKeyBeginsNoCall revokes keys in the middle of many runs. The
// answer to DELETE means that no run of the key moves to sending any more.
func TestRevokedKeyBeginsNoCall(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		// One run waits for its second attempt while its key is revoked.
		key, keyID := newKey(t, tenant)
		waiting := ids(1)[0]
		answer := create(key, waiting, modeLaterOnce)
		g.awaitArrival(t)
		awaitClaimedAgain(t, tenant, waiting)
		require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, "/v1/api-keys/"+keyID, nil).Status)
		requireCode(t, awaitAnswer(t, answer), http.StatusUnauthorized, "API_KEY_REVOKED")
		for range 6 {
			revokeAmidRuns(t, s, g, tenant)
		}
		e := awaitStatus(t, tenant.User, waiting, "failed")
		require.Equal(t, "API_KEY_REVOKED", e.Error.Code)
		require.Len(t, g.of(waiting), 1, "no second attempt after the revocation")
	})
}

// awaitClaimedAgain waits until the first attempt has been recorded.
func awaitClaimedAgain(t *testing.T, tenant *rig.Tenant, id string) {
	t.Helper()
	rig.Until(t, arriveLimit, "the attempt is recorded", func() bool {
		var e struct {
			Sends            int    `json:"sends"`
			GovernanceStatus string `json:"governance_status"`
		}
		tenant.User.Do(http.MethodGet, "/v1/executions/"+id, nil).Data(t, &e)
		return e.Sends == 1 && e.GovernanceStatus == "pending"
	})
}

// revokeAmidRuns revokes a key while its runs are under way, and checks that none began to
// be sent after the answer to that.
func revokeAmidRuns(t *testing.T, s *rig.Stack, g *gate, tenant *rig.Tenant) {
	t.Helper()
	key, keyID := newKey(t, tenant)
	list := ids(64)
	before := len(g.all())
	var running []<-chan rig.Answer
	for _, id := range list {
		running = append(running, create(key, id, ""))
	}
	rig.Until(t, arriveLimit, "some runs have reached the provider", func() bool { return len(g.all()) > before+4 })
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, "/v1/api-keys/"+keyID, nil).Status)
	revoked := time.Now()
	refused := 0
	for _, answers := range running {
		if a := awaitAnswer(t, answers); a.Status != http.StatusOK {
			requireCode(t, a, http.StatusUnauthorized, "API_KEY_REVOKED")
			refused++
		}
	}
	sent, late := 0, time.Duration(0)
	for _, id := range list {
		for _, h := range g.of(id) {
			sent++
			late = max(late, h.at.Sub(revoked))
		}
	}
	t.Logf("%d runs: %d calls began, %d callers were refused, the last call came %s after the DELETE's answer", len(list), sent, refused, late)
	require.Empty(t, sentAfter(t, s, list, revoked))
}

// sentAfter lists the executions that began to be sent after the moment. The row says so
// by the clock of the same machine, in the statement that looked at the key.
func sentAfter(t *testing.T, s *rig.Stack, executionIDs []string, moment time.Time) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `SELECT execution_id FROM runs WHERE execution_id = ANY($1) AND sent_at > $2`, executionIDs, moment)
	require.NoError(t, err)
	late, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return late
}

func TestTenantSeesOnlyItsOwnRuns(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		foreign := newTenant(s)
		second, _ := newKey(t, tenant)
		id := ids(1)[0]
		requireRun(t, createNow(tenant.Runtime, id, ""))
		// Another key of the tenant shares the fence, but not the view.
		require.Equal(t, "cached", requireRun(t, createNow(second, id, "")).FenceStatus)
		requireCode(t, second.Do(http.MethodGet, "/v1/executions/"+id, nil), http.StatusNotFound, "EXECUTION_NOT_FOUND")
		require.Equal(t, "executed", executionOf(t, tenant.User, id).Status)
		// To another tenant the id is unknown, in the same words as one that never was.
		seen := requireCode(t, foreign.User.Do(http.MethodGet, "/v1/executions/"+id, nil), http.StatusNotFound, "EXECUTION_NOT_FOUND")
		never := requireCode(t, foreign.User.Do(http.MethodGet, "/v1/executions/"+ids(1)[0], nil), http.StatusNotFound, "EXECUTION_NOT_FOUND")
		require.Equal(t, never.Error.Message, seen.Error.Message)
		requireCode(t, createNow(foreign.Runtime, id, ""), http.StatusNotFound, "VERB_NOT_FOUND")
		require.Len(t, g.of(id), 1)
		foreign.Connect(t, "gate", g.base, gateDocument(), "bearer", map[string]string{"token": "another"})
		require.Equal(t, "executed", requireRun(t, createNow(foreign.Runtime, id, "")).FenceStatus)
		require.Len(t, g.of(id), 2)
	})
}

func TestCancelEndsUnsentRunOnly(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		list := ids(3)
		cancelled, after, held := list[0], list[1], list[2]
		answer := create(tenant.Runtime, cancelled, modeLaterOnce)
		g.awaitArrival(t)
		awaitClaimedAgain(t, tenant, cancelled)
		a := tenant.Runtime.Do(http.MethodPost, "/v1/executions/"+cancelled+"/cancel", nil)
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		requireCode(t, awaitAnswer(t, answer), http.StatusConflict, "CONFLICT")
		require.Equal(t, "cancelled", executionOf(t, tenant.Runtime, cancelled).Status)
		requireCode(t, tenant.Runtime.Do(http.MethodPost, "/v1/executions/"+cancelled+"/cancel", nil), http.StatusConflict, "CONFLICT")
		requireCode(t, createNow(tenant.Runtime, cancelled, ""), http.StatusConflict, "CONFLICT")
		// What waits as long and began later is through: the cancelled one's time has come and gone.
		requireRun(t, createNow(tenant.Runtime, after, modeLaterOnce))
		require.Len(t, g.of(after), 2)
		require.Len(t, g.of(cancelled), 1)
		// What is at the provider cannot be cancelled.
		answer = create(tenant.Runtime, held, modeHold)
		for g.awaitArrival(t) != held {
		}
		requireCode(t, tenant.Runtime.Do(http.MethodPost, "/v1/executions/"+held+"/cancel", nil), http.StatusConflict, "CONFLICT")
		g.open()
		requireRun(t, awaitAnswer(t, answer))
	})
}

func TestResolveSettlesUnknownOutcome(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		for outcome, want := range map[string]string{"executed": "executed", "failed": "failed"} {
			id := ids(1)[0]
			path := "/v1/executions/" + id + "/resolve"
			requireCode(t, createNow(tenant.Runtime, id, modeVanish), http.StatusGatewayTimeout, "OUTCOME_UNKNOWN")
			requireCode(t, createNow(tenant.Runtime, id, modeVanish), http.StatusGatewayTimeout, "OUTCOME_UNKNOWN")
			body := map[string]any{"outcome": outcome, "reason": "seen at the provider"}
			if outcome == "executed" {
				body["result"] = map[string]any{"id": "thing_1"}
			}
			refused := tenant.Runtime.Do(http.MethodPost, path, body)
			require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, refused.Status, "%s", refused.Body)
			a := tenant.User.Do(http.MethodPost, path, body)
			require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
			require.Equal(t, want, executionOf(t, tenant.Runtime, id).Status)
			requireCode(t, tenant.User.Do(http.MethodPost, path, body), http.StatusConflict, "CONFLICT")
			again := createNow(tenant.Runtime, id, modeVanish)
			if outcome == "executed" {
				d := requireRun(t, again)
				require.Equal(t, "cached", d.FenceStatus)
				require.JSONEq(t, `{"id":"thing_1"}`, string(d.Result))
			} else {
				requireCode(t, again, http.StatusBadGateway, "PROVIDER_ERROR")
			}
			require.Len(t, g.of(id), 1)
		}
	})
}

func TestHighRiskVerbIsBlocked(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		id := ids(1)[0]
		a := tenant.Runtime.Run("gate:delete_thing", map[string]string{"id": id}, id)
		e := requireCode(t, a, http.StatusForbidden, "GOVERNANCE_BLOCKED")
		require.Equal(t, "block", e.Error.Decision)
		require.NotEmpty(t, e.Error.ApprovalID)
		var approval struct {
			ID, Status, Verb string
			Args             json.RawMessage
			ExecutionID      string `json:"execution_id"`
		}
		tenant.User.Do(http.MethodGet, "/v1/approvals/"+e.Error.ApprovalID, nil).Data(t, &approval)
		require.Equal(t, "blocked", approval.Status)
		require.Equal(t, "gate:delete_thing", approval.Verb)
		require.Equal(t, id, approval.ExecutionID)
		require.JSONEq(t, `{"id":"`+id+`"}`, string(approval.Args))
		require.Equal(t, http.StatusForbidden, tenant.Runtime.Do(http.MethodGet, "/v1/approvals/"+e.Error.ApprovalID, nil).Status)
		require.Equal(t, "blocked", executionOf(t, tenant.Runtime, id).Status)
		require.Empty(t, g.all())
		// A refusal is not cached: the same call is judged again, and one that was
		// refused for its arguments runs once they are right.
		again := requireCode(t, tenant.Runtime.Run("gate:delete_thing", map[string]string{"id": id}, id), http.StatusForbidden, "GOVERNANCE_BLOCKED")
		require.NotEqual(t, e.Error.ApprovalID, again.Error.ApprovalID)
		other := ids(1)[0]
		requireCode(t, tenant.Runtime.Run("gate:create_thing", map[string]any{"id": 1}, other), http.StatusUnprocessableEntity, "INVALID_ARGS")
		require.Empty(t, g.all())
		require.Equal(t, "executed", requireRun(t, createNow(tenant.Runtime, other, "")).FenceStatus)
		require.Len(t, g.of(other), 1)
	})
}

func TestDryRunWriteIsIntercepted(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		id := ids(1)[0]
		call := func(verb string, dry bool) rig.Answer {
			return tenant.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", map[string]any{
				"verb": verb, "args": map[string]any{"id": id}, "execution_id": id + verb, "metadata": map[string]any{"dryRun": dry},
			})
		}
		var d struct {
			Result             struct{ Method, URL string }
			FenceStatus        string `json:"fence_status"`
			DryRun             bool   `json:"dry_run"`
			Intercepted        bool
			ApprovalID         string `json:"approval_id"`
			GovernanceStatus   string `json:"governance_status"`
			ExecutionID, Other string
		}
		call("gate:create_thing", true).Data(t, &d)
		require.True(t, d.DryRun && d.Intercepted)
		require.Equal(t, "executed", d.FenceStatus)
		require.Equal(t, "approved", d.GovernanceStatus)
		require.Equal(t, http.MethodPost, d.Result.Method)
		require.Equal(t, g.base+"/things", d.Result.URL)
		require.NotEmpty(t, d.ApprovalID)
		call("gate:create_thing", true).Data(t, &d)
		require.Equal(t, "cached", d.FenceStatus)
		requireCode(t, call("gate:create_thing", false), http.StatusUnprocessableEntity, "IDEMPOTENCY_KEY_REUSED")
		requireCode(t, call("gate:delete_thing", true), http.StatusForbidden, "GOVERNANCE_BLOCKED")
		require.Empty(t, g.all())
		requireRun(t, call("gate:get_thing", true))
		require.Len(t, g.all(), 1, "reads run in a dry run")
	})
}

func TestNumberReachesTheProviderUnchanged(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		for _, number := range []string{"9007199254740993", "123456789012345678901234567890"} {
			id := ids(1)[0]
			requireRun(t, tenant.Runtime.Run("gate:create_thing", json.RawMessage(`{"id":"`+id+`","amount":`+number+`}`), id))
			require.Contains(t, g.of(id)[0].body, `"amount":`+number)
		}
	})
}

func TestIdempotencyKeyHeaderNamesTheRun(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		list := ids(4)
		run := func(arg string, fields map[string]any, headers ...string) rig.Answer {
			body := map[string]any{"verb": "gate:create_thing", "args": map[string]any{"id": arg}}
			maps.Copy(body, fields)
			return tenant.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", body, headers...)
		}
		header := "Idempotency-Key: " + list[0]
		first := requireRun(t, run(list[0], nil, header))
		require.True(t, strings.HasPrefix(first.ExecutionID, "exec_"))
		require.Equal(t, "cached", requireRun(t, run(list[0], nil, header)).FenceStatus)
		requireCode(t, run("other", nil, header), http.StatusUnprocessableEntity, "IDEMPOTENCY_KEY_REUSED")
		requireCode(t, run(list[0], map[string]any{"idempotency_key": list[1]}, header), http.StatusBadRequest, "INVALID_IDEMPOTENCY_KEY")
		// In the body the rule of the specification applies: the stored result, and a note.
		var d struct {
			ArgsMatch   *bool  `json:"args_match"`
			FenceStatus string `json:"fence_status"`
		}
		run("other", map[string]any{"idempotency_key": list[0]}).Data(t, &d)
		require.Equal(t, "cached", d.FenceStatus)
		require.False(t, *d.ArgsMatch)
		// The generated id and a second key name the same run; two runs conflict.
		require.Equal(t, "cached", requireRun(t, run(list[0], map[string]any{"execution_id": first.ExecutionID, "idempotency_key": list[2]})).FenceStatus)
		require.Equal(t, "cached", requireRun(t, run(list[0], map[string]any{"execution_id": list[2]})).FenceStatus)
		requireRun(t, run(list[3], map[string]any{"execution_id": list[3]}))
		requireCode(t, run(list[0], map[string]any{"execution_id": list[3], "idempotency_key": list[0]}), http.StatusUnprocessableEntity, "IDEMPOTENCY_CONFLICT")
		require.Len(t, g.all(), 2)
	})
}
