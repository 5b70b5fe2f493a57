//go:build chaos

package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// boundary is a place in an execution where a kill can fall.
type boundary struct {
	// point is a failpoint, inRequest and inResponse in the provider, or waits.
	point string
	// at is the place in the execution, after its session: "/sub" for what the other Map does, then
	// "|" and the path of a call, the n of a call at the provider, or the id of the step that waits. For
	// a point of repeats it is "@" and the n of the last write that was made before.
	at string
	// nth is how often the execution came by, this time included.
	nth int
}

// repeats reports whether an execution comes by the point as often as it finds something to write or
// to hear of. That depends on how fast it is. So a running number would name another place in each
// execution, and the last numbers none.
func repeats(point string) bool {
	return slices.Contains([]string{"before_map_write", "after_map_write", "before_map_look", "after_map_look"}, point)
}

// waits is the point of an execution that waits in a step.
const waits = "waits"

func (b boundary) String() string { return fmt.Sprintf("%s%s#%d", b.point, b.at, b.nth) }

// The kinds of boundaries.
const (
	kindCall     = "call"
	kindWait     = "wait"
	kindApproval = "approval"
	kindSub      = "sub-Map"
	kindContinue = "continue"
	kindOther    = "other"
)

func (b boundary) kind() string {
	switch {
	case b.point == "map_begin" && b.nth > 1:
		return kindContinue
	case strings.HasPrefix(b.at, "/sub"), b.at == "|s8", b.at == "|8":
		return kindSub
	case strings.Contains(b.point, "map_ask"), strings.Contains(b.point, "map_count"), b.at == "|s10":
		return kindApproval
	case b.point == waits:
		return kindWait
	case b.at != "|" && !repeats(b.point):
		return kindCall
	default:
		return kindOther
	}
}

// plains are how many executions of each driver nothing happens to, at once: alone, among a few, and in
// a wave. Where an execution comes by depends on how much time it gets, so kills fall where all of
// these came by.
func plains() []int { return []int{1, 8, atOnce / 2} }

// atOnce is how many executions are at their boundaries when a kill falls.
const atOnce = 48

// requirePlain runs Maps of each driver that nothing happens to. Their trace is that of all others, and
// where they come by, kills fall. The others run beside the first ones.
func (c *mapCourt) requirePlain(others ...*trial) {
	c.t.Helper()
	began := time.Now()
	for _, n := range plains() {
		c.runPlain(n, others)
		others = nil
	}
	for _, d := range c.drivers {
		d.requireCovered(c.t)
		if d.story.after != "" {
			last := slices.Index(d.boundaries, boundary{inResponse, "|" + d.story.after, 1})
			require.GreaterOrEqual(c.t, last, 0)
			d.boundaries = d.boundaries[last+1:]
		}
		for _, step := range d.story.waits {
			d.boundaries = append(d.boundaries, boundary{waits, "|" + step, 1})
		}
		c.t.Logf("%s driven by %s: %d steps, %d boundaries, plain in %.1fs: %v", d.story.name, d.name, len(d.plain), len(d.boundaries), time.Since(began).Seconds(), d.boundaries)
	}
}

// runPlain runs so many Maps of each driver at once, with the others, and keeps the boundaries where all
// came by.
func (c *mapCourt) runPlain(n int, others []*trial) {
	c.t.Helper()
	heard := c.gate.listen()
	var trials []*trial
	for _, d := range c.drivers {
		for range n {
			trials = append(trials, c.newTrial(d, boundary{}))
		}
	}
	c.follow(append(others, trials...)...)
	passed := heard()
	for _, tr := range trials {
		c.inspectTrial(tr)
		require.Empty(c.t, tr.broken)
		require.Equal(c.t, tr.driver.story.ends, tr.end.Status)
		met := tr.met(passed)
		if d := tr.driver; d.plain == nil {
			d.plain, d.boundaries = tr.trace, met
		} else {
			d.boundaries = slices.DeleteFunc(d.boundaries, func(b boundary) bool { return !slices.Contains(met, b) })
		}
	}
}

// requireCovered checks that kills fall before and after each write, on its way out and back, and in the
// execution's own rows: so between all steps. The end is among the rows.
func (d *mapDriver) requireCovered(t *testing.T) {
	t.Helper()
	has := func(points []string, at string) bool {
		return slices.ContainsFunc(d.boundaries, func(b boundary) bool { return slices.Contains(points, b.point) && strings.HasSuffix(b.at, at) })
	}
	for _, n := range d.story.made {
		for _, point := range []string{inRequest, inResponse} {
			require.True(t, has([]string{point}, "|"+n), "%s has no boundary %s of the write %s", d.name, point, n)
		}
	}
	for _, point := range []string{"map_begin", "before_map_finish", "after_map_finish"} {
		require.True(t, has([]string{point}, "|"), "%s has no boundary %s", d.name, point)
	}
	if d.story.approvals > 0 {
		for _, point := range []string{"before_map_ask", "after_map_ask", "after_map_count"} {
			require.True(t, has([]string{point}, "|"), "%s has no boundary %s", d.name, point)
		}
	}
}

// met returns where the execution came by, in this order.
func (tr *trial) met(passed []stop) (list []boundary) {
	times := map[stop]int{}
	for _, at := range passed {
		if place, own := strings.CutPrefix(at.call, tr.session); own && (place[0] == '|' || place[0] == '/') {
			times[at]++
			list = append(list, boundary{at.point, place, times[at]})
		}
	}
	return list
}
