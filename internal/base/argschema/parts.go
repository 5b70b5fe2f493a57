package argschema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/pattern"
)

// Part is a schema that was compiled without the definitions that it refers to. Many schemas share
// definitions. Compiling each schema with all of them takes work that grows with the square of their
// number. A Part is compiled once, and Fit adds up what the limits of a whole schema are about.
type Part struct {
	schemas, places, deepest int
	size                     int            // instructions of all expressions
	patterns                 map[string]int // and of each
	// visits and cost are how often schemas meet an object without members, and what that costs beside
	// the way up. They include the definitions that apply to the same value, at any distance.
	visits, cost float64
	// chain is the longest way in place from the schema, with those definitions, and within the longest
	// one from anywhere in the part to its end or to a definition.
	chain, within float64
}

// Definitions are where the parts of a whole schema are.
const (
	definitions   = "$defs"
	definitionsAt = "/" + definitions
	definitionURL = schemaURL + "#" + definitionsAt + "/"
)

// CompilePart compiles a schema of which refs are the names of all definitions that it refers to.
// inPlace are those parts of them that apply to the same value as the schema. An error says nothing
// about a whole schema, which Compile still judges.
func CompilePart(schema json.RawMessage, refs []string, inPlace map[string]*Part, memo *pattern.Memo) (p *Part, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, errFailed
		}
	}()
	tree, err := read(schema)
	if err != nil {
		return nil, err
	}
	p = &Part{patterns: map[string]int{}}
	p.deepest, _ = exactjson.Shape(schema)
	if p.schemas, p.places = measure(tree); p.schemas+len(refs) > maxSchemas || p.places > maxPlaces {
		return nil, ErrTooComplex
	}
	compiled, programs, err := compile(withStubs(tree, refs), memo)
	if err != nil {
		return nil, err
	}
	p.size = programs.size
	for expression, one := range programs.made {
		p.patterns[expression] = one.Size()
	}
	root, list, err := rulesOf(compiled)
	if err != nil {
		return nil, err
	}
	return p, p.follow(root, list, inPlace)
}

// withStubs returns the schema with definitions that accept every value. They stand for those that the
// schema refers to.
func withStubs(tree any, refs []string) any {
	object, is := tree.(map[string]any)
	if !is || len(refs) == 0 {
		return tree
	}
	stubs := make(map[string]any, len(refs))
	for _, name := range refs {
		stubs[name] = true
	}
	object = maps.Clone(object)
	object[definitions] = stubs
	return object
}

// follow adds up what an object without members meets.
func (p *Part) follow(root *rule, list []*rule, inPlace map[string]*Part) error {
	p.within = slices.Max(chains(list))
	times, steps := make([]float64, len(list)), make([]float64, len(list))
	times[root.order] = 1
	for i, r := range list {
		if times[i] == 0 {
			continue
		}
		if name, is := strings.CutPrefix(r.schema.Location, definitionURL); is {
			def := inPlace[name]
			if def == nil {
				return ErrTooComplex
			}
			p.visits += times[i] * def.visits
			p.cost += times[i] * def.cost
			p.chain = max(p.chain, steps[i]+def.chain)
			continue
		}
		p.visits += times[i]
		p.cost += times[i] * (visitCost + r.enum.others + r.required*typeCost)
		p.chain = max(p.chain, steps[i])
		for _, next := range r.inPlace {
			times[next.order] += times[i]
			steps[next.order] = max(steps[next.order], steps[i]+1)
		}
	}
	return nil
}

// Fit reports that Compile accepts the schema of the part with these definitions: all that it refers to,
// directly or not, by their names. False says nothing, and Compile judges.
func (p *Part) Fit(defs map[string]*Part) bool {
	schemas, places, deepest, size := p.schemas, p.places, p.deepest, p.size
	within, chain := p.within, p.chain
	if len(defs) > 0 {
		schemas, places = schemas+1, places+len(definitionsAt)
	}
	for name, def := range defs {
		if def == nil {
			return false
		}
		schemas += def.schemas
		places += def.places + def.schemas*(len(definitionsAt)+1+len(name))
		deepest = max(deepest, 2+def.deepest)
		size += def.size
		within, chain = max(within, def.within), max(chain, def.chain)
	}
	if schemas > maxSchemas || places > maxPlaces || deepest > maxNesting {
		return false
	}
	// A schema counts the way up to it, which is at most the longest in a part and the longest behind it.
	affordable := p.cost+p.visits*(within+chain)*stepUp <= budget
	return affordable && (size <= maxPatterns || p.distinct(defs) <= maxPatterns)
}

// distinct returns how many instructions the expressions have, each counted once.
func (p *Part) distinct(defs map[string]*Part) (size int) {
	seen := map[string]bool{}
	add := func(part *Part) {
		for expression, n := range part.patterns {
			if !seen[expression] {
				seen[expression] = true
				size += n
			}
		}
	}
	add(p)
	for _, def := range defs {
		add(def)
	}
	return size
}
