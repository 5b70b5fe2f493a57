package execution

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/stepmachine"
)

func listed(changes ...string) (rows []dbsqlc.MapChangesToDecideRow) {
	for _, c := range changes {
		id, on, _ := strings.Cut(c, "<")
		rows = append(rows, dbsqlc.MapChangesToDecideRow{ID: id, DependsOn: strings.Fields(on)})
	}
	return rows
}

func TestSelectionSaysWhatBecomesOfEachChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sel  Selection
		want string
		rule string
	}{
		"all":                   {Selection{ApproveAll: true}, "a b c", ""},
		"none":                  {Selection{RejectAll: true}, "", ""},
		"one, the rest not":     {Selection{Approve: []string{"b"}, RejectAll: true}, "b", ""},
		"all but one":           {Selection{ApproveAll: true, Reject: []string{"b"}}, "a c", ""},
		"each by name":          {Selection{Approve: []string{"c", "a"}, Reject: []string{"b"}}, "a c", ""},
		"one is left out":       {Selection{Approve: []string{"a"}, Reject: []string{"b"}}, "", "undecided"},
		"one in both":           {Selection{Approve: []string{"a"}, Reject: []string{"a"}}, "", "unique"},
		"both are all":          {Selection{ApproveAll: true, RejectAll: true}, "", "unique"},
		"one that is not there": {Selection{ApproveAll: true, Reject: []string{"x"}}, "", "unknown"},
	} {
		got, err := c.sel.Approved([]string{"a", "b", "c"})
		if c.rule != "" {
			require.Equal(t, c.rule, fault.As(err).Details[0].Rule, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.want, strings.Join(got, " "), name)
	}
}

func TestChangesAreRejectedWithThoseTheyDependOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ list, approved, want string }{
		"none depends":       {"a,b,c", "a c", "a c"},
		"on one that is not": {"a,b<a,c", "b c", "c"},
		"through another":    {"a,b<a,c<b,d", "b c d", "d"},
		"on all before":      {"a,b,c<" + stepmachine.AnyChange, "a b c", "a b c"},
		"on all, without a":  {"a,b,c<" + stepmachine.AnyChange, "b c", "b"},
		"on one of another":  {"a,b<x", "a b", "a"},
	} {
		got := withoutDependents(listed(strings.Split(c.list, ",")...), strings.Fields(c.approved))
		require.Equal(t, c.want, strings.Join(got, " "), name)
	}
}

func TestMendReplacesOnlyWhatWasInvented(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ approved, invented, really, want string }{
		"nothing was":          {`{"a":1,"at":"then"}`, `{"a":1,"at":"now"}`, `{"a":1,"at":"now"}`, `{"a":1,"at":"then"}`},
		"a member":             {`{"a":"x","at":"then"}`, `{"a":"x","at":"now"}`, `{"a":"y","at":"now"}`, `{"a":"y","at":"then"}`},
		"deep in it":           {`{"o":{"l":[1,{"a":"x"}],"b":2}}`, `{"o":{"l":[1,{"a":"x"}],"b":2}}`, `{"o":{"l":[1,{"a":"y"}],"b":2}}`, `{"o":{"l":[1,{"a":"y"}],"b":2}}`},
		"a member that is new": {`{"a":1}`, `{"a":1}`, `{"a":1,"b":2}`, `{"a":1,"b":2}`},
		"one that is gone":     {`{"a":1,"b":2}`, `{"a":1,"b":2}`, `{"a":1}`, `{"a":1}`},
		"a longer list":        {`{"l":[1]}`, `{"l":[1]}`, `{"l":[1,2]}`, `{"l":[1,2]}`},
		"another type":         {`{"a":{"b":1}}`, `{"a":{"b":1}}`, `{"a":[1]}`, `{"a":[1]}`},
		"digits stay":          {`{"n":9007199254740993,"a":"x"}`, `{"n":9007199254740993,"a":"x"}`, `{"n":9007199254740993,"a":"y"}`, `{"n":9007199254740993,"a":"y"}`},
	} {
		got, err := mendValue(json.RawMessage(c.approved), json.RawMessage(c.invented), json.RawMessage(c.really))
		require.NoError(t, err, name)
		same, err := sameJSON(json.RawMessage(c.want), got)
		require.NoError(t, err, name)
		require.True(t, same, "%s: %s", name, got)
	}
}

func TestDriftIsEachLookThatDoesNotShowWhatWasThere(t *testing.T) {
	t.Parallel()
	found := func(v string) verb.Look { return verb.Look{State: verb.LookFound, Value: json.RawMessage(v)} }
	nothing, unread, none := verb.Look{State: verb.LookNotFound}, verb.Look{State: verb.LookNotRead}, verb.Look{}
	for name, c := range map[string]struct {
		was, now verb.Look
		drifts   bool
	}{
		"the same value":                {found(`{"a":1,"b":2}`), found(`{"b":2,"a":1}`), false},
		"another value":                 {found(`{"a":1}`), found(`{"a":2}`), true},
		"a value that is gone":          {found(`{"a":1}`), nothing, true},
		"a value, and then not read":    {found(`{"a":1}`), unread, true},
		"a value, and then no look":     {found(`{"a":1}`), none, true},
		"nothing, still":                {nothing, nothing, false},
		"nothing, and then a value":     {nothing, found(`{"a":1}`), true},
		"nothing, and then not read":    {nothing, unread, true},
		"nothing, and then no look":     {nothing, none, true},
		"not read, and then a value":    {unread, found(`{"a":1}`), true},
		"not read, and then nothing":    {unread, nothing, true},
		"not read, still":               {unread, unread, true},
		"null of an earlier release":    {none, nothing, false},
		"null of one, and then a value": {none, found(`{"a":1}`), true},
	} {
		why, err := compareLooks(c.was, c.now)
		require.NoError(t, err, name)
		require.Equal(t, c.drifts, why != "", "%s: %s", name, why)
	}
}
