//go:build chaos

package flow

import (
	"encoding/json"

	"github.com/google/uuid"
)

// Names that exist only in the builds of the crash rig: a workflow that drives its steps as
// runs, as Maps and agents do.
const (
	WorkflowInlineSteps = "InlineSteps"

	// ClaimRun claims the run of a step.
	ClaimRun Activity[InlineStep, RunRef] = "ClaimRun"
)

// InlineSteps is the input of the workflow.
type InlineSteps struct {
	TenantID uuid.UUID    `json:"tenant_id"`
	KeyID    uuid.UUID    `json:"key_id"`
	Calls    []InlineCall `json:"calls"`
}

// InlineCall is a call of one step.
type InlineCall struct {
	Verb string          `json:"verb"`
	Args json.RawMessage `json:"args"`
}

// InlineStep is the input of ClaimRun.
type InlineStep struct {
	TenantID   uuid.UUID  `json:"tenant_id"`
	KeyID      uuid.UUID  `json:"key_id"`
	WorkflowID string     `json:"workflow_id"`
	Index      int        `json:"index"`
	Call       InlineCall `json:"call"`
}
