package agentloop

import (
	"unicode/utf8"

	"agentruntime/internal/models/model"
)

// Tokens returns about how many tokens a message takes: a quarter of its ASCII characters, all of its
// others, and something for its frame. It is an estimate for windows, never for budgets.
func Tokens(m model.Message) int {
	const frame = 4
	n := frame + tokens(m.Text)
	for _, c := range m.Calls {
		n += frame + tokens(c.Name) + tokens(string(c.Args))
	}
	return n
}

func tokens(text string) int {
	const perToken = 4 // of English
	runes := utf8.RuneCountInString(text)
	ascii := 0
	for i := range len(text) {
		if text[i] < utf8.RuneSelf {
			ascii++
		}
	}
	return runes - ascii + (ascii+perToken-1)/perToken
}

// Window bounds what a model reads in full of a conversation.
type Window struct {
	// Tokens and Messages are the most; calls and the results of calls are messages too.
	Tokens, Messages int
}

// Cut returns how many of the oldest messages no longer fit the window: 0 where all fit. Otherwise
// what is left takes at most half of the window. So the next messages need no other cut, and makers of
// models can cache what stays. It never parts an assistant's calls from their results. The newest
// message, or the newest calls with their results, stays whatever it takes.
func (w Window) Cut(messages []model.Message) int {
	if len(messages) == 0 || sizeOf(messages) <= w.Tokens && len(messages) <= w.Messages {
		return 0
	}
	from := groupBefore(messages, len(messages))
	for taken := sizeOf(messages[from:]); from > 0; {
		at := groupBefore(messages, from)
		taken += sizeOf(messages[at:from])
		if taken > w.Tokens/2 || len(messages)-at > w.Messages/2 {
			break
		}
		from = at
	}
	return from
}

func sizeOf(messages []model.Message) (n int) {
	for _, m := range messages {
		n += Tokens(m)
	}
	return n
}

// groupBefore returns where the group that ends before a message begins: a message, or calls with
// their results.
func groupBefore(messages []model.Message, end int) int {
	at := end - 1
	for at > 0 && messages[at].Role == model.Result {
		at--
	}
	return at
}
