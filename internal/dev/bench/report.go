package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Row is one line of the report.
type Row struct {
	Name string
	Sample
}

// Print writes the rows as a table.
func Print(w io.Writer, rows []Row) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "scenario\tclients\treq/s\tp50 ms\tp95 ms\tp99 ms\tmax ms\tCPU ms/req\tallocs/req\tSQL trips/req\tTemporal writes/req\terrors\t")
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%d\t%.0f\t%s\t%s\t%s\t%s\t%s\t%.0f\t%.1f\t%.1f\t%d\t\n", r.Name, r.Clients, r.Rate,
			ms(r.P50), ms(r.P95), ms(r.P99), ms(r.Max), ms(r.CPU), r.Allocs, r.SQL, r.Writes, r.Errors)
	}
	return tw.Flush()
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", milliseconds(d)) }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Goal is a ratio that has to be reached.
type Goal struct {
	What  string
	Ratio float64
	// AtLeast, or AtMost where that is set instead.
	AtLeast, AtMost float64
}

// Met reports whether the goal is reached.
func (g Goal) Met() bool {
	if g.AtMost > 0 {
		return g.Ratio <= g.AtMost
	}
	return g.Ratio >= g.AtLeast
}

// PrintGoals writes the goals and returns how many are missed.
func PrintGoals(w io.Writer, goals []Goal) (missed int, err error) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, g := range goals {
		verdict := "met"
		if !g.Met() {
			verdict = "MISSED"
			missed++
		}
		bound := fmt.Sprintf("≥ %.2f", g.AtLeast)
		if g.AtMost > 0 {
			bound = fmt.Sprintf("≤ %.2f", g.AtMost)
		}
		fmt.Fprintf(tw, "%s\t%.2f\t%s\t%s\n", g.What, g.Ratio, bound, verdict)
	}
	return missed, tw.Flush()
}
