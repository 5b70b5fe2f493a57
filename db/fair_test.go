package db_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/dev/testkit"
)

// One tenant has more statements than there are connections, and none of them ends. Another one's
// statement, and one of a caller whose tenant is not known yet, do not wait for them.
func TestStatementsOfOneTenantLeaveConnectionsToOthers(t *testing.T) {
	t.Parallel()
	const conns = 4
	pool, err := db.Open(t.Context(), db.Config{URL: testkit.Database(t).AppURL, MaxConns: conns})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	crowd, goOn, begun := uuid.New(), make(chan struct{}), make(chan struct{}, 2*conns)
	ended := make(chan error, 2*conns)
	for range 2 * conns {
		go func() {
			ended <- pool.InTenant(t.Context(), crowd, func(pgx.Tx) error {
				begun <- struct{}{}
				<-goOn
				return nil
			})
		}()
	}
	for range conns - 1 {
		<-begun
	}
	_, err = pool.Tenant(uuid.New()).Exec(t.Context(), "select 1")
	require.NoError(t, err)
	_, err = pool.Presenting(db.SettingRefreshHash, "00").Exec(t.Context(), "select 1")
	require.NoError(t, err)
	require.Empty(t, begun, "the fourth connection is not for them")
	close(goOn)
	for range 2 * conns {
		require.NoError(t, <-ended)
	}
}
