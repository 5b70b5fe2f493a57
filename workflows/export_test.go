package workflows

import (
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// Kept returns what is left to write when activities have given these back, one after the other.
func Kept(given ...flow.MapWrites) flow.MapWrites {
	m := &mapRun{}
	for _, w := range given {
		m.keepWrites(w, stepmachine.Ref{}, uuid.Nil, time.Time{})
	}
	return flow.MapWrites{Commands: m.written, Kept: m.kept}
}
