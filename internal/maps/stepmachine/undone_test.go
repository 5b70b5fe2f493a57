package stepmachine_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/stepmachine"
)

// An execution lists some of the steps that are not undone, and counts the others.
func TestNotUndoneAreListedUpToABound(t *testing.T) {
	t.Parallel()
	x, commands := start(t, `
steps:
  - {id: each, type: foreach, items: [`+strings.Repeat("1, ", 104)+`1], steps: [{id: a, type: verb, verb: "shop:a", compensate: {verb: "shop:undo"}}]}
  - {id: b, type: raise, error: {code: "NO"}}
`)
	var finish *stepmachine.Finish
	for finish == nil {
		var next stepmachine.Event
		for _, command := range commands {
			switch c := command.(type) {
			case stepmachine.StartVerb:
				next = executed(c.Ref, `1`)
			case stepmachine.Compensate:
				next = stepmachine.CompensationEnded{Seq: c.Seq, Attempt: c.Attempt, Status: stepmachine.CallFailed}
			case stepmachine.Continue:
				next = stepmachine.Continued{}
			case stepmachine.Finish:
				finish = &c
			}
		}
		if finish == nil {
			require.NotNil(t, next)
			commands = x.next(at(1), next)
		}
	}
	require.Len(t, finish.NotCompensated, 100)
	require.Equal(t, 105, finish.NotCompensated[0].Seq)
	require.Equal(t, 5, finish.MoreNotCompensated)
	require.Zero(t, finish.Compensated)
}
