//go:build corpus

package corpus

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/httpplan"
	"agentruntime/test/rig"
)

// use is a value that a call sends for a parameter. The first values of required parameters are sent
// again with the others, and count once.
type use struct {
	p      parameter
	arg    string
	name   string // of the example
	value  json.RawMessage
	counts bool
}

// sendValues sends the values that the document shows for parameters. The first values of all parameters
// of an operation go in one call, the second ones in another, and so on. What else the verb requires is
// the first value shown for it, or what an example of its body had. Otherwise it is generated.
func (d *document) sendValues(t *testing.T, tenant *rig.Tenant, c *count) {
	t.Helper()
	operations := slices.DeleteFunc(d.operations(), func(o operation) bool {
		_, known := d.routes[o.method+" "+o.path]
		return !known
	})
	others := d.others(t, operations)
	for _, o := range operations {
		v := d.routes[o.method+" "+o.path]
		for round := range slices.MaxFunc(o.params, func(a, b parameter) int { return len(a.shown) - len(b.shown) }).shown {
			d.sendUses(t, tenant, c, o, v, d.uses(t, o, v, round, c), others[v.Name])
		}
	}
}

// others returns what the verbs of operations require besides the values that are shown.
func (d *document) others(t *testing.T, operations []operation) map[string]node {
	t.Helper()
	all := map[string]node{}
	var missing []verb.Definition
	for _, o := range operations {
		v := d.routes[o.method+" "+o.path]
		if all[v.Name] = d.sent[v.Name]; all[v.Name] != nil {
			continue
		}
		var schema struct{ Required []string }
		require.NoError(t, json.Unmarshal(v.Schema, &schema))
		for _, p := range planOf(t, v).Params {
			fits := func(q parameter) bool {
				return q.in == p.In && q.name == p.Wire() && len(q.shown) > 0 && d.misfit(d.written(q.shown[0].text, q.schema), q.schema) == ""
			}
			if slices.ContainsFunc(o.params, fits) {
				schema.Required = slices.DeleteFunc(schema.Required, func(name string) bool { return name == p.Arg })
			}
		}
		if len(schema.Required) > 0 {
			missing = append(missing, v)
		}
	}
	for _, made := range generate(t, missing) {
		if len(made.Args) > 0 {
			var args node
			require.NoError(t, json.Unmarshal(made.Args[0], &args))
			all[made.Name] = args
		}
	}
	return all
}

// uses returns the values of a round, and lists those that cannot be sent.
func (d *document) uses(t *testing.T, o operation, v verb.Definition, round int, c *count) (list []use) {
	t.Helper()
	plan := planOf(t, v)
	for _, p := range o.params {
		if len(p.shown) <= round && (!p.required || len(p.shown) == 0) {
			continue
		}
		u := use{p: p, counts: round < len(p.shown)}
		shown := p.shown[0]
		if u.counts {
			shown = p.shown[round]
		}
		u.name, u.value = shown.name, d.written(shown.text, p.schema)
		at := slices.IndexFunc(plan.Params, func(q httpplan.Param) bool {
			return q.In == p.in && (q.Wire() == p.name || p.in == "header" && strings.EqualFold(q.Wire(), p.name))
		})
		wrong := d.misfit(u.value, p.schema)
		switch {
		case at < 0 && u.counts:
			d.lists.refuse(isNoArgument, d.idOf(o, u))
			c.listed++
		case at < 0:
		case wrong != "" && u.counts:
			d.lists.misfit(wrong, d.idOf(o, u))
			c.unfit++
		case wrong != "":
		default:
			u.arg = plan.Params[at].Arg
			list = append(list, u)
		}
	}
	return list
}

func (d *document) idOf(o operation, u use) string {
	return strings.Join([]string{d.name, o.method, o.path, u.p.in, u.p.name, u.name}, " ")
}

// sendUses makes the call of a round. Where the service refuses values, it makes the call again without
// them.
func (d *document) sendUses(t *testing.T, tenant *rig.Tenant, c *count, o operation, v verb.Definition, uses []use, others node) {
	t.Helper()
	counts := func(u use) bool { return u.counts }
	for slices.ContainsFunc(uses, counts) {
		args := maps.Clone(others)
		if args == nil {
			args = node{}
		}
		for _, u := range uses {
			args[u.arg] = u.value
		}
		d.line.clear()
		a := tenant.Runtime.Run(d.slug+":"+v.Name, args, "")
		if got := d.line.last(); got != nil {
			for _, u := range uses {
				if !u.counts {
					continue
				}
				if wrong := arrivedAs(t, o, u, got); wrong != "" {
					t.Errorf("%s: %s did not arrive unchanged, %s: %+v", d.idOf(o, u), u.value, wrong, got)
					continue
				}
				c.values++
			}
			return
		}
		named := map[string]string{}
		for _, f := range faults(t, a) {
			if parts := strings.Split(f.Path, "/"); len(parts) > 2 {
				named[strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[2])] = f.Rule + " " + f.Message
			}
		}
		before := len(uses)
		uses = slices.DeleteFunc(uses, func(u use) bool {
			why, is := named[u.arg]
			if !is {
				return false
			}
			if u.counts {
				d.listUse(t, c, o, u, why)
			}
			return true
		})
		if len(uses) == before {
			t.Errorf("%s %s: the call cannot be made: %s %s", o.method, o.path, args, a.Body)
			return
		}
	}
}

// listUse lists a value that the service refuses.
func (d *document) listUse(t *testing.T, c *count, o operation, u use, why string) {
	t.Helper()
	if unfit := d.unfitUse(t, o, u); unfit != "" {
		d.lists.misfit(unfit, d.idOf(o, u))
		c.unfit++
		return
	}
	if strings.HasPrefix(why, "format ") {
		why = isFormat
	}
	d.lists.refuse(why, d.idOf(o, u))
	c.listed++
}

// pairs returns the names and values by which a query or a Cookie header has the value, decoded.
func pairs(t *testing.T, u use) (list [][2]string) {
	t.Helper()
	p, separator := u.p, map[string]string{"form": ",", "spaceDelimited": " ", "pipeDelimited": "|"}[u.p.style]
	var items []json.RawMessage
	var members node
	switch {
	case p.json:
		return [][2]string{{p.name, string(u.value)}}
	case json.Unmarshal(u.value, &items) == nil && typeOf(u.value) == "array":
		var texts []string
		for _, item := range items {
			texts = append(texts, scalarOf(item))
			list = append(list, [2]string{p.name, scalarOf(item)})
		}
		if p.explode {
			return list
		}
		return [][2]string{{p.name, strings.Join(texts, separator)}}
	case json.Unmarshal(u.value, &members) == nil && typeOf(u.value) == "object":
		var texts []string
		for _, name := range slices.Sorted(maps.Keys(members)) {
			texts = append(texts, name, scalarOf(members[name]))
			wire := name
			if p.style == "deepObject" {
				wire = p.name + "[" + name + "]"
			}
			list = append(list, [2]string{wire, scalarOf(members[name])})
		}
		if p.explode || p.style == "deepObject" {
			return list
		}
		return [][2]string{{p.name, strings.Join(texts, separator)}}
	}
	return [][2]string{{p.name, scalarOf(u.value)}}
}

// joined returns the value as a path or a header has it, decoded.
func joined(t *testing.T, u use) string {
	t.Helper()
	require.Contains(t, []string{"", "simple"}, u.p.style, "the test does not know the style of %s", u.p.name)
	if u.p.json {
		return string(u.value)
	}
	u.p.style, u.p.explode, u.p.name = "form", false, ""
	return pairs(t, u)[0][1]
}

// arrivedAs says how the value that arrived is another, "" where it is the same.
func arrivedAs(t *testing.T, o operation, u use, got *arrival) string {
	t.Helper()
	_, uri, _ := strings.Cut(got.line, " ")
	path, query, _ := strings.Cut(uri, "?")
	differs := func(has, want string) string {
		if has == want || u.p.json && bytes.Equal(exact(t, []byte(has)), exact(t, []byte(want))) {
			return ""
		}
		return "it is " + has + " and not " + want
	}
	switch u.p.in {
	case "header":
		return differs(got.header.Get(u.p.name), joined(t, u))
	case "path":
		template := regexp.QuoteMeta(o.path)
		template = regexp.MustCompile(`\\\{[^}]*\\\}`).ReplaceAllStringFunc(template, func(name string) string {
			if name == regexp.QuoteMeta("{"+u.p.name+"}") {
				return "(.*)"
			}
			return ".*"
		})
		found := regexp.MustCompile("^" + template + "$").FindStringSubmatch(path)
		if found == nil {
			return "the path is another"
		}
		plain, err := url.PathUnescape(found[1])
		require.NoError(t, err)
		return differs(plain, joined(t, u))
	case "cookie":
		query = strings.ReplaceAll(got.header.Get("Cookie"), "; ", "&")
	}
	has := map[string][]string{}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(name)
		require.NoError(t, err)
		value, err = url.QueryUnescape(value)
		require.NoError(t, err)
		has[plain] = append(has[plain], value)
	}
	for _, want := range pairs(t, u) {
		if len(has[want[0]]) == 0 {
			return "it is not there"
		}
		if wrong := differs(has[want[0]][0], want[1]); wrong != "" {
			return wrong
		}
		has[want[0]] = has[want[0]][1:]
	}
	if len(has[u.p.name]) > 0 {
		return "there is more of it"
	}
	return ""
}

// unfitUse says what prism finds wrong about the value where it is sent without the service.
func (d *document) unfitUse(t *testing.T, o operation, u use) string {
	t.Helper()
	header, query := http.Header{}, ""
	path := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllStringFunc(o.path, func(name string) string {
		if u.p.in == "path" && name == "{"+u.p.name+"}" {
			return url.PathEscape(joined(t, u))
		}
		return "1"
	})
	switch u.p.in {
	case "header":
		header.Set(u.p.name, joined(t, u))
	case "query", "cookie":
		var list []string
		for _, pair := range pairs(t, u) {
			list = append(list, url.QueryEscape(pair[0])+"="+url.QueryEscape(pair[1]))
		}
		if query = "?" + strings.Join(list, "&"); u.p.in == "cookie" {
			header.Set("Cookie", strings.Join(list, "; "))
			query = ""
		}
	}
	return d.judged(t, o.method, path+query, header, nil, "request."+u.p.in+"."+u.p.name)
}
