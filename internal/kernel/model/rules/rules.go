// Package rules is the model builtin:rules, which every agent can ask. It is no language model: it goes
// by the words of a message and by the schemas of tools. The same request always gets the same answer.
//
// It ranks the tools by the words of the message, and fills their arguments with what the message has:
// ids, numbers, addresses, words of an enum, texts in quotes. It asks for what is missing. It reads a
// write back, and calls it only after a yes. It tells results in words.
package rules

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"agentruntime/internal/kernel/agentloop"
	"agentruntime/internal/kernel/model"
)

// Name is what the model calls itself in answers.
const Name = "builtin:rules (no language model)"

// Model answers by rules. The zero value is ready.
type Model struct{}

// Generate implements model.Model. It uses no tokens. It replies in conversations; for other
// purposes it is a *model.Error, and internal/service/answering goes by words.
func (Model) Generate(ctx context.Context, req model.Request, stream func(delta string)) (model.Response, error) {
	if err := ctx.Err(); err != nil {
		return model.Response{}, err
	}
	if req.Purpose != model.Reply || req.OutputSchema != nil {
		return model.Response{}, &model.Error{Reason: "builtin:rules is no language model and cannot do this"}
	}
	answer := model.Response{Model: Name, Finish: model.Stopped}
	answer.Text, answer.Calls = reply(req)
	if len(answer.Calls) > 0 {
		answer.Finish = model.Calling
	}
	if stream != nil && answer.Text != "" {
		for piece := range strings.SplitAfterSeq(answer.Text, " ") {
			stream(piece)
		}
	}
	return answer, nil
}

// Can reports whether the model can do what a step of a Map asks for: none of it yet.
func Can(model.Purpose) bool { return false }

// How the questions of the model begin. It knows by them which messages belong to one wish.
const (
	shallI     = "Shall I "
	pleaseTell = "Please tell me "
)

var (
	yes = regexp.MustCompile(`(?i)^\W*(yes|y|yep|yeah|ok|okay|sure|confirm(ed)?|do it|go ahead|please do|ja|oui|s[ií])\b[\s,.!]*(please|do it|go ahead|bitte)?[\s.!]*$`)
	no  = regexp.MustCompile(`(?i)^\W*(no|n|nope|stop|don't|do not|never mind|nein|non)\b`)
)

// reply returns the next answer of a conversation.
func reply(req model.Request) (string, []model.ToolCall) {
	messages := req.Messages
	if req.NoCalls {
		req.Tools = nil
	}
	if len(messages) == 0 {
		return iAm + abilities(req.Tools), nil
	}
	if messages[len(messages)-1].Role == model.Result {
		return tell(messages), nil
	}
	if text, is := news(messages[len(messages)-1]); is {
		return text, nil
	}
	w := wishOf(messages)
	if w.denied {
		return "All right, I do nothing.", nil
	}
	if call, wanted := handOver(req.Tools, w); wanted {
		return "", []model.ToolCall{call}
	}
	if text, is := smallTalk(req.Tools, w.text); is {
		return text, nil
	}
	tool, args, missing := choose(req.Tools, w)
	switch {
	case tool == nil:
		return notUnderstood(req.Tools), nil
	case len(missing) > 0:
		return pleaseTell + "the " + inWords(missing[0]) + ". I need it to " + inWords(tool.verb()) + ".", nil
	case tool.writes && !w.confirmed:
		return shallI + inWords(tool.verb()) + with(args) + "? Answer yes.", nil
	}
	raw, err := json.Marshal(values(args))
	if err != nil {
		return notUnderstood(req.Tools), nil
	}
	return "", []model.ToolCall{{ID: fmt.Sprintf("call_%d", len(messages)), Name: tool.Name, Args: raw}}
}

// wish is what a customer wants: their message, with their answers to what the model has asked of it.
type wish struct {
	text              string
	confirmed, denied bool
	// told are the answers, by the argument that was asked for.
	told map[string]string
}

func wishOf(messages []model.Message) wish {
	w := wish{told: map[string]string{}}
	var texts []string
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role != model.User {
			break
		}
		text, asked := plain(messages[i].Text), ""
		if i > 0 && messages[i-1].Role == model.Assistant {
			asked = messages[i-1].Text
		}
		switch {
		case strings.HasPrefix(asked, shallI) && yes.MatchString(text):
			w.confirmed = w.confirmed || len(texts) == 0
		case asked != "" && no.MatchString(text) && (strings.HasPrefix(asked, shallI) || strings.HasPrefix(asked, pleaseTell)):
			if len(texts) == 0 && !w.confirmed {
				return wish{denied: true}
			}
			asked = ""
		case strings.HasPrefix(asked, pleaseTell):
			if yes.MatchString(text) {
				break // it tells nothing
			}
			name, _, _ := strings.Cut(strings.TrimPrefix(asked, pleaseTell+"the "), ".")
			if _, later := w.told[name]; !later {
				w.told[name] = text
			}
			texts = append(texts, text)
		default:
			texts = append(texts, text)
			asked = ""
		}
		if asked == "" {
			break
		}
		i-- // the question
	}
	for _, text := range slices.Backward(texts) {
		w.text += text + "\n"
	}
	return w
}

var element = regexp.MustCompile(`(?s)^\s*<data[^>]*>(.*)</data>\s*$`)

// plain returns a text without the element in which the service shows what customers have written,
// and data.
func plain(text string) string {
	if written, is := agentloop.CustomerText(model.Message{Role: model.User, Text: text}); is {
		return written
	}
	if inside := element.FindStringSubmatch(text); inside != nil {
		text = inside[1]
		var decoded string
		if json.Unmarshal([]byte(text), &decoded) == nil {
			return decoded
		}
	}
	return text
}
