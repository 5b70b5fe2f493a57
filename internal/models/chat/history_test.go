package chat_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/models/chat"
	"agentruntime/internal/models/model"
)

func user(text string) model.Message { return model.Message{Role: model.User, Text: text} }

func called(text string, calls ...model.ToolCall) model.Message {
	return model.Message{Role: model.Assistant, Text: text, Calls: calls}
}

func brought(id, text string) model.Message {
	return model.Message{Role: model.Result, CallID: id, Text: text}
}

func call(id, name, args string) model.ToolCall {
	return model.ToolCall{ID: id, Name: name, Args: json.RawMessage(args)}
}

func history(withTools bool, messages ...model.Message) []model.Message {
	req := model.Request{Messages: messages}
	if withTools {
		req.Tools = []model.Tool{{Name: "shop:get_order", Schema: json.RawMessage(`{"type":"object"}`)}}
	}
	return chat.History(req, chat.NewTools(req.Tools, tooldef.OpenAI))
}

const (
	order = "shop:get_order"
	wire  = "shop__get_order"
)

func TestHistoryIsMadeForItsReceiver(t *testing.T) {
	t.Parallel()
	const goesOn = "(The conversation goes on.)"
	read := called("I have read the results.")
	const inWords = "You asked for this call of a tool, and this is what it has brought.\n"
	for name, c := range map[string]struct{ given, want []model.Message }{
		"ids of others": {
			[]model.Message{user("a"), called("", call("functions.x:0", order, `{"id":"1"}`)), brought("functions.x:0", "1")},
			[]model.Message{user("a"), called("", call("call00001", wire, `{"id":"1"}`)), brought("call00001", "1")},
		},
		"one id in two answers": {
			[]model.Message{user("a"), called("", call("c", order, `{}`)), brought("c", "1"), called("", call("c", order, `{}`)), brought("c", "2")},
			[]model.Message{user("a"), called("", call("call00001", wire, `{}`)), brought("call00001", "1"), called("", call("call00002", wire, `{}`)), brought("call00002", "2")},
		},
		"one id in one answer, results in their order": {
			[]model.Message{user("a"), called("", call("c", order, `{}`), call("c", order, `{}`)), brought("c", "1"), brought("c", "2"), brought("c", "3")},
			[]model.Message{user("a"), called("", call("call00001", wire, `{}`), call("call00002", wire, `{}`)), brought("call00001", "1"), brought("call00002", "2")},
		},
		"results in another order": {
			[]model.Message{user("a"), called("", call("c", order, `{}`), call("d", order, `{}`)), brought("d", "2"), brought("c", "1")},
			[]model.Message{user("a"), called("", call("call00001", wire, `{}`), call("call00002", wire, `{}`)), brought("call00001", "1"), brought("call00002", "2")},
		},
		"a call without a result": {
			[]model.Message{user("a"), called("x", call("c", order, `{}`)), user("b")},
			[]model.Message{user("a"), called("x", call("call00001", wire, `{}`)), brought("call00001", `{"error":"there is no result of this call"}`), read, user("b")},
		},
		"results without their calls": {
			[]model.Message{brought("c", "1"), user("a"), brought("d", "2")},
			[]model.Message{user("a")},
		},
		"a name that is no tool": {
			[]model.Message{user("a"), called("", call("c", "browser.open <page>", `{"a":1}`), call("d", order, `{}`)), brought("c", "</data> none"), brought("d", "2")},
			[]model.Message{
				user("a"), called("", call("call00001", wire, `{}`)), brought("call00001", "2"), read,
				user(inWords + `<data name="call">{"args":{"a":1},"result":"\u003c/data\u003e none","tool":"browser.open \u003cpage\u003e"}</data>`),
			},
		},
		"no name": {
			[]model.Message{user("a"), called("", call("c", "", `{}`)), brought("c", "none")},
			[]model.Message{user("a\n\n" + inWords + `<data name="call">{"args":{},"result":"none","tool":""}</data>`)},
		},
		"a long name": {
			[]model.Message{user("a"), called("", call("c", strings.Repeat("x", 200), `{}`)), brought("c", "none")},
			[]model.Message{user("a\n\n" + inWords + `<data name="call">{"args":{},"result":"none","tool":"` + strings.Repeat("x", 64) + `"}</data>`)},
		},
		"a verb that is offered no longer": {
			[]model.Message{user("a"), called("", call("c", "shop:refund", `{}`)), brought("c", "1")},
			[]model.Message{user("a"), called("", call("call00001", "shop__refund", `{}`)), brought("call00001", "1")},
		},
		"arguments that are no object": {
			[]model.Message{user("a"), called("", call("c", order, `"{half"`), call("d", order, `[1]`), call("e", order, ``), call("f", order, `null`)), brought("c", "1"), brought("d", "2"), brought("e", "3"), brought("f", "4")},
			[]model.Message{
				user("a"), called("", call("call00001", wire, `{}`), call("call00002", wire, `{}`), call("call00003", wire, `{}`), call("call00004", wire, `{}`)),
				brought("call00001", "1"), brought("call00002", "2"), brought("call00003", "3"), brought("call00004", "4"),
			},
		},
		"half a character in arguments": {
			[]model.Message{user("a"), called("", call("c", order, `{"a":"\ud83d","n":7615917337495251231}`)), brought("c", "1")},
			[]model.Message{user("a"), called("", call("call00001", wire, `{"a":"�","n":7615917337495251231}`)), brought("call00001", "1")},
		},
		"empty texts": {
			[]model.Message{user(" \n"), called(""), user("a"), called(" "), called(" said \n"), user("b")},
			[]model.Message{user("a"), called("said"), user("b")},
		},
		"an empty result": {
			[]model.Message{user("a"), called("", call("c", order, `{}`)), brought("c", " ")},
			[]model.Message{user("a"), called("", call("call00001", wire, `{}`)), brought("call00001", "null")},
		},
		"an order after results": {
			[]model.Message{user("a"), called("", call("c", order, `{}`)), brought("c", "1"), user("answer now")},
			[]model.Message{user("a"), called("", call("call00001", wire, `{}`)), brought("call00001", "1"), read, user("answer now")},
		},
		"neighbours of one side": {
			[]model.Message{user("a"), user("b"), called("c"), called("d"), called("e", call("c", order, `{}`)), brought("c", "1")},
			[]model.Message{user("a\n\nb"), called("c\n\nd\n\ne", call("call00001", wire, `{}`)), brought("call00001", "1")},
		},
		"an answer last":  {[]model.Message{user("a"), called("said")}, []model.Message{user("a"), called("said"), user(goesOn)}},
		"an answer first": {[]model.Message{called("said"), user("b")}, []model.Message{user(goesOn), called("said"), user("b")}},
		"nothing":         {nil, []model.Message{user(goesOn)}},
	} {
		require.Equal(t, c.want, history(true, c.given...), name)
	}
	require.Equal(t, []model.Message{user("a\n\n" + inWords + `<data name="call">{"args":{},"result":"1","tool":"shop:get_order"}</data>`)},
		history(false, user("a"), called("", call("c", order, `{}`)), brought("c", "1")), "a request without tools has no calls")
}

// The ids of a conversation stay the same while it grows: a server reads its beginning from a cache.
func TestHistoryBeginsAsBefore(t *testing.T) {
	t.Parallel()
	var messages, before []model.Message
	for i := range 50 {
		messages = append(messages, user("a"), called("b", call("same", order, `{}`)), brought("same", "1"))
		now := history(true, messages...)
		require.Equal(t, append([]model.Message{}, before...), now[:len(before)], i)
		before = now
	}
	for _, m := range before {
		for _, c := range m.Calls {
			require.Regexp(t, `^[a-zA-Z0-9]{9}$`, c.ID)
		}
	}
}
