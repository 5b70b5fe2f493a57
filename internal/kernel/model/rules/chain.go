package rules

import (
	"fmt"
	"slices"
)

// fromCalls returns the values of an id which results have. Where none has, next is the read that may
// bring one.
func (j *job) fromCalls(c candidate, name string, p *part, depth int) (found []any, next move) {
	stem := c.stemOf(name)
	if found = j.idsOf(stem, p); len(found) == 1 || len(found) > 1 && all.MatchString(p.text) {
		return found, move{}
	}
	if len(found) > 1 {
		if read, ok := j.telling(stem); ok {
			return nil, move{call: read}
		}
		return nil, move{blocked: fmt.Sprintf("the goal does not say which %s is meant of %d", stem, len(found)), missing: inWords(name)}
	}
	if depth < mostChained {
		if read, ok := j.bringing(stem, p, depth); ok {
			read.why = "It brings the " + inWords(name) + " that " + inWords(c.verb()) + " needs."
			return nil, move{call: read}
		}
	}
	return nil, move{blocked: "no verb brings the " + inWords(name) + " for " + c.Name, missing: inWords(name), needed: inWords(c.verb())}
}

// idsOf returns the ids of a kind of thing that results have: of the things themselves, otherwise of
// those that others belong to.
func (j *job) idsOf(stem string, p *part) (ids []any) {
	add := func(id any) {
		if id != nil && id != "" && j.spend(len(ids)/8) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if !j.spend(len(j.made)) {
		return nil
	}
	for _, m := range j.made {
		c, known := j.tool(m.name)
		if !m.succeeded() || !known || c.noun() != stem {
			continue
		}
		if !m.isList {
			add(m.things[0].id)
			continue
		}
		for _, item := range j.meant(m.things, p) {
			add(item.id)
		}
	}
	if len(ids) > 0 {
		return ids
	}
	for _, m := range j.made {
		if !m.succeeded() {
			continue
		}
		for _, value := range find(j.effort, stem+" id", m.leaves) {
			add(value)
		}
	}
	return ids
}

// meant returns the items of a list that the goal means: those that have most of its words, and of
// these the newest where it says so. Lists are newest first.
func (j *job) meant(list []thing, p *part) []thing {
	text := j.goal
	if all.MatchString(p.text) {
		text = p.text
	}
	const reading = 4 // bytes for a unit
	if !j.spend((len(text) + len(j.goal)) / reading) {
		return nil
	}
	// What the verb says is no word of a thing: "cancel" does not mean the cancelled orders.
	verbs := keysOf(p.tool.words)
	keys := slices.DeleteFunc(keysOf(text), func(key string) bool { return slices.Contains(verbs, key) })
	owners := j.owners()
	most := 0
	var kept []thing
	for _, item := range list {
		hits := j.hitsOf(item, keys)
		for _, l := range item.leaves {
			if owners[l.text()] && l.name() != "id" {
				hits++
			}
		}
		switch {
		case hits > most:
			most, kept = hits, []thing{item}
		case hits == most:
			kept = append(kept, item)
		}
	}
	switch {
	case len(kept) > 1 && newest.MatchString(text):
		return kept[:1]
	case len(kept) > 1 && oldest.MatchString(text):
		return kept[len(kept)-1:]
	}
	return kept
}

// hitsOf returns how many values of an item the words have. Of a name, one word is enough.
func (j *job) hitsOf(item thing, keys []string) (hits int) {
	for i, l := range item.leaves {
		words, is := item.words[i]
		const compared = 32 // words for a unit
		if !is || !j.spend(1+len(keys)*(1+len(words)/compared)/compared) {
			continue
		}
		named := l.name() == "name" && slices.ContainsFunc(words, func(w string) bool { return len(w) > 2 && slices.Contains(keys, w) })
		if named || phrase(keys, words) {
			hits++
		}
	}
	return hits
}

// owners are the ids of things in lists that the goal has words of: things belong to them.
func (j *job) owners() map[string]bool {
	ids, keys := map[string]bool{}, keysOf(j.goal)
	for _, m := range j.made {
		if !m.succeeded() || !m.isList {
			continue
		}
		for _, item := range m.things {
			if id, is := item.id.(string); is && j.hitsOf(item, keys) > 0 {
				ids[id] = true
			}
		}
	}
	return ids
}

// telling returns the read of a list by which things of a kind can be told apart: that of those that
// they belong to.
func (j *job) telling(stem string) (*call, bool) {
	for _, m := range j.made {
		c, known := j.tool(m.name)
		if !known || c.noun() != stem {
			continue
		}
		asked := map[string]bool{}
		for _, l := range m.leaves {
			of := stemOfID(l.name())
			if of == "" || of == stem || asked[of] || !j.spend(len(j.tools)) {
				continue
			}
			asked[of] = true
			for _, t := range j.tools {
				if t.many() && t.noun() == of && len(t.required) == 0 && !j.tried(t.Name) {
					return &call{t, nil, "It tells which " + stem + " is meant."}, true
				}
			}
		}
	}
	return nil, false
}

// bringing returns the read that may bring the id of a kind of thing: a list of them that the goal can
// narrow, then something else that the goal names and that may belong to one, then the list of all.
func (j *job) bringing(stem string, p *part, depth int) (*call, bool) {
	var narrow, other, whole *call
	for _, t := range j.tools {
		if t.writes || !j.spend(len(j.made)) || j.tried(t.Name) {
			continue
		}
		args, missing := j.fill(t, j.goal)
		for _, name := range slices.Clone(missing) {
			if value, ok := j.elsewhere(t, name, p); ok {
				args, missing = append(args, argument{name, value}), slices.DeleteFunc(missing, func(m string) bool { return m == name })
			}
		}
		about := t.noun() == stem
		switch {
		case len(missing) > 0:
			continue
		case about && t.many():
			args = j.narrowed(t, args, p)
			if len(args) > 0 && narrow == nil {
				narrow = &call{tool: t, args: args}
			} else if whole == nil {
				whole = &call{tool: t, args: args}
			}
		case about && narrow == nil:
			narrow = &call{tool: t, args: args}
		case !t.many() && len(args) > 0 && other == nil:
			other = &call{tool: t, args: args}
		}
	}
	for _, c := range []*call{narrow, other, whole} {
		if c != nil {
			return c, true
		}
	}
	return j.chained(stem, p, depth)
}

// narrowed adds the ids that a list can be narrowed by and that results have: the orders of a customer.
func (j *job) narrowed(t candidate, args []argument, p *part) []argument {
	for _, name := range t.order {
		stem := t.stemOf(name)
		if stem == "" || slices.ContainsFunc(args, func(a argument) bool { return a.name == name }) {
			continue
		}
		if ids := j.idsOf(stem, p); len(ids) == 1 {
			args = append(args, argument{name, ids[0]})
		}
	}
	return args
}

// chained returns a read which brings what another read needs to bring the id.
func (j *job) chained(stem string, p *part, depth int) (*call, bool) {
	for _, t := range j.tools {
		if t.writes || t.noun() != stem || !j.spend(len(j.made)) || j.tried(t.Name) {
			continue
		}
		_, missing := j.fill(t, j.goal)
		for _, name := range missing {
			if of := t.stemOf(name); of != "" && of != stem && depth < mostChained {
				if _, next := j.fromCalls(t, name, p, depth+1); next.call != nil {
					return next.call, true
				}
			}
		}
	}
	return nil, false
}

// tried reports whether a read was made, with whatever end.
func (j *job) tried(name string) bool {
	return slices.ContainsFunc(j.made, func(m made) bool { return m.name == name })
}
