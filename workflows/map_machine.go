package workflows

import (
	"time"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// The step machine is pure: the same program, state, time and event give the same bytes, which its
// tests show. The check for determinism does not know that of the JSON reader and the schemas that
// it uses, so the calls are here, each once.

func compile(source []byte) (*stepmachine.Program, error) {
	return compiled.Of(source) //workflowcheck:ignore
}

func start(p *stepmachine.Program, now time.Time, b stepmachine.Beginning) (*stepmachine.Execution, []stepmachine.Command) {
	return stepmachine.Begin(p, now, b) //workflowcheck:ignore
}

func resume(p *stepmachine.Program, state flow.MachineState) (*stepmachine.Execution, error) {
	return stepmachine.Resume(p, state) //workflowcheck:ignore
}

func next(x *stepmachine.Execution, now time.Time, e stepmachine.Event) ([]stepmachine.Command, error) {
	return x.Next(now, e) //workflowcheck:ignore
}

func encodeState(x *stepmachine.Execution) (flow.MachineState, error) {
	return x.Encode() //workflowcheck:ignore
}

func bytesOf(in flow.MapInput) (int, error) {
	return in.Bytes() //workflowcheck:ignore
}

func unsettled(x *stepmachine.Execution) (calls []stepmachine.Command) {
	for _, c := range x.Unsettled() { //workflowcheck:ignore
		calls = append(calls, c)
	}
	return calls
}

// compiled has the programs of the versions that this process ran last. What a program is depends on
// its text alone, so it does not matter who made it.
var compiled = stepmachine.NewPrograms() //nolint:gochecknoglobals // workflows are functions, and have nobody who could give it to them
