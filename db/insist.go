package db

import (
	"context"
	"time"

	"agentruntime/internal/base/fault"
)

// The pauses of Insist: each is three times as long as the one before, about four seconds in all.
const (
	insistFirst = 100 * time.Millisecond
	insistLast  = 3 * time.Second
)

// Insist sends a transaction again where it lost a race, or where Postgres was not reached or took too
// long. It is for what others have been paid for, and ends with the last error, or with that of ctx. A
// transaction that has committed all the same must change nothing when it is sent again.
func Insist(ctx context.Context, send func() error) error {
	for pause := insistFirst; ; pause *= 3 {
		err := send()
		if pause > insistLast || !IsRaced(err) && !IsDeadlock(err) && !fault.HasCode(err, fault.CodeServiceUnavailable) {
			return err
		}
		again := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		case <-again.C:
		}
	}
}
