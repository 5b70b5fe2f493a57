package circuit_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/circuit"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/verb"
)

func TestAttemptIsJudgedByWhatItSaysOfTheProvider(t *testing.T) {
	t.Parallel()
	answered := func(status int) circuit.Attempt {
		return circuit.Attempt{Phase: attempt.Answered, Status: status, Complete: true}
	}
	notSent := func(c attempt.Cause) circuit.Attempt { return circuit.Attempt{Phase: attempt.NotSent, Cause: c} }
	const both = verb.Operation("both")
	for name, c := range map[string]struct {
		op   verb.Operation
		a    circuit.Attempt
		want circuit.Verdict
		kind string
	}{
		"200":                              {both, answered(200), circuit.Succeeded, ""},
		"a redirect":                       {both, answered(302), circuit.Succeeded, ""},
		"400":                              {both, answered(400), circuit.Succeeded, ""},
		"401":                              {both, answered(401), circuit.Succeeded, ""},
		"408":                              {both, answered(408), circuit.Succeeded, ""},
		"429":                              {both, answered(429), circuit.Succeeded, ""},
		"499":                              {both, answered(499), circuit.Succeeded, ""},
		"500":                              {both, answered(500), circuit.Failed, "http_500"},
		"503":                              {both, answered(503), circuit.Failed, "http_503"},
		"599":                              {both, answered(599), circuit.Failed, "http_599"},
		"a 404 that breaks off":            {both, circuit.Attempt{Phase: attempt.Answered, Status: 404}, circuit.Succeeded, ""},
		"a 500 that breaks off":            {both, circuit.Attempt{Phase: attempt.Answered, Status: 500, Timeout: true}, circuit.Failed, "http_500"},
		"a 200 of a read that breaks off":  {verb.Read, circuit.Attempt{Phase: attempt.Answered, Status: 200}, circuit.Failed, "answer_cut_off"},
		"a 200 of a read that drips":       {verb.Read, circuit.Attempt{Phase: attempt.Answered, Status: 200, Timeout: true}, circuit.Failed, "timeout"},
		"a 200 of a write that breaks off": {verb.Write, circuit.Attempt{Phase: attempt.Answered, Status: 200}, circuit.Unclear, ""},
		"a read without an answer":         {verb.Read, circuit.Attempt{Phase: attempt.Sent}, circuit.Failed, "no_answer"},
		"a read that takes too long":       {verb.Read, circuit.Attempt{Phase: attempt.Sent, Timeout: true}, circuit.Failed, "timeout"},
		"a write without an answer":        {verb.Write, circuit.Attempt{Phase: attempt.Sent}, circuit.Unclear, ""},
		"a write that takes too long":      {verb.Write, circuit.Attempt{Phase: attempt.Sent, Timeout: true}, circuit.Unclear, ""},
		"no connection":                    {both, notSent(attempt.NoConnection), circuit.Failed, "no_connection"},
		"no connection in time":            {both, notSent(attempt.ConnectTimeout), circuit.Failed, "connect_timeout"},
		"no such name":                     {both, notSent(attempt.NoName), circuit.Failed, "no_name"},
		"a bad certificate":                {both, notSent(attempt.NoTLS), circuit.Failed, "no_tls"},
		"stopped by us":                    {both, notSent(attempt.Ours), circuit.Unclear, ""},
		"not sent for an unknown cause":    {both, notSent(""), circuit.Unclear, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ops := []verb.Operation{c.op}
			if c.op == both {
				ops = []verb.Operation{verb.Read, verb.Write}
			}
			for _, op := range ops {
				v, kind := circuit.Judge(op, c.a)
				require.Equal(t, c.want, v, op)
				require.Equal(t, c.kind, kind, op)
			}
		})
	}
}

func TestGateStopsWhatIsNotTheProbe(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		closed, troubled, stops bool
		wait                    time.Duration
	}{
		``:     {true, false, false, 0},
		`null`: {true, false, false, 0},
		`{"state":"closed","failures":3,"wait_ms":0}`:      {true, true, false, 0},
		`{"state":"closed","failures":0,"wait_ms":5}`:      {true, false, false, 0},
		`{"state":"open","failures":10,"wait_ms":2500}`:    {false, true, true, 2500 * time.Millisecond},
		`{"state":"open","failures":10,"wait_ms":0}`:       {false, true, false, 0},
		`{"state":"half_open","failures":0,"wait_ms":0}`:   {false, true, false, 0},
		`{"state":"half_open","failures":9,"wait_ms":100}`: {false, true, true, 100 * time.Millisecond},
	} {
		g, err := circuit.ReadGate(json.RawMessage(text))
		require.NoError(t, err, text)
		wait, stops := g.Stops()
		require.Equal(t, want.closed, g.IsClosed(), text)
		require.Equal(t, want.troubled, g.Troubled(), text)
		require.Equal(t, want.stops, stops, text)
		require.Equal(t, want.wait, wait, text)
	}
	_, err := circuit.ReadGate(json.RawMessage(`[]`))
	require.Error(t, err)
}

func TestTallyCountsFirstAttemptsAndTheStreakOfAll(t *testing.T) {
	t.Parallel()
	const ok, bad, unclear = circuit.Succeeded, circuit.Failed, circuit.Unclear
	type attempts []struct {
		v     circuit.Verdict
		first bool
	}
	for name, c := range map[string]struct {
		seen attempts
		want circuit.Tally
	}{
		"nothing":                      {nil, circuit.Tally{}},
		"a success":                    {attempts{{ok, true}}, circuit.Tally{Calls: 1, Success: true}},
		"a failure":                    {attempts{{bad, true}}, circuit.Tally{Calls: 1, Failed: 1, Streak: 1}},
		"a failure and its retries":    {attempts{{bad, true}, {bad, false}, {bad, false}}, circuit.Tally{Calls: 1, Failed: 1, Streak: 3}},
		"a retry that succeeds":        {attempts{{bad, true}, {ok, false}}, circuit.Tally{Calls: 1, Failed: 1, Success: true}},
		"a failure after a success":    {attempts{{ok, true}, {bad, true}}, circuit.Tally{Calls: 2, Failed: 1, Streak: 1, Success: true}},
		"what is unclear between them": {attempts{{bad, true}, {unclear, true}, {bad, true}}, circuit.Tally{Calls: 2, Failed: 2, Streak: 2}},
	} {
		var got circuit.Tally
		for _, a := range c.seen {
			got = got.Add(a.v, a.first)
		}
		require.Equal(t, c.want, got, name)
		// However it is cut in two, the parts make the whole.
		for cut := range c.seen {
			var before, after circuit.Tally
			for i, a := range c.seen {
				if i < cut {
					before = before.Add(a.v, a.first)
				} else {
					after = after.Add(a.v, a.first)
				}
			}
			require.Equal(t, c.want, before.Then(after), "%s, cut at %d", name, cut)
		}
	}
}

func TestRecordIsReadAsItIsStored(t *testing.T) {
	t.Parallel()
	r, err := circuit.ReadRecord(json.RawMessage(`null`))
	require.NoError(t, err)
	require.Equal(t, circuit.Record{State: circuit.Closed}, r, "a provider that never failed")
	r, err = circuit.ReadRecord(json.RawMessage(`{"state":"open","failures":10,"since":"2026-01-02T03:04:05.5+01:00","probe_at":"2026-01-02T03:04:15.5+01:00",
		"error_kinds":["http_503","timeout"],"error_times":["2026-01-02T03:04:05.5+01:00","2026-01-02T03:04:05+01:00"]}`))
	require.NoError(t, err)
	at := time.Date(2026, 1, 2, 2, 4, 5, 500_000_000, time.UTC)
	require.Equal(t, circuit.Record{
		State: circuit.Open, Failures: 10, Since: &at, ProbeAt: new(at.Add(10 * time.Second)),
		Last: []circuit.Failure{{Kind: "http_503", At: at}, {Kind: "timeout", At: at.Add(-500 * time.Millisecond)}},
	}, r)
}
