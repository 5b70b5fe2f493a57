//go:build chaos

package chaos

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// abreast is how many writes are at a point when the kill falls.
const abreast = 5

// roundsOf reads how many writes each point and victim gets, and returns how many
// kills that takes.
func roundsOf(t *testing.T) int {
	t.Helper()
	runs := 20
	if text := os.Getenv("CHAOS_RUNS"); text != "" {
		var err error
		runs, err = strconv.Atoi(text)
		require.NoError(t, err, "CHAOS_RUNS is a number of runs")
	}
	return (runs + abreast - 1) / abreast
}

// crowd is what is stopped together: writes, and one of each kind that may be repeated.
func crowd() []string {
	return append(slices.Repeat([]string{verbWrite}, abreast), verbKeyed, verbRead)
}

func TestChaosRunsEachPartKilledAtEachPoint(t *testing.T) { //nolint:paralleltest // a stack at a time, for times that mean something
	c := muster(t, "chaos")
	defer c.report()
	for range roundsOf(t) {
		for _, point := range points() {
			for _, victim := range victims() {
				require.Empty(t, violations(c.do(strike{victims: []string{victim}, points: []string{point}, verbs: crowd()})))
			}
		}
	}
	require.Empty(t, c.recheck())
}

// Runs that a policy looks something up for: each part is killed at each point of it, then all at once.
func TestChaosLookupsPartsKilled(t *testing.T) { //nolint:paralleltest // a stack at a time, for times that mean something
	c := muster(t, "chaos")
	defer c.report()
	c.lookUpFirst()
	looked := strike{points: lookupPoints(), verbs: slices.Repeat([]string{verbLooked}, abreast)}
	for range roundsOf(t) {
		for _, victim := range victims() {
			looked.victims = []string{victim}
			require.Empty(t, violations(c.do(looked)))
		}
		looked.victims = []string{victimPostgres, victimTemporal, victimWorker, victimAPI}
		require.Empty(t, violations(c.do(looked)))
	}
	require.Empty(t, c.recheck())
}

// A power cut: nothing is left running.
func TestChaosRunsAllPartsKilledAtOnce(t *testing.T) { //nolint:paralleltest // a stack at a time, for times that mean something
	c := muster(t, "chaos")
	defer c.report()
	everything := []string{victimPostgres, victimTemporal, victimWorker, victimAPI}
	for range roundsOf(t) {
		require.Empty(t, violations(c.do(strike{victims: everything, points: points(), verbs: allVerbs()})))
	}
	require.Empty(t, c.recheck())
}

// The kill falls at a random moment of a busy service.
func TestChaosRunsKilledAtRandomMoments(t *testing.T) { //nolint:paralleltest // a stack at a time, for times that mean something
	c := muster(t, "chaos")
	defer c.report()
	busy := slices.Repeat(crowd(), 8)
	for range roundsOf(t) {
		for _, victim := range victims() {
			require.Empty(t, violations(c.do(strike{victims: []string{victim}, verbs: busy})))
		}
	}
	require.Empty(t, c.recheck())
}

// The provider answers only after Temporal has given the step up. The step runs twice
// at once, and still there is one effect and one end.
func TestChaosAnswerSlowerThanTaskHasOneEffect(t *testing.T) { //nolint:paralleltest // a stack at a time, for times that mean something
	c := muster(t, "chaos")
	defer c.report()
	require.Empty(t, violations(c.do(strike{
		victims: []string{victimTemporal}, points: []string{inRequest, inResponse}, verbs: allVerbs(),
		away: 12 * time.Second, linger: 30 * time.Second,
	})))
	require.Empty(t, c.recheck())
}

// The database is gone for longer than any caller waits.
func TestChaosRunsLongOutageEnd(t *testing.T) { //nolint:paralleltest // a stack at a time, for times that mean something
	c := muster(t, "chaos")
	defer c.report()
	for _, victim := range []string{victimPostgres, victimTemporal} {
		require.Empty(t, violations(c.do(strike{victims: []string{victim}, points: points(), verbs: allVerbs(), away: 45 * time.Second})))
	}
	require.Empty(t, c.recheck())
}

// Held runs: each part is killed alone, then all that could know of a decision, then all.
func TestChaosHeldRunsPartsKilled(t *testing.T) { //nolint:paralleltest // a stack at a time, for times that mean something
	c := convene(t)
	defer c.reportHeld()
	for range roundsOf(t) {
		for _, victim := range victims() {
			require.Empty(t, heldViolations(c.try(victim)))
		}
		require.Empty(t, heldViolations(c.try(victimTemporal, victimWorker, victimAPI)))
		require.Empty(t, heldViolations(c.try(victimPostgres, victimTemporal, victimWorker, victimAPI)))
	}
}

// Deliveries, mail and erasures: each part is killed alone at each point, then all at once.
func TestChaosKillsKeepNobodyFromBeingTold(t *testing.T) { //nolint:paralleltest // a stack at a time, for times that mean something
	h := newHerald(t)
	for range roundsOf(t) {
		for range mailPoints() { // more than the pairs of points of an erasure
			for _, victim := range victims() {
				h.strike(20, victim)
			}
		}
		h.strike(20, victimPostgres, victimTemporal, victimWorker, victimAPI)
	}
	require.Empty(t, h.told())
}
