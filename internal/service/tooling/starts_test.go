package tooling_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/roster"
	maps "agentruntime/internal/maps/definition"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/models/model"
	"agentruntime/internal/service/tooling"
)

// published are the Maps of a tenant that can be started.
type published []*mapdef.Definition

func idOf(i int) uuid.UUID { return uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)) }

func (p published) PublishedOf(context.Context, uuid.UUID, []uuid.UUID) (list []maps.Version, err error) {
	for i, d := range p {
		list = append(list, maps.Version{MapID: idOf(i), Number: 3, Definition: d})
	}
	return list, nil
}

// crew are the agents of a tenant.
type crew []roster.Callable

func (c crew) PublishedOf(context.Context, uuid.UUID, []uuid.UUID) ([]roster.Callable, error) {
	return c, nil
}

func offered(t *testing.T, p published, c crew, said ...string) (tooling.Set, string) {
	t.Helper()
	s, err := tooling.NewStarts(tooling.StartsDeps{Maps: p, Agents: c})
	require.NoError(t, err)
	var ids []uuid.UUID
	if len(p) > 0 {
		ids = []uuid.UUID{idOf(0)}
	}
	starts, err := s.Offer(t.Context(), uuid.Nil, ids, said)
	require.NoError(t, err)
	if len(c) > 0 {
		starts, err = s.Agents(t.Context(), uuid.Nil, []uuid.UUID{idOf(0)}, starts)
		require.NoError(t, err)
	}
	set, err := toolbox(t, small()).Offer(t.Context(), tooling.Offer{Starts: starts})
	require.NoError(t, err)
	return set, starts.Advice
}

func startsOf(set tooling.Set) (names []string) {
	for _, tool := range set.Tools() {
		if strings.HasPrefix(tool.Name, "start") || strings.HasPrefix(tool.Name, "ask") {
			names = append(names, tool.Name)
		}
	}
	return names
}

// The Map that fits the conversation comes first, and the model is told of it. Where several fit alike
// it asks which one is meant. An answer to a question of the agent fits none, and the message before
// counts.
func TestMapsAreOfferedByWhatTheCustomerWrites(t *testing.T) {
	t.Parallel()
	list := published{
		{Name: "Track a parcel", When: "The customer asks where a parcel is", Examples: []string{"Where is my parcel?"}},
		{Name: "Refund an order", When: "The customer wants money back", Examples: []string{"I want my money back"}, Keywords: []string{"refund"}},
		{Name: "Refund a ticket", When: "The customer wants money back", Examples: []string{"I want my money back"}, Keywords: []string{"refund"}},
	}
	for said, want := range map[string]struct {
		first  string
		advice []string
	}{
		"Where is my parcel?":                      {"start_track_a_parcel", []string{"start_track_a_parcel", "start it once"}},
		"I want my money back":                     {"start_refund_an_order", []string{"start_refund_an_order, start_refund_a_ticket", "Ask which one"}},
		"Good day":                                 {"start_track_a_parcel", nil},
		"ord_7|Where is my parcel?":                {"start_track_a_parcel", []string{"start_track_a_parcel"}},
		"Where is my parcel?|I want my money back": {"start_track_a_parcel", []string{"start_track_a_parcel"}},
	} {
		set, advice := offered(t, list, nil, strings.Split(said, "|")...)
		require.Len(t, startsOf(set), 3, said)
		require.Equal(t, want.first, startsOf(set)[0], said)
		for _, text := range want.advice {
			require.Contains(t, advice, text, said)
		}
		require.Equal(t, want.advice == nil, advice == "", said)
	}
}

func TestToolThatStartsIsReadBack(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}}`)
	set, _ := offered(t,
		published{{Name: "Órder!! -- things", TriggerSchema: schema}, {Name: "rder things"}, {Name: "订单"}, {Name: strings.Repeat("long ", 40)}},
		crew{{ID: idOf(9), Version: 2, Name: "Shop keeper", Instructions: "Keep the shop."}, {ID: idOf(8), Version: 1, Name: "Gone", Status: roster.Paused}})
	require.Equal(t, []string{"start_rder_things", "start_rder_things_2", "start", "start_long_long_long_long_long_long_long_long", "ask_shop_keeper"}, startsOf(set))

	raw, err := json.Marshal(set)
	require.NoError(t, err)
	var stored tooling.Set
	require.NoError(t, json.Unmarshal(raw, &stored))
	for name, want := range map[string]tooling.Resolved{
		"start_rder_things_2": {Kind: tooling.StartMap, Start: tooling.Start{ID: idOf(1), Version: 3}, Args: json.RawMessage(`{"id":"x"}`)},
		"ask_shop_keeper":     {Kind: tooling.AskAgent, Start: tooling.Start{ID: idOf(9), Version: 2}, Args: json.RawMessage(`{"id":"x"}`)},
	} {
		got, err := stored.Resolve(model.ToolCall{Name: name, Args: json.RawMessage(`{"id":"x"}`)})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = stored.Resolve(model.ToolCall{Name: "start_rder_things", Args: json.RawMessage(`[]`)})
	require.ErrorContains(t, err, "object")
	_, err = stored.Resolve(model.ToolCall{Name: "ask_gone"})
	require.Error(t, err)
}

// However many Maps an agent has, their tools stay within their budget.
func TestStartsAreBounded(t *testing.T) {
	t.Parallel()
	var list published
	for i := range 50 {
		list = append(list, &mapdef.Definition{Name: fmt.Sprint("Map ", i), Description: strings.Repeat("é", 2_000)})
	}
	set, _ := offered(t, list, nil)
	require.NotEmpty(t, startsOf(set))
	require.LessOrEqual(t, len(startsOf(set)), 16)
	require.LessOrEqual(t, bytesOf(set), 12<<10)
}
