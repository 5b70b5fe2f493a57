package argdiff_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/provider/argdiff"
)

// compare writes the differences one a line: "argument_retyped /a string → integer".
func compare(before, now string) string {
	left := 10_000_000
	r := argdiff.Compare(json.RawMessage(before), json.RawMessage(now), 100, &left)
	var lines []string
	for _, d := range r.List {
		lines = append(lines, strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%s %s %s → %s", d.Kind, d.Pointer, d.Before, d.After), "argument_"), " "))
	}
	if r.Incomplete {
		lines = append(lines, "incomplete")
	}
	return strings.Join(lines, "\n")
}

func object(members string, required ...string) string {
	names, err := json.Marshal(append([]string{}, required...))
	if err != nil {
		panic(err)
	}
	return `{"type":"object","properties":{` + members + `},"required":` + string(names) + `,"additionalProperties":false}`
}

func TestCompareFindsEachDifference(t *testing.T) {
	t.Parallel()
	text, count := `"a":{"type":"string"}`, `"a":{"type":"integer"}`
	for name, tc := range map[string]struct{ before, now, want string }{
		"nothing":            {object(text), object(text), ""},
		"descriptions":       {object(text), object(`"a":{"type":"string","description":"d","maxLength":3}`), ""},
		"removed":            {object(text), object(""), "removed /a string →"},
		"forbidden":          {object(text), object(`"a":false`), "removed /a string →"},
		"retyped":            {object(text), object(count), "retyped /a string → integer"},
		"widened":            {object(count), object(`"a":{"type":"number"}`), "retyped /a integer → number"},
		"null":               {object(text), object(`"a":{"type":["string","null"]}`), "retyped /a string → string or null"},
		"nullable":           {object(text), object(`"a":{"type":"string","nullable":true}`), "retyped /a string → string or null"},
		"given up":           {object(text), object(`"a":{"x-opaque":true}`), "retyped /a string → any"},
		"required":           {object(text), object(text, "a"), "required /a optional string → required string"},
		"new and required":   {object(""), object(text, "a"), "required /a  → required string"},
		"new and optional":   {object(""), object(text), "added /a  → optional string"},
		"no longer required": {object(text, "a"), object(text), "optional /a required string → optional string"},
		"required, and in no list of names": {
			`{"type":"object","additionalProperties":true}`, `{"type":"object","required":["a"]}`, "required /a optional any → required any",
		},
		"required, and of the type of other members": {
			`{"type":"object","additionalProperties":{"type":"string"}}`, `{"type":"object","additionalProperties":{"type":"string"},"required":["a"]}`, "required /a optional string → required string",
		},
		"no longer required, and in no list of names": {
			`{"type":"object","required":["a"]}`, `{"type":"object"}`, "optional /a required any → optional any",
		},
		"two at once":                                      {object(text), object(count, "a"), "required /a optional string → required integer\nretyped /a string → integer"},
		"a name with a slash":                              {object(`"a/b~c":{}`), object(""), "removed /a~1b~0c any →"},
		"within an object":                                 {object(`"o":` + object(text)), object(`"o":` + object(text, "a")), "required /o/a optional string → required string"},
		"within a list":                                    {object(`"l":{"type":"array","items":` + object(text) + `}`), object(`"l":{"type":"array","items":` + object(count) + `}`), "retyped /l/*/a string → integer"},
		"the elements":                                     {object(`"l":{"type":"array","items":{"type":"string"}}`), object(`"l":{"type":"array"}`), "retyped /l/* string → any"},
		"one element":                                      {object(`"l":{"type":"array","prefixItems":[{"type":"string"}]}`), object(`"l":{"type":"array","prefixItems":[{"type":"null"}]}`), "retyped /l/0 string → null"},
		"other members":                                    {object(`"m":{"type":"object","additionalProperties":{"type":"string"}}`), object(`"m":{"type":"object","additionalProperties":{"type":"number"}}`), "retyped /m/* string → number"},
		"other members of any type":                        {object(`"m":{"type":"object","additionalProperties":{"type":"string"}}`), object(`"m":{"type":"object","additionalProperties":true}`), "retyped /m/* string → any"},
		"other members of one type":                        {object(`"m":{"type":"object","additionalProperties":true}`), object(`"m":{"type":"object","additionalProperties":{"type":"string"}}`), "retyped /m/* any → string"},
		"other members, no longer described":               {object(`"m":{"type":"object","additionalProperties":{"type":"string"}}`), object(`"m":{"type":"object"}`), "retyped /m/* string → any"},
		"other members of any type, in other words":        {object(`"m":{"type":"object","additionalProperties":{}}`), object(`"m":{"type":"object"}`), ""},
		"other members of any type, each within the other": {`{"additionalProperties":{"$ref":"#"}}`, `{"additionalProperties":true}`, ""},
		"other members in an alternative":                  {`{"anyOf":[{"type":"null"},{"type":"object","additionalProperties":{"type":"string"}}]}`, `{"anyOf":[{"type":"null"},{"type":"object","additionalProperties":true}]}`, "retyped /* string → any"},
		"other members beside a closed alternative":        {`{"anyOf":[{"type":"object","additionalProperties":false},{"type":"object","additionalProperties":{"type":"string"}}]}`, `{"anyOf":[{"type":"object","additionalProperties":false},{"type":"object","additionalProperties":true}]}`, "retyped /* string → any"},
		"other members in a part":                          {`{"allOf":[{"type":"object","additionalProperties":{"type":"string"}}],"unevaluatedProperties":false}`, `{"allOf":[{"type":"object","additionalProperties":true}],"unevaluatedProperties":false}`, "retyped /* string → any"},
		"other members, closed by a part":                  {`{"type":"object","allOf":[{"additionalProperties":{"type":"string"}}]}`, `{"type":"object","allOf":[{"additionalProperties":false}]}`, ""},
		"below another type":                               {object(`"o":` + object(text)), object(`"o":{"type":"string"}`), "retyped /o object → string"},
		"what breaks is first":                             {object(`"z":{}`), object(`"b":{}`), "removed /z any →\nadded /b  → optional any"},
		"an enumeration":                                   {object(`"a":{"enum":["x"]}`), object(`"a":{"enum":["x",1]}`), "retyped /a string → string or integer"},
		"no JSON":                                          {object(text), "{", "incomplete"},
		"absent":                                           {"", "", ""},
		"a reference":                                      {`{"properties":{"a":{"$ref":"#/$defs/t"}},"$defs":{"t":{"type":"string"}}}`, object(text), ""},
		"a reference elsewhere":                            {`{"properties":{"a":{"$ref":"#/$defs/t"}},"$defs":{"t":{"type":"string"}}}`, `{"properties":{"a":{"$ref":"#/$defs/t"}},"$defs":{"t":{"type":"number"}}}`, "retyped /a string → number"},
		"allOf":                                            {object(text, "a"), `{"allOf":[{"properties":{"a":{"type":"string"}}},{"required":["a"]}],"type":"object"}`, ""},
		"allOf narrows":                                    {object(`"a":{"type":"number"}`), `{"type":"object","properties":{"a":{"allOf":[{"type":"number"},{"type":"integer"}]}}}`, "retyped /a number → integer"},
		"another alternative": {
			`{"type":"object","anyOf":[{"properties":{"a":{"type":"string"}},"required":["a"]}]}`,
			`{"type":"object","anyOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"string"}},"required":["b"]}]}`,
			"optional /a required string → sometimes required string\nadded /b  → optional string",
		},
		"an alternative of another type": {
			`{"type":"object","oneOf":[{"properties":{"a":{"type":"string"}}}]}`,
			`{"type":"object","oneOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"a":{"type":"integer"}}}]}`,
			"retyped /a string → string or integer",
		},
		"an alternative that requires": {
			`{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{},{}]}`,
			`{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{},{"required":["a"]}]}`,
			"required /a optional string → sometimes required string",
		},
		"a condition": {
			`{"type":"object","properties":{"kind":{"type":"string"}},"if":{"properties":{"kind":{"const":"cat"}}},"then":{"properties":{"lives":{"type":"integer"}}}}`,
			`{"type":"object","properties":{"kind":{"type":"string"}},"if":{"properties":{"kind":{"const":"cat"}}},"then":{"properties":{"lives":{"type":"string"}}}}`,
			"retyped /lives integer → string",
		},
		"a schema that refers to itself": {
			`{"type":"object","properties":{"child":{"$ref":"#"},"a":{"type":"string"}}}`,
			`{"type":"object","properties":{"child":{"$ref":"#"},"a":{"type":"integer"}}}`,
			"retyped /a string → integer",
		},
		"one that consists of itself": {`{"$ref":"#"}`, `{"allOf":[{"$ref":"#"},{"$ref":"#"}]}`, ""},
		"one that refers to itself through combinations": {
			`{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#"},{"type":"object","properties":{"a":{"$ref":"#"},"b":{"$ref":"#"}}}]}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#"},{"type":"object","properties":{"a":{"$ref":"#"},"b":{"$ref":"#"},"c":{}}}]}}}`,
			"added /a/c  → optional any\nadded /a/a/c  → optional any",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, compare(tc.before, tc.now))
		})
	}
}

func TestCompareWithoutWorkLeftIsIncomplete(t *testing.T) {
	t.Parallel()
	var members []string
	for i := range 2000 {
		members = append(members, fmt.Sprintf(`"m%d":{"type":"string"}`, i))
	}
	large := object(strings.Join(members, ","))
	for _, left := range []int{0, 1000, 2*len(large) + 1000} {
		r := argdiff.Compare(json.RawMessage(large), json.RawMessage(object("")), 10, &left)
		require.True(t, r.Incomplete)
		require.Negative(t, left)
	}
	left := 10_000_000
	r := argdiff.Compare(json.RawMessage(large), json.RawMessage(object("")), 10, &left)
	require.False(t, r.Incomplete)
	require.Len(t, r.List, 10)
	require.Equal(t, []int{2000, 2000}, []int{r.Total, r.Breaking})
}

// A schema may be small and describe more places than can be followed: each alternative below each.
func TestCompareOfManyCombinationsEnds(t *testing.T) {
	t.Parallel()
	var branches []string
	for i := range 40 {
		branches = append(branches, fmt.Sprintf(`{"type":"object","properties":{"x":{"$ref":"#/$defs/d%d"},"y":{"$ref":"#/$defs/d%d"}}}`, i, (i*7+3)%40))
	}
	definitions := make([]string, 40)
	for i := range definitions {
		definitions[i] = fmt.Sprintf(`"d%d":{"anyOf":[%s]}`, i, strings.Join(branches[i%5:], ","))
	}
	schema := `{"type":"object","properties":{"x":{"$ref":"#/$defs/d0"}},"$defs":{` + strings.Join(definitions, ",") + `}}`
	left := 5_000_000
	argdiff.Compare(json.RawMessage(schema), json.RawMessage(strings.Replace(schema, "object", "string", 3)), 10, &left)
}
