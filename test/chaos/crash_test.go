// Package chaos kills the service where it hurts most and looks whether a call
// took effect twice, was lost, or stays unanswered. The short form runs with the
// tests, the long one by make chaos.
package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
)

func allVerbs() []string { return []string{verbWrite, verbKeyed, verbRead} }

// Every part is killed once, with a run of each verb at every point.
func TestRunsEachPartKilledKeepPromises(t *testing.T) {
	t.Parallel()
	c := muster(t, "chaos")
	defer c.report()
	for _, victim := range victims() {
		require.Empty(t, violations(c.do(strike{victims: []string{victim}, points: points(), verbs: allVerbs()})))
	}
	c.lookUpFirst()
	require.Empty(t, violations(c.do(strike{victims: []string{victimWorker}, points: lookupPoints(), verbs: []string{verbLooked}})))
	c.requireEventKept()
	require.Empty(t, c.recheck())
}

// Without the fence the rig must find two effects, or it proves nothing.
func TestRigWithoutFenceFindsTwoEffects(t *testing.T) {
	t.Parallel()
	c := muster(t, "chaos,nofence")
	broken := violations(c.do(strike{victims: []string{victimWorker}, points: []string{"after_response"}, verbs: []string{verbWrite}}))
	require.Contains(t, strings.Join(broken, "\n"), "2 effects for one id")
}

func violations(seen []observation) []string {
	var broken []string
	for _, o := range seen {
		broken = append(broken, o.violations()...)
	}
	return broken
}

// report prints how long what took.
func (c *crew) report() { c.t.Log(table(c.seen)) }

// table says for each point and victim how runs ended and how long after the
// restart: minimum, median and maximum.
func table(seen []observation) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nvictim\tpoint\truns\texecuted\tunknown\tother\tfirst\tmedian\tlast")
	var struck []string
	for _, o := range seen {
		if !slices.Contains(struck, o.victim) {
			struck = append(struck, o.victim)
		}
	}
	for _, victim := range struck {
		var all []observation
		for _, point := range slices.Concat(points(), lookupPoints(), []string{anywhere}) {
			var cell []observation
			for _, o := range seen {
				if o.victim == victim && o.point == point {
					cell = append(cell, o)
				}
			}
			all = append(all, cell...)
			row(w, victim, point, cell)
		}
		row(w, victim, "all", all)
	}
	_ = w.Flush() // a builder does not fail
	return out.String()
}

func row(w *tabwriter.Writer, victim, point string, cell []observation) {
	if len(cell) == 0 {
		return
	}
	ends := map[string]int{}
	var took []time.Duration
	for _, o := range cell {
		ends[o.status]++
		if o.status != "" {
			took = append(took, o.took.Round(10*time.Millisecond))
		}
	}
	slices.Sort(took)
	if len(took) == 0 {
		took = []time.Duration{-1}
	}
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", victim, point, len(cell), ends[statusExecuted], ends[statusUnknown],
		len(cell)-ends[statusExecuted]-ends[statusUnknown], took[0], took[len(took)/2], took[len(took)-1])
}
