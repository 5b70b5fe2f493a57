package app

import (
	"time"

	"agentruntime/internal/edge/jqchild"
)

// Bounds of the jq programs that shape results, and find errors in them. They have children of their own, so that they delay
// no Map. A tenant has programsOfTenant at once, and the others still find one.
const (
	programChildren  = 3
	programsOfTenant = 2
	programTime      = 100 * time.Millisecond // of the processor
	// programReading is for each MiB of a result: decoding one, and collecting its garbage, takes 15 to
	// 70 ms of the processor.
	programReading = 100 * time.Millisecond
	// programHere is how much of a result a program may read in this process. One that reads more, such as a
	// long path into a large result, takes its turn.
	programHere = 16 << 20
	// programWait is how long a call that has its result waits to have it cut.
	programWait = 5 * time.Second
)

// programBounds are those of docs/use/results.md.
func programBounds() jqchild.Config {
	return jqchild.Config{Children: programChildren, Share: programsOfTenant, Time: programTime, Reading: programReading, Here: programHere, Wait: programWait}
}

func (a *App) buildPrograms() (err error) {
	a.programs, err = jqchild.New(programBounds())
	if err == nil {
		a.onClose(a.programs.Close)
	}
	return err
}
