package run_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/circuit"
)

// circuitRow is the circuit of a provider of the rig, as the SQL functions see it.
type circuitRow struct {
	*rig

	q        *dbsqlc.Queries
	provider string
}

// report records what a process has seen, with an attempt of the run.
func (c circuitRow) report(run uuid.UUID, kind string, seen circuit.Tally) string {
	c.t.Helper()
	p := dbsqlc.RecordCallsParams{
		TenantID: c.tenant, Provider: c.provider, RunID: run, RecordID: uuid.New(), Calls: int32(seen.Calls), Failed: int32(seen.Failed),
		Streak: int32(seen.Streak), Success: seen.Success, Rule: circuit.TheRule().Array(),
	}
	if kind != "" {
		p.Kind = &kind
	}
	outcome, err := c.q.RecordCalls(c.t.Context(), c.db.Tenant(c.tenant), p)
	require.NoError(c.t, err)
	return outcome
}

// probe asks for the probe of a run that is at the provider and was marked as alive so long ago.
func (c circuitRow) probe(run uuid.UUID, silent time.Duration) bool {
	c.t.Helper()
	c.admin(`INSERT INTO runs (id, tenant_id, execution_id, claim_key, provider, verb, args, fingerprint, dry_run, metadata, request_id, source_addr,
	                  give_up_at, risk_level, operation_type, state, origin, key_id, workflow_id, updated_at)
	         VALUES ($1::uuid, $2, $1::text, $1::text, 'shop', 'read', '{}', '\x00', false, '{}', '', '', now(), 'low', 'read', 'sending', 'key', $3, 'w', now() - make_interval(secs => $4))
	         ON CONFLICT (tenant_id, id) DO UPDATE SET updated_at = excluded.updated_at`, run, c.tenant, c.key, silent.Seconds())
	_, err := c.q.TakeProbe(c.t.Context(), c.db.Tenant(c.tenant), dbsqlc.TakeProbeParams{TenantID: c.tenant, Provider: c.provider, RunID: run})
	require.True(c.t, err == nil || db.IsNotChanged(err), "%v", err)
	return err == nil
}

func (c circuitRow) gate() circuit.Gate {
	c.t.Helper()
	text, err := c.q.CircuitOver(c.t.Context(), c.db.Tenant(c.tenant), dbsqlc.CircuitOverParams{TenantID: c.tenant, Provider: c.provider})
	require.NoError(c.t, err)
	g, err := circuit.ReadGate(text)
	require.NoError(c.t, err)
	return g
}

// later moves the row's times into the past.
func (c circuitRow) later(d time.Duration) {
	c.t.Helper()
	c.admin(`UPDATE circuits SET probe_at = probe_at - make_interval(secs => $1), window_began = window_began - make_interval(secs => $1) WHERE provider = $2`, d.Seconds(), c.provider)
}

// TestCircuitFollowsItsRule makes each row step by step. A step is what happens, and after " = "
// what comes of it:
//
//	fail, retry, ok   an attempt is recorded: the first of a run, a further one, or a success
//	fail*9            so often; the last one counts
//	seen 30           a process has seen 30 successes, and records them with its next attempt
//	probe A, ok A     run A asks to be the probe; its attempt is recorded
//	late A            as probe A, by a run whose process has not been heard of for 7 s
//	wait 10s          time goes by
//	gate              what a call finds
func TestCircuitFollowsItsRule(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.admin(`INSERT INTO providers SELECT (jsonb_populate_record(p, jsonb_build_object('slug', 'shop-' || n))).* FROM providers p, generate_series(1, 100) n`)
	cases := 0
	for name, steps := range map[string]string{
		"a success writes nothing":               "ok = counted; gate = closed",
		"nine failures are too few":              "fail*9 = counted; gate = closed 9",
		"ten failures open it":                   "fail*9 = counted; fail = opened; gate = open 10s",
		"retries count among them":               "fail; retry*8 = counted; retry = opened",
		"a success begins anew":                  "fail*9; ok = counted; gate = closed; fail*9 = counted; fail = opened",
		"a success of this process does too":     "fail*9; seen 1; fail = counted; gate = closed 1",
		"half of twenty in a minute open it":     "fail*9; seen 10; fail = opened",
		"less than half does not":                "fail*9; seen 11; fail = counted; gate = closed 1",
		"nineteen are too few for a rate":        "fail*9; seen 9; fail = counted",
		"retries are no calls of the rate":       "fail; retry*8; seen 4; retry*9 = counted; seen 4; retry*9 = counted",
		"another minute counts anew":             "fail*9; seen 10; wait 61s; fail = counted; gate = closed 1",
		"what is under way when it opens":        "fail*10; fail = counted; ok = counted; gate = open 10s",
		"no probe before the pause is over":      "fail*10; wait 9s; probe A = no; gate = open 1s",
		"a probe after it, and one only":         "fail*10; wait 10s; gate = open; probe A = yes; gate = half_open 1s; probe B = no",
		"the run of the probe may take it again": "fail*10; wait 10s; probe A = yes; probe A = yes",
		"its success closes":                     "fail*10; wait 10s; probe A; ok A = closed; gate = closed; fail*9 = counted; fail = opened; gate = open 10s",
		"its failure doubles the pause":          "fail*10; wait 10s; probe A; fail A = reopened; gate = open 20s; wait 20s; probe B = yes; fail B = reopened; gate = open 40s",
		"up to five minutes": "fail*10; wait 5m; probe A; fail A; wait 5m; probe A; fail A; wait 5m; probe A; fail A; wait 5m; probe A; fail A; wait 5m; probe A; fail A; " +
			"gate = open 5m0s; wait 5m; probe A; fail A; gate = open 5m0s",
		"another run's outcome changes nothing":   "fail*10; wait 10s; probe A; ok B = counted; fail B = counted; gate = half_open 1s",
		"a lost probe makes place for another":    "fail*10; wait 10s; late A = yes; gate = half_open; probe B = yes; ok A = counted; gate = half_open 1s; ok B = closed",
		"a circuit that has closed stops no call": "fail*10; wait 10s; probe A; ok A; probe B = yes; gate = closed",
	} {
		cases++
		c := circuitRow{r, dbsqlc.New(), fmt.Sprintf("shop-%d", cases)}
		runs := map[string]uuid.UUID{"": uuid.New(), "A": uuid.New(), "B": uuid.New()}
		var seen circuit.Tally
		for step := range strings.SplitSeq(steps, "; ") {
			do, want, checked := strings.Cut(step, " = ")
			got := c.step(do, runs, &seen)
			require.True(t, !checked || got == want, "%s: %s: %s", name, step, got)
		}
	}
}

func (c circuitRow) step(do string, runs map[string]uuid.UUID, seen *circuit.Tally) (got string) {
	c.t.Helper()
	do, times, _ := strings.Cut(do, "*")
	what, arg, _ := strings.Cut(do, " ")
	n := 1
	if times != "" {
		_, err := fmt.Sscan(times, &n)
		require.NoError(c.t, err)
	}
	switch what {
	case "fail", "retry", "ok":
		for range n {
			v, kind := circuit.Failed, "http_503"
			if what == "ok" {
				v, kind = circuit.Succeeded, ""
			}
			got = c.report(runs[arg], kind, seen.Add(v, what != "retry"))
			*seen = circuit.Tally{}
		}
	case "seen":
		_, err := fmt.Sscan(arg, &n)
		require.NoError(c.t, err)
		*seen = circuit.Tally{Calls: n, Success: true}
	case "probe", "late":
		silent := time.Duration(0)
		if what == "late" {
			silent = 7 * time.Second
		}
		got = map[bool]string{true: "yes", false: "no"}[c.probe(runs[arg], silent)]
	case "wait":
		d, err := time.ParseDuration(arg)
		require.NoError(c.t, err)
		c.later(d)
	case "gate":
		g := c.gate()
		got = string(max(g.State, circuit.Closed))
		switch {
		case g.Wait > 0:
			got += " " + g.Wait.Round(time.Second).String()
		case g.IsClosed() && g.Failures > 0:
			got += fmt.Sprintf(" %d", g.Failures)
		}
	default:
		require.Fail(c.t, "no such step", do)
	}
	return got
}
