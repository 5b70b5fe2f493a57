package run_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/verb"
)

// A probe that could not read is no probe that found nothing: only the provider says that there is
// nothing.
func TestProbeTellsNothingThereFromNotRead(t *testing.T) {
	t.Parallel()
	answer := func(status int, body string) run.Answer {
		return run.Answer{Phase: attempt.Answered, Status: status, Complete: true, Result: json.RawMessage(body)}
	}
	for name, c := range map[string]struct {
		answers run.Answer
		prepare func(r *rig)
		want    verb.LookState
	}{
		"found":             {answer(200, `{"id":"p1","paid":true}`), nil, verb.LookFound},
		"not there":         {answer(404, `{}`), nil, verb.LookNotFound},
		"no longer there":   {answer(410, `{}`), nil, verb.LookNotFound},
		"the provider errs": {answer(500, `{}`), nil, verb.LookNotRead},
		"not allowed":       {answer(403, `{}`), nil, verb.LookNotRead},
		"no answer":         {run.Answer{Phase: attempt.Sent}, nil, verb.LookNotRead},
		"not understood":    {run.Answer{Phase: attempt.Answered, Status: 200, Complete: true}, nil, verb.LookNotRead},
		"a policy blocks it": {answer(200, `{}`), func(r *rig) {
			r.policies(rule(governance.ActionBlock, "read"))
		}, verb.LookNotRead},
		"the key is revoked": {answer(200, `{}`), func(r *rig) { r.admin(`UPDATE api_keys SET revoked_at = now()`) }, verb.LookNotRead},
		"none is declared":   {answer(200, `{}`), func(r *rig) { r.targets.readBack.Store(nil) }, ""},
		"the call lacks an argument of it": {answer(200, `{}`), func(r *rig) {
			r.targets.readBack.Load().Args = json.RawMessage(`{"id":"${args.other}"}`)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.declares("read")
			out := r.must(r.do("pay", "one", `{"id":"p1"}`))
			r.provider.reads.Store(new(func(context.Context, json.RawMessage) run.Answer { return c.answers }))
			if c.prepare != nil {
				c.prepare(r)
			}
			look, err := r.Probe(t.Context(), ref(out.Run), nil)
			require.NoError(t, err)
			require.Equal(t, c.want, look.State)
			require.Equal(t, c.want == verb.LookFound, look.Value != nil)
			require.Equal(t, c.want != "", look.Of != "")
			require.Equal(t, name != "none is declared", look.Declared)
		})
	}
}

// With other arguments than those of its run, a probe may look at another thing, and says so.
func TestProbeWithOtherArgumentsSaysWhetherItLooksElsewhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.declares("read")
	out := r.must(r.do("pay", "one", `{"id":"p1","n":1}`))
	r.provider.reads.Store(new(func(_ context.Context, args json.RawMessage) run.Answer {
		return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: args}
	}))
	own, err := r.Probe(t.Context(), ref(out.Run), nil)
	require.NoError(t, err)
	for args, want := range map[string]verb.Look{
		`{"id":"p1","n":2}`: own,
		`{"id":"p2","n":1}`: {Declared: true, State: verb.LookFound, Value: json.RawMessage(`{"id":"p2"}`), Of: `shop:read {"id":"p2"}`, Elsewhere: true},
		`{"n":1}`:           {Declared: true, Elsewhere: true},
	} {
		look, err := r.Probe(t.Context(), ref(out.Run), json.RawMessage(args))
		require.NoError(t, err)
		require.Equal(t, want, look, args)
	}
}
