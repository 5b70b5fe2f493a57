package docs_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/maps/mapdef"
)

// The part of map-format.md after this line is made of the codes and the JSON Schema.
const mapFormatBegin = "<!-- Made of internal/maps/mapdef by make gen. Do not edit what follows. -->\n"

// mapReference renders the codes of each type of steps, and the JSON Schema of the format.
func mapReference(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("\n| Type | Codes |\n|---|---|\n")
	general := mapdef.Codes(mapdef.TypeSet)
	for _, typ := range mapdef.Types() {
		own := slices.DeleteFunc(mapdef.Codes(typ), func(c string) bool { return slices.Contains(general, c) })
		if len(own) > 0 {
			fmt.Fprintf(&b, "| `%s` | %s |\n", typ, strings.Join(own, ", "))
		}
	}
	fmt.Fprintf(&b, "| all | %s |\n", strings.Join(general, ", "))
	schema, err := exactjson.Tree(mapdef.Schema("map.json"))
	require.NoError(t, err)
	b.WriteString("\n## Definition\n")
	objectReference(&b, "", schema, nil)
	defs, _ := schema.Get("$defs")
	first, _ := defs.Get("step_" + string(mapdef.TypeSet))
	common := commonNames(t, defs)
	b.WriteString("\n## All steps\n")
	objectReference(&b, "", first, func(name string) bool { return common[name] })
	for _, typ := range mapdef.Types() {
		step, _ := defs.Get("step_" + string(typ))
		about, _ := step.Get("description")
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", typ, wrapped(about.Text))
		shown := func(name string) bool { return !common[name] || (name == "timeout" && typ == mapdef.TypeApproval) }
		objectReference(&b, "", step, shown)
	}
	return b.String()
}

// wrapped breaks a text into lines of at most 100 columns.
func wrapped(text string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > 100 {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return strings.Join(append(lines, line), "\n")
}

// commonNames are the members that steps of all types have.
func commonNames(t *testing.T, defs exactjson.Node) map[string]bool {
	t.Helper()
	counts := map[string]int{}
	for _, typ := range mapdef.Types() {
		step, ok := defs.Get("step_" + string(typ))
		require.True(t, ok)
		properties, _ := step.Get("properties")
		for _, p := range properties.Members {
			counts[p.Name]++
		}
	}
	names := map[string]bool{}
	for name, n := range counts {
		names[name] = n == len(mapdef.Types())
	}
	return names
}

// objectReference renders the members of an object, and those of objects within.
func objectReference(b *strings.Builder, prefix string, object exactjson.Node, shown func(string) bool) {
	if prefix == "" {
		b.WriteString("\n| Member | Value | Required | |\n|---|---|---|---|\n")
	}
	required, _ := object.Get("required")
	properties, _ := object.Get("properties")
	for _, p := range properties.Members {
		if shown != nil && !shown(p.Name) {
			continue
		}
		must := ""
		if slices.ContainsFunc(required.Items, func(n exactjson.Node) bool { return n.Text == p.Name }) {
			must = "yes"
		}
		about, _ := p.Value.Get("description")
		kind := kindOfValue(p.Value)
		if prefix == "" && p.Name == "type" {
			kind = "one of the types below"
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s | %s |\n", prefix, p.Name, kind, must, about.Text)
		inner, more := p.Value, "."
		if items, ok := p.Value.Get("items"); ok {
			inner, more = items, "[]."
		}
		if _, ok := inner.Get("properties"); ok {
			objectReference(b, prefix+p.Name+more, inner, nil)
		}
	}
}

// kindOfValue says what a member's value is.
func kindOfValue(n exactjson.Node) string {
	text := "text"
	if ref, ok := n.Get("$ref"); ok {
		text = strings.TrimPrefix(ref.Text, "#/$defs/")
		text = map[string]string{"schema": "JSON Schema", "value": "any value"}[text] + map[bool]string{true: text}[text != "schema" && text != "value"]
	} else if typ, ok := n.Get("type"); ok && typ.Text != "string" {
		text = typ.Text
	}
	if fixed, ok := n.Get("const"); ok {
		text = "`" + fixed.Text + "`"
	}
	if values, ok := n.Get("enum"); ok {
		var list []string
		for _, v := range values.Items {
			list = append(list, "`"+v.Text+"`")
		}
		text = strings.Join(list, ", ")
	}
	if otherwise, ok := n.Get("default"); ok {
		text += "; without it " + string(otherwiseOf(otherwise))
	}
	return text + bounds(n)
}

// otherwiseOf returns a default as JSON.
func otherwiseOf(n exactjson.Node) []byte {
	switch n.Kind {
	case exactjson.TextNode:
		return []byte("`" + n.Text + "`")
	case exactjson.TrueNode:
		return []byte("`true`")
	case exactjson.FalseNode:
		return []byte("`false`")
	case exactjson.ArrayNode:
		return []byte("`" + string(n.Raw) + "`")
	default:
		return []byte("`" + n.Text + "`")
	}
}

// bounds says how large a number may be, or how many items there may be.
func bounds(n exactjson.Node) string {
	out := ""
	for _, w := range []struct{ least, most, what string }{{"minimum", "maximum", ""}, {"minItems", "maxItems", " items"}} {
		least, is := n.Get(w.least)
		most, atMost := n.Get(w.most)
		switch {
		case is && atMost:
			out += ", " + least.Text + " to " + most.Text + w.what
		case atMost:
			out += ", at most " + most.Text + w.what
		case is:
			out += ", at least " + least.Text + w.what
		}
	}
	return out
}

func TestMapFormatPageListsTheSchema(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("reference/map-format.md")
	require.NoError(t, err)
	before, _, found := strings.Cut(string(raw), mapFormatBegin)
	require.True(t, found)
	want := before + mapFormatBegin + mapReference(t)
	if *update {
		require.NoError(t, os.WriteFile("reference/map-format.md", []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(raw), "make gen writes it again")
}

// The example of the page is a definition without faults.
func TestMapFormatPageHasAValidExample(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("reference/map-format.md")
	require.NoError(t, err)
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(string(raw))
	require.NotNil(t, example)
	source, faults := mapdef.FromYAML([]byte(example[1]))
	require.Empty(t, faults)
	d, faults := mapdef.Read(source)
	require.Empty(t, faults)
	wrong, warnings := d.Check()
	require.Empty(t, append(wrong, warnings...))
}
