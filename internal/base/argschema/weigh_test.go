package argschema_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/argschema"
)

// joined writes n values, separated by commas.
func joined(n int, one func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = one(i)
	}
	return strings.Join(list, ",")
}

func repeated(n int, text string) string { return joined(n, func(int) string { return text }) }

// costly are checks whose cost is far beyond one call, by a small schema and small
// arguments. Without a bound some of them take hours, others all memory.
func costly() map[string]struct{ schema, args string } {
	number := func(i int) string { return strconv.Itoa(100_000 + i) }
	ref := func(i int) string { return fmt.Sprintf(`{"$ref":"#/$defs/A%d"}`, i) }
	return map[string]struct{ schema, args string }{
		"enum of numbers × items": {
			`{"properties":{"l":{"items":{"enum":[` + joined(9_000, number) + `]}}}}`, `{"l":[` + repeated(1000, "1") + `]}`,
		},
		"enum of objects × items": {
			`{"properties":{"l":{"items":{"enum":[` + joined(2_000, func(i int) string { return fmt.Sprintf(`{"a":[1,2,%d]}`, i) }) + `]}}}}`,
			`{"l":[` + repeated(2000, `{"a":[1,2,-1]}`) + `]}`,
		},
		"patterns × length": {
			`{"properties":{"s":{"allOf":[` + joined(20, func(i int) string { return fmt.Sprintf(`{"pattern":"(?:.{0,900}a)$|^%d"}`, i) }) + `]}}}`,
			`{"s":"` + strings.Repeat("a", 65_000) + `"}`,
		},
		"patternProperties × names": {
			`{"patternProperties":{"(?:.{0,900}a)$":{}}}`,
			`{` + joined(500, func(i int) string { return fmt.Sprintf(`"%d%s":1`, i, strings.Repeat("b", 100)) }) + `}`,
		},
		"propertyNames × names": {
			`{"propertyNames":{"pattern":"(?:.{0,900}a)$"}}`,
			`{` + joined(500, func(i int) string { return fmt.Sprintf(`"%d%s":1`, i, strings.Repeat("b", 100)) }) + `}`,
		},
		"anyOf × items": {
			`{"properties":{"l":{"items":{"anyOf":[` + repeated(1000, `{"type":"string","maxLength":1}`) + `]}}}}`, `{"l":[` + repeated(5000, `"xx"`) + `]}`,
		},
		"branches that double with each level": {
			`{"$ref":"#/$defs/N","$defs":{"N":{"anyOf":[` + joined(8, ref) + `]},` +
				joined(8, func(i int) string {
					return fmt.Sprintf(`"A%d":{"properties":{"x":{"$ref":"#/$defs/N"}},"required":["y%d"]}`, i, i)
				}) + `}}`,
			strings.Repeat(`{"x":`, 12) + "1" + strings.Repeat("}", 12),
		},
		"additionalProperties in place of names": {
			`{"additionalProperties":{"allOf":[` + repeated(500, `{"minLength":2}`) + `]}}`,
			`{` + joined(3000, func(i int) string { return fmt.Sprintf(`"n%d":"v"`, i) }) + `}`,
		},
		"contains and items": {
			`{"properties":{"l":{"contains":{"allOf":[` + repeated(300, `{"minLength":2}`) + `]},"items":{"allOf":[` + repeated(300, `{"maxLength":2}`) + `]}}}}`,
			`{"l":[` + repeated(3000, `"xy"`) + `]}`,
		},
		"dependentSchemas": {
			`{"properties":{"l":{"items":{"dependentSchemas":{` + joined(500, func(i int) string { return fmt.Sprintf(`"a%d":{"required":["b"]}`, i) }) + `}}}}}`,
			`{"l":[` + repeated(2000, `{"a1":1}`) + `]}`,
		},
		"many failures": {`{"properties":{"l":{"items":{"type":"string"}}}}`, `{"l":[` + repeated(400_000, "1") + `]}`},
	}
}

func TestValidateRefusesWhatCostsTooMuch(t *testing.T) {
	t.Parallel()
	for name, tc := range costly() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := argschema.Compile(json.RawMessage(tc.schema))
			require.NoError(t, err)
			details := s.Validate(json.RawMessage(tc.args))
			require.Len(t, details, 1)
			require.Equal(t, "complexity", details[0].Rule)
			require.Contains(t, details[0].Message, "too complex")
			for _, d := range s.Validate(json.RawMessage(`{}`)) {
				require.NotEqual(t, "complexity", d.Rule, "a small call is still judged")
			}
		})
	}
}

// TestValidateTakesLargeHonestArguments: bulk calls stay far below the bound.
func TestValidateTakesLargeHonestArguments(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ schema, args string }{
		"a megabyte of text":         {`{"properties":{"file":{"type":"string","maxLength":2000000,"format":"byte"}}}`, `{"file":"` + strings.Repeat("A", 1_000_000) + `"}`},
		"10,000 rows of five fields": {rowsSchema, `{"rows":[` + joined(10_000, row) + `]}`},
		"a currency a row":           {`{"properties":{"l":{"items":{"enum":[` + joined(180, func(i int) string { return fmt.Sprintf(`"C%d"`, i) }) + `]}}}}`, `{"l":[` + repeated(10_000, `"C179"`) + `]}`},
		"5,000 numbers that differ":  {`{"properties":{"l":{"items":{"type":"integer","minimum":0},"uniqueItems":true}}}`, `{"l":[` + joined(5_000, strconv.Itoa) + `]}`},
		"addresses with a pattern":   {`{"properties":{"l":{"items":{"pattern":"^[^@\\s]+@[^@\\s]+\\.[a-z]{2,63}$"}}}}`, `{"l":[` + repeated(500, `"someone@example.com"`) + `]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := argschema.Compile(json.RawMessage(tc.schema))
			require.NoError(t, err)
			require.Empty(t, s.Validate(json.RawMessage(tc.args)))
		})
	}
}

const rowsSchema = `{"properties":{"rows":{"items":{"$ref":"#/$defs/row"}}},"$defs":{"row":{"type":"object","required":["id","amount"],"additionalProperties":false,
	"properties":{"id":{"type":"string","maxLength":40},"amount":{"type":"integer","minimum":1},"currency":{"enum":["usd","eur"]},"email":{"type":"string","format":"email"},"paid":{"type":"boolean"}}}}}`

func row(i int) string {
	return fmt.Sprintf(`{"id":"row_%d","amount":%d,"currency":"eur","email":"a%d@example.com","paid":true}`, i, i+1, i)
}

func TestCompileRefusesWhatCouldNeverBeJudged(t *testing.T) {
	t.Parallel()
	doubling := joined(40, func(i int) string {
		return fmt.Sprintf(`"D%d":{"allOf":[{"$ref":"#/$defs/D%d"},{"$ref":"#/$defs/D%d"}]}`, i, i+1, i+1)
	})
	for name, schema := range map[string]string{
		"doubling in place":          `{"$ref":"#/$defs/D0","$defs":{` + doubling + `,"D40":{}}}`,
		"a schema that is itself":    `{"$ref":"#/$defs/A","$defs":{"A":{"anyOf":[{"$ref":"#/$defs/B"}]},"B":{"allOf":[{"$ref":"#/$defs/A"}]}}}`,
		"too deep":                   strings.Repeat(`{"allOf":[`, 2000) + `{}` + strings.Repeat(`]}`, 2000),
		"too many schemas":           `{"anyOf":[` + repeated(20_000, `{}`) + `]}`,
		"an expression too large":    `{"properties":{"a":{"pattern":"` + strings.Repeat(`[ab]{0,900}c`, 10) + `"}}}`,
		"expressions, all too large": `{"allOf":[` + joined(100, func(i int) string { return fmt.Sprintf(`{"pattern":"%d[ab]{900}"}`, i) }) + `]}`,
		"an enum for no arguments":   `{"allOf":[` + repeated(300, `{"enum":[`+repeated(400, `{"a":[[],[],[]]}`)+`]}`) + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := argschema.Compile(json.RawMessage(schema))
			require.ErrorIs(t, err, argschema.ErrTooComplex)
		})
	}
	details := argschema.Unjudged().Validate(json.RawMessage(`{}`))
	require.Equal(t, "complexity", details[0].Rule)
}

// TestUniqueItemsComparesValues: the check of our own agrees with JSON Schema.
func TestUniqueItemsComparesValues(t *testing.T) {
	t.Parallel()
	s, err := argschema.Compile(json.RawMessage(`{"properties":{"l":{"uniqueItems":true}}}`))
	require.NoError(t, err)
	for list, unique := range map[string]bool{
		`[1,2]`: true, `[1,1.0]`: false, `[10e-1,1]`: false, `[1,"1"]`: true, `[true,"true"]`: true, `[null,"null"]`: true, `["a","a"]`: false,
		`[{"a":1,"b":2},{"b":2.0,"a":1}]`: false, `[{"a":1},{"a":2}]`: true, `[[1,2],[2,1]]`: true, `[[[1],2],[[1,2]]]`: true, `[[],{}]`: true,
		`[9007199254740993,9007199254740992]`: true, `["a\",\"b"],["a","b"]`: true, `[["a,b"],["a","b"]]`: true, `[0,-0]`: false, `[]`: true,
	} {
		details := s.Validate(json.RawMessage(`{"l":` + list + `}`))
		if unique {
			require.NotContains(t, fmt.Sprint(details), "uniqueItems", list)
			continue
		}
		require.Equal(t, "uniqueItems", details[0].Rule, list)
	}
}

func TestRegexFormatIsCheckedInBoundedWork(t *testing.T) {
	t.Parallel()
	s, err := argschema.Compile(json.RawMessage(`{"properties":{"r":{"format":"regex"}}}`))
	require.NoError(t, err)
	require.Empty(t, s.Validate(json.RawMessage(`{"r":"^[a-z]+$"}`)))
	require.Equal(t, "format", s.Validate(json.RawMessage(`{"r":"("}`))[0].Rule)
	require.Equal(t, "format", s.Validate(json.RawMessage(`{"r":"` + strings.Repeat("(?:.{0,999}a)", 1000) + `"}`))[0].Rule)
}

// A long name is part of the place of everything below it, and the compiler keeps each place.
func TestLongNamesInDeepPlacesAreTooComplex(t *testing.T) {
	t.Parallel()
	below := func(name string) json.RawMessage {
		var b strings.Builder
		b.WriteString(`{"properties":{"` + name + `":{"properties":{"p"`)
		for i := range 500 {
			fmt.Fprintf(&b, `:{},"p%d"`, i)
		}
		return json.RawMessage(b.String() + `:{}}}}}`)
	}
	_, err := argschema.Compile(below(strings.Repeat("n", 60_000)))
	require.ErrorIs(t, err, argschema.ErrTooComplex)
	_, err = argschema.Compile(below(strings.Repeat("n", 1_000)))
	require.NoError(t, err)
}

// Paths in a refusal repeat the names of arguments shortened, and few of many.
func TestPathsOfARefusalAreShort(t *testing.T) {
	t.Parallel()
	s, err := argschema.Compile(json.RawMessage(`{"additionalProperties":{"additionalProperties":false,"required":["a","b"],"properties":{"a":{"type":"string"},"b":{"type":"string"}}}}`))
	require.NoError(t, err)
	var b strings.Builder
	for i := range 2_000 {
		fmt.Fprintf(&b, `,"m%d":1`, i)
	}
	details := s.Validate(json.RawMessage(`{"` + strings.Repeat("é", 200_000) + `":{` + b.String()[1:] + `}}`))
	require.Len(t, details, 20)
	for _, d := range details {
		require.Less(t, len(d.Path), 300)
		require.True(t, utf8.ValidString(d.Path))
	}
}
