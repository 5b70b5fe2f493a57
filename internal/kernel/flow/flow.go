// Package flow is the Temporal contract of the service: names of workflows,
// activities and queues, the form of workflow IDs, and the inputs and results that
// cross the boundary. Engine, workflows, activities and the run domain share it. It has no
// logic, and no payload with an argument or a secret in it, only ids.
package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/kernel/fault"
)

// QueueActions is the task queue of action runs.
const QueueActions = "actions"

// CachedWorkflows is how many workflows a process keeps in memory between their tasks,
// about 20 KB each. Runs under way are far fewer; of those that wait for approval, most
// are read again from their history at the decision, which takes a few
// milliseconds. The first worker of a process decides for all, and Temporal's server has
// some of its own.
const CachedWorkflows = 2048

// An Activity is the name under which an activity is registered, with the types that
// cross Temporal: I goes in, O comes out. The stub in workflows and the registration in
// worker both name it, so the two agree or do not compile.
type Activity[I, O any] string

// Names under which workflows, activities, updates and signals are registered. Recorded
// histories contain them: renaming one breaks every open workflow.
const (
	WorkflowActionRun = "ActionRun"

	// GovernRun and SendRun are the steps of a governed call. ActionRun drives them for a
	// call over HTTP; another workflow drives them for a step of its own, after its claim.
	GovernRun Activity[RunRef, Step] = "GovernRun"
	SendRun   Activity[RunRef, Step] = "SendRun"
	// DecideRun counts one decision about a run that waits for approval.
	DecideRun Activity[DecisionInput, Decided] = "DecideRun"
	// RejectRun ends a run that waits for approval, for an operator of Temporal.
	RejectRun Activity[RunRef, Step] = "RejectRun"
	// HandOverRun gives a run that has to wait to an ActionRun workflow of its own.
	HandOverRun Activity[HandOver, Step] = "HandOverRun"
	// LookAtRun reads how far a run is that another workflow drives.
	LookAtRun Activity[RunRef, Step] = "LookAtRun"

	// UpdateAdmit does nothing but be accepted: Update-with-Start hands the first
	// workflow task straight to a worker.
	UpdateAdmit = "admit"
	// UpdateDecide counts one decision about a run that waits for approval (Decision in,
	// Decided out).
	UpdateDecide = "decide"

	// SignalReject rejects a run that waits for approval. Operators can send it in the
	// Temporal UI: a signal names nobody, so it can only stop the call.
	SignalReject = "reject"
	// SignalRecheck has a waiting run look at its row again.
	SignalRecheck = "recheck"
	// SignalRunEnded tells the workflow that handed a run over that the run has ended. It
	// carries the run's RunRef.
	SignalRunEnded = "run_ended"
)

// RunRef names a claim of a run: the row, and the attempt that a workflow acts for. A row
// that was claimed again since is left alone. Everything else about the run is in its row.
type RunRef struct {
	TenantID uuid.UUID `json:"tenant_id"`
	RunID    uuid.UUID `json:"run_id"`
	Attempt  int32     `json:"attempt"`
}

// ActionRunInput starts an ActionRun workflow.
type ActionRunInput struct {
	RunRef
	// Parent is the workflow to signal when the run has ended; "" where nobody waits.
	Parent string `json:"parent,omitempty"`
}

// HandOver gives a run to an ActionRun workflow.
type HandOver struct {
	RunRef
	// Parent is the workflow that gives it away, and is told of its end.
	Parent string `json:"parent"`
}

// Step is what a step of the run came to.
type Step struct {
	// State of the run's row after the step.
	State State `json:"state"`
	// Done: the run has ended, or is not this workflow's any longer.
	Done bool `json:"done"`
	// After is how long to wait before the step is tried again, when not Done; for a run
	// that waits for approval, how long its approval waits.
	After time.Duration `json:"after"`
	// ApprovalID is the approval that the run waits for; "" where it waits for none.
	ApprovalID string `json:"approval_id,omitempty"`
}

// Decision names a decision about an approval. What the approver said is in its row.
type Decision struct {
	ApprovalID string    `json:"approval_id"`
	DecisionID uuid.UUID `json:"decision_id"`
}

// DecisionInput is a decision on its way to the run's row.
type DecisionInput struct {
	Run      RunRef   `json:"run"`
	Decision Decision `json:"decision"`
}

// Decided is what became of a decision.
type Decided struct {
	// Code is why it does not count; "" where it does.
	Code fault.Code `json:"code,omitempty"`
	// Closed: the approval waits for no further decision.
	Closed bool `json:"closed"`
}

// RunResult is the result of the workflow, for the operator's eye.
type RunResult struct {
	State State `json:"state"`
}

// RunWorkflowID names the workflow of the run that first claimed key. The key is
// hashed: it is the caller's text and may contain anything.
func RunWorkflowID(tenant uuid.UUID, key string) string {
	sum := sha256.Sum256([]byte(key))
	return runPrefix + tenant.String() + ":" + hex.EncodeToString(sum[:])
}

// HoldSummary is what operators read of a timer that waits for approval: where to decide,
// and what they can do themselves.
func HoldSummary(approvalID string) string {
	return "waits for " + approvalID + " · decide it at /v1/approvals/" + approvalID + " · the signal " + SignalReject + " stops the call"
}

// RunSummary is the one line that operators read in the list of workflows:
// "provider:verb · risk".
func RunSummary(verb, risk string) string { return verb + " · " + risk }

// runPrefix begins the ids of ActionRun workflows, and of no others.
const runPrefix = "run:"

// IsActionRun reports whether the id is that of an ActionRun workflow. These take the
// update UpdateDecide; no other workflow does.
func IsActionRun(workflowID string) bool { return strings.HasPrefix(workflowID, runPrefix) }
