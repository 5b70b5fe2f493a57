package expression_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/expression"
)

// purse is a sandbox that pays for so much work here, and counts what is evaluated in it.
type purse struct {
	left, spent, ran int
	on               func()
}

func (p *purse) Spend(work int) bool {
	if p.on != nil {
		p.on()
	}
	if work > p.left {
		p.left = -1
		return false
	}
	p.left -= work
	p.spent += work
	return true
}

func (p *purse) Run(ctx context.Context, source string, roots expression.Roots) ([]json.RawMessage, error) {
	p.ran++
	return unbounded{}.Run(ctx, source, roots)
}

// deep is a payload of about so many bytes, depth names deep.
func deep(depth, size int) json.RawMessage {
	return json.RawMessage(strings.Repeat(`{"a":`, depth) + `{"p":[` + strings.Repeat("1,", size/2) + `1],"z":1}` + strings.Repeat("}", depth))
}

// many returns a value with the text n times.
func many(n int, text func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		raw, err := json.Marshal(text(i))
		if err != nil {
			panic(err)
		}
		list[i] = string(raw)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// However many expressions a value has, and however deep its roots nest: what this process does for it
// stays in proportion to the roots, or is refused here.
func TestEvaluationSpendsLittleForItsRoots(t *testing.T) {
	t.Parallel()
	const size = 400_000
	path := "${trigger_data" + strings.Repeat(".a", 57)
	for name, tc := range map[string]struct {
		text func(i int) string
		root json.RawMessage
	}{
		"deep paths":           {func(int) string { return path + ".z}" }, deep(57, size)},
		"paths of all depths":  {func(i int) string { return "${trigger_data" + strings.Repeat(".a", i%57) + ".b}" }, deep(57, size)},
		"positions":            {func(i int) string { return fmt.Sprintf("%s.p[%d]}", path, i-900) }, deep(57, size)},
		"paths in a text":      {func(int) string { return "<" + path + ".z}>" }, deep(57, size)},
		"paths beside a text":  {func(int) string { return "${trigger_data.z}" }, json.RawMessage(`{"p":"` + strings.Repeat("x", size) + `","z":1}`)},
		"a comparison of each": {func(i int) string { return fmt.Sprintf("${trigger_data.z == %d}", i) }, json.RawMessage(`{"p":"` + strings.Repeat("x", size/400) + `","z":1}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &purse{left: 64 << 20}
			_, err := value(t, many(1800, tc.text)).Eval(t.Context(), p, expression.Roots{TriggerData: tc.root})
			require.NoError(t, err)
			require.Zero(t, p.ran)
			require.Less(t, p.spent, 64*size)
		})
	}
}

// What is not affordable here has the same result in the sandbox.
func TestSpentEvaluationGoesOnInTheSandbox(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"path": "${trigger_data.a.a.z}", "comparison": "${trigger_data.a.a.z == 1}", "text": "<${trigger_data.a.a.z}>",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, roots := value(t, many(3, func(int) string { return text })), expression.Roots{TriggerData: deep(2, 50_000)}
			want, err := v.Eval(t.Context(), &purse{left: 64 << 20}, roots)
			require.NoError(t, err)
			p := &purse{left: 10_000}
			got, err := v.Eval(t.Context(), p, roots)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
			require.Equal(t, 3, p.ran)
		})
	}
}

// The activity's time is over, or the caller of a trigger has left: nobody waits for the rest.
func TestEvaluationStopsWhenNobodyWaits(t *testing.T) {
	t.Parallel()
	gone := errors.New("the caller has left")
	for name, text := range map[string]string{"paths": "${trigger_data.a.z}", "comparisons": "${trigger_data.a.z == 1}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, leave := context.WithCancelCause(t.Context())
			calls := 0
			p := &purse{left: 64 << 20, on: func() {
				if calls++; calls == 20 {
					leave(gone)
				}
			}}
			_, err := value(t, many(1000, func(int) string { return text })).Eval(ctx, p, expression.Roots{TriggerData: deep(1, 1000)})
			require.ErrorIs(t, err, gone)
			require.Less(t, calls, 30)
		})
	}
}
