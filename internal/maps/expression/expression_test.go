package expression_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/maps/expression"
)

// unbounded is a sandbox without walls, for expressions that do no harm.
type unbounded struct{ ran *int }

func (unbounded) Spend(int) bool { return true }

func (u unbounded) Run(ctx context.Context, source string, roots expression.Roots) ([]json.RawMessage, error) {
	if u.ran != nil {
		*u.ran++
	}
	e, err := expression.Parse(source)
	if err != nil {
		return nil, err
	}
	return e.RunUnbounded(ctx, roots)
}

func value(t *testing.T, text string) expression.Value {
	t.Helper()
	tree, err := exactjson.Tree([]byte(text))
	require.NoError(t, err)
	v, problems := expression.NewValue(tree)
	require.Empty(t, problems)
	return v
}

func roots() expression.Roots {
	three := 3
	return expression.Roots{
		TriggerData: json.RawMessage(`{"order_id":"o-1","id":9007199254740993,"price":1.10,"tags":["a","b"],"items":[{"n":1},{"n":2}],"text":"${x}"}`),
		Vars:        json.RawMessage(`{"total":12,"none":null}`),
		Context:     json.RawMessage(`{"execution_id":"exec_1"}`),
		Item:        json.RawMessage(`{"sku":"s"}`),
		Index:       &three,
		Steps: map[string]expression.StepRoots{
			"fetch":  {Output: json.RawMessage(`{"total":1.10,"big":12345678901234567890}`), Status: "completed"},
			"failed": {Error: json.RawMessage(`{"code":"PROVIDER_ERROR"}`), Status: "failed"},
		},
		Names: map[string]json.RawMessage{"order": json.RawMessage(`{"id":7}`)},
		Now:   "2026-01-02T03:04:05Z",
	}
}

func TestValueEvaluatesToItsResult(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, value, want string }{
		{"constant", `{"b":[1,1.10,true,null,"x"],"a":{}}`, `{"b":[1,1.10,true,null,"x"],"a":{}}`},
		{"path", `"${trigger_data.order_id}"`, `"o-1"`},
		{"path with spaces", `"${ trigger_data.tags[1] }"`, `"b"`},
		{"whole number keeps its digits", `"${trigger_data.id}"`, `9007199254740993`},
		{"fraction keeps its digits", `"${trigger_data.price}"`, `1.10`},
		{"digits within an object", `{"a":"${trigger_data}"}`, `{"a":{"order_id":"o-1","id":9007199254740993,"price":1.10,"tags":["a","b"],"items":[{"n":1},{"n":2}],"text":"${x}"}}`},
		{"digits within a constructor", `"${ {a: steps.fetch.output.big, b: [trigger_data.price]} }"`, `{"a":12345678901234567890,"b":[1.10]}`},
		{"digits within a text", `"id ${trigger_data.id} costs ${trigger_data.price}"`, `"id 9007199254740993 costs 1.10"`},
		{"comparison of whole numbers is exact", `"${trigger_data.id == 9007199254740992}"`, `false`},
		{"last item", `"${trigger_data.items[-1].n}"`, `2`},
		{"first item by a name with spaces", `"${trigger_data[\"items\"][0]}"`, `{"n":1}`},
		{"missing is null", `"${trigger_data.nothing.at.all}"`, `null`},
		{"null in a text is empty", `"<${trigger_data.nothing}>"`, `"<>"`},
		{"texts are raw in a text", `"<${trigger_data.order_id}>"`, `"<o-1>"`},
		{"others are JSON in a text", `"${trigger_data.tags}${true}${trigger_data.items[0]}"`, `"[\"a\",\"b\"]true{\"n\":1}"`},
		{"escape", `"$${trigger_data} and $5 and $ {x}"`, `"${trigger_data} and $5 and $ {x}"`},
		{"an escape beside an expression", `"$${x} ${vars.total}"`, `"${x} 12"`},
		{"values are not read again", `"${trigger_data.text}"`, `"${x}"`},
		{"braces, texts and comments in an expression", `"${ {a: \"}\", b: \"\\(1 + 1)}\"} # }\n }"`, `{"a":"}","b":"2}"}`},
		{"vars", `"${vars.total + 1}"`, `13`},
		{"context", `"${context.execution_id}"`, `"exec_1"`},
		{"item and index", `"${item.sku}${index}"`, `"s3"`},
		{"named by as", `"${order.id}"`, `7`},
		{"now", `"${$now}"`, `"2026-01-02T03:04:05Z"`},
		{"now as seconds", `"${$now | fromdate}"`, `1767323045`},
		{"output of a step", `"${steps.fetch.output.total}"`, `1.10`},
		{"output of a step by text", `"${steps[\"fetch\"].output.total}"`, `1.10`},
		{"error of a step", `"${steps.failed.error.code}"`, `"PROVIDER_ERROR"`},
		{"status of a step", `"${steps.failed.status}"`, `"failed"`},
		{"a step that did not run", `"${steps.never.output.x}"`, `null`},
		{"default", `"${steps.never.output // \"none\"}"`, `"none"`},
		{"a local function hides nothing", `"${def order(f): f; order(1)}"`, `1`},
		{"a shadowed name is the function", `"${def twice: . * 2; vars.total | twice}"`, `24`},
		{"loop", `"${[trigger_data.items[] | .n] | add}"`, `3`},
		{"regular expression", `"${trigger_data.order_id | test(\"^o-[0-9]$\")}"`, `true`},
		{"error caught", `"${try error(\"x\") catch .}"`, `"x"`},
		{"whole numbers stay whole", `"${[9007199254740993, -9007199254740993, 12345678901234567890123, 7] | map(floor == . and ceil == . and round == . and trunc == . and rint == . and nearbyint == .) | all}"`, `true`},
		{"floor keeps the digits of a whole number", `"${trigger_data.id | floor}"`, `9007199254740993`},
		{"fabs keeps the digits of a whole number", `"${[(-9007199254740993 | fabs), (-9223372036854775808 | fabs), (9007199254740993 | fabs)]}"`, `[9007199254740993,9223372036854775808,9007199254740993]`},
		{"fractions are rounded", `"${[(1.5 | floor), (1.2 | ceil), (2.5 | round), (-1.5 | trunc), (2.5 | rint), (-1.5 | fabs)]}"`, `[1,2,3,-1,2,1.5]`},
		{"a function of the author with the name of one that rounds", `"${def floor: 3; 1.5 | floor}"`, `3`},
		{"division that comes out even is exact", `"${[(trigger_data.id / 1), (27021597764222979 / 3), (9007199254740993 % 10)]}"`, `[9007199254740993,9007199254740993,3]`},
		{"texts and ranges keep digits", `"${[(\"9007199254740993\" | tonumber), (9007199254740993 | @text, tojson, abs), range(9007199254740993; 9007199254740995)]}"`, `[9007199254740993,"9007199254740993","9007199254740993",9007199254740993,9007199254740993,9007199254740994]`},
		{"NaN is null", `"${nan}"`, `null`},
		{"infinity is the largest", `"${infinite}"`, `1.7976931348623157e+308`},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := value(t, tc.value).Eval(t.Context(), unbounded{}, roots())
			require.NoError(t, err)
			require.Equal(t, tc.want, string(got))
		})
	}
}

func TestEvaluationFailsWithItsCode(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, value, code string }{
		{"no result", `"${empty}"`, expression.CodeResult},
		{"two results", `"${1, 2}"`, expression.CodeResult},
		{"no result in a text", `"a ${empty}"`, expression.CodeResult},
		{"endless results", `"${repeat(1)}"`, expression.CodeResult},
		{"error", `"${error(\"x\")}"`, expression.CodeFailed},
		{"type", `"${trigger_data.order_id.x}"`, expression.CodeFailed},
		{"a text is not rounded", `"${\"1\" | floor}"`, expression.CodeFailed},
		{"division by zero", `"${1 / 0}"`, expression.CodeFailed},
		{"NUL", `"${[0] | implode}"`, expression.CodeResult},
		{"too deep", `"${reduce range(65) as $i (1; [.])}"`, expression.CodeResult},
		{"a number of too many digits", `"${reduce range(70) as $i (1; . * 10)}"`, expression.CodeResult},
		{"too large", `"${\"x\" * 5000000}"`, expression.CodeLimit},
		{"too large together", `["${\"x\" * 3000000}", "${\"x\" * 3000000}"]`, expression.CodeLimit},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := value(t, tc.value).Eval(t.Context(), unbounded{}, roots())
			var failure *expression.Failure
			require.ErrorAs(t, err, &failure)
			require.Equal(t, tc.code, failure.Code, failure.Detail)
		})
	}
}

func TestConditionIsTrueFalseOrNull(t *testing.T) {
	t.Parallel()
	cases := []struct {
		text string
		want bool
		code string
	}{
		{`${vars.total > 10}`, true, ""},
		{`${vars.total > 100}`, false, ""},
		{`${vars.none}`, false, ""},
		{`${vars.total}`, false, expression.CodeResult},
		{`${"true"}`, false, expression.CodeResult},
		{`${[]}`, false, expression.CodeResult},
		{`${empty}`, false, expression.CodeResult},
		{`true`, false, expression.CodeResult},
		{` ${true}`, false, expression.CodeResult},
	}
	for _, tc := range cases {
		t.Run(tc.text, func(t *testing.T) {
			t.Parallel()
			text, errs := expression.ParseTemplate(tc.text)
			require.Empty(t, errs)
			got, err := expression.Condition{Template: text}.Eval(t.Context(), nil, roots())
			if tc.code == "" {
				require.NoError(t, err)
				require.Equal(t, tc.want, got)
				return
			}
			var failure *expression.Failure
			require.ErrorAs(t, err, &failure)
			require.Equal(t, tc.code, failure.Code)
		})
	}
}

func TestParseRefusesWhatAnExpressionMayNotDo(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, text, message string }{
		{"empty", `${ }`, "is empty"},
		{"not closed", `a ${trigger_data`, "no closing }"},
		{"a text that is not closed", `${"}`, "no closing }"},
		{"syntax", `${1 +}`, "ends too early"},
		{"token", `${1 ] 2}`, "unexpected ]"},
		{"now", `${now}`, "Use $now"},
		{"local time", `${0 | localtime}`, "Use $now"},
		{"formatted local time", `${0 | strflocaltime("%H")}`, "Use $now"},
		{"input", `${input}`, "input is not allowed"},
		{"inputs", `${[inputs]}`, "inputs is not allowed"},
		{"input line number", `${input_line_number}`, "not allowed"},
		{"debug", `${debug}`, "debug is not allowed"},
		{"debug with a message", `${debug("x")}`, "debug is not allowed"},
		{"stderr", `${stderr}`, "stderr is not allowed"},
		{"halt", `${halt}`, "halt is not allowed"},
		{"halt with an error", `${1 | halt_error}`, "halt_error is not allowed"},
		{"halt with a status", `${1 | halt_error(1)}`, "halt_error is not allowed"},
		{"environment", `${env.HOME}`, "env is not allowed"},
		{"environment variable", `${$ENV.HOME}`, "$ENV is not allowed"},
		{"environment in an object", `${{$ENV}}`, "$ENV is not allowed"},
		{"import", `${import "a" as a; 1}`, "import"},
		{"include", `${include "a"; 1}`, "include"},
		{"module", `${module {}; 1}`, "module"},
		{"deep within", `${[trigger_data.items[] | map_values(if . then (.. | input) else 1 end)]}`, "input is not allowed"},
		{"in a text", `${"a \(now)"}`, "Use $now"},
		{"in a function", `${def f: now; 1}`, "Use $now"},
		{"in a reduce", `${reduce (1,2) as $x (now; .)}`, "Use $now"},
		{"in a pattern", `${. as {(now): $x} | 1}`, "Use $now"},
		{"functions of the inside", `${_match("a"; null; false)}`, "no function _match"},
		{"functions of modules", `${a::b}`, "no function a::b"},
		{"variables of ours", `${1 as $__vars | vars}`, "may not begin with $__"},
		{"our variable", `${$__vars}`, "may not begin with $__"},
		{"a root as a function", `${def vars: 1; vars}`, "name of a root"},
		{"a root as an argument", `${def f(vars): 1; f(1)}`, "name of a root"},
		{"all steps", `${steps}`, "steps.<id>.output"},
		{"a whole step", `${steps.a}`, "steps.<id>.output"},
		{"an unknown field", `${steps.a.result}`, "steps.<id>.output"},
		{"a computed step", `${steps[vars.x].output}`, "steps.<id>.output"},
		{"steps piped", `${steps | .a.output}`, "steps.<id>.output"},
		{"long", "${" + strings.Repeat(" ", expression.MaxSource) + "1}", "at most"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, errs := expression.ParseTemplate(tc.text)
			require.NotEmpty(t, errs)
			require.Contains(t, errs[0].Message, tc.message)
		})
	}
}

func TestCheckFindsUnknownNames(t *testing.T) {
	t.Parallel()
	for source, message := range map[string]string{
		`nosuch(1)`:       "nosuch/1",
		`$nosuch`:         "$nosuch",
		`$__loc__`:        "$__",
		`map(1; 2)`:       "map/2",
		`break $out`:      "$out",
		`1 as [$x] | $y`:  "$y",
		`trigger_data(1)`: "trigger_data/1",
	} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			e, err := expression.Parse(source)
			if err == nil {
				err = e.Check()
			}
			require.NotNil(t, err)
			require.Contains(t, err.Message, message)
		})
	}
}

func TestReferencesNameWhatIsRead(t *testing.T) {
	t.Parallel()
	got := value(t, `{"a":"${trigger_data.x}${steps.b.output.y + steps.a.error.code}","b":["${map(vars.z)}"],
		"c":"${$now} ${order.id} ${index}","d":"${item | {context}}","e":"${steps.a.error | length}","f":"${[.x]}"}`).References()
	require.Equal(t, expression.References{
		TriggerData: true, Vars: true, Item: true, Index: true, Now: true, Dot: true,
		Steps: []expression.StepReference{{"a", expression.Error}, {"b", expression.Output}},
		Names: []string{"order"}, Variables: []string{"z"},
	}, got)
	for source, dot := range map[string]bool{
		`.`: true, `.x`: true, `..`: true, `[.]`: true, `{a}`: true, `{a: .b}`: true, `. as $x | $x`: true, `"\(.)"`: true,
		`vars | .x`: false, `[vars[] | .x]`: false, `vars | map(.x)`: false, `try error("a") catch .`: false, `{a: 1}`: false, `def f: .; 1 | f`: false,
		`reduce vars[] as $x (0; . + $x)`: false, `vars.x |= . + 1`: false,
	} {
		e, err := expression.Parse(source)
		require.Nil(t, err, source)
		require.Equal(t, dot, e.References().Dot, source)
	}
}

func TestOnlyBoundedExpressionsRunInThisProcess(t *testing.T) {
	t.Parallel()
	for source, here := range map[string]bool{
		`trigger_data.a.b[0]`:                          true,
		`trigger_data["a b"]`:                          true,
		`steps.x.output.items[-1]`:                     true,
		`trigger_data.items[index]`:                    true,
		`trigger_data.a > 10 and vars.b != "x"`:        true,
		`trigger_data.amount * 100`:                    true,
		`vars.n + 1`:                                   true,
		`vars.n - 1`:                                   true,
		`{a: vars.x, b: [vars.y, "z"]}`:                true,
		`if vars.x then {a: 1} else null end`:          true,
		`vars.x // "none"`:                             true,
		`"order \(trigger_data.id)"`:                   true,
		`vars.name | ascii_downcase | startswith("a")`: true,
		`vars.list | length > 0`:                       true,
		`$now | fromdate`:                              true,
		`try (vars.x | tonumber) catch 0`:              true,
		`trigger_data.x as $x | {$x}`:                  true,
		`vars.list[1:3]`:                               true,

		`vars.list[]`:                                   false,
		`vars.list | map(.x)`:                           false,
		`vars.list | any(. > 1)`:                        false,
		`vars.a * vars.b`:                               false,
		`vars.a - vars.b`:                               false,
		`"x" * 2000000000`:                              false,
		`[][536870910] = 1`:                             false,
		`vars | .x = 1`:                                 false,
		`range(1e12)`:                                   false,
		`def f: f; f`:                                   false,
		`[limit(1e9; repeat(1))]`:                       false,
		`..`:                                            false,
		`vars.x | test("a")`:                            false,
		`@base64 "x\(vars.x)"`:                          false,
		`vars.x | @json`:                                false,
		`vars.x | tojson`:                               false,
		`vars.x | setpath([0]; 1)`:                      false,
		`vars.x | getpath(["a"])`:                       false,
		`reduce (1, 2) as $x (0; . + $x)`:               false,
		`vars.list[vars.n]`:                             false,
		`vars.list | join(",")`:                         false,
		`[.,.]` + strings.Repeat(`|[.,.]`, 9):           false,
		`"ab"` + strings.Repeat(`|.+.`, 12):             false,
		`vars.x` + strings.Repeat(`|{a:.}|tostring`, 9): false,
		`"ab"` + strings.Repeat(`|"\(.)"`, 6):           false,
		`(1,2,3)` + strings.Repeat(`|(.,.)`, 12):        false,
		`{a:(1,2,3,4),b:(1,2,3,4),c:(1,2,3,4),d:(1,2,3,4),e:1}`:     false,
		`[` + strings.Repeat(`(1,2)+`, 12) + `1]`:                   false,
		`vars as $a` + strings.Repeat(`|[$a,$a] as $a`, 12) + `|$a`: false,
	} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			e, err := expression.Parse(source)
			require.Nil(t, err)
			require.Equal(t, here, e.Simple())
		})
	}
}

func TestLargeRootsGoToTheSandbox(t *testing.T) {
	t.Parallel()
	ran := 0
	large := expression.Roots{TriggerData: json.RawMessage(`{"a":"` + strings.Repeat("x", 3<<20) + `"}`)}
	_, err := value(t, `"${trigger_data.a == \"x\"}"`).Eval(t.Context(), unbounded{&ran}, large)
	require.NoError(t, err)
	require.Equal(t, 1, ran)
	_, err = value(t, `"${trigger_data.b}"`).Eval(t.Context(), unbounded{&ran}, large)
	require.NoError(t, err)
	require.Equal(t, 1, ran, "a path costs nothing")
	_, err = value(t, `"${range(2)}"`).Eval(t.Context(), nil, large)
	require.ErrorContains(t, err, "no sandbox")
}

// A reason is stored and shown. The values of an execution can be secrets.
func TestReasonsRepeatNoValue(t *testing.T) {
	t.Parallel()
	secret := expression.Roots{TriggerData: json.RawMessage(`{"t":"s3cr3t","n":777123,"l":["s3cr3t"],"o":{"s3cr3t":1}}`)}
	for source, want := range map[string]string{
		`trigger_data.t.x`:                  "expected an object but got: string",
		`trigger_data.n[0]`:                 "expected an array but got: number",
		`trigger_data.t + 1`:                "cannot add: string",
		`trigger_data.n / 0`:                "cannot divide number",
		`trigger_data.n - trigger_data.o`:   "cannot subtract: number",
		`trigger_data.t | tonumber`:         "tonumber cannot be applied to its input",
		`trigger_data.t | fromjson`:         "fromjson cannot be applied to its input",
		`trigger_data.t | fromdate`:         "strptime cannot be applied to its input",
		`trigger_data.n | ascii_downcase`:   "ascii_downcase cannot be applied to its input",
		`trigger_data.n | startswith("a")`:  "startswith cannot be applied to its input",
		`[trigger_data.n[]]`:                "cannot iterate over: number",
		`trigger_data.l | implode`:          "implode cannot be applied to its input",
		`"x" | test(trigger_data.t + "(")`:  "invalid regular expression",
		`[] | .[trigger_data.t]`:            "expected an object but got: array",
		`{(trigger_data.l): 1}`:             "expected a string for object key but got: array",
		`null | .[trigger_data.n * 777123]`: "",
		`null[1:2].x.y = trigger_data.t`:    "",
		`error("mine")`:                     "error: mine",
		`null | error`:                      "error: null",
	} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			e, syntax := expression.Parse(source)
			require.Nil(t, syntax)
			_, err := e.RunUnbounded(t.Context(), secret)
			if err == nil {
				return
			}
			require.NotContains(t, err.Error(), "s3cr3t")
			require.NotContains(t, err.Error(), "777123")
			var failure *expression.Failure
			require.ErrorAs(t, err, &failure)
			if want != "" {
				require.Equal(t, want, failure.Detail)
			}
		})
	}
}
