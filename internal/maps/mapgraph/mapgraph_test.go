package mapgraph_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/mapgraph"
)

var update = flag.Bool("update", false, "write testdata")

func read(t *testing.T, source []byte) *mapdef.Definition {
	t.Helper()
	d, faults := mapdef.Read(source)
	require.Empty(t, faults)
	return d
}

func TestGraphOfARefundIsAsDrawn(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../testdata/maps/refund.json")
	require.NoError(t, err)
	var tc struct{ Map json.RawMessage }
	require.NoError(t, json.Unmarshal(raw, &tc))
	d := read(t, tc.Map)
	states := map[string]mapgraph.State{"order": mapgraph.Completed, "amount": mapgraph.Running, "ask": mapgraph.PendingApproval, "pay": "no state", "tell": mapgraph.Cancelled}
	for name, got := range map[string]string{
		"refund.mmd": mapgraph.Mermaid(d, nil), "refund.svg": string(mapgraph.SVG(d, nil)),
		"refund-coloured.mmd": mapgraph.Mermaid(d, states), "refund-coloured.svg": string(mapgraph.SVG(d, states)),
	} {
		file := filepath.Join("testdata", name)
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), got, name)
	}
}

// wellFormed checks that an image is XML of the few elements that it may have.
func wellFormed(t *testing.T, svg []byte) (texts []string) {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		require.NoError(t, err)
		switch x := token.(type) {
		case xml.StartElement:
			require.Contains(t, []string{"svg", "g", "rect", "text", "title"}, x.Name.Local)
			for _, a := range x.Attr {
				require.NotRegexp(t, `^(on|href|style)`, a.Name.Local)
			}
		case xml.CharData:
			texts = append(texts, string(x))
		}
	}
}

// mermaidLine are the lines that a flowchart may have. No text of an author gets out of its
// quotes.
var mermaidLine = regexp.MustCompile(`^ *(flowchart TD|end|subgraph g\d+\["[^"]*"\]|` +
	`(start|finish|failure|n\d+)[\[({]+"[^"]*"[\])}]+|(start|failure|n\d+) (-->|-\.->)(\|"[^"]*"\|)? (finish|n\d+)|` +
	`classDef [a-z_]+ fill:#[0-9a-f]{6},stroke:#[0-9a-f]{6}|class n[n\d,]* [a-z_]+)$`)

func TestGraphsOfAllMapsAreWellFormed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../testdata/maps/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var tc struct{ Map json.RawMessage }
		require.NoError(t, json.Unmarshal(raw, &tc))
		d := read(t, tc.Map)
		shown := strings.Join(wellFormed(t, mapgraph.SVG(d, nil)), "\n")
		mermaid := mapgraph.Mermaid(d, nil)
		for line := range strings.SplitSeq(strings.TrimSpace(mermaid), "\n") {
			require.Regexp(t, mermaidLine, line, file)
		}
		mapdef.Walk(d.Steps, func(s *mapdef.Step) { require.Contains(t, shown, s.ID, file) })
	}
}

// What may not end the Map leads to the step after it.
func TestStepsThatMayEndTheMapLeadOn(t *testing.T) {
	t.Parallel()
	for step, on := range map[string]bool{
		`"type":"return"`: false, `"type":"return","skip_if":"${vars.x}"`: true,
		`"type":"raise","error":{"code":"NO"}`: false, `"type":"raise","error":{"code":"NO"},"skip_if":"${vars.x}"`: true,
		`"type":"raise","error":{"code":"NO"},"on_error":"continue"`: true,
	} {
		d := read(t, []byte(`{"schema_version":"1","name":"m","steps":[{"id":"a",`+step+`},{"id":"b","type":"set","assign":{"y":1}}]}`))
		require.Equal(t, on, strings.Contains(mapgraph.Mermaid(d, nil), "n1 --> n2"), step)
	}
}

func TestHostileTextsStayTexts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`"] ; click n1 "javascript:alert(1)"`, `</text><script>alert(1)</script>`, "`<img src=x onerror=alert(1)>`", `%%{init: {"securityLevel":"loose"}}%%`,
		"a\nend\nsubgraph evil", "#quot;] --> evil", "\u202eevil\u2066", "]]>", "&lt;&#60;", `"|"`, `\u0022`, strings.Repeat("long ", 50), "日本語", "end", "\u2028x",
	} {
		name, err := json.Marshal(text)
		require.NoError(t, err)
		source := `{"schema_version":"1","name":` + string(name) + `,"steps":[{"id":"a","type":"switch","name":` + string(name) + `,
			"cases":[{"when":` + condition(t, text) + `,"steps":[{"id":"b","type":"wait","for":` + string(name) + `}]}]}]}`
		d, _ := mapdef.Read([]byte(source))
		for line := range strings.SplitSeq(strings.TrimSpace(mapgraph.Mermaid(d, nil)), "\n") {
			require.Regexp(t, mermaidLine, line)
		}
		for _, shown := range wellFormed(t, mapgraph.SVG(d, nil)) {
			require.NotContains(t, shown, "\u202e")
			require.LessOrEqual(t, len([]rune(shown)), 60)
		}
	}
}

// condition returns a condition in which the text is a text of jq.
func condition(t *testing.T, text string) string {
	t.Helper()
	inner, err := json.Marshal(text)
	require.NoError(t, err)
	outer, err := json.Marshal("${vars.x == " + string(inner) + "}")
	require.NoError(t, err)
	return string(outer)
}
