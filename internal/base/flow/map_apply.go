package flow

import "github.com/google/uuid"

// KindChanges is the apply of the changes of a dry run of a Map.
const KindChanges Kind = "changes"

// Names under which the workflow that applies the changes of a dry run, and its activities, are
// registered.
const (
	WorkflowApplyChanges = "ApplyChanges"

	// BeginChange claims the run of the next change, governs and sends it.
	BeginChange Activity[ApplyRef, ApplyStep] = "BeginChange"
	// GoOnWithChange takes that run further, or reads how it ended.
	GoOnWithChange Activity[ApplyCall, ApplyStep] = "GoOnWithChange"
)

// ApplyRef names a dry run whose changes are applied. Rows have everything else.
type ApplyRef struct {
	TenantID uuid.UUID `json:"tenant_id"`
	ID       uuid.UUID `json:"id"`
}

// ApplyStep is how far the changes are.
type ApplyStep struct {
	// Over: no further change is applied.
	Over bool `json:"over,omitempty"`
	// Change is the id of the one that is applied, Run its run. Step is that of the run; the change
	// has ended where it is Done.
	Change     string `json:"change,omitempty"`
	Verb       string `json:"verb,omitempty"` // what it calls, for operators to read
	Run        RunRef `json:"run"`
	Step       Step   `json:"step"`
	HandedOver bool   `json:"handed_over,omitempty"`
}

// ApplyCall names the change that is applied, and its run.
type ApplyCall struct {
	ApplyRef
	Change string `json:"change"`
	Run    RunRef `json:"run"`
	// HandOver gives the run to a workflow of its own. Look: that workflow drives it, and it is only
	// read.
	HandOver bool `json:"hand_over,omitempty"`
	Look     bool `json:"look,omitempty"`
}

// ApplyResult is the result of the workflow.
type ApplyResult struct {
	// Changes counts those that this history has ended.
	Changes int32 `json:"changes"`
}

// ApplyWorkflowID returns the id of the workflow that applies the changes of a dry run.
func ApplyWorkflowID(ref ApplyRef) string {
	return workflowID("changes", ExecutionID(ref.ID), ref.TenantID, ref.ID.String(), 1)
}
