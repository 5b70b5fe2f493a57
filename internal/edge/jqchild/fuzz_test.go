package jqchild_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/edge/jqchild"
	"agentruntime/internal/maps/expression"
)

// forms are expressions with as many forms as there are.
func forms() []string {
	return []string{
		`trigger_data.list | map(. + 1) | add`, `{a: "}\(1 + "\(2)")", b: [.]}`, `if trigger_data.id > 1 then {a: 1} else null end`, `[.,.]|[.,.]|[.,.]|[.,.]`,
		`(1,2)|(.,.)|(.,.)`, `trigger_data as $x|[$x,$x]|tostring|tostring`, `trigger_data["list"][1:]?`, `$now | fromdate | todate`, `1e1000 * 9007199254740993`,
		`trigger_data as {list: [$a, $b]} ?// $a | [$a, $b]`, `def f(x): x; f(f(1))`, `"\u0000" | ascii_downcase`, `-trigger_data.id % 0`, `try error("x") catch .`,
		`label $f | (1, break $f, 2)`, `"a,b" / "," | length`, `{(trigger_data | keys[]): 1}`, `{a: (1,2), b: (3,4)}`, `[..]`, `@base64 "x\(1)"`, `[splits("a+"; "g")]`,
		`[range(5)] | limit(3; .[])`, `[trigger_data | paths]`, `reduce trigger_data.list[] as $i (0; . + $i)`, `[foreach range(5) as $i (0; . + $i; [$i, .])]`,
		`trigger_data | to_entries | from_entries | with_entries(.value |= tostring)`, `[trigger_data.list[] | select(. > 1)] | sort_by(-.) | unique`, `"abc" | test("B"; "ix")`,
		`"x" | ascii | @json`, `[1,[2,[3]]] | flatten | tojson | fromjson`, `trigger_data | del(.list[0]) | .id |= 1 | .price += 1 | .new //= {}`, `input`, `$__loc__`, `getpath(["a",0,"b"])`,
		`[1,2] | IN(.[]; 2, 3)`, `ltrimstr("x") | rtrimstr("x") | splits("x")`, `[limit(5; range(0; 10; 3))] | min_by(.) | infinite`, `nan < nan | not`, `"\(1;2)"`, `tojson | @sh`,
		`[.[]?]`, `.. |= .`, `env`, `halt_error`, `"2015-03-05T23:51:47Z" | strptime("%Y-%m-%dT%H:%M:%SZ") | mktime`, `walk(if type == "object" then del(.a) else . end)`,
	}
}

// evaluate has a child evaluate the expression, and returns the code of its failure; "" for none.
// Whatever the expression is, the answer comes in time and is of a kind that callers know, and the next
// expression has a child.
func evaluate(t *testing.T, p *jqchild.Pool, source string) (code string) {
	t.Helper()
	began := time.Now()
	results, err := run(t, p, source)
	require.Less(t, time.Since(began), jqchild.Longest, source)
	var failure *expression.Failure
	if err != nil {
		require.ErrorAs(t, err, &failure, source)
		require.Contains(t, []string{expression.CodeFailed, expression.CodeLimit}, failure.Code, "%s: %s", source, failure.Detail)
		require.NotEmpty(t, failure.Detail, source)
		code = failure.Code
	}
	require.LessOrEqual(t, len(results), 2, source)
	size := 0
	for _, r := range results {
		require.True(t, json.Valid(r), source)
		size += len(r)
	}
	require.LessOrEqual(t, size, 2*expression.MaxResult, source)
	got, err := run(t, p, `[trigger_data.list | length]`)
	require.NoError(t, err, "after %s", source)
	require.Equal(t, `[3]`, string(got[0]), "after %s", source)
	return code
}

// FuzzExpression evaluates expressions in children, as the service does. The fuzzing engine sees how an
// expression is parsed, and not what its child does.
func FuzzExpression(f *testing.F) {
	for _, seed := range slices.Concat(forms(), slices.Sorted(maps.Values(bombs()))) {
		f.Add(seed)
	}
	p, err := jqchild.New(jqchild.Config{Children: 2, Time: 100 * time.Millisecond})
	require.NoError(f, err)
	f.Cleanup(p.Close)
	f.Fuzz(func(t *testing.T, source string) {
		t.Parallel()
		if len(source) > 4096 {
			return
		}
		if _, wrong := expression.Parse(source); wrong == nil {
			evaluate(t, p, source)
		}
	})
}

// Expressions that no author would write: parts of others, put together at random.
func TestRandomExpressionsHarmTheirChildAtMost(t *testing.T) {
	t.Parallel()
	const expressions = 300
	p := hasty(t, 2, 50*time.Millisecond)
	random := mutator{rand.New(rand.NewPCG(1, 11)), forms(), slices.Sorted(maps.Values(bombs()))}
	codes := map[string]int{}
	for range expressions {
		codes[evaluate(t, p, random.expression())]++
	}
	t.Log(codes)
	for _, code := range []string{"", expression.CodeFailed, expression.CodeLimit} {
		require.Greater(t, codes[code], expressions/20, "of the code %q", code)
	}
}

// mutator makes expressions of others.
type mutator struct {
	*rand.Rand

	forms, bombs []string
}

func (m mutator) seed() string {
	if m.IntN(6) == 0 {
		return m.bombs[m.IntN(len(m.bombs))]
	}
	return m.forms[m.IntN(len(m.forms))]
}

// expression returns one that can be parsed.
func (m mutator) expression() string {
	for {
		source := m.seed()
		if m.IntN(2) == 0 {
			source = m.joined(source, m.seed())
		}
		for range m.IntN(4) {
			source = m.changed(source)
		}
		if _, wrong := expression.Parse(source); wrong == nil {
			return source
		}
	}
}

// token is the smallest part of an expression that is exchanged.
var token = regexp.MustCompile(`"(?:\\.|[^"\\])*"|[$@.]?[a-zA-Z_][a-zA-Z_0-9]*|[0-9][0-9.e]*|\?//|//=?|\|=|[-+*/%=<>!]=|\s+|.`)

// joined puts two expressions together.
func (m mutator) joined(a, b string) string {
	both := []string{
		"(%s) | (%s)", "[(%s), (%s)]", "(%s) + (%s)", "(%s) * (%s)", "(%s) // (%s)", "try (%s) catch (%s)", "reduce range(3) as $i (%s; %s)", "(%s) as $x | %s",
		"def f: %s; %s", "{a: (%s), b: (%s)}", "limit(2; %s) | %s", "first((%s), (%s))", "[paths(%s)] | %s", "if (%s) then (%s) else . end", "(%s) == (%s)",
		"[%s] | map(%s)", "foreach range(3) as $i (%s; %s)", "(%s) |= (%s)", "path(%s), (%s)", "[%s][%s]",
	}
	return fmt.Sprintf(both[m.IntN(len(both))], a, b)
}

// changed changes one token.
func (m mutator) changed(source string) string {
	tokens := token.FindAllString(source, -1)
	if len(tokens) == 0 {
		return source
	}
	i := m.IntN(len(tokens))
	others := token.FindAllString(m.seed(), -1)
	switch other := others[m.IntN(len(others))]; m.IntN(4) {
	case 0:
		tokens = slices.Delete(tokens, i, i+1)
	case 1:
		tokens = slices.Insert(tokens, i, tokens[m.IntN(len(tokens))])
	case 2:
		tokens[i] = other
	default: // a name for a name, a number for a number
		numbers := []string{"0", "-1", "1e12", "536870911", "1e1000", "9007199254740993", "0.1", "nan"}
		if tokens[i][0] >= '0' && tokens[i][0] <= '9' {
			tokens[i] = numbers[m.IntN(len(numbers))]
		} else if alike := slices.DeleteFunc(others, func(o string) bool { return name(o) != name(tokens[i]) }); len(alike) > 0 {
			tokens[i] = alike[m.IntN(len(alike))]
		}
	}
	return strings.Join(tokens, "")
}

func name(token string) bool { return regexp.MustCompile(`^[$@.]?[a-z]`).MatchString(token) }
