package account

import (
	"context"
	"fmt"
	"time"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// ForgetEvery is the pause between two calls of Forget, and forgetMost how many rows one
// transaction forgets.
const (
	ForgetEvery = 10 * time.Minute
	forgetMost  = 1000
)

// endedFor is how long a revoked key and a withdrawn invitation can be read. The audit trail keeps who
// made and who ended them.
const endedFor = 90 * 24 * time.Hour

// Forget deletes, of all tenants and in small batches, the sessions that had expired at the time
// now with their refresh tokens, the windows of failed logins that had ended, the network
// addresses that are no longer known, and the keys and invitations that people ended endedFor before.
func Forget(ctx context.Context, pool *db.Pool, now time.Time) error {
	q, tx := dbsqlc.New(), pool.Presenting(db.SettingSweep, "on")
	for _, batch := range []func() (int64, error){
		func() (int64, error) {
			return q.ForgetSessions(ctx, tx, dbsqlc.ForgetSessionsParams{Before: now, Most: forgetMost})
		},
		func() (int64, error) {
			return q.ForgetLoginAttempts(ctx, tx, dbsqlc.ForgetLoginAttemptsParams{Before: now, Most: forgetMost})
		},
		func() (int64, error) {
			return q.ForgetOldLoginAddresses(ctx, tx, dbsqlc.ForgetOldLoginAddressesParams{Before: now.Add(-knownFor), Most: forgetMost})
		},
		func() (int64, error) {
			return q.ForgetRevokedKeys(ctx, tx, dbsqlc.ForgetRevokedKeysParams{Before: now.Add(-endedFor), Most: forgetMost})
		},
		func() (int64, error) {
			return q.ForgetWithdrawnInvitations(ctx, tx, dbsqlc.ForgetWithdrawnInvitationsParams{Before: now.Add(-endedFor), Most: forgetMost})
		},
	} {
		for n := int64(forgetMost); n == forgetMost; {
			var err error
			if n, err = batch(); err != nil {
				return fmt.Errorf("account: forget: %w", err)
			}
		}
	}
	return nil
}
