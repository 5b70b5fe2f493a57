package event

import (
	"context"
	"fmt"
	"time"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// Kept is how long an event can be read.
const Kept = 30 * 24 * time.Hour

// ForgetEvery is the pause between two calls of Forget, and forgetMost how many events one
// transaction forgets: so no transaction is long, and readers and writers wait for none.
const (
	ForgetEvery = time.Minute
	forgetMost  = 1000
)

// Forget deletes what was no longer Kept at the time now, of all tenants, in small batches.
func Forget(ctx context.Context, pool *db.Pool, now time.Time) error {
	for {
		n, err := dbsqlc.New().ForgetEvents(ctx, pool.Presenting(db.SettingSweep, "on"), dbsqlc.ForgetEventsParams{
			Before: db.FirstID(now.Add(-Kept)), Most: forgetMost,
		})
		if err != nil {
			return fmt.Errorf("event: forget: %w", err)
		}
		if n < forgetMost {
			return nil
		}
	}
}
