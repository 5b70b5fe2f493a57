package jqchild_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/turns"
	"agentruntime/internal/edge/jqchild"
	"agentruntime/internal/maps/expression"
)

// TestMain makes a child of this program where a pool starts it as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == jqchild.Subcommand {
		if serve() != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// tooLarge are the panics of Go where something would be larger than any memory.
var tooLarge = regexp.MustCompile("makeslice|growslice|Repeat|too large")

// serve is a child. Its parent takes the death of a child for one by memory. So a panic that has another
// reason, which is a fault in the evaluation, is an answer here: tests see a code that does not exist.
func serve() error {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		if tooLarge.MatchString(fmt.Sprint(r)) {
			panic(r)
		}
		answer, err := json.Marshal(map[string]any{"failure": expression.Failure{Code: "PANIC", Detail: fmt.Sprint(r)}})
		if err != nil {
			panic(r)
		}
		_, _ = os.Stdout.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...))
	}()
	return jqchild.Serve(os.Stdin, os.Stdout)
}

func pool(t *testing.T) *jqchild.Pool { t.Helper(); return hasty(t, 1, 0) }

func hasty(t *testing.T, children int, most time.Duration) *jqchild.Pool {
	t.Helper()
	p, err := jqchild.New(jqchild.Config{Children: children, Time: most})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func run(t *testing.T, p *jqchild.Pool, source string) ([]json.RawMessage, error) {
	t.Helper()
	return p.For("tenant").Run(t.Context(), source, expression.Roots{
		TriggerData: json.RawMessage(`{"id":9007199254740993,"price":1.10,"list":[1,2,3]}`), Now: "2026-01-02T03:04:05Z",
	})
}

func TestChildEvaluates(t *testing.T) {
	t.Parallel()
	p := pool(t)
	for source, want := range map[string]string{
		`trigger_data.id`:                        `9007199254740993`,
		`[trigger_data.price]`:                   `[1.10]`,
		`trigger_data.list | map(. + 1) | add`:   `9`,
		`"a1b22" | [scan("[0-9]+")] | join("-")`: `"1-22"`,
		`$now | fromdate`:                        `1767323045`,
		`[limit(3; repeat(1))]`:                  `[1,1,1]`,
	} {
		got, err := run(t, p, source)
		require.NoError(t, err, source)
		require.Len(t, got, 1)
		require.Equal(t, want, string(got[0]))
	}
	got, err := run(t, p, `range(10)`)
	require.NoError(t, err)
	require.Len(t, got, 2, "two are enough to know that it is not one")
	_, err = run(t, p, `error("x")`)
	var failure *expression.Failure
	require.ErrorAs(t, err, &failure)
	require.Equal(t, expression.CodeFailed, failure.Code)
}

// Each of these takes all memory, or all time. Only the child may notice.
func bombs() map[string]string {
	return map[string]string{
		"index":              `null | .[536870910] = 1`,
		"index of a path":    `[] | setpath([536870910]; 1)`,
		"nested index":       `null | .[99999999][99999999] = 1`,
		"repeated text":      `"x" * 2000000000`,
		"doubled text":       `reduce range(60) as $i ("x"; . + .)`,
		"doubled array":      `reduce range(60) as $i ([1]; . + .) | length`,
		"shared array":       `reduce range(60) as $i (1; [., .])`,
		"shared comparison":  `reduce range(40) as $i (1; [., .]) | . == .`,
		"range":              `[range(1e12)]`,
		"counted range":      `reduce range(1e12) as $i (0; . + 1)`,
		"endless function":   `def f: f; f`,
		"endless recursion":  `def f: [f]; f`,
		"deep recursion":     `def f(x): f(x + 1) + 1; f(1)`,
		"repeat":             `[limit(1e9; repeat(1))]`,
		"endless until":      `0 | until(false; . + 1)`,
		"endless while":      `[0 | while(true; . + 1)]`,
		"endless recurse":    `[0 | recurse(. + 1)] | length`,
		"deep value as JSON": `reduce range(10000000) as $i (1; [.]) | tojson | length`,
		"combinations":       `[[range(100)] | combinations(6)] | length`,
		"base64":             `reduce range(60) as $i ("xxxx"; @base64)`,
		"escaped text":       `reduce range(60) as $i ("\""; tojson)`,
		"splits":             `"x" * 50000000 | [splits("")] | length`,
		"large program":      `"x" * 1000000 | test("(x{1,30}){1,30}y" * 300)`,
		"large number":       `reduce range(100) as $i (9007199254740993; . * .)`,
		"joined":             `[range(1000000)] | map("x" * 1000) | join("y" * 1000)`,
		"paths":              `[range(1000000)] | [paths(true)] | [.[] | tojson] | length | range(1e12) | empty`,
		"sub":                `"a" * 1000000 | gsub("a"; "b" * 1000000)`,
		"walk":               `[range(1e9)] | walk(.)`,
		"ltrimstr":           `reduce range(1e9) as $i ("xx" * 1000000; ltrimstr("x"))`,
		"getpath":            `reduce range(1e9) as $i ([1]; getpath([0]) | [.])`,
		"implode":            `[range(100000000)] | map(65) | implode`,
		"group":              `[range(30000000)] | group_by(. % 7) | length`,
	}
}

func TestBombsKillTheChildAlone(t *testing.T) {
	t.Parallel()
	p := hasty(t, 2, 100*time.Millisecond)
	for name, source := range bombs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := run(t, p, source)
			var failure *expression.Failure
			require.ErrorAs(t, err, &failure)
			require.Equal(t, expression.CodeLimit, failure.Code, failure.Detail)
			got, err := run(t, p, `trigger_data.list | length`)
			require.NoError(t, err, "the next expression gets a child")
			require.Equal(t, "3", string(got[0]))
		})
	}
}

func TestBoundOfMemoryIsReached(t *testing.T) {
	t.Parallel()
	p := hasty(t, 1, time.Minute)
	for _, name := range []string{"index", "repeated text", "range", "endless recursion", "doubled array"} {
		_, err := run(t, p, bombs()[name])
		var failure *expression.Failure
		require.ErrorAs(t, err, &failure, name)
		require.Contains(t, failure.Detail, "memory", name)
	}
	got, err := run(t, p, `[range(100000)] | length`)
	require.NoError(t, err, "what fits the bound is no bomb")
	require.Equal(t, "100000", string(got[0]))
}

func TestChildThatDoesNotStartIsNoFailureOfTheExpression(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{"/nonexistent"}, {"/bin/false"}, {"/bin/true"}} {
		p, err := jqchild.New(jqchild.Config{Command: command, Children: 1})
		require.NoError(t, err)
		_, err = p.For("tenant").Run(t.Context(), `1`, expression.Roots{})
		require.Error(t, err)
		var failure *expression.Failure
		require.NotErrorAs(t, err, &failure)
	}
	_, err := jqchild.New(jqchild.Config{})
	require.Error(t, err)
}

// The parent cannot say goodbye when it is killed.
func TestChildEndsWithItsParentEvenAtWork(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	require.NoError(t, err)
	in, out, err := os.Pipe()
	require.NoError(t, err)
	child := exec.CommandContext(t.Context(), program, jqchild.Subcommand)
	child.Stdin = in
	require.NoError(t, child.Start())
	question, err := json.Marshal(map[string]any{"Source": "def f: f; f"})
	require.NoError(t, err)
	_, err = out.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(question))), question...))
	require.NoError(t, err)
	require.NoError(t, out.Close())
	require.NoError(t, in.Close())
	require.NoError(t, child.Wait())
}

func TestChildDoesNothingButEvaluate(t *testing.T) {
	t.Parallel()
	p := pool(t)
	got, err := run(t, p, `[trigger_data | keys[]]`)
	require.NoError(t, err)
	require.Equal(t, `["id","list","price"]`, string(got[0]))
	_, err = run(t, p, `$ENV`)
	var failure *expression.Failure
	require.ErrorAs(t, err, &failure)
}

func TestCancelledCallEndsItsChild(t *testing.T) {
	t.Parallel()
	p := pool(t)
	_, err := run(t, p, `[range(1)]`)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := p.For("tenant").Run(ctx, `def f: f; f`, expression.Roots{})
		done <- err
	}()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	_, err = run(t, p, `[range(1)]`)
	require.NoError(t, err)
}

func TestOnePartyDoesNotTakeAllChildren(t *testing.T) {
	t.Parallel()
	p := hasty(t, 2, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { _, _ = p.For("greedy").Run(ctx, `def f: f; f`, expression.Roots{}) })
	}
	for range 100 {
		_, err := p.For("modest").Run(t.Context(), `[range(1)]`, expression.Roots{})
		require.NoError(t, err)
	}
	cancel()
	all.Wait()
}

func TestLargeRootsAreRefused(t *testing.T) {
	t.Parallel()
	_, err := pool(t).For("tenant").Run(t.Context(), `trigger_data`, expression.Roots{
		TriggerData: json.RawMessage(`"` + strings.Repeat("x", 33<<20) + `"`),
	})
	var failure *expression.Failure
	require.ErrorAs(t, err, &failure)
	require.Equal(t, expression.CodeLimit, failure.Code)
}

// Without a bound on all of them, a value of many costly expressions would never be evaluated.
func TestExpressionsOfOneValueShareTheirTime(t *testing.T) {
	t.Parallel()
	p := hasty(t, 1, 200*time.Millisecond)
	value, failure := p.For("tenant"), (*expression.Failure)(nil)
	for range 1000 {
		if _, err := value.Run(t.Context(), `[range(20000)] | length`, expression.Roots{}); err != nil {
			require.ErrorAs(t, err, &failure)
			break
		}
	}
	require.NotNil(t, failure, "they have no end")
	require.Equal(t, expression.CodeLimit, failure.Code)
	got, err := p.For("tenant").Run(t.Context(), `[range(1000)] | length`, expression.Roots{})
	require.NoError(t, err, "the next value has its own time")
	require.Equal(t, "1000", string(got[0]))
}

// What this process does for a value is bounded too. Beyond that, children evaluate also what would be
// quick here, until the time of the value is over. Its end is a result, so that nobody repeats it.
func TestValueThatTakesTooMuchHereGoesToChildren(t *testing.T) {
	t.Parallel()
	p, err := jqchild.New(jqchild.Config{Children: 1, Time: 100 * time.Millisecond, Here: 100_000})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	eval := func(paths int) (json.RawMessage, error) {
		text, faults := expression.ParseTemplate(strings.Repeat("${trigger_data.z}", paths))
		require.Empty(t, faults)
		v := expression.TextValue(text)
		return v.Eval(t.Context(), p.For("tenant"), expression.Roots{TriggerData: json.RawMessage(`{"p":[` + strings.Repeat(`"x",`, 50_000) + `1],"z":1}`)})
	}
	got, err := eval(2)
	require.NoError(t, err)
	require.Equal(t, `"11"`, string(got))
	_, err = eval(1000)
	var failure *expression.Failure
	require.ErrorAs(t, err, &failure)
	require.Equal(t, expression.CodeLimit, failure.Code)
}

func TestSpendingEndsWithWhatAValueHas(t *testing.T) {
	t.Parallel()
	s := pool(t).For("tenant")
	require.True(t, s.Spend(jqchild.Here))
	require.True(t, s.Spend(0))
	require.False(t, s.Spend(1))
	require.False(t, s.Spend(0), "a value that wanted more has nothing left")
}

// A value of many expressions ends before its activity does, which would be made again.
func TestValueThatLastsTooLongIsEvaluatedLater(t *testing.T) {
	t.Parallel()
	s := pool(t).For("tenant")
	_, err := s.Run(t.Context(), `1`, expression.Roots{})
	require.NoError(t, err)
	jqchild.Late(s)
	_, err = s.Run(t.Context(), `1`, expression.Roots{})
	_, is := errors.AsType[*expression.BusyError](err)
	require.True(t, is, "%v", err)
}

// An expression without an end ends on a busy machine too, where no try gets its whole time.
func TestTriesOfAStarvedExpressionAddUp(t *testing.T) {
	t.Parallel()
	p := pool(t)
	var failure *expression.Failure
	for range 5 {
		busy, is := errors.AsType[*expression.BusyError](jqchild.Starved(p.For("tenant"), "endless", time.Second))
		require.True(t, is)
		require.Less(t, busy.Line(), time.Minute)
		require.NotErrorAs(t, jqchild.Starved(p.For("another"), "endless", 0), &failure, "others have their own tries")
	}
	require.ErrorAs(t, jqchild.Starved(p.For("tenant"), "endless", time.Second), &failure)
	require.Equal(t, expression.CodeLimit, failure.Code)
}

// Who finds no place among the waiting hears when to ask again.
func TestCrowdedPoolSaysWhenToAskAgain(t *testing.T) {
	t.Parallel()
	p := hasty(t, 1, time.Minute)
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	defer ended.Wait()
	defer stop()
	const most = 65 // one has the child
	crowded := make(chan error, 2*most)
	for range 2 * most {
		ended.Go(func() {
			if _, err := p.For("tenant").Run(ctx, `[range(1000000000)] | length`, expression.Roots{}); ctx.Err() == nil {
				crowded <- err
			}
		})
	}
	for range most {
		busy, is := errors.AsType[*expression.BusyError](<-crowded)
		require.True(t, is)
		require.GreaterOrEqual(t, busy.Line(), time.Second)
		require.ErrorIs(t, busy, turns.ErrCrowded)
	}
}
