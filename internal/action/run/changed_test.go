package run_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/attempt"
)

// meanwhileAtOnce runs check in a transaction whose time another transaction has taken for
// its own change, by the same statement.
func (r *rig) meanwhileAtOnce(change string, check func(tx pgx.Tx) error) error {
	r.t.Helper()
	return r.db.InTenant(r.t.Context(), r.tenant, func(tx pgx.Tx) error {
		var began time.Time
		require.NoError(r.t, tx.QueryRow(r.t.Context(), "SELECT now()").Scan(&began))
		r.admin(change, began)
		return check(tx)
	})
}

func TestRunChangeOfTheSameMicrosecondIsNotOurs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.do("pay", "x", `{}`)
	require.NoError(t, err)
	p := dbsqlc.RequireRunChangedParams{TenantID: r.tenant, ID: uuid.MustParse(r.text(`SELECT id::text FROM runs`))}
	err = r.meanwhileAtOnce(`UPDATE runs SET updated_at = $1`, func(tx pgx.Tx) error {
		_, err := dbsqlc.New().RequireRunChanged(context.Background(), tx, p)
		return err
	})
	require.True(t, db.IsNotChanged(err), "%v", err)
	require.NoError(t, r.db.InTenant(t.Context(), r.tenant, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE runs SET reason = 'ours' WHERE id = $1`, p.ID)
		require.NoError(t, err)
		_, err = dbsqlc.New().RequireRunChanged(t.Context(), tx, p)
		return err
	}))
}

func TestApprovalDecidedInTheSameMicrosecondIsNotOurs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	out, err := r.do("refund", "x", `{}`)
	require.NoError(t, err)
	p := dbsqlc.RequireApprovalIsParams{TenantID: r.tenant, ID: *out.Run.ApprovalID, Status: "cancelled"}
	err = r.meanwhileAtOnce(`UPDATE approvals SET status = 'cancelled', decided_at = $1`, func(tx pgx.Tx) error {
		_, err := dbsqlc.New().RequireApprovalIs(context.Background(), tx, p)
		return err
	})
	require.True(t, db.IsNotChanged(err), "%v", err)
}

func TestBlockIsRecordedWithThePoliciesBehindIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	shadow := rule(governance.ActionAllow, "pay")
	shadow.Mode = governance.Shadow
	r.policies(rule(governance.ActionBlock, "pay"), shadow)
	out, err := r.do("pay", "x", `{}`)
	require.NoError(t, err)
	require.Equal(t, run.StateBlocked, out.Run.State)
	require.Equal(t, *out.Run.ApprovalID, r.text(`SELECT details->>'approval_id' FROM audit_records WHERE action = 'run.blocked'`))
	require.Equal(t, "2", r.text(`SELECT json_array_length(details->'policies')::text FROM audit_records WHERE action = 'run.blocked'`))
}

func TestAttemptThatIsRepeatedIsRecorded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.provider.replies(func(n int64) run.Answer {
		switch n {
		case 1:
			return run.Answer{Phase: attempt.Answered, Status: 429, Complete: true}
		case 2:
			return run.Answer{Phase: attempt.NotSent, Problem: "dial"}
		case 3:
			return run.Answer{Phase: attempt.Sent, Timeout: true}
		}
		return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(`{}`)}
	})
	out, err := r.do("keyed", "x", `{}`)
	require.NoError(t, err)
	require.Equal(t, run.StateExecuted, out.Run.State)
	require.Equal(t, "false 200 false 400 true 800",
		r.text(`SELECT string_agg((details->>'may_have_had_effect') || ' ' || (details->>'again_after_ms'), ' ' ORDER BY id) FROM audit_records WHERE action = 'run.retried'`))
	require.Equal(t, 4, r.count(`SELECT count(*) FROM audit_records WHERE action = 'run.allowed' OR action = 'run.notified'`))
}
