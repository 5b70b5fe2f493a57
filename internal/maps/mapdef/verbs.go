package mapdef

import (
	"slices"

	"agentruntime/internal/base/verb"
)

// Verbs returns the verbs that a definition names, each once and in order: those of its verb steps and
// compensations, and the tools of its agent steps that are no pattern.
func (d *Definition) Verbs() []string {
	list := []string{}
	add := func(name string) {
		if _, err := verb.Parse(name); err == nil {
			list = append(list, name)
		}
	}
	see := func(s *Step) {
		if s.Compensate != nil {
			add(s.Compensate.Verb)
		}
		switch do := s.Do.(type) {
		case *DoVerb:
			add(do.Verb)
		case *DoAgent:
			for _, tool := range do.Tools {
				add(tool)
			}
		}
	}
	Walk(d.Steps, see)
	Walk(d.OnFailure, see)
	slices.Sort(list)
	return slices.Compact(list)
}
