package app

import (
	"context"
	"sync"
	"time"
)

// ready reports what is missing for the process to do its work: Postgres must take a write,
// and Temporal must answer. Where the process can work and operators should do something, it
// returns what, in words.
func (a *App) ready(ctx context.Context) (warnings []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if err := a.writes.try(ctx, a.pool.TryWrite); err != nil {
		return nil, err
	}
	if err := a.engine.Ready(ctx); err != nil {
		return nil, err
	}
	warnings = a.engine.Warnings()
	if a.sender != nil {
		warnings = append(warnings, a.sender.Warnings()...)
	}
	return warnings, nil
}

// triedEvery is how often readyz tries a write; in between it answers by the last result.
// Anybody may ask readyz, as often as they like.
const triedEvery = time.Second

// readyWait is how long readyz waits for Postgres, and for Temporal.
const readyWait = 2 * time.Second

// trial is a write that is tried now and then.
type trial struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

func (t *trial) try(ctx context.Context, write func(context.Context) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.at) >= triedEvery {
		// One caller asks for all, so it does not matter whether this one stays.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyWait)
		defer cancel()
		t.err = write(ctx)
		t.at = time.Now()
	}
	return t.err
}
