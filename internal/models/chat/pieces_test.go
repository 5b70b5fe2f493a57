package chat_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/models/chat"
	"agentruntime/internal/models/model"
)

func at(n int64) *int64 { return new(n) }

func TestCallsAreToldApartByWhatServersSend(t *testing.T) {
	t.Parallel()
	one, two := `{"id":"1"}`, `{"id":"2"}`
	both := []model.ToolCall{call("a", "get", one), call("b", "get", two)}
	for name, c := range map[string]struct {
		pieces []chat.Piece
		want   []model.ToolCall
	}{
		"numbered":                       {[]chat.Piece{{at(0), "a", "get", ""}, {at(1), "b", "get", ""}, {at(0), "", "", one}, {at(1), "", "", two}}, both},
		"no number":                      {[]chat.Piece{{nil, "a", "get", one}, {nil, "b", "get", two}}, both},
		"all numbered 0":                 {[]chat.Piece{{at(0), "a", "get", one}, {at(0), "b", "get", two}}, both},
		"all numbered 0, in pieces":      {[]chat.Piece{{at(0), "a", "get", `{"id":`}, {at(0), "", "", `"1"}`}, {at(0), "b", "get", ""}, {at(0), "", "", two}}, both},
		"no number, in pieces":           {[]chat.Piece{{nil, "a", "get", ""}, {nil, "", "", one}, {nil, "b", "get", ""}, {nil, "b", "", two}}, both},
		"no number, pieces by id":        {[]chat.Piece{{nil, "a", "get", ""}, {nil, "b", "get", ""}, {nil, "a", "", one}, {nil, "b", "", two}}, both},
		"no number and no id":            {[]chat.Piece{{nil, "", "get", one}, {nil, "", "get", two}}, []model.ToolCall{call("", "get", one), call("", "get", two)}},
		"no id, all 0, no arguments":     {[]chat.Piece{{at(0), "", "get", ""}, {at(0), "", "list", ""}}, []model.ToolCall{call("", "get", `{}`), call("", "list", `{}`)}},
		"one id, numbered":               {[]chat.Piece{{at(0), "a", "get", one}, {at(1), "a", "get", two}}, []model.ToolCall{call("a", "get", one), call("a", "get", two)}},
		"one id, all 0":                  {[]chat.Piece{{at(0), "a", "get", one}, {at(0), "a", "get", two}}, []model.ToolCall{call("a", "get", one), call("a", "get", two)}},
		"name in each piece":             {[]chat.Piece{{at(0), "a", "get", `{"id":`}, {at(0), "a", "get", `"1"}`}}, both[:1]},
		"name in each piece, first none": {[]chat.Piece{{at(0), "a", "get", ""}, {at(0), "a", "get", one}, {at(0), "a", "get", ""}}, both[:1]},
		"name in each piece, no id":      {[]chat.Piece{{at(0), "", "get", ""}, {at(0), "", "get", `{"id":`}, {at(0), "", "get", `"1"}`}}, []model.ToolCall{call("", "get", one)}},
		"an id made up for each piece":   {[]chat.Piece{{at(0), "a", "get", ""}, {at(0), "x", "", `{"id":`}, {at(0), "y", "", `"1"}`}}, both[:1]},
		"the whole call again":           {[]chat.Piece{{at(0), "a", "get", one}, {at(0), "a", "get", one}}, both[:1]},
		"id and name later":              {[]chat.Piece{{at(0), "", "", ""}, {at(0), "a", "get", ""}, {at(0), "", "", one}}, both[:1]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := chat.NewPieces(model.Stream{})
			for _, piece := range c.pieces {
				p.Call(piece)
			}
			require.Equal(t, c.want, p.Response(model.Request{}, chat.Tools{}).Calls)
		})
	}
}

// Thoughts are in no reply, and no stream has them at its end, wherever the pieces end.
func TestThoughtsAreNoPartOfAnAnswer(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]struct{ said, thought string }{
		"<think>Hm.</think>Hello":                          {"Hello", "Hm."},
		"\n <thinking>Hm. <b></thinking>\n\nHello <think>": {"\n\nHello ", "Hm. <b>"},
		"<think></think><think>a</think>b":                 {"b", "a"},
		"<think>Never ends </thin":                         {"", "Never ends </thin"},
		"<thin air>":                                       {"<thin air>", ""},
		"<thinker>":                                        {"<thinker>", ""},
		"<think":                                           {"<think", ""},
		"Hello <think>no</think>":                          {"Hello ", "no"},
		"Hm.\nSo.\n</think>\n\nHello":                      {"\n\nHello", "Hm.\nSo."},
		"Write </think> at the end":                        {" at the end", "Write"},
		"Hm.</think>Hello":                                 {"Hello", "Hm."},
		"[THINK]Hm.[/THINK]Hello":                          {"Hello", "Hm."},
		"<thought>Hm.</thought>Hello":                      {"Hello", "Hm."},
		"Hm.[/THINK]Hello":                                 {"Hello", "Hm."},
		"Hello <think>a</think>you<thinking>b</thinking>.": {"Hello you.", "ab"},
		"Write `<think>` or ``a`<think>``.":                {"Write `<think>` or ``a`<think>``.", ""},
		"```\n<think>a</think>\n```\nb<think>c</think>":    {"```\n<think>a</think>\n```\nb", "c"},
		"````\n```\n</think>\n````\nb":                     {"````\n```\n</think>\n````\nb", ""},
		"It`s <think>a</think>b":                           {"It`s b", "a"},
		"It`s a\nline`s <think>a</think>b":                 {"It`s a\nline`s b", "a"},
		"Hm. `x` </think>Use `</think>`":                   {"Use `</think>`", "Hm. `x`"},
		"[1] < [2] <t":                                     {"[1] < [2] <t", ""},
		"``` never ends <think>":                           {"``` never ends <think>", ""},
		" ":                                                {" ", ""},
	} {
		for n := 1; n <= len(given); n++ {
			streamed := ""
			p := chat.NewPieces(model.Stream{Delta: func(s string) { streamed += s }, Reset: func(string) { streamed = "" }})
			for rest := given; rest != ""; rest = rest[min(n, len(rest)):] {
				p.Text(rest[:min(n, len(rest))])
			}
			r := p.Response(model.Request{}, chat.Tools{})
			require.Equal(t, want.said, r.Text, "%q in pieces of %d", given, n)
			require.Equal(t, want.thought, r.Reasoning, "%q in pieces of %d", given, n)
			require.Equal(t, want.said, streamed, "%q in pieces of %d", given, n)
		}
	}
}

func TestUsageThatIsNotReportedIsEstimated(t *testing.T) {
	t.Parallel()
	req := model.Request{Messages: []model.Message{user("12345678")}} // 3 tokens
	for name, c := range map[string]struct{ reported, want model.Usage }{
		"breaks off":    {model.Usage{In: 9, Out: 1}, model.Usage{In: 9, Out: 6, Estimate: true}},
		"all reported":  {model.Usage{In: 9, Cached: 8, Out: 7}, model.Usage{In: 9, Cached: 8, Out: 7}},
		"nothing":       {model.Usage{}, model.Usage{In: 3, Out: 6, Estimate: true}},
		"below zero":    {model.Usage{In: -3, Cached: -2, Out: -1}, model.Usage{In: 3, Out: 6, Estimate: true}},
		"only the text": {model.Usage{In: 9}, model.Usage{In: 9, Out: 6, Estimate: true}},
		"only the rest": {model.Usage{Out: 9}, model.Usage{In: 3, Out: 9, Estimate: true}},
	} {
		p := chat.NewPieces(model.Stream{})
		p.Usage, p.Whole = c.reported, name != "breaks off"
		p.Text("<think>1</think>")                                                 // 16 bytes
		p.Call(chat.Piece{Index: at(0), ID: "not counted", Name: "g", Args: "{}"}) // 3 bytes
		require.Equal(t, c.want, p.Response(req, chat.Tools{}).Usage, name)
	}
	silent := chat.NewPieces(model.Stream{})
	require.Equal(t, model.Usage{In: 3, Estimate: true}, silent.Response(req, chat.Tools{}).Usage, "nothing was written")
}
