package activities

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/share"
)

// How many activities that wait for models a process runs at once: those of messages, and those of
// steps of Maps. Package worker sets its slots by them.
const (
	AnswerSlots = 512
	AskSlots    = 256
)

// modelPlaces divides the slots of a queue whose activities wait for models, for seconds or for minutes.
// A tenant gets at most 7 of 16. Some wait for a place in their slot, by turns. An eighth of the slots is
// left for those that find no place and end at once.
func modelPlaces(slots int) share.Limits {
	return share.Limits{
		Total: slots * 13 / 16, PerOwner: slots * 7 / 16, PerPart: slots * 7 / 16, Waiting: slots / 16, WaitingPerOwner: slots / 64,
	}
}

// placeWait is how long an activity waits for a place in its slot.
const placeWait = 2 * time.Second

// place takes a place for an answer that the tenant waits for. Where none is free, the error has Temporal
// start the activity again later, so that a crowd of one tenant waits outside of the slots.
func place(ctx context.Context, places *share.Pool, tenant uuid.UUID) (leave func(), err error) {
	within, stop := context.WithTimeout(ctx, placeWait)
	defer stop()
	leave, err = places.Take(within, tenant.String(), "")
	switch {
	case err == nil:
		return leave, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, share.ErrFull), errors.Is(err, context.DeadlineExceeded):
		return nil, temporal.NewApplicationErrorWithOptions("the tenant waits for its share of models", string(fault.CodeServiceUnavailable),
			temporal.ApplicationErrorOptions{NextRetryDelay: placePause(ctx)})
	}
	return nil, err
}

// The pauses before an activity that found no place is started again: doubled from the first, and spread.
const (
	placePauseFirst = time.Second
	placePauseMost  = 16 * time.Second
)

func placePause(ctx context.Context) time.Duration {
	attempt := int32(1)
	if activity.IsActivity(ctx) {
		attempt = activity.GetInfo(ctx).Attempt
	}
	pause := min(placePauseFirst<<min(attempt-1, 10), placePauseMost)
	return pause/2 + rand.N(pause) //nolint:gosec // it only spreads the attempts
}
