// Package flow is the Temporal contract of the service: names of workflows,
// activities and queues, the form of workflow IDs, and the inputs and results that
// cross the boundary. Engine, workflows and activities share it; it holds no logic
// and no payload with an argument or a secret in it, only ids.
package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// QueueActions is the task queue of action runs.
const QueueActions = "actions"

// CachedWorkflows is how many workflows a process keeps in memory between their tasks,
// about 20 KB each. Runs under way are far fewer; of those that wait for a human, most
// are read anew from their history when somebody decides, which takes a few
// milliseconds. The first worker of a process decides for all, and Temporal's server has
// some of its own.
const CachedWorkflows = 2048

// Names under which workflows, activities and updates are registered. Recorded
// histories hold them: renaming one breaks every open workflow.
const (
	WorkflowActionRun = "ActionRun"

	ActivityGovernRun = "GovernRun"
	ActivitySendRun   = "SendRun"
	ActivityDecideRun = "DecideRun"
	ActivityRejectRun = "RejectRun"

	// UpdateAdmit does nothing but be accepted: Update-with-Start hands the first
	// workflow task straight to a worker.
	UpdateAdmit = "admit"
	// UpdateDecide counts one decision about a held run (Decision in, Decided out).
	UpdateDecide = "decide"

	// SignalReject rejects a held run. It is what an operator can do in the Temporal UI:
	// a signal names nobody, so it can only stop the call.
	SignalReject = "reject"
	// SignalRecheck has a held run look at its row again.
	SignalRecheck = "recheck"
)

// RunInput starts an action run. Everything else about the run is in its row.
type RunInput struct {
	TenantID string `json:"tenant_id"`
	RunID    string `json:"run_id"`
	// Attempt is the claim this workflow acts for. A row that was claimed anew
	// since is left alone.
	Attempt int32 `json:"attempt"`
}

// RunStep is what a step of the run came to.
type RunStep struct {
	// State of the run's row after the step.
	State string `json:"state"`
	// Done: the run has ended, or is not this workflow's any more.
	Done bool `json:"done"`
	// After is how long to wait before the step is tried again, when not Done; of a
	// held run, how long its approval waits.
	After time.Duration `json:"after"`
	// ApprovalID is set where a human has to release the run.
	ApprovalID string `json:"approval_id,omitempty"`
}

// Decision names what somebody decided about a held run. What he said is in its row.
type Decision struct {
	ApprovalID string `json:"approval_id"`
	DecisionID string `json:"decision_id"`
}

// DecisionInput is a decision on its way to the run's row.
type DecisionInput struct {
	Run      RunInput `json:"run"`
	Decision Decision `json:"decision"`
}

// Decided is what became of a decision.
type Decided struct {
	// Code is why it does not count; "" where it does.
	Code string `json:"code,omitempty"`
	// Closed: the approval waits for no more decisions.
	Closed bool `json:"closed"`
}

// RunResult is the result of the workflow, for the operator's eye.
type RunResult struct {
	State string `json:"state"`
}

// RunWorkflowID names the workflow of the run that first claimed key. The key is
// hashed: it is the caller's text and may hold anything.
func RunWorkflowID(tenantID, key string) string {
	sum := sha256.Sum256([]byte(key))
	return "run:" + tenantID + ":" + hex.EncodeToString(sum[:])
}

// HoldSummary is what operators read of a timer that waits for a human: where to decide,
// and what they can do themselves.
func HoldSummary(approvalID string) string {
	return "waits for " + approvalID + " · decide it at /v1/approvals/" + approvalID + " · the signal " + SignalReject + " stops the call"
}

// RunSummary is the one line that operators read in the list of workflows:
// "provider:verb · risk".
func RunSummary(verb, risk string) string { return verb + " · " + risk }
