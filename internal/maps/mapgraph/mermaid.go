package mapgraph

import (
	"fmt"
	"strconv"
	"strings"

	"agentruntime/internal/maps/mapdef"
)

// Mermaid returns the definition as a Mermaid flowchart. Steps that states has by id are
// coloured.
func Mermaid(d *mapdef.Definition, states map[string]State) string {
	m := mermaid{states: states}
	m.line("flowchart TD")
	m.indent++
	m.line(`start(["%s"])`, quoted(plain(d.Name)))
	open := m.list(d.Steps, []end{{from: "start"}})
	m.line(`finish(["end"])`)
	m.connect(open, "finish")
	if len(d.OnFailure) > 0 {
		m.line(`failure{{"after a failure"}}`)
		m.list(d.OnFailure, []end{{from: "failure"}})
	}
	for _, e := range m.edges {
		m.line("%s", e)
	}
	m.colour()
	return m.out.String()
}

// mermaid writes a flowchart. Nodes have ids of ours, so authors name nothing.
type mermaid struct {
	out    strings.Builder
	indent int
	nodes  int
	groups int
	edges  []string // written last: an arrow within a frame would draw its nodes into it
	states map[string]State
	marked map[State][]string
}

// end is a place that the next step follows: a node, with the text of the arrow from it.
type end struct{ from, text string }

func (m *mermaid) line(format string, args ...any) {
	m.out.WriteString(strings.Repeat("  ", m.indent))
	fmt.Fprintf(&m.out, format, args...)
	m.out.WriteByte('\n')
}

func (m *mermaid) connect(ends []end, to string) {
	for _, e := range ends {
		if e.text == "" {
			m.edges = append(m.edges, e.from+" --> "+to)
		} else {
			m.edges = append(m.edges, e.from+` -->|"`+quoted(e.text)+`"| `+to)
		}
	}
}

// list draws steps one after the other and returns where what follows begins.
func (m *mermaid) list(steps []mapdef.Step, from []end) []end {
	for i := range steps {
		from = m.step(&steps[i], from)
	}
	return from
}

func (m *mermaid) step(s *mapdef.Step, from []end) []end {
	m.nodes++
	id := "n" + strconv.Itoa(m.nodes)
	left, right := shape(s)
	m.line(`%s%s"%s<br/>%s"%s`, id, left, quoted(title(s)), quoted(about(s)), right)
	m.connect(from, id)
	if _, known := m.states[s.ID].colours(); known {
		if m.marked == nil {
			m.marked = map[State][]string{}
		}
		m.marked[m.states[s.ID]] = append(m.marked[m.states[s.ID]], id)
	}
	var after []end
	inside := false
	for _, b := range s.Blocks() {
		ends := m.block(s, b, id)
		switch b.Kind {
		case mapdef.BlockBody:
			for _, e := range ends {
				m.edges = append(m.edges, e.from+" -.-> "+id)
			}
		case mapdef.BlockCatch:
			after = append(after, ends...)
		default:
			inside = true
			after = append(after, ends...)
		}
	}
	if leaves(s, inside) {
		after = append(after, end{from: id})
	}
	return after
}

// leaves reports whether what follows a step begins at the step itself too, and not only at
// the ends of its blocks.
func leaves(s *mapdef.Step, inside bool) bool {
	switch do := s.Do.(type) {
	case *mapdef.DoReturn:
		return !s.SkipIf.IsZero()
	case *mapdef.DoRaise:
		return !s.SkipIf.IsZero() || s.OnError != mapdef.OnErrorFail
	case *mapdef.DoSwitch:
		return do.Default == nil
	default:
		return !inside
	}
}

// block draws the steps of a block in a frame and returns their ends.
func (m *mermaid) block(s *mapdef.Step, b mapdef.Block, id string) []end {
	from := []end{{id, label(s, b)}}
	if len(b.Steps) == 0 {
		if b.Kind == mapdef.BlockBody {
			return nil
		}
		return from
	}
	m.groups++
	m.line(`subgraph g%d["%s"]`, m.groups, quoted(label(s, b)))
	m.indent++
	ends := m.list(b.Steps, from)
	m.indent--
	m.line("end")
	return ends
}

// shape returns the brackets of a node.
func shape(s *mapdef.Step) (left, right string) {
	if s.Do == nil {
		return "[", "]"
	}
	switch s.Do.Type() {
	case mapdef.TypeSwitch:
		return "{", "}"
	case mapdef.TypeWhile, mapdef.TypeForeach, mapdef.TypeParallel:
		return "[[", "]]"
	case mapdef.TypeWait, mapdef.TypeApproval, mapdef.TypeEscalate:
		return "([", "])"
	case mapdef.TypeReturn, mapdef.TypeRaise:
		return "((", "))"
	default:
		return "[", "]"
	}
}

func (m *mermaid) colour() {
	for _, s := range states() {
		if nodes := m.marked[s]; len(nodes) > 0 {
			c, _ := s.colours()
			m.line("classDef %s fill:%s,stroke:%s", s, c.fill, c.stroke)
			m.line("class %s %s", strings.Join(nodes, ","), s)
		}
	}
}

// quoted returns a text as it stands in the quotes of a label: all that Mermaid or HTML could
// read as more than a text is a numbered entity.
func quoted(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(" .,:_-/", r), r > 0x9f:
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}
