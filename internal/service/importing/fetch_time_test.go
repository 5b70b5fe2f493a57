package importing

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Only requests take the time that a server has.
func TestTimeOfAServerIsThatOfRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fetching{time: 10 * time.Second}
		lasts := func(d time.Duration) error {
			return f.fromServer(t.Context(), func(ctx context.Context) error {
				select {
				case <-time.After(d):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		}
		require.NoError(t, lasts(6*time.Second))
		turn, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		<-turn.Done() // a turn is waited for
		require.NoError(t, lasts(3*time.Second))
		require.ErrorIs(t, lasts(2*time.Second), context.DeadlineExceeded)
		require.ErrorIs(t, lasts(time.Nanosecond), context.DeadlineExceeded)
	})
}
