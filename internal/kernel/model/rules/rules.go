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

// Generate implements model.Model. It uses no tokens. For purposes that it does not serve, and where
// nothing follows from the words, it is a *model.Error.
func (Model) Generate(ctx context.Context, req model.Request, stream model.Stream) (model.Response, error) {
	if err := ctx.Err(); err != nil {
		return model.Response{}, err
	}
	answer := model.Response{Model: Name, Finish: model.Stopped}
	e := newEffort(ctx)
	var err error
	switch req.Purpose {
	case model.Reply:
		p := phrasesFor(req)
		answer.Text, answer.Calls = reply(e, req, p)
		answer.Text = p.honest(answer.Text)
	case model.Agent:
		answer.Text, answer.Calls = work(e, req)
	case model.Plan:
		answer.Text = plan(e, req)
	case model.Manager:
		answer.Text = judge(req)
	case model.Extract:
		answer.Text = extract(e, req)
	case model.Classify:
		answer.Text, err = classify(e, req)
	case model.Summarize:
		answer.Text = summarize(req)
	case model.Reason:
		answer.Text = reason(e, req)
	default:
		err = cannot("do this")
	}
	switch {
	case ctx.Err() != nil:
		return model.Response{}, ctx.Err()
	case e.over:
		return model.Response{}, cannot("look at so much: shorten the text, the schemas of the tools or the data")
	case err != nil:
		return model.Response{}, err
	}
	if len(answer.Calls) > 0 {
		answer.Finish = model.Calling
	}
	if answer.Text != "" {
		for piece := range strings.SplitAfterSeq(answer.Text, " ") {
			stream.Says(piece)
		}
	}
	return answer, nil
}

func cannot(what string) error {
	return &model.Error{Reason: "builtin:rules is no language model and cannot " + what}
}

// pleaseTell is how the question for an argument begins in English.
const pleaseTell = "Please tell me "

var (
	yes = regexp.MustCompile(`(?i)^\W*(yes|y|yep|yeah|ok|okay|sure|confirm(ed)?|do it|go ahead|please do|ja|oui|s[ií])\b[\s,.!]*(please|do it|go ahead|bitte)?[\s.!]*$`)
	no  = regexp.MustCompile(`(?i)^\W*(no|n|nope|stop|don't|do not|never mind|nein|non)\b`)
)

// reply returns the next answer of a conversation.
func reply(e *effort, req model.Request, p phrases) (string, []model.ToolCall) {
	// What is remembered of the customer is for language models: rules know nothing to do with it.
	messages := slices.DeleteFunc(slices.Clone(req.Messages), agentloop.IsMemory)
	if req.NoCalls {
		req.Tools = nil
	}
	if len(messages) == 0 {
		return p.of["iam"] + abilities(p, req.Tools), nil
	}
	if messages[len(messages)-1].Role == model.Result {
		return tell(p, messages), nil
	}
	if text, is := news(p, messages[len(messages)-1]); is {
		return text, nil
	}
	w := wishOf(messages)
	if w.denied {
		return p.of["nothing"], nil
	}
	if call, wanted := handOver(req.Tools, w); wanted {
		return "", []model.ToolCall{call}
	}
	if text, is := smallTalk(p, req.Tools, w.text); is {
		return text, nil
	}
	tool, args, missing := choose(e, p, req.Tools, w)
	switch {
	case tool == nil:
		return notUnderstood(p, req.Tools), nil
	case len(missing) > 0:
		return p.say("please", inWords(missing[0]), inWords(tool.verb())), nil
	case tool.writes && !w.confirmed:
		return p.say("shall", inWords(tool.verb()), with(p, args)), nil
	}
	raw, err := json.Marshal(values(args))
	if err != nil {
		return notUnderstood(p, req.Tools), nil
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
		in, shall := isQuestion("shall", asked)
		by, please := isQuestion("please", asked)
		if please {
			in = by
		}
		agreed := in.agrees(text)
		switch {
		case shall && agreed:
			w.confirmed = w.confirmed || len(texts) == 0
		case (no.MatchString(text) || isOne("no", text, true)) && (shall || please):
			if len(texts) == 0 && !w.confirmed {
				return wish{denied: true}
			}
			asked = ""
		case please && agreed: // it tells nothing
		case please:
			w.hears(by.wanted(asked), text)
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
	w.text = beginning(w.text, mostText)
	return w
}

// hears notes the answer to a question for an argument. A later one counts.
func (w *wish) hears(name, text string) {
	if _, later := w.told[name]; !later {
		w.told[name] = text
	}
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
