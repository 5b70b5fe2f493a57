package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// asksAndMakes asks people for two seconds, and then makes a thing.
const asksAndMakes = `[
	{"id":"ask","type":"approval","title":"Go?","timeout":"2s","on_timeout":"fail"},
	{"id":"made","type":"verb","verb":"gate:create_thing","args":{"id":"${trigger_data.id}"}}]`

// expiring is an execution whose question is about to expire, with the decisions that come then.
type expiring struct {
	id, path string
	asked    struct {
		ID        string
		ExpiresAt time.Time `json:"expires_at"`
	}
	approve, reject rig.Answer
}

// Two people decide as the time of an approval step ends. One of the two counts, or the time is over:
// the answers, the approval, its records and the execution agree about which.
func TestDecisionsAtTheExpiryOfAStepHaveOneWinner(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, lane string) {
		t.Helper()
		g, tenant := connected(t, s)
		other, _ := tenant.User.NewUser(t, rig.Address(), "approver")
		if lane == split { // each API process hears of one of them
			other.Base = sharedSplit().second.APIURL
		}
		trigger := publish(t, tenant, "Asks for a moment", asksAndMakes)
		all := make([]*expiring, 12)
		for i, id := range ids(len(all)) {
			all[i] = &expiring{id: id, path: startMap(t, tenant, trigger, map[string]any{"id": id})}
		}
		var deciding sync.WaitGroup
		for i, e := range all {
			e.await(t, tenant)
			// A few milliseconds before, and a few after.
			moment := e.asked.ExpiresAt.Add(time.Duration(i-len(all)/2) * 5 * time.Millisecond)
			rig.Until(t, arriveLimit, "the time is over", func() bool { return !time.Now().Before(moment) })
			deciding.Go(func() { e.approve = tenant.User.Decide(e.asked.ID, "approve", nil) })
			deciding.Go(func() { e.reject = other.Decide(e.asked.ID, "reject", nil) })
		}
		deciding.Wait()
		for _, e := range all {
			e.judge(t, g, tenant)
		}
	})
}

// A decision and the end of its time wait for the same row. Where the decision comes first, its time is
// over all the same.
func TestDecisionThatWaitsPastTheExpiryOfAStepDoesNotCount(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		id := ids(1)[0]
		e := &expiring{id: id, path: startMap(t, tenant, publish(t, tenant, "Asks for a moment", asksAndMakes), map[string]any{"id": id})}
		e.await(t, tenant)
		lock := lockApproval(t, s, e.asked.ID)
		answered := make(chan rig.Answer, 1)
		go func() { answered <- tenant.User.Decide(e.asked.ID, "approve", nil) }()
		rig.Until(t, arriveLimit, "the time is over", func() bool { return time.Now().After(e.asked.ExpiresAt) })
		lock.after(2) // the decision, and the end of its time
		e.approve = awaitAnswer(t, answered)
		require.Equal(t, "expired", e.judge(t, g, tenant))
	})
}

// await waits until the execution has asked.
func (e *expiring) await(t *testing.T, tenant *rig.Tenant) {
	t.Helper()
	rig.Until(t, 3*arriveLimit, "the execution asks", func() bool {
		page := tenant.User.Do(http.MethodGet, "/v1/approvals?kind=step&execution_id="+strings.TrimPrefix(e.path, "/v1/executions/"), nil)
		var list []json.RawMessage
		page.Data(t, &list)
		return len(list) == 1 && json.Unmarshal(list[0], &e.asked) == nil
	})
}

// judge returns how the question ended. All that tells of it must agree.
func (e *expiring) judge(t *testing.T, g *gate, tenant *rig.Tenant) string {
	t.Helper()
	want := "expired"
	for status, a := range map[string]rig.Answer{"approved": e.approve, "rejected": e.reject} {
		require.NoError(t, a.Err)
		if a.Status != http.StatusOK {
			if a.Status != 0 { // it was made
				requireCode(t, a, http.StatusConflict, "APPROVAL_NOT_PENDING")
			}
			continue
		}
		var told decidedApproval
		a.Data(t, &told)
		require.Equal(t, status, told.Status)
		require.Equal(t, "expired", want, "two decisions count: %s", a.Body)
		want = status
	}
	var shown decidedApproval
	done := ended(t, tenant, e.path)
	tenant.User.Do(http.MethodGet, "/v1/approvals/"+e.asked.ID, nil).Data(t, &shown)
	end := shown.Status
	require.Equal(t, want, end, "what the answers tell is not what is stored")

	trace := map[string]struct{ status, code string }{
		"approved": {"completed", ""}, "rejected": {"failed", "APPROVAL_REJECTED"}, "expired": {"failed", "APPROVAL_EXPIRED"},
	}[end]
	require.Equal(t, trace.status, done.Status)
	made := 0
	if trace.code == "" {
		made = 1
	} else {
		require.Equal(t, trace.code, done.Error.Code)
		require.Equal(t, "/steps/0", done.Error.Instance)
	}
	require.Len(t, g.of(e.id), made)

	execution := strings.TrimPrefix(e.path, "/v1/executions/")
	var recorded []string
	for _, action := range []string{"approved", "rejected", "expired"} {
		var page []json.RawMessage
		tenant.User.Do(http.MethodGet, "/v1/audit?action=approval."+action+"&execution_id="+execution, nil).Data(t, &page)
		recorded = append(recorded, slices.Repeat([]string{action}, len(page))...)
	}
	require.Equal(t, []string{end}, recorded)
	require.Equal(t, []string{end}, e.told(t, tenant))
	return end
}

// told returns how the question ended, by each event that says so. It waits for the event of the
// execution's end, which is a later one.
func (e *expiring) told(t *testing.T, tenant *rig.Tenant) (ends []string) {
	t.Helper()
	var events []struct{ Event, Status string }
	rig.Until(t, 3*arriveLimit, "the end is told", func() bool {
		tenant.User.Do(http.MethodGet, e.path+"/events", nil).Data(t, &events)
		for _, one := range events {
			if one.Event == "map.completed" || one.Event == "map.failed" {
				return true
			}
		}
		return false
	})
	for _, one := range events {
		if one.Event == "approval.decided" {
			ends = append(ends, one.Status)
		}
	}
	return ends
}

// rowLock is a transaction that has locked the row of an approval.
type rowLock struct {
	t    *testing.T
	conn *pgx.Conn
}

func lockApproval(t *testing.T, s *rig.Stack, id string) *rowLock {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	// New rows may refer to it.
	tag, err := conn.Exec(t.Context(), fmt.Sprintf("BEGIN; SELECT FROM approvals WHERE id = '%s' FOR NO KEY UPDATE", id))
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
	return &rowLock{t: t, conn: conn}
}

// after gives the row back once n others wait for it.
func (l *rowLock) after(n int) {
	l.t.Helper()
	rig.Until(l.t, 3*arriveLimit, fmt.Sprintf("%d wait for the row", n), func() bool {
		var waiting int
		require.NoError(l.t, l.conn.QueryRow(l.t.Context(), `WITH RECURSIVE behind AS (
			SELECT pg_backend_pid() AS pid
			UNION SELECT a.pid FROM pg_stat_activity a, behind b WHERE b.pid = ANY (pg_blocking_pids(a.pid)))
			SELECT count(*) - 1 FROM behind`).Scan(&waiting))
		return waiting >= n
	})
	_, err := l.conn.Exec(l.t.Context(), "ROLLBACK")
	require.NoError(l.t, err)
}
