package openapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/httpfield"
)

// Limits of the schemas of answers. No call is checked against them: a dry run makes up values of
// them, and warnings look names up in them. So what is beyond a limit is left out, and the import
// goes on without it.
const (
	maxAnswer       = 16 << 10     // bytes of one: GitHub's take 4 KB, Stripe's refer to nearly all others
	maxAnswers      = 8 << 20      // bytes of all of an import, and of the parts that they share
	maxSmallAnswers = 1 << 20      // maxAnswers of ImportSmall
	maxAnswerWork   = maxWork / 20 // beside the work of the rest
	maxFormat       = 64           // bytes of a format
	defsPrefix      = "#/$defs/"   // of what an answer refers to
	wildcard        = "*"          // in a media type
	statusDefault   = "default"    // of responses
	statusSuccess   = "2"          // begins the statuses of successful ones
	mediaJSON       = "application/json"
)

// answers makes the schemas of successful answers. They keep what a value looks like: the names of
// its members, its types and examples. A part whose members are not all listed is opaque.
type answers struct {
	doc   *document // has a limit of its own on work
	conv  *converter
	parts map[string]*answerPart // by reference
	room  int                    // bytes that the part at work may still have
	left  int                    // bytes that may still be kept
}

// answerPart is a schema that answers refer to.
type answerPart struct {
	name string
	node any             // that is to be converted; nil once it was
	raw  json.RawMessage // nil where it is too large
	refs []string        // references in it, sorted
}

func newAnswers(doc *document, conv *converter) *answers {
	own := &work{ctx: doc.ctx, spare: maxAnswerWork, limit: maxAnswerWork}
	a := &answers{doc: &document{root: doc.root, work: own, old: doc.old}, conv: conv, parts: map[string]*answerPart{}, left: maxAnswers}
	if doc.small {
		own.spare, a.left = maxAnswerWork/10, maxSmallAnswers
	}
	return a
}

// of returns the schema of an operation's successful answer, nil where the document has none, says
// nothing about it, or has too much.
func (a *answers) of(o *operation) json.RawMessage {
	node, declared := a.declared(o)
	if !declared || a.left < 0 {
		return nil
	}
	raw := a.whole(node)
	if a.left -= len(raw); a.left < 0 {
		a.parts = nil // no further one is made
		return nil
	}
	return raw
}

// declared returns the schema that the document has for the JSON of the lowest successful status. The
// answer `default` counts where there is no such status: beside others it is that of errors. setAnswers
// has counted the work.
func (a *answers) declared(o *operation) (node any, declared bool) {
	if o.method == http.MethodHead {
		return nil, false
	}
	responses := field(o.node, "responses")
	succeeds := false
	for _, status := range sortedKeys(responses) {
		if !strings.HasPrefix(status, statusSuccess) {
			continue
		}
		succeeds = true
		if node, declared = a.ofResponse(responses[status]); declared {
			return node, true
		}
	}
	if succeeds {
		return nil, false
	}
	return a.ofResponse(responses[statusDefault])
}

// ofResponse returns the schema of the JSON of one response.
func (a *answers) ofResponse(entry any) (node any, declared bool) {
	response, err := a.doc.object(entry)
	if err != nil {
		return nil, false
	}
	content := field(response, "content")
	best := ""
	for _, name := range sortedKeys(content) {
		media := httpfield.MediaType(name)
		switch {
		case media == mediaJSON:
			best = name
		case !httpfield.IsJSON(media) && !strings.Contains(media, wildcard):
		case best == "" || strings.Contains(best, wildcard):
			best = name
		}
		if media == mediaJSON {
			break
		}
	}
	node, declared = field(content, best)["schema"]
	return node, declared
}

// whole returns a schema with what it refers to. What is farther and beyond maxAnswer is opaque. It is
// nil where the schema says nothing, or is beyond a limit by itself.
func (a *answers) whole(node any) json.RawMessage {
	own := &answerPart{}
	a.convert(own, node)
	switch {
	case own.raw == nil || own.raw[0] != '{' || string(own.raw) == opaqueAnswer:
		return nil
	case len(own.refs) == 0:
		return own.raw
	}
	defs, fits := a.closure(own.refs, maxAnswer-len(own.raw)-len(defsMember)-len("{}}"))
	list, err := exactjson.Encode(defs)
	if !fits || err != nil || a.doc.err != nil {
		return nil
	}
	return slices.Concat(own.raw[:len(own.raw)-1], []byte(defsMember), list, []byte("}"))
}

const defsMember = `,"$defs":`

// closure returns the parts that the references lead to, by name, the nearest first. Where one does not
// fit into budget bytes, it is opaque. fits is false where there is no room for that either.
func (a *answers) closure(refs []string, budget int) (defs map[string]json.RawMessage, fits bool) {
	defs = map[string]json.RawMessage{}
	var queue []*answerPart
	// open takes room for what is opaque until its turn comes.
	open := func(refs []string, room int) (left int, added []*answerPart) {
		for _, ref := range refs {
			part := a.parts[ref]
			if _, has := defs[part.name]; !has {
				added = append(added, part)
				room -= len(part.name) + len(`"":,`) + len(opaqueAnswer)
			}
		}
		return room, added
	}
	budget, queue = open(refs, budget)
	for _, part := range queue {
		defs[part.name] = json.RawMessage(opaqueAnswer)
	}
	fits = budget >= 0
	for fits && len(queue) > 0 && a.doc.spend(1) {
		part := queue[0]
		queue = queue[1:]
		a.complete(part)
		room, added := open(part.refs, budget+len(opaqueAnswer)-len(part.raw))
		if part.raw == nil || room < 0 || !a.doc.spend(len(part.refs)) {
			continue
		}
		budget, defs[part.name] = room, part.raw
		for _, next := range added {
			defs[next.name] = json.RawMessage(opaqueAnswer)
		}
		queue = append(queue, added...)
	}
	return defs, fits
}

// opaqueAnswer is a schema that says nothing.
const opaqueAnswer = `{"` + argschema.Opaque + `":true}`

// refer returns the part of a reference, which complete converts.
func (a *answers) refer(ref string) (*answerPart, error) {
	if part, known := a.parts[ref]; known {
		return part, nil
	}
	node, err := a.doc.lookup(ref)
	if err != nil {
		return nil, err
	}
	part := &answerPart{name: strconv.Itoa(len(a.parts)), node: node}
	a.parts[ref] = part
	return part, nil
}

// complete converts a part, once.
func (a *answers) complete(part *answerPart) {
	if node := part.node; node != nil {
		part.node = nil
		a.convert(part, node)
		a.left -= len(part.raw)
	}
}

// convert sets what becomes of a schema, nil where it is too large.
func (a *answers) convert(part *answerPart, node any) {
	a.room = maxAnswer
	refs := map[string]bool{}
	out := a.schema(node, refs, false)
	if a.room < 0 || a.doc.err != nil {
		return
	}
	a.doc.spend((maxAnswer - a.room) / 8)
	if raw, err := exactjson.Encode(out); err == nil && len(raw) <= maxAnswer {
		part.raw, part.refs = raw, sorted(refs)
	}
}

// schema converts one schema. beside says that another one lists the members of the same value.
func (a *answers) schema(node any, refs map[string]bool, beside bool) any {
	if said, is := node.(bool); is {
		return said
	}
	n, ok := node.(map[string]any)
	if a.room -= len(`"":{},`); a.room < 0 || !ok || !a.doc.spend(4+len(n)) {
		return map[string]any{argschema.Opaque: true}
	}
	out := map[string]any{}
	if ref, is := n["$ref"].(string); is {
		part, err := a.refer(ref)
		if err != nil {
			return map[string]any{argschema.Opaque: true}
		}
		refs[ref], out["$ref"] = true, defsPrefix+part.name
		a.room -= len(defsPrefix)
		if a.doc.old { // which ignores what stands beside it
			return out
		}
	}
	a.keywords(out, n, refs)
	if opens(n) || !beside && !lists(out) {
		out[argschema.Opaque] = true
	}
	if nullable, _ := flag(n, "nullable"); nullable {
		return makeNullable(out)
	}
	return out
}

// keywords converts what says how a value looks.
func (a *answers) keywords(out, n map[string]any, refs map[string]bool) {
	lost := newScratch()
	for _, key := range sortedKeys(n) {
		value := n[key]
		switch key {
		case "type":
			a.conv.setType(out, value, lost)
		case "format":
			if format, is := value.(string); is && len(format) <= maxFormat {
				out[key] = format
			}
		case "minimum":
			if exclusive, _ := flag(n, "exclusiveMinimum"); !exclusive {
				setNumber(out, key, value, n, lost)
			}
		case "const", "default", "example", "examples":
			a.literal(out, key, value, lost)
		case "items":
			if _, tuple := value.([]any); !tuple {
				out[key] = a.schema(value, refs, false)
			}
		case "properties":
			a.properties(out, field(n, key), refs)
		case "allOf", "anyOf", "oneOf":
			a.branches(out, key, n, refs)
		}
	}
	list, _ := n["enum"].([]any)
	if i := slices.IndexFunc(list, func(v any) bool { return v != nil }); i >= 0 {
		a.literal(out, "examples", list[i:], lost) // as good as all of them, and shorter
	}
	if raw, err := exactjson.Encode(out["examples"]); err == nil {
		a.room -= len(raw)
	}
}

// literal keeps a value that is short.
func (a *answers) literal(out map[string]any, key string, value any, lost *scratch) {
	if !a.doc.spendValue(value) {
		return
	}
	list, _ := value.([]any)
	switch key {
	case "const", "default":
		raw, err := exactjson.Encode(value)
		if err != nil || value == nil || len(raw) > maxExample {
			return
		}
		a.room -= len(raw)
	case "examples":
		if len(list) == 0 {
			return
		}
		value = list[:1]
	}
	setLiteral(out, key, value, lost)
}

// properties converts the members that an answer may have.
func (a *answers) properties(out, properties map[string]any, refs map[string]bool) {
	if !a.doc.spend(len(properties)) {
		return
	}
	kept := map[string]any{}
	for _, name := range sortedKeys(properties) {
		if a.room -= len(name); a.room < 0 {
			return
		}
		n, err := a.doc.object(properties[name])
		if secret, _ := flag(n, "writeOnly"); err == nil && secret {
			continue // only requests have it
		}
		kept[name] = a.schema(properties[name], refs, false)
	}
	if len(kept) > 0 {
		out["properties"] = kept
	}
}

// branches converts the schemas that are combined for one value.
func (a *answers) branches(out map[string]any, key string, n map[string]any, refs map[string]bool) {
	list, _ := n[key].([]any)
	beside := key == "allOf" || len(field(n, "properties")) > 0
	kept := make([]any, 0, min(len(list), maxSubtypes))
	for _, one := range list {
		if a.room < 0 {
			return
		}
		kept = append(kept, a.schema(one, refs, beside))
	}
	if len(kept) > 0 {
		out[key] = kept
	}
}

// opens reports whether the document says that a value has members which the schema does not list,
// or lists them in ways that are not kept.
func opens(n map[string]any) bool {
	for _, word := range []string{"patternProperties", "if", "then", "else", "dependentSchemas", "$dynamicRef", "$recursiveRef", "prefixItems"} {
		if n[word] != nil {
			return true
		}
	}
	for _, word := range []string{"additionalProperties", "unevaluatedProperties"} {
		if said, has := n[word]; has && said != false {
			return true
		}
	}
	property, _ := discriminatorOf(n)
	return property != "" && forms(n) == nil // a base, of which subtypes have more
}

// lists reports whether a converted schema lists the members of a value, or its type has none.
func lists(out map[string]any) bool {
	for _, word := range []string{"$ref", "properties", "items", "anyOf", "oneOf", "const"} {
		if out[word] != nil {
			return true
		}
	}
	all, _ := out["allOf"].([]any)
	if slices.ContainsFunc(all, func(one any) bool {
		n, is := one.(map[string]any)
		return is && lists(n)
	}) {
		return true
	}
	switch types := out["type"].(type) {
	case string:
		return types != "object" && types != "array"
	case []string:
		return !slices.Contains(types, "object") && !slices.Contains(types, "array")
	}
	return false
}
