//go:build chaos

package chaos

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// mapOfUndoing has writes that are undone, two of them in a loop. It waits for an event, writes once
// more and fails.
const mapOfUndoing = `{"schema_version":"1","name":"Undoing","steps":[
	{"id":"u1","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"1"},
		"compensate":{"verb":"effects:make","args":{"id":"${trigger_data.id}","n":"-1"}}},
	{"id":"u2","type":"foreach","items":["2","3"],"steps":[
		{"id":"u3","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"${item}"},
			"compensate":{"verb":"effects:make","args":{"id":"${trigger_data.id}","n":"-${steps.u3.output.n}"}}}]},
	{"id":"u4","type":"wait","event":{"type":"custom.go","correlate":"${trigger_data.id}"}},
	{"id":"u5","type":"verb","verb":"effects:make","args":{"id":"${trigger_data.id}","n":"5"},
		"compensate":{"verb":"effects:make","args":{"id":"${trigger_data.id}","n":"-5"}}},
	{"id":"u6","type":"raise","error":{"code":"NO_STOCK","title":"Sold out."}}]}`

// storyOfFailing fails in its last step, storyOfCancelling is cancelled while it waits. Both undo what
// they did, the last write first.
func storyOfFailing() *mapStory {
	ordered := []string{"1", "2", "3", "5", "-5", "-3", "-2", "-1"}
	return &mapStory{name: "failing", definition: mapOfUndoing, ends: "failed", made: sorted(ordered), ordered: ordered, waits: []string{"u4"}, after: "5"}
}

func storyOfCancelling() *mapStory {
	ordered := []string{"1", "2", "3", "-3", "-2", "-1"}
	return &mapStory{name: "cancelling", definition: mapOfUndoing, ends: "cancelled", made: sorted(ordered), ordered: ordered, waits: []string{"u4"}, after: "3", cancelled: "u4", block: "/steps/1"}
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// Each part is killed at each boundary of executions that undo what they did, because a step failed or
// because the caller cancels them. Every write is undone once, in reverse order.
func TestChaosMapsEachPartKilledUndoOnce(t *testing.T) { //nolint:paralleltest // a stack at a time, for times that mean something
	c := newCourtOf(t, storyOfFailing(), storyOfCancelling())
	c.requirePlain()
	for _, victim := range victims() {
		var trials []*trial
		for _, d := range c.drivers {
			for _, b := range stable(d.boundaries) {
				trials = append(trials, c.newTrial(d, b))
			}
		}
		for wave := range slices.Chunk(trials, atOnce) {
			require.Empty(t, c.strike(wave, victim)())
		}
	}
	t.Logf("%d executions met a kill at a boundary", c.struck)
}
