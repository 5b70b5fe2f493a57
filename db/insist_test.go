package db_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/base/fault"
)

func TestInsistSendsAgainWhatMayPassLater(t *testing.T) {
	t.Parallel()
	away, refused := fault.New(fault.CodeServiceUnavailable, ""), errors.New("refused")
	for name, c := range map[string]struct {
		err   error
		sends int
	}{
		"no fault": {nil, 1}, "refused": {refused, 1}, "unreached": {away, 5},
		"raced": {&pgconn.PgError{Code: "40001"}, 5}, "deadlock": {&pgconn.PgError{Code: "40P01"}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sends, began := 0, time.Now()
				err := db.Insist(t.Context(), func() error { sends++; return c.err })
				require.Equal(t, c.err, err)
				require.Equal(t, c.sends, sends)
				require.Less(t, time.Since(began), 5*time.Second)
			})
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	require.ErrorIs(t, db.Insist(ctx, func() error { stop(); return away }), context.Canceled)
}
