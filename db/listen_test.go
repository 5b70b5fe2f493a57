package db_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/dev/testkit"
)

func TestListenerRechecksOnEachConnectionAndHearsNotices(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	admin, err := pgx.Connect(t.Context(), d.AdminURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	connections, rechecks, notices := make(chan uint32, 10), make(chan struct{}, 10), make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	listener := db.Listener{
		Connection: db.Connection{Log: testkit.Quiet(), Purpose: "test", Dial: func(ctx context.Context) (*pgx.Conn, error) {
			conn, err := d.Dial(ctx)
			if err == nil {
				connections <- conn.PgConn().PID()
			}
			return conn, err
		}},
		Channel: "heard",
		Recheck: func(context.Context) error { rechecks <- struct{}{}; return nil },
		Hear:    func(_ context.Context, payload string) { notices <- payload },
	}
	go func() { done <- listener.Listen(ctx) }()
	for range 2 {
		pid := <-connections
		<-rechecks // the channel is listened to by now
		_, err = admin.Exec(t.Context(), "select pg_notify('heard', 'one')")
		require.NoError(t, err)
		require.Equal(t, "one", <-notices)
		_, err = admin.Exec(t.Context(), "select pg_terminate_backend($1)", pid)
		require.NoError(t, err)
	}
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}
