package stepmachine

import (
	"encoding/json"
	"fmt"
	"strings"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/mapdef"
)

// Program is a definition made ready for the machine. It is immutable and safe for concurrent
// use, so that all executions of a version share one.
type Program struct {
	def     *mapdef.Definition
	steps   map[string]*mapdef.Step      // by pointer
	ids     map[string]*mapdef.Step      // by id
	lists   map[string][]mapdef.Step     // by pointer of the list
	schemas map[string]*argschema.Schema // of results and values, by pointer of the step
	payload *argschema.Schema            // nil where any payload fits
	read    map[string]bool              // ids of the steps whose output an expression reads
}

// The pointers of the lists of a definition.
const (
	mainList      = "/steps"
	onFailureList = "/on_failure"
)

// Compile makes a program of a definition that mapdef has accepted. The error names the step
// whose schema cannot be judged.
func Compile(d *mapdef.Definition) (*Program, error) {
	p := &Program{
		def:     d,
		steps:   map[string]*mapdef.Step{},
		ids:     map[string]*mapdef.Step{},
		lists:   map[string][]mapdef.Step{mainList: d.Steps, onFailureList: d.OnFailure},
		schemas: map[string]*argschema.Schema{},
		read:    map[string]bool{},
	}
	var failed error
	add := func(s *mapdef.Step) {
		p.steps[s.Pointer] = s
		p.ids[s.ID] = s
		for _, b := range s.Blocks() {
			p.lists[b.Pointer] = b.Steps
		}
		for _, what := range expressionsOf(s) {
			for _, r := range p.expression(s, what).References().Steps {
				p.read[r.ID] = p.read[r.ID] || r.Field == expression.Output
			}
		}
		if schema := schemaOf(s); schema != nil {
			compiled, err := argschema.Compile(schema)
			if err != nil {
				failed = fmt.Errorf("compile %s: %w", s.Pointer, err)
				return
			}
			p.schemas[s.Pointer] = compiled
		}
	}
	mapdef.Walk(d.Steps, add)
	mapdef.Walk(d.OnFailure, add)
	if failed != nil {
		return nil, failed
	}
	if d.TriggerSchema != nil {
		compiled, err := argschema.Compile(d.TriggerSchema)
		if err != nil {
			return nil, fmt.Errorf("compile /trigger_schema: %w", err)
		}
		p.payload = compiled
	}
	for _, r := range d.Output.References().Steps {
		p.read[r.ID] = true
	}
	return p, nil
}

// CheckPayload returns what is wrong with the payload of a trigger, by the definition's
// trigger_schema; nil where it fits and where there is no schema. Paths begin with /payload.
func (p *Program) CheckPayload(payload json.RawMessage) []fault.Detail {
	if p.payload == nil {
		return nil
	}
	details := p.payload.Validate(payload)
	for i, d := range details {
		details[i].Path = "/payload" + strings.TrimPrefix(d.Path, "/args")
	}
	return details
}

// Definition returns what the program was made of.
func (p *Program) Definition() *mapdef.Definition { return p.def }

// schemaOf returns the schema that the output of a step has to fit; nil where there is none.
func schemaOf(s *mapdef.Step) json.RawMessage {
	switch do := s.Do.(type) {
	case *mapdef.DoVerb:
		return do.Expect
	case *mapdef.DoValidate:
		return do.Schema
	case *mapdef.DoExtract:
		return do.Schema
	case *mapdef.DoAgent:
		return do.OutputSchema
	default:
		return nil
	}
}
