package expression_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/expression"
)

func TestProgramHasOneResult(t *testing.T) {
	t.Parallel()
	const input = `{"id":9007199254740993,"price":1.10,"items":[{"sku":"a","n":1},{"sku":"b","n":2}],"note":null}`
	for source, want := range map[string]string{
		`.id`:                         `9007199254740993`,
		`.`:                           input,
		`.price`:                      `1.10`,
		`.items[-1].sku`:              `"b"`,
		`.["items"][0]`:               `{"sku":"a","n":1}`,
		`.none.at.all`:                `null`,
		`{id, price}`:                 `{"id":9007199254740993,"price":1.10}`,
		`{first: .items[0].sku}`:      `{"first":"a"}`,
		`.items | map(.sku)`:          `["a","b"]`,
		`[.items[] | select(.n > 1)]`: `[{"n":2,"sku":"b"}]`,
		`.items | length`:             `2`,
		`def vars: 1; .items`:         ``,
	} {
		p, err := expression.ParseProgram(source)
		if want == "" {
			require.NotNil(t, err, source)
			continue
		}
		require.Nil(t, err, source)
		got, failure := p.Eval(t.Context(), unbounded{}, json.RawMessage(input))
		require.NoError(t, failure, source)
		require.Equal(t, want, string(got), source)
	}
}

func TestProgramFailsWithItsCode(t *testing.T) {
	t.Parallel()
	for source, code := range map[string]string{
		`empty`: expression.CodeResult, `.[]`: expression.CodeResult, `.a.b`: expression.CodeFailed, `error("x")`: expression.CodeFailed,
		`"x" * 5000000`: expression.CodeLimit,
	} {
		p, err := expression.ParseProgram(source)
		require.Nil(t, err, source)
		_, got := p.Eval(t.Context(), unbounded{}, json.RawMessage(`{"a":"text","b":1}`))
		var failure *expression.Failure
		require.ErrorAs(t, got, &failure, source)
		require.Equal(t, code, failure.Code, source)
	}
}

func TestProgramIsRefusedWithItsPlace(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]struct {
		offset  int
		message string
	}{
		``: {0, "empty"}, ` `: {0, "empty"}, `.a | ]`: {5, "unexpected ]"}, `.a |`: {4, "ends too early"},
		`now`: {0, "now is not allowed"}, `$now`: {0, "$now is not allowed"}, `env`: {0, "env is not allowed in a program"}, `$ENV`: {0, "$ENV is not allowed in a program"},
		`input`: {0, "input is not allowed"}, `[inputs]`: {0, "inputs is not allowed"}, `debug`: {0, "in a program"}, `halt`: {0, "in a program"}, `import "a" as a; .`: {0, "in a program"},
		`trigger_data.x`: {0, "there is no trigger_data"}, `steps.a.output`: {0, "there is no steps"}, `item`: {0, "there is no item"}, `nosuch`: {0, "there is no nosuch"},
		`nosuch(1)`: {0, "nosuch/1"}, `$nosuch`: {0, "$nosuch"}, `$__loc__`: {0, "$__"}, `$nosuch` + strings.Repeat("x", 4000): {0, "variable not defined: $nosuch"},
		`"` + strings.Repeat("x", expression.MaxProgram) + `"`: {0, "at most 4096 bytes"},
	} {
		_, err := expression.ParseProgram(source)
		require.NotNil(t, err, source)
		require.Contains(t, err.Message, want.message, source)
		require.Less(t, len(err.Message), 320, "%.40s", source)
		require.Equal(t, want.offset, err.Offset, source)
	}
}

// Only paths are followed in a large input without a sandbox: decoding one takes much memory.
func TestLargeInputGoesToTheSandbox(t *testing.T) {
	t.Parallel()
	small, large := json.RawMessage(`{"a":{"b":1}}`), json.RawMessage(`{"a":{"b":1},"c":"`+strings.Repeat("x", 64<<10)+`"}`)
	for source, want := range map[string]struct{ small, large int }{
		`.a.b`: {0, 0}, `.`: {0, 0}, `{x: .a.b}`: {0, 1}, `[.a[]]`: {1, 1}, `[][536870910] = 1 | length`: {1, 1},
	} {
		p, err := expression.ParseProgram(source)
		require.Nil(t, err, source)
		for _, in := range []struct {
			input json.RawMessage
			want  int
		}{{small, want.small}, {large, want.large}} {
			ran := &seen{}
			_, failure := p.Eval(t.Context(), ran, in.input)
			require.NoError(t, failure, source)
			require.Equal(t, in.want == 1, ran.roots.Dot != nil, source)
		}
	}
}
