// Package nextmachine is a second version of the step machine for tests of the change from one to the
// next. It does what the present one does, with one difference: expressions read its version as
// context.machine. Neither takes the states of the other.
package nextmachine

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"agentruntime/internal/kernel/exactjson"
	"agentruntime/internal/kernel/stepmachine"
)

// Version is that of the machine.
const Version = stepmachine.Version + 1

// Machines are the present machine and this one, which new executions run on.
func Machines() stepmachine.Machines {
	return stepmachine.Machines{stepmachine.Version: stepmachine.This{}, Version: machine{}}
}

// machine implements stepmachine.Machine.
type machine struct{ stepmachine.This }

func (m machine) Start(p *stepmachine.Program, now time.Time, b stepmachine.Beginning) (stepmachine.Execution, []stepmachine.Command) {
	context := map[string]json.RawMessage{}
	_ = json.Unmarshal(b.Context.JSON, &context) // it is an object, or not there
	context["machine"] = number(Version)
	text, err := exactjson.Encode(context)
	if err != nil {
		panic(err) // texts and numbers
	}
	b.Context = stepmachine.Of(text)
	x, commands := m.This.Start(p, now, b)
	return execution{x}, commands
}

func (m machine) Resume(p *stepmachine.Program, state json.RawMessage, least int) (stepmachine.Execution, error) {
	inner, err := renumbered(state, Version, stepmachine.Version)
	if err != nil {
		return nil, err
	}
	x, err := m.This.Resume(p, inner, least)
	return execution{x}, err
}

// execution implements stepmachine.Execution.
type execution struct{ stepmachine.Execution }

func (x execution) Encode() (json.RawMessage, error) {
	state, err := x.Execution.Encode()
	if err != nil {
		return nil, err
	}
	return renumbered(state, stepmachine.Version, Version)
}

// renumbered returns the state of one version as that of another.
func renumbered(state json.RawMessage, from, to int) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(state, &members); err != nil {
		return nil, fmt.Errorf("read a state: %w", err)
	}
	if got := members["version"]; string(got) != string(number(from)) {
		return nil, fmt.Errorf("the state is of version %s, and not %d", got, from)
	}
	members["version"] = number(to)
	return exactjson.Encode(members)
}

func number(n int) json.RawMessage { return json.RawMessage(strconv.Itoa(n)) }
