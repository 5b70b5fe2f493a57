//go:build chaos

package chaos

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The crash matrix: each part is killed at each boundary of a Map of twelve steps, of both drivers.
// Each part has a stack of its own, so that it can be killed apart from the others.
func TestChaosMapsEachPartKilledAtEachBoundary(t *testing.T) { //nolint:paralleltest // a stack at a time, for times that mean something
	for _, victim := range victims() { //nolint:paralleltest // as above
		t.Run(victim, func(t *testing.T) {
			c := newMapCourt(t)
			c.requirePlain()
			pending := func() []string { return nil }
			var trials []*trial
			for _, d := range c.drivers {
				for _, b := range d.boundaries {
					trials = append(trials, c.newTrial(d, b))
				}
			}
			for wave := range slices.Chunk(trials, atOnce) {
				next := c.strike(wave, victim)
				c.judge(pending)
				pending = next
			}
			c.judge(pending)
			t.Logf("%d executions met a kill at a boundary", c.struck)
		})
	}
}

// retries is how often the Map that fails in its ninth step is retried.
const retries = 5

// A Map that fails in its ninth step is retried five times, with a kill in each. Its first eight
// steps have their effects once.
func TestChaosMapsEachRetryKilledKeepEffects(t *testing.T) { //nolint:paralleltest // a stack at a time, for times that mean something
	c := newMapCourt(t)
	var failing []*trial
	for _, d := range c.drivers {
		for range boundariesOfRetry(d, false) {
			failing = append(failing, c.newFailing(d, retries))
		}
	}
	c.requirePlain(failing...)
	all := append(victims(), victims()...)
	for n := range retries {
		// Each trial meets another boundary and another victim in each of its retries.
		for v := range victims() {
			var wave []*trial
			for i, tr := range failing {
				if i%len(victims()) != v {
					continue
				}
				at := boundariesOfRetry(tr.driver, n == retries-1)
				tr.retry("", at[(i/2+n*3)%len(at)])
				wave = append(wave, tr)
			}
			require.Empty(t, c.strike(wave, all[v+n%len(victims())])())
		}
	}
	t.Logf("%d retries met a kill", c.struck)
}

// boundariesOfRetry are where a retry comes by; the last one does not fail.
func boundariesOfRetry(d *mapDriver, last bool) []boundary {
	list := []boundary{
		{"after_map_retry", "|", 1},
		{"map_begin", "|", 1},
		{"after_claim", "|/steps/5", 1},
		{"after_sending", "|/steps/5", 1},
		{inRequest, "|9", 1},
		{"after_response", "|/steps/5", 1},
		{"before_record", "|/steps/5", 1},
		{"after_record", "|/steps/5", 1},
		{"before_map_finish", "|", 1},
		{"after_map_finish", "|", 1},
	}
	// A step that its Map drives is mostly claimed and marked as sending in one transaction, and has
	// no row before it.
	if d.name == driverRun {
		for _, point := range []string{"before_sending", "before_hold", "after_hold", "before_hand_over", "after_hand_over", "before_count", "in_count", "after_count"} {
			list = append(list, boundary{point, "|/steps/5", 1})
		}
	}
	if last {
		list = append(list, boundary{inResponse, "|9", 1}, boundary{waits, "|s10", 1}, boundary{"before_map_ask", "|", 1}, boundary{"after_map_count", "|", 1})
	}
	return list
}

// Each part is killed under executions at boundaries of all kinds, of both drivers, and under a
// retry. They end with the trace of one that nothing happened to, and each effect happens once.
func TestChaosMapsSampleOfKillsKeepTheirTrace(t *testing.T) { //nolint:paralleltest // a stack at a time, for times that mean something
	c := newMapCourt(t)
	failing := c.newFailing(c.drivers[0], 1)
	c.requirePlain(failing)
	kinds := map[string]int{}
	var verdicts []func() []string
	for i, victim := range victims() {
		var trials []*trial
		for n, d := range c.drivers {
			for k, b := range stable(d.boundaries) {
				if k%share == (7*i+13*n)%share || slices.Contains(always(i), b) {
					trials = append(trials, c.newTrial(d, b))
					kinds[b.kind()]++
				}
			}
		}
		if victim == victimWorker {
			failing.retry("", boundary{"after_sending", "|/steps/5", 1})
			trials = append(trials, failing)
		}
		verdicts = append(verdicts, c.strike(trials, victim))
	}
	for _, verdict := range verdicts {
		require.Empty(t, verdict())
	}
	for _, kind := range []string{kindCall, kindWait, kindApproval, kindSub, kindContinue} {
		require.Positive(t, kinds[kind], kind)
	}
	t.Logf("%d executions met a kill at a boundary: %v", c.struck, kinds)
}

// share is the part of the boundaries of each driver that each kill meets here.
const share = 24

// always are the boundaries that the kill number i meets in any case.
func always(i int) []boundary {
	wait := func(step string) boundary { return boundary{waits, "|" + step, 1} }
	return [][]boundary{
		{wait("s10"), wait("s7")}, // the worker does not hear of a decision and of an event
		{{"in_map_count", "|", 1}},
		{wait("s10"), wait("s8"), {"map_begin", "|", 2}}, // a decision whose nudge is lost
		{wait("s5"), {"before_map_ask", "|", 1}},
	}[i]
}

// stable returns the boundaries that each execution comes by. How often one writes and looks depends
// on how fast it is.
func stable(all []boundary) []boundary {
	return slices.DeleteFunc(slices.Clone(all), func(b boundary) bool {
		return b.nth > 1 && repeats(b.point)
	})
}
