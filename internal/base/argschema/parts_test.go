package argschema_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/pattern"
)

// parted is a schema with its definitions, each checked by itself.
type parted struct {
	own   string
	defs  map[string]string
	parts map[string]*argschema.Part
	memo  *pattern.Memo
}

var refersTo = regexp.MustCompile(`"#/\$defs/(\w+)"`)

// part checks one text by itself, nil where that cannot be. All definitions that it refers to count as
// those of the same value.
func (p *parted) part(text string) *argschema.Part {
	var refs []string
	inPlace := map[string]*argschema.Part{}
	for _, found := range refersTo.FindAllStringSubmatch(text, -1) {
		refs = append(refs, found[1])
	}
	slices.Sort(refs)
	refs = slices.Compact(refs)
	for _, name := range refs {
		if _, known := p.parts[name]; !known {
			p.parts[name] = nil // a ring ends here
			p.parts[name] = p.part(p.defs[name])
		}
		inPlace[name] = p.parts[name]
	}
	part, err := argschema.CompilePart(json.RawMessage(text), refs, inPlace, p.memo)
	if err != nil {
		return nil
	}
	return part
}

// fits says what the parts say, and what Compile says of the whole.
func fits(own string, defs map[string]string) (parts, whole bool) {
	p := &parted{own: own, defs: defs, parts: map[string]*argschema.Part{}, memo: pattern.NewMemo(argschema.MaxPattern, 100_000)}
	part := p.part(own)
	for name, text := range defs {
		if _, known := p.parts[name]; !known {
			p.parts[name] = p.part(text)
		}
	}
	var list []string
	for name, text := range defs {
		list = append(list, fmt.Sprintf("%q:%s", name, text))
	}
	slices.Sort(list)
	_, err := argschema.Compile(json.RawMessage(`{"$defs":{` + strings.Join(list, ",") + `},` + own[1:]))
	return part != nil && part.Fit(p.parts), err == nil
}

func ref(name string) string { return `{"$ref":"#/$defs/` + name + `"}` }

// many is n definitions.
func many(n int, text func(i int) string) map[string]string {
	defs := map[string]string{}
	for i := range n {
		defs[fmt.Sprintf("D%d", i)] = text(i)
	}
	return defs
}

func TestPartsFitWhereTheWholeCompiles(t *testing.T) {
	t.Parallel()
	with := func(schema string) string { return `{"type":"object","properties":{"a":` + schema + `}}` }
	for name, tc := range map[string]struct {
		own         string
		defs        map[string]string
		parts, want bool
	}{
		"a definition":           {with(ref("D0")), many(1, func(int) string { return with(`{"pattern":"^a+$"}`) }), true, true},
		"in place":               {`{"allOf":[` + ref("D0") + `]}`, many(1, func(int) string { return with(`true`) }), true, true},
		"a ring through members": {with(ref("D0")), many(3, func(i int) string { return with(ref(fmt.Sprintf("D%d", (i+1)%3))) }), true, true},
		"a ring in place":        {with(ref("D0")), many(2, func(i int) string { return `{"allOf":[` + ref(fmt.Sprintf("D%d", 1-i)) + `]}` }), false, false},
		"doubling in place": {`{"allOf":[` + ref("D0") + `]}`, many(41, func(i int) string {
			if i == 40 {
				return `{"type":"object"}`
			}
			next := ref(fmt.Sprintf("D%d", i+1))
			return `{"allOf":[` + next + `,` + next + `]}`
		}), false, false},
		"as many schemas as may be":       {with(ref("D0")), many(100, func(int) string { return `{"anyOf":[` + repeated(48, `{}`) + `]}` }), true, true},
		"too many schemas":                {with(ref("D0")), many(100, func(int) string { return `{"anyOf":[` + repeated(50, `{}`) + `]}` }), false, false},
		"the same expression everywhere":  {with(ref("D0")), many(100, func(int) string { return `{"pattern":"[ab]{900}"}` }), true, true},
		"expressions too large together":  {with(ref("D0")), many(100, func(i int) string { return fmt.Sprintf(`{"pattern":"%d[ab]{900}"}`, i) }), false, false},
		"an expression that is malformed": {with(ref("D0")), many(1, func(int) string { return `{"pattern":"("}` }), false, false},
		"a type that is none":             {with(ref("D0")), many(1, func(int) string { return `{"type":"text"}` }), false, false},
		"nested as deep as may be":        {`{}`, many(1, func(int) string { return strings.Repeat(`{"not":`, 125) + `{}` + strings.Repeat(`}`, 125) }), true, true},
		"nested too deep":                 {`{}`, many(1, func(int) string { return strings.Repeat(`{"not":`, 126) + `{}` + strings.Repeat(`}`, 126) }), false, false},
		"places too long together": {with(ref("D0")), many(100, func(int) string {
			return `{"properties":{"` + strings.Repeat("n", 500) + `":{"anyOf":[` + repeated(25, `{}`) + `]}}}`
		}), false, false},
		"no arguments could be judged": {`{"allOf":[` + ref("D0") + `,` + ref("D1") + `]}`, many(2, func(int) string {
			return `{"allOf":[` + repeated(40, `{"enum":[`+repeated(400, `{"a":[[],[],[]]}`)+`]}`) + `]}`
		}), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := tc.own
			if own == "{}" {
				own = `{"title":"t"}`
			}
			parts, whole := fits(own, tc.defs)
			require.Equal(t, tc.want, whole, "the whole")
			require.Equal(t, tc.parts, parts, "the parts")
		})
	}
}

// What the parts accept, Compile accepts as a whole, so that a schema is judged alike either way.
func TestPartsNeverFitWhereTheWholeIsRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "definitions")
		var schema func(depth int) any
		schema = func(depth int) any {
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0, 1:
				return map[string]any{"$ref": fmt.Sprintf("#/$defs/D%d", rapid.IntRange(0, n-1).Draw(t, "to"))}
			case 2:
				return map[string]any{"pattern": rapid.SampledFrom([]string{"a{900}", "b{999}", "(", "^x$"}).Draw(t, "pattern")}
			case 3:
				return map[string]any{"type": rapid.SampledFrom([]string{"object", "string", "text"}).Draw(t, "type")}
			}
			if depth == 0 {
				return true
			}
			list := make([]any, rapid.IntRange(1, 4).Draw(t, "members"))
			for i := range list {
				list[i] = schema(depth - 1)
			}
			switch word := rapid.SampledFrom([]string{"allOf", "anyOf", "not", "properties", "items", "enum"}).Draw(t, "word"); word {
			case "not", "items":
				return map[string]any{word: list[0]}
			case "properties":
				return map[string]any{word: map[string]any{"a": list[0], "b": list[len(list)-1]}}
			case "enum":
				return map[string]any{word: []any{strings.Repeat("v", len(list))}, "allOf": list}
			default:
				return map[string]any{word: list}
			}
		}
		text := func(v any) string {
			raw, err := exactjson.Encode(v)
			require.NoError(t, err)
			return string(raw)
		}
		defs := map[string]string{}
		for i := range n {
			defs[fmt.Sprintf("D%d", i)] = text(map[string]any{"title": "t", "allOf": []any{schema(3)}})
		}
		parts, whole := fits(text(map[string]any{"type": "object", "properties": map[string]any{"a": schema(3)}}), defs)
		if parts {
			require.True(t, whole)
		}
	})
}
