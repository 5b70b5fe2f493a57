package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/base/flow"
)

// faultRetry is for faults of ours (Postgres away, a bug). What the business decides is a
// result and never retried. It retries until the step's whole time is over, so that a run
// survives an outage.
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

// Pauses between the tries of a step that fails by a fault of ours, doubled from the first.
const (
	faultPause     = time.Second
	faultPauseMost = 10 * time.Second
	// A run that waits for people may fail for days. After faultsSoon tries, half an hour, the
	// pauses are faultPauseLong: a history has at most 51,200 events, and a try makes eight.
	faultsSoon     = 180
	faultPauseLong = 5 * time.Minute
)

// faultOptions are for the steps that untilDone repeats. Two tries bridge a fault of a moment,
// such as a connection that Postgres has closed.
func faultOptions() workflow.LocalActivityOptions {
	retry := faultRetry()
	retry.MaximumAttempts = 2
	return workflow.LocalActivityOptions{StartToCloseTimeout: 10 * time.Second, ScheduleToCloseTimeout: 30 * time.Second, RetryPolicy: retry}
}

// evaluateOptions are for the evaluation of an expression. It may wait for its turn and for a child
// process, and then take its own time. An end before that would be a fault, after which it is made
// again: on a busy machine, an expression that passes its bounds would be evaluated again and again.
func evaluateOptions() workflow.LocalActivityOptions {
	opts := faultOptions()
	opts.StartToCloseTimeout, opts.ScheduleToCloseTimeout = 70*time.Second, 150*time.Second
	return opts
}

// attemptOptions are for the attempts of a delivery. The errors of the activity say when the next
// one follows; the policy counts where a worker dies or the database is away. The row bounds the
// attempts, so the policy does not.
func attemptOptions() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute, // four times what an attempt may take
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 30 * time.Second, BackoffCoefficient: 1},
	}
}

// modelOptions are for one answer of a model. The activity bounds the time of the model and returns
// its failure as a result, so the policy is for faults of ours and for a worker that has died: it
// is missed after heartbeatTimeout.
func modelOptions(within time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue: flow.QueueModels, StartToCloseTimeout: modelTimeout, ScheduleToCloseTimeout: within, HeartbeatTimeout: heartbeatTimeout,
		RetryPolicy: faultRetry(),
	}
}

// answerOptions are for one answer to a message. The activity bounds its time and returns failures as
// results, so the policy is for faults of ours and for a worker that has died. It runs on the queue of
// the workflow, so that the server hands it to the same worker at once.
func answerOptions() workflow.ActivityOptions {
	return workflow.ActivityOptions{StartToCloseTimeout: answerTimeout, HeartbeatTimeout: heartbeatTimeout, RetryPolicy: faultRetry()}
}

// answerTimeout is more than an answer with all retries and fallbacks of its model may take: the wall
// clock of the message, which is at most an hour, bounds it.
const answerTimeout = 70 * time.Minute

const (
	modelTimeout     = 3 * time.Minute
	heartbeatTimeout = 20 * time.Second
)

// eraseOptions are for one batch of an erasure. It is a regular activity, so that operators see
// why one fails, and tries until it succeeds.
func eraseOptions() workflow.ActivityOptions {
	retry := faultRetry()
	retry.InitialInterval, retry.MaximumInterval = time.Second, 5*time.Minute
	return workflow.ActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: retry}
}

// Pauses of an erasure that waits for calls, doubled from the first, and after how many steps it
// continues in a new history.
const (
	erasePause     = time.Minute
	erasePauseMost = time.Hour
	eraseSteps     = 1000
)

// decideOptions are for the counting of a decision. Approvers hear of a fault and can try
// again, so the step gives up soon: until then no other decision is counted.
func decideOptions() workflow.LocalActivityOptions {
	opts := stepOptions()
	opts.ScheduleToCloseTimeout = time.Minute
	return opts
}
