// Package mapgraph draws the definition of a Map: as Mermaid text, and as an SVG of nested
// blocks. With the states of an execution's steps, both are coloured. The API answers with them.
// Names, codes and conditions are texts of authors: whatever they are, they stay texts.
package mapgraph

import (
	"strconv"
	"strings"
	"unicode"

	"agentruntime/internal/maps/mapdef"
)

// State is how far a step of an execution has come.
type State string

// The states that have a colour. A step without one has not begun.
const (
	Running         State = "running"
	Waiting         State = "waiting"
	PendingApproval State = "pending_approval"
	Completed       State = "completed"
	Failed          State = "failed"
	Skipped         State = "skipped"
	Cancelled       State = "cancelled" // begun and given up
)

// colours are of a state: fill and border.
type colours struct{ fill, stroke string }

// states returns the states that have a colour, in a fixed order.
func states() []State {
	return []State{Running, Waiting, PendingApproval, Completed, Failed, Skipped, Cancelled}
}

func (s State) colours() (colours, bool) {
	switch s {
	case Running:
		return colours{"#dbeafe", "#1d4ed8"}, true
	case Waiting:
		return colours{"#fef9c3", "#a16207"}, true
	case PendingApproval:
		return colours{"#ffedd5", "#c2410c"}, true
	case Completed:
		return colours{"#dcfce7", "#15803d"}, true
	case Failed:
		return colours{"#fee2e2", "#b91c1c"}, true
	case Skipped:
		return colours{"#f3f4f6", "#6b7280"}, true
	case Cancelled:
		return colours{"#f3e8ff", "#7e22ce"}, true
	default:
		return colours{"#ffffff", "#374151"}, false
	}
}

// maxLabel is how many characters of a text a graph shows.
const maxLabel = 48

// plain returns a text as it may be shown: one line, shortened, with the characters visible
// that would change how the rest is read.
func plain(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == maxLabel {
			b.WriteRune('…')
			break
		}
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			r = ' '
		case unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || unicode.Is(unicode.Co, r):
			r = unicode.ReplacementChar
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}

// title returns what a step is called: its name, or its id.
func title(s *mapdef.Step) string {
	if s.Name != "" {
		return plain(s.Name)
	}
	return plain(s.ID)
}

// about returns what a step does, in few words.
func about(s *mapdef.Step) string {
	if s.Do == nil {
		return ""
	}
	what := string(s.Do.Type())
	switch do := s.Do.(type) {
	case *mapdef.DoVerb:
		what = do.Verb
	case *mapdef.DoWhile:
		what += " " + condition(do.When.Source())
	case *mapdef.DoForeach:
		what += " " + condition(do.Items.Template().Source())
	case *mapdef.DoParallel:
		what += " " + string(do.Join)
	case *mapdef.DoWait:
		what += " " + waited(do)
	case *mapdef.DoMap:
		what += " " + do.MapID
	case *mapdef.DoRaise:
		what += " " + do.Code
	case *mapdef.DoEmit:
		what += " " + do.Event
	}
	return plain(strings.TrimSpace(what))
}

func waited(do *mapdef.DoWait) string {
	switch {
	case do.Event != nil:
		return do.Event.Type
	case !do.For.IsZero():
		return do.For.Template().Source()
	default:
		return "until " + do.Until.Template().Source()
	}
}

// condition returns an expression without what surrounds it.
func condition(source string) string {
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(source, "${"), "}"))
}

// label says what a block of a step is.
func label(s *mapdef.Step, b mapdef.Block) string {
	switch b.Kind {
	case mapdef.BlockCase:
		if do, ok := s.Do.(*mapdef.DoSwitch); ok {
			return plain(condition(do.Cases[b.Index].When.Source()))
		}
	case mapdef.BlockBranch:
		return plain(b.Label)
	case mapdef.BlockCatch:
		return plain("catch " + strings.Join(s.Catch[b.Index].Errors, ", "))
	case mapdef.BlockBody:
		return "each time"
	case mapdef.BlockDefault:
		return "otherwise"
	}
	return "case " + strconv.Itoa(b.Index+1)
}
