package mapgraph

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"unicode/utf8"

	"agentruntime/internal/maps/mapdef"
)

// Sizes in pixels.
const (
	charWidth  = 7 // of the font at its size, rounded up
	fontSize   = 12
	lineHeight = 16
	padding    = 8
	gap        = 10
	minWidth   = 120
	radius     = 6
)

// SVG returns the definition as an image of nested blocks: steps from top to bottom, and what
// belongs to a step within it, branches and cases side by side. Steps that states has by id are
// coloured. The image has no scripts, no links and nothing from elsewhere.
func SVG(d *mapdef.Definition, states map[string]State) []byte {
	g := graph{states: states}
	all := []box{g.column(d.Steps)}
	if len(d.OnFailure) > 0 {
		all = append(all, frame("after a failure", g.column(d.OnFailure)))
	}
	whole := frame(plain(d.Name), stack(all))
	width, height := whole.width+2*gap, whole.height+2*gap
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="ui-monospace, monospace" font-size="%d" role="img">`,
		width, height, width, height, fontSize)
	out.WriteString("<title>")
	out.WriteString(escape(plain(d.Name)))
	out.WriteString("</title>")
	whole.draw(&out, gap, gap, whole.width)
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// box is something that can be drawn: how large it is at least, and how it is drawn at a place
// with a width.
type box struct {
	width, height int
	draw          func(out *bytes.Buffer, x, y, width int)
}

type graph struct{ states map[string]State }

// column draws steps below each other.
func (g graph) column(steps []mapdef.Step) box {
	var list []box
	for i := range steps {
		list = append(list, g.step(&steps[i]))
	}
	return stack(list)
}

// stack puts boxes below each other.
func stack(list []box) box {
	b := box{width: minWidth}
	for i, e := range list {
		b.width = max(b.width, e.width)
		b.height += e.height
		if i > 0 {
			b.height += gap
		}
	}
	b.draw = func(out *bytes.Buffer, x, y, width int) {
		for _, e := range list {
			e.draw(out, x, y, width)
			y += e.height + gap
		}
	}
	return b
}

// row puts boxes beside each other.
func row(list []box) box {
	var b box
	for i, e := range list {
		b.width += e.width
		b.height = max(b.height, e.height)
		if i > 0 {
			b.width += gap
		}
	}
	b.draw = func(out *bytes.Buffer, x, y, _ int) {
		for _, e := range list {
			e.draw(out, x, y, e.width)
			x += e.width + gap
		}
	}
	return b
}

// frame puts a dashed line with a text around a box.
func frame(text string, inner box) box {
	return box{
		width:  max(inner.width, textWidth(text)) + 2*padding,
		height: inner.height + lineHeight + 2*padding,
		draw: func(out *bytes.Buffer, x, y, width int) {
			height := inner.height + lineHeight + 2*padding
			rectangle(out, x, y, width, height, colours{"#f9fafb", "#9ca3af"}, ` stroke-dasharray="4 3"`)
			write(out, x+padding, y+lineHeight, text, "#4b5563", "")
			inner.draw(out, x+padding, y+lineHeight+padding, width-2*padding)
		},
	}
}

// step draws a step with its blocks in it.
func (g graph) step(s *mapdef.Step) box {
	head, what := title(s), about(s)
	state := g.states[s.ID]
	c, known := state.colours()
	if known {
		what = strings.TrimSpace(what + " · " + string(state))
	}
	var blocks []box
	for _, b := range s.Blocks() {
		blocks = append(blocks, frame(label(s, b), g.column(b.Steps)))
	}
	inner := row(blocks)
	top := 2*lineHeight + padding
	height := top + padding/2
	if len(blocks) > 0 {
		height = top + padding + inner.height + padding
	}
	return box{
		width:  max(inner.width, textWidth(head), textWidth(what), minWidth) + 2*padding,
		height: height,
		draw: func(out *bytes.Buffer, x, y, width int) {
			out.WriteString("<g><title>")
			out.WriteString(escape(plain(s.ID)))
			out.WriteString("</title>")
			rectangle(out, x, y, width, height, c, "")
			write(out, x+padding, y+lineHeight, head, "#111827", ` font-weight="bold"`)
			write(out, x+padding, y+2*lineHeight, what, "#374151", "")
			inner.draw(out, x+padding, y+top+padding, width-2*padding)
			out.WriteString("</g>")
		},
	}
}

func rectangle(out *bytes.Buffer, x, y, width, height int, c colours, more string) {
	fmt.Fprintf(out, `<rect x="%d" y="%d" width="%d" height="%d" rx="%d" fill="%s" stroke="%s"%s/>`, x, y, width, height, radius, c.fill, c.stroke, more)
}

func write(out *bytes.Buffer, x, y int, text, fill, more string) {
	fmt.Fprintf(out, `<text x="%d" y="%d" fill="%s"%s>%s</text>`, x, y, fill, more, escape(text))
}

// textWidth returns how wide a text is at most. Characters beyond Latin can be twice as wide.
func textWidth(text string) int {
	wide := 0
	for _, r := range text {
		if r >= 0x1100 {
			wide++
		}
	}
	return (utf8.RuneCountInString(text) + wide) * charWidth
}

// escape returns a text as it stands in XML. What XML has no place for is replaced.
func escape(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil { // a builder never fails
		return ""
	}
	return b.String()
}
