package desk

import (
	"context"
	"fmt"
	"time"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// grantsKept is how long a grant can be read after its end. The audit trail keeps what it allowed, who
// gave it and which calls used it.
const grantsKept = 90 * 24 * time.Hour

// ForgetEvery is the pause between two calls of Forget, and forgetMost how many grants one transaction
// forgets.
const (
	ForgetEvery = time.Hour
	forgetMost  = 1000
)

// Forget deletes the grants that ended grantsKept before the time now, of all tenants, in small
// batches. A grant ends with its revocation, or with its time.
func Forget(ctx context.Context, pool *db.Pool, now time.Time) error {
	for {
		n, err := dbsqlc.New().ForgetGrants(ctx, pool.Presenting(db.SettingSweep, "on"), dbsqlc.ForgetGrantsParams{Before: now.Add(-grantsKept), Most: forgetMost})
		if err != nil {
			return fmt.Errorf("desk: forget grants: %w", err)
		}
		if n < forgetMost {
			return nil
		}
	}
}
