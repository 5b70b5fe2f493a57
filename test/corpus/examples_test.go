//go:build corpus

package corpus

import (
	"bytes"
	"encoding/json"
	"maps"
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
	method, path string
	body         json.RawMessage
}

// node is a place of a document.
type node = map[string]json.RawMessage

// examples sends the bodies that the document shows, at most examplesOf. One that its own schema
// does not accept, in prism's judgement, is listed and does not count.
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
		if v, known := byRoute[e.method+" "+e.path]; known {
			some, verbs = append(some, e), append(verbs, v)
		}
	}
	params := d.parameters(t, verbs)
	for i, e := range some {
		args, fits := argsOf(planOf(t, verbs[i]), e.body, params[verbs[i].Name])
		if !fits {
			t.Logf("%s %s: the example has a member of a parameter's name, or is not what the body is", e.method, e.path)
			c.other++
			continue
		}
		d.line.clear()
		a := tenant.Runtime.Run(d.slug+":"+verbs[i].Name, args, "")
		switch got := d.line.last(); {
		case got != nil && len(exact(t, e.body)) > 0 && bytes.Equal(exact(t, got.body), exact(t, e.body)):
			c.examples++
			c.unchanged++
		case got == nil && !d.accepts(t, e):
			t.Logf("%s %s: the schema does not accept the example: %.500s", e.method, e.path, a.Body)
			c.unfit++
		case got == nil && stricter(t, a):
			t.Logf("%s %s: the service is stricter than the schema: %.500s", e.method, e.path, a.Body)
			c.strict++
		default:
			c.examples++
			t.Errorf("%s %s: the example %s did not arrive unchanged: %+v\n%s", e.method, e.path, e.body, got, a.Body)
		}
	}
}

// stricter reports whether the service refuses what JSON Schema alone lets pass: names that the
// schema does not list where it says nothing of others, and times that are not as RFC 3339 has them.
func stricter(t *testing.T, a rig.Answer) bool {
	t.Helper()
	var details []struct{ Rule string }
	if e := a.Envelope(t).Error; e == nil || json.Unmarshal(e.Details, &details) != nil {
		return false
	}
	found := 0
	for _, d := range details {
		switch d.Rule {
		case "unknown_field", "format":
			found++
		case "oneOf", "anyOf", "allOf":
		default:
			return false
		}
	}
	return found > 0
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

// argsOf returns the arguments by which the body is sent.
func argsOf(p httpplan.Plan, body json.RawMessage, params map[string]json.RawMessage) (args map[string]json.RawMessage, fits bool) {
	args = maps.Clone(params)
	if args == nil {
		args = map[string]json.RawMessage{}
	}
	if p.Body == nil || p.Body.Kind != httpplan.BodyJSON {
		return nil, false
	}
	if p.Body.Arg != "" {
		args[p.Body.Arg] = body
		return args, true
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members == nil {
		return nil, false
	}
	for name, value := range members {
		if slices.ContainsFunc(p.Params, func(q httpplan.Param) bool { return q.Arg == name }) {
			return nil, false
		}
		args[name] = value
	}
	return args, true
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
				list = append(list, example{strings.ToUpper(method), path, body})
			}
			examples := at(doc, media["examples"])
			for _, name := range slices.Sorted(maps.Keys(examples)) {
				if body := at(doc, examples[name])["value"]; body != nil {
					list = append(list, example{strings.ToUpper(method), path, body})
				}
			}
		}
	}
	return list
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
