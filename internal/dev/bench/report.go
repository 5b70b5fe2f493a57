package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// The table stands between these in the page.
const (
	tableBegins = "<!-- `make bench` writes from here -->\n"
	tableEnds   = "<!-- to here -->\n"
)

func columns() []string {
	return []string{
		"Request, clients", "Divided by", "Requests a second", "p50 ms", "p99 ms", "CPU ms", "SQL trips", "Temporal writes",
		"Rate", "p50", "p99", "CPU", "Goals",
	}
}

// cells are what the report says of a scenario: the figures of the request, the ratios, and the goals
// with the least and the most in the pairs.
func (r result) cells() []string {
	s := pool(r.one)
	cells := []string{
		r.String(), r.by.String(), fmt.Sprintf("%.0f", s.is(rate)), fmt.Sprintf("%.1f", s.is(p50)), fmt.Sprintf("%.1f", s.is(p99)),
		fmt.Sprintf("%.2f", s.is(cpu)), fmt.Sprintf("%.1f", s.is(trips)), fmt.Sprintf("%.1f", s.is(writes)),
	}
	for _, f := range []figure{rate, p50, p99, cpu} {
		is, _, _ := r.is(f)
		cells = append(cells, fmt.Sprintf("%.2f", is))
	}
	goals := make([]string, len(r.goals))
	for i, g := range r.goals {
		is, least, most := r.is(g.figure)
		goals[i] = fmt.Sprintf("%s: %.2f", g, is)
		if least < most {
			goals[i] += fmt.Sprintf(" (%.2f to %.2f)", least, most)
		}
		if !g.met(is) {
			goals[i] += " MISSED"
		}
	}
	return append(cells, strings.Join(goals, "; "))
}

// line formats cells for a terminal. A scenario is printed as soon as it is measured, so widths are
// fixed.
func line(cells []string) string {
	var out strings.Builder
	for i, width := range []int{-34, -33, 17, 7, 8, 7, 9, 15, 6, 6, 6, 6, 0} {
		fmt.Fprintf(&out, "%*s  ", width, cells[i])
	}
	return out.String() + "\n"
}

// table is the report in Markdown.
func table(cfg Config, results []result, others float64) string {
	rows := [][]string{columns(), strings.Fields(strings.Repeat("--- ", len(columns())))}
	for _, r := range results {
		rows = append(rows, r.cells())
	}
	var t strings.Builder
	for _, cells := range rows {
		fmt.Fprintf(&t, "| %s |\n", strings.Join(cells, " | "))
	}
	fmt.Fprintf(&t, "\nMeasured on %d cores in %d pairs of rounds of %s;\n%s.\n", runtime.NumCPU(), cfg.Pairs, cfg.Round, idle(others))
	return t.String()
}

// writePage puts the table into the page, in the place of the one before.
func writePage(cfg Config, results []result, others float64) error {
	text, err := os.ReadFile(cfg.Page)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	before, rest, begins := strings.Cut(string(text), tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		return errors.New("bench: the page has no place for the table")
	}
	page := before + tableBegins + "\n" + table(cfg, results, others) + "\n" + tableEnds + after
	return os.WriteFile(cfg.Page, []byte(page), 0o644) //nolint:gosec // a page of the repository
}
