package docs_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/record/event"
)

// The part of events.md after this line is made of the table of types.
const eventsBegin = "<!-- Made of internal/record/event by make gen. Do not edit what follows. -->\n"

// member is one property of a schema.
type member struct {
	Type        string
	Description string
	Enum        []string
	Items       *struct{ Type string }
}

func (m member) kind() string {
	if m.Items != nil {
		return "array of " + m.Items.Type + "s"
	}
	return cmp.Or(m.Type, "any value")
}

// eventReference renders the table of event types, their members, and an example of each.
func eventReference(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| Type | When |\n|---|---|\n")
	for _, s := range event.Types() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", s.Type, s.When)
	}
	b.WriteString("\n## Members of all events\n")
	members(t, &b, event.Types()[0], event.CommonMembers())
	for _, s := range event.Types() {
		fmt.Fprintf(&b, "\n## %s\n", s.Type)
		members(t, &b, s, s.Members())
		var indented bytes.Buffer
		require.NoError(t, json.Indent(&indented, s.Example(), "", "  "))
		fmt.Fprintf(&b, "\n```json\n%s\n```\n", indented.String())
	}
	return b.String()
}

// members renders the named members of a type.
func members(t *testing.T, b *strings.Builder, s event.Spec, names []string) {
	t.Helper()
	var doc struct {
		Properties map[string]member
		Required   []string
	}
	require.NoError(t, json.Unmarshal(s.Schema(), &doc))
	b.WriteString("\n| Member | Type | Always | |\n|---|---|---|---|\n")
	for _, name := range names {
		m, always := doc.Properties[name], ""
		if slices.Contains(doc.Required, name) {
			always = "yes"
		}
		what := m.Description
		if values := slices.DeleteFunc(m.Enum, func(v string) bool { return v == "" }); len(values) > 0 {
			what += " Values: `" + strings.Join(values, "`, `") + "`."
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, m.kind(), always, what)
	}
}

func TestEventsPageListsTheTableOfTypes(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("reference/events.md")
	require.NoError(t, err)
	before, _, found := strings.Cut(string(raw), eventsBegin)
	require.True(t, found)
	want := before + eventsBegin + "\n" + eventReference(t)
	if *update {
		require.NoError(t, os.WriteFile("reference/events.md", []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(raw), "make gen writes it again")
}

// The event names each thing that an execution can wait for, and nothing else.
func TestMapWaitingSchemaListsEachWaitOfTheStepMachine(t *testing.T) {
	t.Parallel()
	i := slices.IndexFunc(event.Types(), func(s event.Spec) bool { return s.Type == event.MapWaitingType })
	var doc struct{ Properties map[string]member }
	require.NoError(t, json.Unmarshal(event.Types()[i].Schema(), &doc))
	require.ElementsMatch(t, constantsOf(t, "stepmachine", "Waiting"), doc.Properties["waiting_for"].Enum)
}
