// Package rules is the model builtin:rules, which every agent can ask. It is no language model: it goes
// by the words of a message and by the schemas of tools. The same request always gets the same answer, in
// English.
//
// It chooses a tool by the words of the message, and fills its arguments with ids, numbers, addresses and
// texts in quotes. It asks for what is missing, and calls a write only after a yes. As planner and as
// worker it makes one call.
package rules

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/models/model"
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
	e := &effort{left: mostEffort}
	var err error
	switch req.Purpose {
	case model.Reply:
		answer.Text, answer.Calls = reply(e, req)
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

// How the questions of the model begin. A later message is read as the answer to one.
const (
	pleaseTell = "Please tell me the "
	shall      = "Shall I "
)

var (
	yes = regexp.MustCompile(`(?i)^\W*(yes|ok|okay|sure|confirm(ed)?|do it|go ahead)\b[\s,.!]*(please|do it|go ahead)?[\s.!]*$`)
	no  = regexp.MustCompile(`(?i)^\W*(no|stop|don't|do not|never mind)\b`)
)

// reply returns the next answer of a conversation.
func reply(e *effort, req model.Request) (string, []model.ToolCall) {
	// What is remembered of the customer is for language models: rules know nothing to do with it.
	messages := slices.DeleteFunc(slices.Clone(req.Messages), agentloop.IsMemory)
	if req.NoCalls {
		req.Tools = nil
	}
	if len(messages) == 0 {
		return abilities(req.Tools), nil
	}
	if messages[len(messages)-1].Role == model.Result {
		return tell(req.Tools, messages), nil
	}
	if text, is := news(req.Tools, messages[len(messages)-1]); is {
		return text, nil
	}
	w := wishOf(messages)
	if w.denied {
		return "All right, I do nothing.", nil
	}
	if call, wanted := handOver(req.Tools, w); wanted {
		return "", []model.ToolCall{call}
	}
	tool, args, missing := choose(e, req.Tools, w)
	switch {
	case tool == nil:
		return "I have not understood what to do. " + abilities(req.Tools), nil
	case len(missing) > 0:
		return tool.asksFor(missing[0]), nil
	case tool.writes && !w.confirmed:
		return shall + tool.words + with(args) + "? Answer yes.", nil
	}
	return "", []model.ToolCall{callOf(*tool, args, len(messages))}
}

// callOf returns the call of a tool. number makes its id one of its own.
func callOf(tool candidate, args []argument, number int) model.ToolCall {
	return model.ToolCall{ID: fmt.Sprintf("call_%d", number), Name: tool.Name, Args: json.RawMessage(encoded(values(args)))}
}

// asksFor returns the question for an argument.
func (c candidate) asksFor(name string) string {
	return pleaseTell + inWords(name) + ". I need it to " + c.words + "."
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
		confirms, tells := strings.HasPrefix(asked, shall), strings.HasPrefix(asked, pleaseTell)
		switch {
		case confirms && yes.MatchString(text):
			w.confirmed = w.confirmed || len(texts) == 0
		case no.MatchString(text) && (confirms || tells):
			if len(texts) == 0 && !w.confirmed {
				return wish{denied: true}
			}
			asked = ""
		case tells && yes.MatchString(text): // it tells nothing
		case tells:
			w.hears(asked, text)
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
func (w *wish) hears(question, text string) {
	name, _, _ := strings.Cut(strings.TrimPrefix(question, pleaseTell), ". ")
	if _, later := w.told[name]; !later {
		w.told[name] = text
	}
}

// plain returns a text without the element in which the service shows what customers have written.
func plain(text string) string {
	if written, is := agentloop.CustomerText(model.Message{Role: model.User, Text: text}); is {
		return written
	}
	return text
}

// mostOffered is how many tools an answer names.
const mostOffered = 8

// abilities says what the model can do, with an example: what reads first, then what writes.
func abilities(tools []model.Tool) string {
	var reads, writes []string
	example := "Please name one, with the ids that it needs."
	for _, tool := range tools {
		c := candidateOf(tool)
		switch {
		case own(tool.Name):
		case c.writes:
			writes = append(writes, c.words)
		default:
			if one := c.example(); one != "" && !strings.HasPrefix(example, "For") {
				example = "For example, write: " + one
			}
			reads = append(reads, c.words)
		}
	}
	all := slices.Concat(reads, writes)
	const who = "I work by rules and am no language model. "
	if len(all) == 0 {
		return who + "I have no tools here, so I can do nothing."
	}
	list := strings.Join(all[:min(len(all), mostOffered)], ", ")
	if more := len(all) - mostOffered; more > 0 {
		list += fmt.Sprintf(", and %d more", more)
	}
	return who + "I can: " + list + ". " + example
}

// own reports whether a tool is one of the service's own, which no customer names. A call of escalate
// has a rule of its own.
func own(name string) bool {
	return name == escalate || name == "search_verbs" || name == "describe_verb" || strings.HasPrefix(name, "tool__") || strings.HasPrefix(name, "tool:")
}

// example returns a message that calls the tool, where it needs one id and its schema shows one.
func (c candidate) example() string {
	if len(c.required) != 1 || !isID(c.required[0]) {
		return ""
	}
	if id := idLike.FindString(c.props[c.required[0]].Description); id != "" {
		return capital(c.words) + " " + id
	}
	return ""
}
