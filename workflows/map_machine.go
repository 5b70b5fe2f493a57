package workflows

import (
	"time"

	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/stepmachine"
)

// The step machine is pure: the same program, state, time and event give the same bytes, which its
// tests show. The check for determinism does not know that of the JSON reader and the schemas that
// it uses, so the calls are here, each once.

func compile(source []byte) (*stepmachine.Program, error) {
	return compiled.Of(source) //workflowcheck:ignore
}

func start(p *stepmachine.Program, now time.Time, b stepmachine.Beginning) (*stepmachine.State, []stepmachine.Command) {
	return stepmachine.Start(p, now, b) //workflowcheck:ignore
}

func next(p *stepmachine.Program, s *stepmachine.State, now time.Time, e stepmachine.Event) (*stepmachine.State, []stepmachine.Command, error) {
	return stepmachine.Next(p, s, now, e) //workflowcheck:ignore
}

func encodeState(s *stepmachine.State) (flow.MachineState, error) {
	raw, err := s.Encode() //workflowcheck:ignore
	return raw, err
}

func decodeState(raw flow.MachineState) (*stepmachine.State, error) {
	return stepmachine.Decode(raw) //workflowcheck:ignore
}

func unsettled(p *stepmachine.Program, s *stepmachine.State) (calls []stepmachine.Command) {
	for _, c := range stepmachine.Unsettled(p, s) { //workflowcheck:ignore
		calls = append(calls, c)
	}
	return calls
}

// compiled has the programs of the versions that this process ran last. What a program is depends on
// its text alone, so it does not matter who made it.
var compiled = stepmachine.NewPrograms() //nolint:gochecknoglobals // workflows are functions, and have nobody who could give it to them
