package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// A Driver is the kind of workflow that drives a run. The run's row names it, beside the workflow.
type Driver string

// The drivers. Rows store them as text.
const (
	// DriverRun is a workflow of the run's own. It takes the update UpdateDecide; the others do not.
	DriverRun Driver = "run"
	// DriverMap is the workflow of the Map that the run is a step of.
	DriverMap Driver = "map"
	// DriverMessage is that of the message or goal that an agent works at.
	DriverMessage Driver = "message"
	// DriverChanges applies the changes of a dry run.
	DriverChanges Driver = "changes"
)

// RunWorkflowID returns the id of the workflow of the run that first claimed key.
func RunWorkflowID(tenant uuid.UUID, key string) string {
	return workflowID("run", key, tenant, key, 1)
}

// mostKnown bounds the part of a workflow's id that people know.
const mostKnown = 80

// workflowID returns `<kind>/<what people know>/<16 hex digits>`. known may be a caller's text: of it
// 80 letters of [A-Za-z0-9_.:-] are kept, and others become "-". The digits are of the SHA-256 of the
// tenant, the kind, the row or the key, and the attempt, so they tell workflows apart. People read an
// id; no program reads parts of it.
func workflowID(kind, known string, tenant uuid.UUID, row string, attempt int32) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d", tenant, kind, row, attempt))
	return kind + "/" + readable(known) + "/" + hex.EncodeToString(sum[:8])
}

// readable keeps of a text what may be in a workflow's id.
func readable(text string) string {
	b := make([]byte, 0, mostKnown)
	for _, c := range text {
		if len(b) == mostKnown {
			break
		}
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("_.:-", c) {
			c = '-'
		}
		b = append(b, byte(c))
	}
	return string(b)
}

// ExecutionID returns the execution_id of a Map's execution, of a message, or of the call of a step or an agent,
// that has the id.
func ExecutionID(id uuid.UUID) string { return "exec_" + id.String() }
