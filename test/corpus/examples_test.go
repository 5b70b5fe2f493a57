//go:build corpus

package corpus

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/httpplan"
	"agentruntime/internal/kernel/verb"
	"agentruntime/test/rig"
)

// example is a body that the document shows for an operation.
type example struct {
	method, path, name string
	body               json.RawMessage
}

// node is a place of a document.
type node = map[string]json.RawMessage

// examples sends the bodies that the document shows, at most examplesOf. Each that its own schema
// accepts, in prism's judgement, arrives unchanged or is refused for a reason that refused.json states.
func (d *document) examples(t *testing.T, tenant *rig.Tenant, c *count) {
	t.Helper()
	shown := d.shown(t)
	byRoute := map[string]verb.Definition{}
	for _, v := range d.verbs {
		p := planOf(t, v)
		byRoute[p.Method+" "+p.Path] = v
	}
	var some []example
	var verbs []verb.Definition
	for i := range min(examplesOf, len(shown)) {
		e := shown[i*len(shown)/min(examplesOf, len(shown))]
		v, known := byRoute[e.method+" "+e.path]
		require.True(t, known, "no verb sends %s %s", e.method, e.path)
		some, verbs = append(some, e), append(verbs, v)
	}
	params := d.parameters(t, verbs)
	for i, e := range some {
		d.example(t, tenant, c, e, verbs[i], params[verbs[i].Name])
	}
}

// example sends one example and counts what came of it.
func (d *document) example(t *testing.T, tenant *rig.Tenant, c *count, e example, v verb.Definition, params node) {
	t.Helper()
	args, why := argsOf(planOf(t, v), e.body, params)
	fits := why == ""
	switch {
	case !fits:
	case d.arrives(t, tenant, d.slug+":"+v.Name, args, e, &why):
		c.examples++
		return
	case why == "":
		return // it was sent otherwise, which has failed the test
	}
	if !d.accepts(t, e) {
		t.Logf("%s %s %s: the schema does not accept the example: %s", e.method, e.path, e.name, why)
		c.unfit++
		return
	}
	if fits && why != isNoTime {
		if d.loose == "" {
			d.loose = "z" + d.slug[1:] // of the same length, on which the names of long verbs depend
			d.provide(t, tenant, d.loose, false)
		}
		if d.arrives(t, tenant, d.loose+":"+v.Name, args, e, &why) {
			c.examples++
			c.loose++
			return
		}
	}
	c.listed++
	d.refused[why] = append(d.refused[why], strings.Join([]string{d.name, e.method, e.path, e.name}, " "))
}

// arrives reports whether the example arrives unchanged by the verb. Where the service refuses it, why
// says for which of the reasons of refused.json, or has the answer.
func (d *document) arrives(t *testing.T, tenant *rig.Tenant, name string, args node, e example, why *string) bool {
	t.Helper()
	d.line.clear()
	a := tenant.Runtime.Run(name, args, "")
	got := d.line.last()
	if got == nil {
		*why = reasonOf(t, a)
		return false
	}
	same := len(exact(t, e.body)) > 0 && bytes.Equal(exact(t, got.body), exact(t, e.body))
	if !same {
		*why = ""
		t.Errorf("%s %s: the example %s did not arrive unchanged: %+v\n%s", e.method, e.path, e.body, got, a.Body)
	}
	return same
}

// The reasons for which the service refuses what a schema accepts.
const (
	isNoJSON    = "The verb has no JSON body."
	isNoObject  = "The body is no object, and the verb has arguments of one."
	isParameter = "A member has the name of a parameter. The document has it as readOnly, so that no argument sends it in the body."
	isUnknown   = "An argument is not known. With strict: false too, a verb has the arguments that its document lists, without those that are readOnly, and no others."
	isNoTime    = "A time is not as RFC 3339 has it. The schema's format date-time names that, and many validators do not check it."
)

// reasonOf says for which reason the service refused the call, otherwise what it answered.
func reasonOf(t *testing.T, a rig.Answer) string {
	t.Helper()
	var details []struct{ Path, Rule string }
	if e := a.Envelope(t).Error; e == nil || json.Unmarshal(e.Details, &details) != nil {
		return string(a.Body)
	}
	rules := map[string]bool{}
	for _, d := range details {
		top := strings.Count(d.Path, "/") == 2 && d.Path != "/args/body"
		switch {
		case d.Rule == "unknown_field" && top:
			rules[isUnknown] = true
		case d.Rule == "format":
			rules[isNoTime] = true
		default:
			rules[string(raw(t, details))] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(rules)), " ")
}

// requireListed compares the examples that the service refuses with the list of them. It fails for one
// that is not listed, and for a listed one that arrives or has another reason.
func requireListed(t *testing.T, refused map[string][]string) {
	t.Helper()
	for _, names := range refused {
		slices.Sort(names)
	}
	text, err := os.ReadFile("refused.json")
	require.NoError(t, err)
	var listed map[string][]string
	require.NoError(t, json.Unmarshal(text, &listed))
	found, err := json.MarshalIndent(refused, "", "  ")
	require.NoError(t, err)
	want, err := json.MarshalIndent(listed, "", "  ")
	require.NoError(t, err)
	require.Equal(t, string(want), string(found), "examples that their schema accepts and the service refuses: mend it, or change refused.json")
}

// accepts reports whether prism accepts the example where it is sent to it without the service.
func (d *document) accepts(t *testing.T, e example) bool {
	t.Helper()
	d.line.clear()
	path := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(e.path, "1")
	c := &rig.Client{Base: d.line.url, HTTP: rig.NewHTTP()}
	require.NoError(t, c.Do(e.method, path, []byte(e.body)).Err)
	return !slices.ContainsFunc(d.line.last().objections, func(o string) bool { return strings.HasPrefix(o, "request.body") })
}

// parameters generates the required parameters of each verb.
func (d *document) parameters(t *testing.T, verbs []verb.Definition) map[string]map[string]json.RawMessage {
	t.Helper()
	all := map[string]map[string]json.RawMessage{}
	var plain []verb.Definition
	for _, v := range verbs {
		if _, twice := all[v.Name]; !twice {
			all[v.Name] = nil
			plain = append(plain, withoutBody(t, v))
		}
	}
	for _, made := range generate(t, plain) {
		if len(made.Args) > 0 {
			var args map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(made.Args[0], &args))
			all[made.Name] = args
		}
	}
	return all
}

// withoutBody returns the verb with the schema of its parameters alone.
func withoutBody(t *testing.T, v verb.Definition) verb.Definition {
	t.Helper()
	var schema, properties node
	required := []string{}
	require.NoError(t, json.Unmarshal(v.Schema, &schema))
	require.NoError(t, json.Unmarshal(schema["properties"], &properties))
	if schema["required"] != nil {
		require.NoError(t, json.Unmarshal(schema["required"], &required))
	}
	names := map[string]bool{}
	for _, p := range planOf(t, v).Params {
		names[p.Arg] = true
	}
	maps.DeleteFunc(properties, func(name string, _ json.RawMessage) bool { return !names[name] })
	required = slices.DeleteFunc(required, func(name string) bool { return !names[name] })
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		delete(schema, word)
	}
	schema["properties"], schema["required"] = raw(t, properties), raw(t, required)
	v.Schema = raw(t, schema)
	return v
}

func raw(t *testing.T, v any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

// argsOf returns the arguments by which the body is sent, otherwise why none can send it.
func argsOf(p httpplan.Plan, body json.RawMessage, params node) (args node, why string) {
	args = maps.Clone(params)
	if args == nil {
		args = node{}
	}
	if p.Body == nil || p.Body.Kind != httpplan.BodyJSON {
		return nil, isNoJSON
	}
	if p.Body.Arg != "" {
		args[p.Body.Arg] = body
		return args, ""
	}
	var members node
	if json.Unmarshal(body, &members) != nil || members == nil {
		return nil, isNoObject
	}
	for name, value := range members {
		if slices.ContainsFunc(p.Params, func(q httpplan.Param) bool { return q.Arg == name }) {
			return nil, isParameter
		}
		args[name] = value
	}
	return args, ""
}

// shown lists the examples of JSON bodies in the order of paths, methods and names.
func (d *document) shown(t *testing.T) (list []example) {
	t.Helper()
	var doc, paths node
	require.NoError(t, json.Unmarshal(d.raw, &doc))
	require.NoError(t, json.Unmarshal(doc["paths"], &paths))
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := at(doc, paths[path])
		for _, method := range []string{"post", "put", "patch"} {
			content := at(doc, at(doc, at(doc, item[method])["requestBody"])["content"])
			media := at(doc, content["application/json"])
			if body := media["example"]; body != nil {
				list = append(list, example{strings.ToUpper(method), path, "example", written(body)})
			}
			examples := at(doc, media["examples"])
			for _, name := range slices.Sorted(maps.Keys(examples)) {
				if body := at(doc, examples[name])["value"]; body != nil {
					list = append(list, example{strings.ToUpper(method), path, "examples/" + name, written(body)})
				}
			}
		}
	}
	return list
}

// written returns the JSON that an example has, also where the document has it as text.
func written(body json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(body, &text) == nil && strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return body
}

// at reads an object of the document, and follows its reference.
func at(doc node, text json.RawMessage) (n node) {
	_ = json.Unmarshal(text, &n) // what is no object is empty
	var ref string
	if json.Unmarshal(n["$ref"], &ref) != nil {
		return n
	}
	n = doc
	for step := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		var next node
		_ = json.Unmarshal(n[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)], &next)
		n = next
	}
	return n
}

// exact returns JSON in one form, with every digit of its numbers.
func exact(t *testing.T, text []byte) []byte {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return raw(t, v)
}
