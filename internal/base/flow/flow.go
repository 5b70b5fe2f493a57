// Package flow is the Temporal contract of the service: the names of workflows, activities
// and queues, the form of workflow ids, and the inputs and results that cross the boundary.
// Engine, workflows, activities and the run domain share it. It has no logic. Its payloads
// contain ids and states, never arguments or secrets.
package flow

import (
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/base/fault"
)

// QueueActions is the task queue of action runs.
const QueueActions = "actions"

// QueueDeliveries is the task queue of webhook deliveries whose first attempt has failed.
const QueueDeliveries = "deliveries"

// QueueCustomers is the task queue of erasures.
const QueueCustomers = "customers"

// CachedWorkflows is how many workflows a process keeps in memory between their tasks,
// about 20 KB each. Far fewer runs are under way at once. Most runs that wait for approval
// leave the cache: the decision reads them from their history again, in a few milliseconds.
// The Temporal SDK has one cache per process. The first worker decides its size, and an
// embedded Temporal server starts workers of its own.
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
	// GiveUpRun ends a run whose steps fail by a fault of ours until its time is over.
	GiveUpRun Activity[RunRef, Step] = "GiveUpRun"
	// LookAtRun reads how far a run is that another workflow drives.
	LookAtRun Activity[RunRef, Step] = "LookAtRun"

	// WorkflowDelivery attempts one delivery again, by the schedule of webhooks, to its end.
	WorkflowDelivery = "Delivery"
	// AttemptDelivery makes one attempt. While more follow, it fails with an error that says when
	// the next one is due, so Temporal shows the schedule.
	AttemptDelivery Activity[DeliveryRef, DeliveryResult] = "AttemptDelivery"

	// WorkflowEraseCustomer erases what is stored about a customer, and EraseNext is its step.
	WorkflowEraseCustomer                                  = "EraseCustomer"
	EraseNext             Activity[CustomerRef, EraseStep] = "EraseNext"

	// UpdateAdmit is only accepted and does nothing. It is sent because Update-with-Start
	// hands the first workflow task straight to a worker.
	UpdateAdmit = "admit"
	// UpdateDecide counts one decision about a run that waits for approval (Decision in,
	// Decided out).
	UpdateDecide = "decide"

	// SignalReject rejects a run that waits for approval. Operators can send it in the
	// Temporal UI. A signal does not say who sent it, so it can only stop the call.
	SignalReject = "reject"
	// SignalRecheck makes a run that waits, for people or for its call, read its row again.
	SignalRecheck = "recheck"
	// SignalRunEnded tells the workflow that handed a run over that the run has ended. It
	// carries the run's RunRef.
	SignalRunEnded = "run_ended"
)

// RunRef names a claim of a run: the row, and the attempt that a workflow acts for. Nothing
// happens to a row that was claimed again since. Everything else about the run is in its row.
type RunRef struct {
	TenantID uuid.UUID `json:"tenant_id"`
	RunID    uuid.UUID `json:"run_id"`
	Attempt  int32     `json:"attempt"`
}

// CustomerRef names a customer that is erased.
type CustomerRef struct {
	TenantID   uuid.UUID `json:"tenant_id"`
	CustomerID uuid.UUID `json:"customer_id"`
}

// EraseStep is the result of erasing a batch.
type EraseStep struct {
	// Done: nothing is left.
	Done bool `json:"done"`
	// Waits: what is left cannot be erased yet, such as a call under way.
	Waits bool `json:"waits,omitempty"`
}

// ErasureWorkflowID returns the id of the workflow that erases the customer.
func ErasureWorkflowID(ref CustomerRef) string {
	return workflowID("erasure", ref.CustomerID.String(), ref.TenantID, ref.CustomerID.String(), 1)
}

// ActionRunInput starts an ActionRun workflow.
type ActionRunInput struct {
	RunRef
	// Parent is the workflow to signal when the run has ended; "" where nobody waits.
	Parent string `json:"parent,omitempty"`
	// ShowsState: AttributeState is registered, so the workflow may set it. To set one that
	// is not registered would fail the workflow's task.
	ShowsState bool `json:"shows_state,omitempty"`
}

// HandOver gives a run to an ActionRun workflow.
type HandOver struct {
	RunRef
	// Parent is the workflow that gives it away, and is told of its end.
	Parent string `json:"parent"`
}

// Step is the result of a step of the run.
type Step struct {
	// State of the run's row after the step.
	State State `json:"state"`
	// Done: the run has ended, or is no longer this workflow's.
	Done bool `json:"done"`
	// After is how long to wait before the step is tried again, when not Done. For a run
	// that waits for approval it is how long the approval waits.
	After time.Duration `json:"after"`
	// ApprovalID is the approval that the run waits for; "" where it waits for none.
	ApprovalID string `json:"approval_id,omitempty"`
	// UnderWay: a call is at the provider or waits for its turn. SignalRecheck says that it
	// has ended.
	UnderWay bool `json:"under_way,omitempty"`
	// SwitchedOff: a kill switch covers the run, which waits until it is lifted.
	SwitchedOff bool `json:"switched_off,omitempty"`
	// Left is how long such a run may wait; 0 where that time does not count.
	Left time.Duration `json:"left,omitempty"`
	// Details tell operators who can decide, where and until when, for a run that waits for
	// approval. HoldDetails writes them.
	Details string `json:"details,omitempty"`
}

// Asked returns the approval that the run waits for. before is the one that it waited for when it was
// last looked at: a look at a run of another workflow shows its state only.
func (s Step) Asked(before string) string {
	if s.ApprovalID == "" && s.State == StatePending {
		return before
	}
	return s.ApprovalID
}

// Decision names a decision about an approval. The decision's row has what the approver
// said.
type Decision struct {
	ApprovalID string    `json:"approval_id"`
	DecisionID uuid.UUID `json:"decision_id"`
}

// DecisionInput is the input of DecideRun: the run, and the decision to count.
type DecisionInput struct {
	Run      RunRef   `json:"run"`
	Decision Decision `json:"decision"`
}

// Decided is the result of counting a decision.
type Decided struct {
	// Code is why the decision does not count; "" where it counts.
	Code fault.Code `json:"code,omitempty"`
	// Why says so in words where the code alone does not; otherwise "".
	Why string `json:"why,omitempty"`
	// Closed: the approval no longer waits for decisions.
	Closed bool `json:"closed"`
}

// RunResult is the result of the workflow. Only operators read it, in the Temporal UI.
type RunResult struct {
	State State `json:"state"`
}
