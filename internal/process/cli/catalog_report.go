package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/correction"
)

// told is how many entries of each list of a report are printed. --json has more.
const told = 50

// printReport prints what an import did, or would do where only is true.
func printReport(out io.Writer, p catalog.Provider, only bool) error {
	r := &report{}
	did := "imported"
	if only {
		did = "would import"
	}
	r.line("%s %s: %s", did, p.Slug, line(p.Name))
	r.line("base url   %s", p.BaseURL)
	r.line("auth       %s", p.AuthType)
	n := p.Notes
	r.line("verbs      %d (%d added, %d changed, %d removed)", p.Imported, n.Added.Total, n.Changed.Total, n.Removed.Total)
	reports(r, "degraded", p.Degraded)
	reports(r, "rejected", p.Rejected)
	if n.Hidden > 0 {
		r.line("hidden     %d", n.Hidden)
	}
	list(r, "unused", n.Unused, len(n.Unused), func(at string) string { return at + nearText(n.UnusedNear, at) })
	list(r, "raised", n.Raised, n.RaisedTotal, func(v catalog.Raised) string { return v.Operation + " (" + v.Verb + "): " + v.Reason })
	list(r, "changes", n.Changes, n.ChangesTotal, func(c catalog.Change) string {
		if c.NeedsUser {
			return "! " + c.Message
		}
		return "  " + c.Message
	})
	if only && len(n.Changes) > 0 && n.Changes[0].NeedsUser {
		r.line("           ! changes what governs calls: needs --accept")
	}
	_, err := io.WriteString(out, r.String())
	return err
}

// nearText names the verbs that an unused rule may mean, "" where there are none.
func nearText(near []correction.Near, at string) string {
	for _, n := range near {
		if n.Path == at {
			return ": near names are " + strings.Join(n.Names, ", ")
		}
	}
	return ""
}

type report struct{ strings.Builder }

func (r *report) line(format string, args ...any) { fmt.Fprintf(r, format+"\n", args...) }

func reports(r *report, name string, entries []verb.Report) {
	list(r, name, entries, len(entries), func(e verb.Report) string { return e.Operation + ": " + e.Reason })
}

// list prints the first entries of a list; nothing where it is empty.
func list[T any](r *report, name string, entries []T, total int, text func(T) string) {
	if total == 0 {
		return
	}
	r.line("%-10s %d", name, total)
	for _, e := range entries[:min(len(entries), told)] {
		r.line("  %s", line(text(e)))
	}
	if total > told {
		r.line("  … and %d more", total-min(len(entries), told))
	}
}

// line returns a text of a document as one line, without characters that steer a terminal.
func line(s string) string {
	return strings.TrimRight(strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, s), " ")
}
