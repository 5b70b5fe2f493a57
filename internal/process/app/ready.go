package app

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"agentruntime/db"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/edge/engine"
)

// ready reports what is missing for the process to do its work: Postgres must be migrated and take
// a write, and Temporal must answer. The error is the fault SERVICE_UNAVAILABLE; its details name
// each part that is away. Where the process can work and operators should do something, ready
// returns what, in words.
func (a *App) ready(ctx context.Context) (warnings []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	var temporal error
	var both sync.WaitGroup
	both.Go(func() { temporal = a.engine.Ready(ctx) })
	postgres := a.writes.try(ctx, func(ctx context.Context) error {
		if err := a.pool.CheckSchema(ctx); errors.Is(err, db.ErrNotMigrated) {
			return err
		}
		return a.pool.TryWrite(ctx)
	})
	both.Wait()
	if away := partsAway(postgres, temporal); away != nil {
		return nil, away
	}
	if !a.roles.Worker && errors.Is(a.polls.try(ctx, a.engine.Polled), engine.ErrNoWorker) {
		warnings = append(warnings, "No worker polls: runs are accepted and wait. Start `agentruntime worker` with the same TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE.")
	}
	warnings = append(warnings, a.engine.Warnings()...)
	if a.sender != nil {
		warnings = append(warnings, a.sender.Warnings()...)
	}
	return warnings, nil
}

// partsAway returns the fault that names the parts that failed, or nil.
func partsAway(postgres, temporal error) error {
	var away []fault.Detail
	switch {
	case errors.Is(postgres, db.ErrNotMigrated):
		away = append(away, fault.Detail{Path: "postgres", Rule: "not_migrated", Message: "The database is not migrated to this release: run `agentruntime migrate`."})
	case postgres != nil:
		away = append(away, fault.Detail{Path: "postgres", Rule: "away", Message: "Postgres does not take a write."})
	}
	if temporal != nil {
		away = append(away, fault.Detail{Path: "temporal", Rule: "away", Message: "Temporal does not answer."})
	}
	if away == nil {
		return nil
	}
	var words []string
	for _, part := range away {
		words = append(words, part.Message)
	}
	f := fault.New(fault.CodeServiceUnavailable, "Not ready. "+strings.Join(words, " "))
	f.Details = away
	return f.Because(errors.Join(postgres, temporal))
}

// triedEvery is how often readyz tries a part; in between it answers by the last result.
// Anybody may ask readyz, as often as they like.
const triedEvery = time.Second

// readyWait is how long readyz waits for Postgres, and for Temporal.
const readyWait = 2 * time.Second

// trial is something that is tried now and then.
type trial struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

func (t *trial) try(ctx context.Context, attempt func(context.Context) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.at) >= triedEvery {
		// One caller asks for all, so it does not matter whether this one stays.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyWait)
		defer cancel()
		t.err = attempt(ctx)
		t.at = time.Now()
	}
	return t.err
}
