package killswitch

import (
	"context"
	"fmt"
	"time"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// Kept is how long a kill switch can be read after it was lifted. The audit trail keeps who set
// and who lifted it.
const Kept = 90 * 24 * time.Hour

// ForgetEvery is the pause between two calls of Forget, and forgetMost how many kill switches one
// transaction forgets.
const (
	ForgetEvery = time.Hour
	forgetMost  = 1000
)

// Forget deletes the kill switches that were lifted and no longer Kept at the time now, of all
// tenants, in small batches.
func Forget(ctx context.Context, pool *db.Pool, now time.Time) error {
	for {
		n, err := dbsqlc.New().ForgetKillSwitches(ctx, pool.Presenting(db.SettingSweep, "on"), dbsqlc.ForgetKillSwitchesParams{Before: now.Add(-Kept), Most: forgetMost})
		if err != nil {
			return fmt.Errorf("killswitch: forget: %w", err)
		}
		if n < forgetMost {
			return nil
		}
	}
}
