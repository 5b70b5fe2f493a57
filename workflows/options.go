package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// faultRetry is for faults of ours (Postgres away, a bug): business outcomes are
// results and never retried. It goes on for as long as the step may take in all, so
// a run outlives an outage.
func faultRetry() *temporal.RetryPolicy {
	return &temporal.RetryPolicy{
		InitialInterval:    100 * time.Millisecond,
		BackoffCoefficient: 2,
		MaximumInterval:    5 * time.Second,
	}
}

// stepOptions are for steps that only talk to our database.
func stepOptions() workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		StartToCloseTimeout:    10 * time.Second,
		ScheduleToCloseTimeout: 24 * time.Hour,
		RetryPolicy:            faultRetry(),
	}
}

// decideOptions are for the counting of a decision. Who decides is told of a fault and
// tries again, so it gives up soon: until then no other decision is counted.
func decideOptions() workflow.LocalActivityOptions {
	opts := stepOptions()
	opts.ScheduleToCloseTimeout = time.Minute
	return opts
}

// sendOptions leave room for the longest provider call (60 s) and for recording
// its outcome through an outage of Postgres: an outcome that is known must not be
// lost to a timeout of ours.
func sendOptions() workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		StartToCloseTimeout:    3 * time.Minute,
		ScheduleToCloseTimeout: 24 * time.Hour,
		RetryPolicy:            faultRetry(),
	}
}
