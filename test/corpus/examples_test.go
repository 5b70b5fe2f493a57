//go:build corpus

package corpus

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/verb"
	"agentruntime/test/rig"
)

// id names an example in the lists.
func (d *document) id(e example) string {
	return strings.Join([]string{d.name, e.method, e.path, e.name}, " ")
}

// sendBodies sends the bodies that the document shows. Each arrives unchanged, or is listed.
func (d *document) sendBodies(t *testing.T, tenant *rig.Tenant, c *count) {
	t.Helper()
	shown := d.bodies()
	var verbs []verb.Definition
	for _, e := range shown {
		if v, known := d.routes[e.method+" "+e.path]; known {
			verbs = append(verbs, v)
		}
	}
	params := d.parametersOf(t, verbs)
	for _, e := range shown {
		v, known := d.routes[e.method+" "+e.path]
		if !known {
			require.True(t, d.rejected[e.method+" "+e.path], "no verb sends %s %s", e.method, e.path)
			d.lists.refuse(isRejected, d.id(e))
			c.listed++
			continue
		}
		d.sendBody(t, tenant, c, e, v, params[v.Name])
	}
}

// sendBody sends one example and counts what came of it.
func (d *document) sendBody(t *testing.T, tenant *rig.Tenant, c *count, e example, v verb.Definition, params node) {
	t.Helper()
	e.body = d.written(e.body, e.schema)
	args, why := d.argsOf(t, v, e, params)
	if why == "" && d.arrives(t, tenant, d.slug+":"+v.Name, args, e, &why) {
		c.examples++
		if d.sent[v.Name] == nil {
			d.sent[v.Name] = args
		}
		return
	}
	if why == "" {
		return // it was sent otherwise, which has failed the test
	}
	if slices.Contains([]string{isOtherMedia, isNoBody}, why) {
		d.lists.refuse(why, d.id(e))
		c.listed++
		return
	}
	if unfit := d.unfit(t, e); unfit != "" {
		d.lists.misfit(unfit, d.id(e))
		c.unfit++
		return
	}
	if args != nil && why != isFormat {
		if d.loose == "" {
			d.loose = "z" + d.slug[1:] // of the same length, on which the names of long verbs depend
			d.provide(t, tenant, d.loose, false)
		}
		if d.arrives(t, tenant, d.loose+":"+v.Name, args, e, &why) {
			d.lists.loosen(d.id(e))
			c.examples++
			c.loose++
			return
		}
	}
	d.lists.refuse(why, d.id(e))
	c.listed++
}

// arrives reports whether the example arrives unchanged by the verb. Where the service refuses it, why
// says for which of the reasons of refused.json, or has the answer.
func (d *document) arrives(t *testing.T, tenant *rig.Tenant, name string, args node, e example, why *string) bool {
	t.Helper()
	d.line.clear()
	a := tenant.Runtime.Run(name, args, "")
	got := d.line.last()
	if got == nil {
		*why = d.reasonOf(t, a, e)
		return false
	}
	*why = ""
	if wrong := same(t, e, got); wrong != "" {
		t.Errorf("%s: the example %s did not arrive unchanged, %s: %+v\n%s", d.id(e), e.body, wrong, got, a.Body)
		return false
	}
	return true
}

// The reasons for which the service refuses what a schema accepts.
const (
	isRejected   = "The import rejects the operation, and its report says why."
	isNoBody     = "A read sends no body, and the report of the import says so."
	isOtherMedia = "The service sends another media type of the operation, which the import chooses."
	isNoObject   = "The body is no object, and the verb has arguments of one."
	isReadOnly   = "The document has a member as readOnly, so that no request sends it."
	isUnlisted   = "The document does not list a member, so that it is no argument. With strict: false too, a verb has the arguments that its document lists, and no others."
	isFormat     = "A time has no colon in its offset, as RFC 3339 has it, which date-time names. Some validators accept it."
	isNoArgument = "The service sets Accept and Content-Type itself, and OpenAPI has such parameters ignored."
)

// reasonOf says for which reason the service refused the call, otherwise what it answered.
func (d *document) reasonOf(t *testing.T, a rig.Answer, e example) string {
	t.Helper()
	readOnly := d.readOnly(e.schema, 0)
	rules := map[string]bool{}
	for _, f := range faults(t, a) {
		parts := strings.Split(f.Path, "/")
		switch {
		case f.Rule == "unknown_field" && len(parts) == 3 && slices.Contains(readOnly, parts[2]):
			rules[isReadOnly] = true
		case f.Rule == "unknown_field" && len(parts) == 3 && parts[2] != "body":
			rules[isUnlisted] = true
		case f.Rule == "format":
			rules[isFormat] = true
		default:
			rules[f.Path+" "+f.Rule+" "+f.Message] = true
		}
	}
	if len(rules) == 0 {
		return string(a.Body)
	}
	return strings.Join(slices.Sorted(maps.Keys(rules)), " ")
}

// problem is one detail of a refusal.
type problem struct{ Path, Rule, Message string }

func faults(t *testing.T, a rig.Answer) (list []problem) {
	t.Helper()
	if e := a.Envelope(t).Error; e != nil {
		_ = json.Unmarshal(e.Details, &list) // a refusal of another kind has none
	}
	return list
}

// unfit says how the document's schema does not accept the example, in prism's judgement or because
// its type is another, "" where it does.
func (d *document) unfit(t *testing.T, e example) string {
	t.Helper()
	if wrong := d.misfit(e.body, e.schema); wrong != "" {
		return wrong
	}
	path := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(e.path, "1")
	body, media := d.alone(t, e)
	return d.judged(t, e.method, path, http.Header{"Content-Type": {media}}, body, "request.body")
}

// judged sends a request to prism without the service. It returns what prism finds wrong about a part
// of it, "" for nothing.
func (d *document) judged(t *testing.T, method, path string, header http.Header, body []byte, about string) string {
	t.Helper()
	d.line.clear()
	req, err := http.NewRequestWithContext(t.Context(), method, d.line.url+path, strings.NewReader(string(body)))
	require.NoError(t, err)
	maps.Copy(req.Header, header)
	res, err := rig.NewHTTP().Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	wrong := map[string]bool{}
	for _, objection := range d.line.last().objections {
		if strings.HasPrefix(strings.ToLower(objection), strings.ToLower(about)) {
			_, message, _ := strings.Cut(objection, ": ")
			wrong[message] = true
		}
	}
	list := slices.Sorted(maps.Keys(wrong))
	if more := len(list) - mostTold; more > 0 {
		list = append(list[:mostTold], fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, "; ")
}

// mostTold is how many objections a reason has.
const mostTold = 2

// parametersOf generates the required parameters of each verb.
func (d *document) parametersOf(t *testing.T, verbs []verb.Definition) map[string]map[string]json.RawMessage {
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
