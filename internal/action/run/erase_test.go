package run_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/run"
	"agentruntime/internal/base/fault"
)

// What remains of an erased run is that there was a call, and that it must not run again.
func TestErasedRunKeepsNothingButItsFence(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	args := `{"note":"canary"}`
	of := func(customer string) func(*run.Request) {
		return func(q *run.Request) {
			q.Metadata = json.RawMessage(`{"customer_id":"` + customer + `","note":"canary"}`)
		}
	}
	first, err := r.do("pay", "e1", args, of("u1"))
	require.NoError(t, err)
	_, err = r.do("pay", "e2", args, of("u2"))
	require.NoError(t, err)
	erase := func(before time.Time) (n int64, waits bool) {
		require.NoError(t, r.db.InTenant(t.Context(), r.tenant, func(tx pgx.Tx) (err error) {
			n, waits, err = r.EraseOf(t.Context(), tx, r.tenant, []string{"u1", "other"}, before, 10)
			return err
		}))
		return n, waits
	}
	n, _ := erase(time.Now().Add(-time.Hour))
	require.Zero(t, n, "a run of later is another customer's")
	r.admin(`UPDATE runs SET state = 'sending' WHERE execution_id = 'e1'`)
	n, waits := erase(time.Now().Add(time.Hour))
	require.Zero(t, n)
	require.True(t, waits, "a call under way needs its arguments")
	r.admin(`UPDATE runs SET state = 'executed' WHERE execution_id = 'e1'`)
	n, waits = erase(time.Now().Add(time.Hour))
	require.Equal(t, int64(1), n)
	require.False(t, waits)
	n, waits = erase(time.Now().Add(time.Hour))
	require.Zero(t, n)
	require.False(t, waits)

	got, err := r.Get(t.Context(), r.caller(), "e1")
	require.NoError(t, err)
	require.Equal(t, first.Run.ID, got.ID)
	require.Empty(t, got.Args)
	require.JSONEq(t, `{}`, string(got.Metadata))
	require.Empty(t, got.Result)
	require.NotNil(t, got.ErasedAt)
	_, err = r.do("pay", "e1", args, of("u1"))
	require.Equal(t, fault.CodeResultExpired, fault.As(err).Code, "it does not run again")
	other, err := r.Get(t.Context(), r.caller(), "e2")
	require.NoError(t, err)
	require.JSONEq(t, args, string(other.Args), "another customer's stays")
}
