package stepmachine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/stepmachine"
)

func TestCheckEditNamesWhatDoesNotFitTheStep(t *testing.T) {
	t.Parallel()
	p := program(t, `steps: [{id: ask, type: approval, title: "Go?"}, {id: tell, type: emit, event: custom.x}]`)
	require.Empty(t, p.CheckEdit("ask", []byte(`{"title":"Go on?","payload":{"n":1}}`)))
	wrong := p.CheckEdit("ask", []byte(`{"title":"Go on?","payload":[1]}`))
	require.Len(t, wrong, 1)
	require.Equal(t, "/payload", wrong[0].Path)
	require.Equal(t, "type", wrong[0].Rule)
	require.Len(t, p.CheckEdit("tell", []byte(`"text"`)), 1)
}

func TestTakesEditIsSureOfOnePlaceOnly(t *testing.T) {
	t.Parallel()
	const text = `
steps:
  - id: each
    type: foreach
    mode: %s
    items: [1, 2]
    steps:
      - {id: a, type: transform, expr: 1}
      - id: s
        type: switch
        cases: [{when: "${true}", steps: [{id: b, type: verb, verb: "shop:b"}, {id: c, type: verb, verb: "shop:c"}]}]
      - {id: inner, type: foreach, items: [1], steps: [{id: d, type: verb, verb: "shop:d"}]}
  - {id: later, type: verb, verb: "shop:later"}
`
	const second = "/steps/0/steps/1/cases/0/steps/"
	for _, c := range []struct {
		name, mode, step, from string
		want                   string // "" where it is not sure
	}{
		{"the failed step", "seq", "b", "", second + "0@1"},
		{"the failed step, named", "seq", "b", "b", second + "0@1"},
		{"one after it", "seq", "c", "", ""},
		{"one that is over in the iteration", "seq", "a", "", ""},
		{"one that begins again in the iteration", "seq", "a", "a", ""},
		{"the failed step in a block that begins again", "seq", "b", "s", ""},
		{"one in a loop that begins again", "seq", "b", "each", ""},
		{"one in a loop that has not begun", "seq", "d", "", ""},
		{"one in no loop", "seq", "later", "", "/steps/1"},
		{"one that failed beside others", "parallel", "b", "", ""},
	} {
		x, commands := start(t, fmt.Sprintf(text, c.mode))
		for n := 0; c.mode == "seq" && n < 3; n++ { // b, c and d of the first item
			commands = x.next(at(n), executed(find[stepmachine.StartVerb](t, commands).Ref, `1`))
		}
		x.next(at(5), stepmachine.VerbEnded{CallEnd: stepmachine.CallEnd{
			Ref: find[stepmachine.StartVerb](t, commands).Ref, Status: stepmachine.CallFailed, Error: stepmachine.NewError("PROVIDER_ERROR", ""), MayRepeat: true,
		}})
		again := stepmachine.Again{FromStep: c.from, Edits: []stepmachine.Named{{Name: c.step}}}
		ref, sure := x.p.TakesEdit(x.s, again, c.step)
		require.Equal(t, c.want != "", sure, c.name)
		if sure {
			require.Equal(t, c.want, ref.String(), c.name)
		}
	}
}
