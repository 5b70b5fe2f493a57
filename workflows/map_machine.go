package workflows

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	"agentruntime/internal/kernel/bytelru"
	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/mapdef"
	"agentruntime/internal/kernel/stepmachine"
)

// The step machine is pure: the same program, state, time and event give the same bytes, which its
// tests show. The check for determinism does not know that of the JSON reader and the schemas that
// it uses, so the calls are here, each once.

func compile(source json.RawMessage) (*stepmachine.Program, error) {
	return compiled.program(source) //workflowcheck:ignore
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

// mostCompiled is how many bytes of programs a process keeps for its executions.
const mostCompiled = 32 << 20

// compiled has the programs of the versions that this process ran last. To read and compile a
// definition takes longer than all else that the machine does for a short execution.
var compiled = newPrograms()

type programs struct {
	kept *bytelru.Cache[[sha256.Size]byte, *stepmachine.Program]
}

func newPrograms() programs {
	kept, err := bytelru.New[[sha256.Size]byte, *stepmachine.Program](mostCompiled)
	if err != nil {
		panic(err)
	}
	return programs{kept}
}

// program returns the program of a definition that was stored.
func (p programs) program(source json.RawMessage) (*stepmachine.Program, error) {
	text := sha256.Sum256(source)
	if known, is := p.kept.Get(text); is {
		return known, nil
	}
	d := &mapdef.Definition{}
	if err := json.Unmarshal(source, d); err != nil {
		return nil, err
	}
	made, err := stepmachine.Compile(d)
	if err != nil {
		return nil, err
	}
	p.kept.Add(text, made, d.Size(), nil)
	return made, nil
}
