package openapi

import (
	"slices"

	"agentruntime/internal/provider/httpplan"
)

// What no request can carry, as the builder of requests refuses it. So a caller who checks arguments
// against the catalog's schema finds what the service would refuse. The expressions are in the syntax
// that ECMA-262 and RE2 share.
const (
	// dotSegment finds a path segment of dots, also percent-encoded: some servers decode before
	// they route.
	dotSegment = `(^|[/\\]|%(25)*(2[fF]|5[cC]))(\.|%(25)*2[eE]){1,2}(;|[/\\]|%(25)*(2[fF]|3[bB]|5[cC])|$)`
	// emptySegment finds one in a path argument whose slashes stay slashes.
	emptySegment = `^/|//|/$`
	// control is the class of what a header field may not have (RFC 9110 section 5.5).
	control = `\x00-\x08\x0a-\x1f\x7f`
	// brackets is the class of what would end the name of a member in a deepObject.
	brackets = `\[\]`
)

// separators has the class of each separator, and an expression that finds it also percent-encoded: in
// an object some servers decode before they separate.
func separators() map[string]struct{ class, encoded string } {
	return map[string]struct{ class, encoded string }{
		",":  {`,`, `,|%(25)*2[cC]`},
		".":  {`.`, `\.|%(25)*2[eE]`},
		";":  {`;`, `;|%(25)*3[bB]`},
		" ":  {` `, ` |\+|%(25)*2(0|[bB])`},
		"|":  {`|`, `\||%(25)*7[cC]`},
		"\t": {`\t`, `\t|%(25)*09`},
	}
}

// limits say what a value cannot be in its place. nil allows all.
type limits struct {
	without string   // a class of characters that texts do not have
	never   []string // expressions that find nothing in texts
	given   bool     // there is no null
	filled  bool     // no text is empty
	some    bool     // no list or object is empty
	most1   bool     // lists and objects have one element at most
	whole   bool     // numbers are integers
	names   *limits  // of the names of members
	items   *limits
	members *limits
	fields  map[string]*limits // of members that have limits of their own, nil for those without
}

// of returns the limits of a member.
func (l *limits) of(name string) *limits {
	if own, has := l.fields[name]; has {
		return own
	}
	return l.members
}

// sendable returns what the place of a parameter requires of its value.
func sendable(p httpplan.Param) *limits {
	if p.Style == httpplan.StyleDeep {
		return deep()
	}
	var all limits // of all texts in the value
	if p.In == httpplan.InPath {
		all.never = []string{dotSegment}
		if p.Reserved {
			all.never = append(all.never, emptySegment)
		}
	}
	l := all.everywhere()
	if p.Style != httpplan.StyleJSON {
		l.parts(p, all)
	}
	if p.In == httpplan.InPath {
		l.given, l.filled, l.some = true, true, true
	}
	return l
}

// parts sets the limits of what a style writes one by one. all are those of every text.
func (l *limits) parts(p httpplan.Param, all limits) {
	item, member := all, all
	if sep, encoded := p.Separator(); sep != "" {
		find := separators()[sep]
		if !encoded {
			item.without, item.whole, item.most1 = find.class, sep == ".", sep == ","
		}
		member.never, member.whole, member.most1 = append(slices.Clone(all.never), find.encoded), sep == ".", sep == ","
	}
	l.items, l.members = item.everywhere(), member.everywhere()
	l.names = &limits{never: member.never}
	l.items.given = true
	switch p.In {
	case httpplan.InPath:
		l.items.filled, l.members.given = true, true
	case httpplan.InHeader:
		for _, part := range []*limits{l, l.items, l.members, l.names} {
			part.without += control
		}
	}
}

// everywhere returns the limits of a value as those of what is in it too: a list or an object in
// another is written as JSON, with all of its texts and commas.
func (l limits) everywhere() *limits {
	if l.without == "" && len(l.never) == 0 && !l.whole && !l.most1 {
		return &limits{}
	}
	within := l
	within.names = &limits{without: l.without, never: l.never}
	within.items, within.members = &within, &within
	out := within
	return &out
}

// deep is what a deepObject requires at every level.
func deep() *limits {
	l := &limits{names: &limits{without: brackets}}
	item := *l
	item.given = true
	l.items, l.members = &item, l
	item.items, item.members = &item, l
	return l
}

// sendableField returns what a field of a form or of a multipart body requires of its value.
func sendableField(enc httpplan.Encoding, declared bool) *limits {
	if !declared || enc.Style == "" {
		// Lists are repeated, and objects are JSON.
		return &limits{items: &limits{given: true}}
	}
	return sendable(httpplan.Param{In: httpplan.InQuery, Style: enc.Style, Explode: enc.Explode, Reserved: enc.Reserved})
}

// sendableForm returns what a form requires of the object that has its fields.
func sendableForm(fields map[string]httpplan.Encoding) *limits {
	l := &limits{members: sendableField(httpplan.Encoding{}, false), fields: map[string]*limits{}}
	for name, enc := range fields {
		l.fields[name] = sendableField(enc, true)
	}
	return l
}
