package workflows

import (
	"time"

	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/stepmachine"
)

// The step machine is pure: the same program, state, time and event give the same bytes, which its
// tests show. The check for determinism does not know that of the JSON reader and the schemas that
// it uses, so the calls are here, each once.

// firstMachine is the version of the machine of executions whose histories began before their rows were
// asked for it.
const firstMachine = 1

// machineOf returns the machine of a version. Where this worker has none, the workflow task fails, and a
// worker that has it takes the task: the execution stands still until then.
func machineOf(known stepmachine.Machines, version int) stepmachine.Machine {
	if version == 0 {
		version = firstMachine
	}
	machine, err := known.Of(version) //workflowcheck:ignore
	if err != nil {
		panic(err)
	}
	return machine
}

func compile(source []byte) (*stepmachine.Program, error) {
	return compiled.Of(source) //workflowcheck:ignore
}

func start(m stepmachine.Machine, p *stepmachine.Program, now time.Time, b stepmachine.Beginning) (stepmachine.Execution, []stepmachine.Command) {
	return m.Start(p, now, b) //workflowcheck:ignore
}

func resume(m stepmachine.Machine, p *stepmachine.Program, state flow.MachineState, least int) (stepmachine.Execution, error) {
	return m.Resume(p, state, least) //workflowcheck:ignore
}

func next(x stepmachine.Execution, now time.Time, e stepmachine.Event) ([]stepmachine.Command, error) {
	return x.Next(now, e) //workflowcheck:ignore
}

func encodeState(x stepmachine.Execution) (flow.MachineState, error) {
	return x.Encode() //workflowcheck:ignore
}

func bytesOf(in flow.MapInput) (int, error) {
	return in.Bytes() //workflowcheck:ignore
}

func unsettled(x stepmachine.Execution) (calls []stepmachine.Command) {
	for _, c := range x.Unsettled() { //workflowcheck:ignore
		calls = append(calls, c)
	}
	return calls
}

// compiled has the programs of the versions that this process ran last. What a program is depends on
// its text alone, so it does not matter who made it.
var compiled = stepmachine.NewPrograms() //nolint:gochecknoglobals // workflows are functions, and have nobody who could give it to them
