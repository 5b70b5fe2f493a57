package expression_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/expression"
)

// noSandbox stands for one that refuses all: what comes here could take any time.
type noSandbox struct{}

var errNoSandbox = errors.New("not in this process")

func (noSandbox) Spend(int) bool { return true }

func (noSandbox) Run(context.Context, string, expression.Roots) ([]json.RawMessage, error) {
	return nil, errNoSandbox
}

// Whatever an author writes, reading it does not panic, and what runs in this process ends with
// a bounded result.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{
		`${trigger_data.a.b[0] // "x"} and $${x}`, `${ {a: "}\(1 + "\(2)")", b: [.]} }`, `${if vars.x > 1 then {a: 1} else null end}`,
		`${[.,.]|[.,.]|[.,.]|[.,.]}`, `${"ab"|.+.|.+.|.+.}`, `${(1,2)|(.,.)|(.,.)}`, `${trigger_data as $x|[$x,$x]|tostring|tostring}`,
		`${"x" * 1000 * 1000 * 1000}`, `${steps.a.output["b"]?}`, `${$now | fromdate | todate}`, `${1e1000 * 9007199254740993}`, `${. as [$a, {b: $c}] ?// $a | $a}`,
		`${def f(x): x; f(f(1))}`, `${"\u0000" | ascii_downcase}`, `${-trigger_data.n % 0}`, `${try error("x") catch .}`, `${label $f | break $f}`,
		`${vars.a / "," | length}`, `${{(trigger_data.k): 1}}`, `${{a: (1,2), b: (3,4)}}`, `${..}`, `${@base64 "x\(1)"}`, "${# comment }\n1}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 4096 {
			return
		}
		text, errs := expression.ParseTemplate(source)
		if len(errs) > 0 {
			return
		}
		for _, p := range text.Parts() {
			if p.Expr == nil {
				continue
			}
			_ = p.Expr.Check()
			require.Less(t, len(p.Expr.References().Names), len(source)+1)
		}
		got, err := text.Text(t.Context(), noSandbox{}, roots())
		require.LessOrEqual(t, len(got), 6*expression.MaxResult)
		var failure *expression.Failure
		if err != nil && !errors.As(err, &failure) {
			require.ErrorIs(t, err, errNoSandbox)
		}
	})
}
