package mapdef

import (
	"maps"
	"slices"

	"agentruntime/internal/base/near"
	"agentruntime/internal/maps/expression"
)

// scope is what expressions at a place of the definition may read.
type scope struct {
	seen  map[string]bool // steps that have ended before, or may have been left out
	names map[string]bool // given by "as"

	vars, steps, now bool // false where nothing has run yet
	item, index, dot bool
}

func newScope() *scope {
	return &scope{seen: map[string]bool{}, names: map[string]bool{}, vars: true, steps: true, now: true}
}

func (s *scope) copy() *scope {
	c := *s
	c.seen, c.names = maps.Clone(s.seen), maps.Clone(s.names)
	return &c
}

// with returns the scope of a block that reads a value by a name.
func (s *scope) with(name string) *scope {
	c := s.copy()
	c.names[name] = true
	return c
}

// loop returns the scope of the body of a loop.
func (s *scope) loop() *scope {
	c := s.copy()
	c.index = true
	return c
}

// withDot returns the scope of a place where "." is a value.
func (s *scope) withDot() *scope {
	c := *s
	c.dot = true
	return &c
}

// ran adds a step that is over, and the steps of its blocks. What is within a loop can be read
// there only: finished iterations leave the memory of an execution.
func (s *scope) ran(step *Step) {
	s.did(step)
	for _, c := range step.Catch {
		for i := range c.Steps {
			s.ran(&c.Steps[i])
		}
	}
}

// did adds a step and the steps of its blocks, without those that handle its failure.
func (s *scope) did(step *Step) {
	s.seen[step.ID] = true
	for _, b := range step.Blocks() {
		if b.Kind == BlockCatch || b.Kind == BlockBody {
			continue
		}
		for i := range b.Steps {
			s.ran(&b.Steps[i])
		}
	}
}

// wanted says what a value must be at its place.
type wanted uint8

const (
	anything wanted = iota
	anObject
	anArray
	aDuration
	aTime
)

func (c *checker) template(t expression.Template, path string, s *scope) {
	for _, p := range t.Parts() {
		if p.Expr != nil {
			c.references(p.Expr.References(), path, s)
		}
	}
}

func (c *checker) condition(w expression.Condition, path string, s *scope) {
	c.template(w.Template, path, s)
}

func (c *checker) value(v expression.Value, path string, s *scope, want wanted) {
	if v.IsZero() {
		return
	}
	c.literal(v, path, want)
	v.Walk(func(below string, part expression.Value) {
		c.template(part.Template(), path+below, s)
	})
}

const ruleReference = "reference"

// references checks what one expression reads.
func (c *checker) references(r expression.References, path string, s *scope) {
	if r.Vars && !s.vars {
		c.add(path, ruleReference, "vars cannot be read here: nothing has set them yet")
	}
	for _, name := range r.Variables {
		if s.vars && !c.variables[name] {
			c.warnings.addf(path, "unknown_variable", "vars.%s is always null: neither vars nor a set step gives it a value", clip(name))
		}
	}
	if r.Now && !s.now {
		c.add(path, ruleReference, "$now cannot be read here")
	}
	if r.Item && !s.item {
		c.add(path, ruleReference, "item is known within a foreach only")
	}
	if r.Index && !s.index {
		c.add(path, ruleReference, "index is known within a foreach or a while only")
	}
	if r.Dot && !s.dot {
		c.add(path, ruleReference, `"." has no value here. Begin with trigger_data, steps, vars, context, item, index or $now`)
	}
	for _, name := range r.Names {
		if !s.names[name] {
			c.addf(path, ruleReference, "there is no root and no function %s. Roots are trigger_data, steps, vars, context, item, index and $now%s", clip(name), near.Sentence(name, roots()))
		}
	}
	told := ""
	for _, step := range r.Steps {
		if step.ID != told {
			c.stepReference(step.ID, path, s)
		}
		told = step.ID
	}
}

// roots are what an expression can begin with.
func roots() []string {
	return []string{"trigger_data", "steps", "vars", "context", "item", "index", "now"}
}

// maxAsked is how many unknown ids of one definition are compared with all others.
const maxAsked = 20

// meant asks whether an id was meant to be one of a step, as an addition to a message.
func (c *checker) meant(id string) string {
	if c.asked++; c.asked > maxAsked {
		return ""
	}
	return asked(near.Ask(id, slices.Sorted(maps.Keys(c.ids))))
}

func (c *checker) stepReference(id, path string, s *scope) {
	where, exists := c.ids[id]
	switch {
	case !exists:
		c.addf(path, ruleReference, "there is no step %s%s", clip(id), c.meant(id))
	case !s.steps:
		c.add(path, ruleReference, "steps cannot be read here: none has run yet")
	case !s.seen[id]:
		c.addf(path, ruleReference, "the step %s cannot be read here: it is a later one, in another branch, or in a loop (%s)", clip(id), where)
	}
}
