//go:build chaos

package chaos

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mapOfBlocks fails in the second iteration of a loop that is in a branch. The other branch asks people
// meanwhile. It waits for an event that comes after its wait has begun, and reads twice.
const mapOfBlocks = `{"schema_version":"1","name":"Blocks","steps":[
	{"id":"s1","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"1"}},
	{"id":"s2","type":"verb","verb":"effects:look","args":{"id":"${trigger_data.id}","n":"look"}},
	{"id":"s3","type":"parallel","branches":[
		{"id":"a","steps":[{"id":"s4","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"4"}}]},
		{"id":"b","steps":[{"id":"s5","type":"wait","for":"1s"},
			{"id":"s6","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"6"}}]}]},
	{"id":"s7","type":"wait","event":{"type":"custom.go","correlate":"${trigger_data.id}","since":"step"}},
	{"id":"s8","type":"map","map_id":"%s","payload":{"id":"${trigger_data.id}"}},
	{"id":"both","type":"parallel","branches":[
		{"id":"c","steps":[{"id":"each","type":"foreach","items":["2","9"],"steps":[
			{"id":"looked","type":"verb","verb":"effects:look","args":{"id":"${trigger_data.id}","n":"look${item}"}},
			{"id":"first","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"${item}0"}},
			{"id":"s9","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"${item}"}}]}]},
		{"id":"d","steps":[{"id":"s10","type":"approval","title":"Go on?"},
			{"id":"s11","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"11"}}]}]},
	{"id":"s12","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"12"}}],
	"output":{"made":"${steps.both.output.c | length}","by":"${steps.s10.output.decision}","event":"${steps.s7.output.data.n}","sub":"${steps.s8.output}"}}`

// The steps of mapOfBlocks from which its retries begin, "" for the one that failed.
func stepsOfBlocks() []string {
	return []string{"", "s1", "s2", "both", "each", "looked", "first"}
}

func storyOfBlocks() *mapStory {
	const loop = "/steps/5/branches/0/steps/0/steps/"
	early := []string{"s1", "s2"}
	return &mapStory{
		name: "blocks", definition: mapOfBlocks, inner: innerMap, ends: "completed", approvals: 1,
		made:    []string{"1", "11", "12", "2", "20", "4", "6", "8", "9", "90"},
		failing: loop + "2@1", before: []string{"1", "2", "20", "4", "6", "8", "90"},
		reads: []string{"/steps/1", loop + "0@0", loop + "0@1"},
		again: map[string][]string{
			"/steps/1": early,
			"/steps/3": early,
			// The iteration before is over. Its calls have the numbers that they had.
			loop + "0@1": append(early, "both", "each", "looked"),
		},
	}
}

// A Map that fails within its blocks is retried five times, each time from another step: before its
// writes, a block around the step that failed, or one within. A part is killed in each retry, at a random
// boundary. What was written stays and is not written again, and only what has not written runs again.
func TestChaosMapsEachRetryFromStepKilledKeepEffects(t *testing.T) { //nolint:paralleltest // a stack at a time, for times that mean something
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 0))
	c := newCourtOf(t, storyOfBlocks())
	c.runPlain(2, nil)
	met := c.boundariesFrom()
	var failing []*trial
	for _, d := range c.drivers {
		for range 2 * len(victims()) {
			failing = append(failing, c.newFailing(d, retries))
		}
	}
	c.runFailing(failing)
	kinds := map[string]int{}
	for n := range retries {
		for v := range victims() {
			var wave []*trial
			for i, tr := range failing {
				if i%len(victims()) != v {
					continue
				}
				from := stepsOfBlocks()[(i+2*n)%len(stepsOfBlocks())]
				at := met[retryFrom{tr.driver.name, from, n == retries-1}]
				tr.retry(from, at[random.IntN(len(at))])
				kinds[from]++
				wave = append(wave, tr)
			}
			require.Empty(t, c.strike(wave, victims()[(v+n)%len(victims())])(), "CHAOS_SEED=%d", seed)
		}
	}
	t.Logf("%d retries met a kill: %v", c.struck, kinds)
}

// retryFrom names the retries whose executions come by the same boundaries: those of a driver that begin
// with the same step, and fail again or do not.
type retryFrom struct {
	driver, from string
	last         bool
}

// boundariesFrom retries Maps that nothing else happens to, and returns where all of a kind come by.
func (c *mapCourt) boundariesFrom() map[retryFrom][]boundary {
	c.t.Helper()
	kinds := map[*trial]retryFrom{}
	var failing []*trial
	for _, d := range c.drivers {
		for _, from := range stepsOfBlocks() {
			for _, failures := range []int{1, 2, 1, 2} {
				tr := c.newFailing(d, failures)
				failing, kinds[tr] = append(failing, tr), retryFrom{d.name, from, failures == 1}
			}
		}
	}
	c.runFailing(failing)
	for _, tr := range failing {
		tr.retry(kinds[tr].from, boundary{})
	}
	heard := c.gate.listen()
	c.runFailing(failing)
	passed, met := heard(), map[retryFrom][]boundary{}
	for _, tr := range failing {
		list := stable(tr.met(passed))
		if before, twice := met[kinds[tr]]; twice {
			list = slices.DeleteFunc(before, func(b boundary) bool { return !slices.Contains(list, b) })
		}
		met[kinds[tr]] = list
	}
	for kind, list := range met {
		if slices.Contains([]string{"s1", "s2"}, kind.from) {
			met[kind] = append(list, boundary{waits, "|s7", 1})
		}
		c.t.Logf("%+v: %d boundaries", kind, len(met[kind]))
		require.NotEmpty(c.t, met[kind], "%+v", kind)
	}
	return met
}

// runFailing sees the trials through that nothing happens to.
func (c *mapCourt) runFailing(trials []*trial) {
	c.t.Helper()
	for _, tr := range trials {
		tr.end = nil
	}
	c.follow(trials...)
	for _, tr := range trials {
		c.inspectTrial(tr)
		require.Empty(c.t, tr.broken)
		if d := tr.driver; d.failed == nil && tr.attempt == 1 {
			d.failed = tr.trace
		}
	}
}

// seedOf returns the seed of what a test chooses at random, and tells of it. CHAOS_SEED repeats one.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "CHAOS_SEED is a number")
	}
	t.Logf("CHAOS_SEED=%d", seed)
	return seed
}
