//go:build chaos

package chaos

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// atOnce is how many executions are at their boundaries when a kill falls.
const atOnce = 48

// The crash matrix: each part is killed at each boundary of a Map of twelve steps, of both drivers.
func TestChaosMapsEachPartKilledAtEachBoundary(t *testing.T) { //nolint:paralleltest // a stack at a time, for times that mean something
	c := newMapCourt(t)
	c.requirePlain()
	pending := func() []string { return nil }
	for _, victim := range victims() {
		var trials []*trial
		for _, d := range c.drivers {
			for _, b := range d.boundaries {
				trials = append(trials, c.newTrial(d, b))
			}
		}
		for wave := range slices.Chunk(trials, atOnce) {
			next := c.strike(wave, victim)
			require.Empty(t, pending())
			pending = next
		}
	}
	require.Empty(t, pending())
	t.Logf("%d executions met a kill at a boundary", c.struck)
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
				tr.retry(at[(i/2+n*3)%len(at)])
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
		{"after_map_retry", "|", 1}, {"map_begin", "|", 1}, {"after_claim", "|/steps/5", 1}, {"before_sending", "|/steps/5", 1},
		{"after_sending", "|/steps/5", 1}, {inRequest, "|9", 1}, {"after_response", "|/steps/5", 1}, {"before_record", "|/steps/5", 1},
		{"after_record", "|/steps/5", 1}, {"before_map_finish", "|", 1}, {"after_map_finish", "|", 1},
	}
	if d.name == driverRun {
		for _, point := range []string{"before_hold", "after_hold", "before_hand_over", "after_hand_over", "before_count", "in_count", "after_count"} {
			list = append(list, boundary{point, "|/steps/5", 1})
		}
	}
	if last {
		list = append(list, boundary{inResponse, "|9", 1}, boundary{waits, "|s10", 1}, boundary{"before_map_ask", "|", 1}, boundary{"after_map_count", "|", 1})
	}
	return list
}
