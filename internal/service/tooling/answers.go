package tooling

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/models/model"
)

// The names of the tools that are not verbs.
const (
	escalateName = "escalate"
	searchName   = "search_verbs"
	describeName = "describe_verb"
)

func escalateTool() model.Tool {
	return model.Tool{
		Name: escalateName, Description: "Hands the conversation to people: where the customer wishes it, where you are not allowed or not able to help, or where you are not sure.",
		Schema: json.RawMessage(`{"properties":{"reason":{"description":"Why, in one sentence.","type":"string"},` +
			`"summary":{"description":"What the people must know: what the customer wants, what was done, what is open.","type":"string"}},"required":["reason"],"type":"object"}`),
	}
}

func searchTool() model.Tool {
	return model.Tool{
		Name: searchName, Description: "Finds verbs that you may call, by words of their names and descriptions, in English. You may call more verbs than you have definitions of. Those that are found can be called from your next answer on.",
		Schema: json.RawMessage(`{"properties":{"query":{"description":"A few words for what is to be done, such as: create refund","type":"string"}},"required":["query"],"type":"object"}`),
	}
}

func describeTool() model.Tool {
	return model.Tool{
		Name: describeName, Description: "Shows the arguments of a verb that you may call.",
		Schema: json.RawMessage(`{"properties":{"verb":{"description":"The name of the verb, such as shop:get_order","type":"string"}},"required":["verb"],"type":"object"}`),
	}
}

// Bounds of an answer.
const (
	mostResults     = 8
	addedResults    = 3   // of them get a definition where there is room
	shownText       = 200 // characters of a description
	mostAlternative = 3
	mostProviders   = 50
)

// shownVerb is a verb in an answer.
type shownVerb struct {
	Verb        string          `json:"verb"`
	Tool        string          `json:"tool"`
	Description string          `json:"description"`
	Operation   verb.Operation  `json:"operation"`
	Risk        verb.Risk       `json:"risk"`
	Connected   bool            `json:"connected"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Omits       []string        `json:"omits,omitempty"`
}

func show(it item, most int) shownVerb {
	text := []rune(it.Description)
	if len(text) > most {
		text = append(text[:most-1], '…')
	}
	return shownVerb{
		Verb: it.Name.String(), Tool: it.Name.ToolName(), Description: string(text), Operation: it.Operation, Risk: it.Risk, Connected: it.Connected,
	}
}

// Answer answers a call of SearchVerbs or DescribeVerb: the text for the model, and the set that it is
// offered from then on, in which it may call what the answer shows. What is wrong with a call is told
// in the text. The error is one of the database, or SERVICE_UNAVAILABLE.
func (b *Toolbox) Answer(ctx context.Context, o Offer, s Set, r Resolved) (text json.RawMessage, grown Set, err error) {
	shelf, err := b.shelf(ctx, o)
	if err != nil {
		return nil, s, err
	}
	switch r.Kind {
	case SearchVerbs:
		return b.search(ctx, o, shelf, s, r.Args)
	case DescribeVerb:
		return b.describe(ctx, o, shelf, s, r.Args)
	default:
		return nil, s, errors.New("tooling: only a search and a description are answered here")
	}
}

func (b *Toolbox) search(ctx context.Context, o Offer, shelf *shelf, s Set, args json.RawMessage) (json.RawMessage, Set, error) {
	query, ok := text(args, "query")
	if !ok {
		return refused(fault.CodeInvalidArgs, "query is a text with the words to look for.", nil), s, nil
	}
	places := shelf.rank(query, mostResults, o.Matched)
	if len(places) == 0 {
		return encode(map[string]any{
			"verbs": []shownVerb{}, "hint": "No verb has these words. Use other words, in English, or words of a provider's name.",
			"providers": shelf.providers[:min(len(shelf.providers), mostProviders)],
		}), s, nil
	}
	tools, err := b.definitions(ctx, o.Tenant, shelf, places[:min(len(places), addedResults)], schemaBudget)
	if err != nil {
		return nil, s, err
	}
	for _, t := range tools {
		s = s.with(t, false)
	}
	shown := make([]shownVerb, len(places))
	for i, place := range places {
		shown[i] = show(shelf.verbs[place], shownText)
		if !slices.ContainsFunc(s.s.Tools, func(t offered) bool { return t.Name == shown[i].Verb }) {
			s = s.found(shown[i].Verb)
		}
	}
	return encode(map[string]any{"verbs": shown, "hint": "Call a verb by the name of its tool. " + describeName + " shows the arguments of one that you have no definition of."}), s, nil
}

func (b *Toolbox) describe(ctx context.Context, o Offer, shelf *shelf, s Set, args json.RawMessage) (json.RawMessage, Set, error) {
	name, ok := text(args, "verb")
	if !ok {
		return refused(fault.CodeInvalidArgs, "verb is the name of a verb, such as shop:get_order.", nil), s, nil
	}
	place := shelf.find(name, o.Matched)
	if place < 0 {
		var near []string
		for _, like := range shelf.rank(name, mostAlternative, o.Matched) {
			near = append(near, shelf.verbs[like].Name.String())
		}
		return refused(fault.CodeVerbNotFound, "There is no such verb that you may call. Look for it with "+searchName+".", near), s, nil
	}
	tools, err := b.definitions(ctx, o.Tenant, shelf, []int32{place}, describedBudget)
	if err != nil {
		return nil, s, err
	}
	if len(tools) == 0 {
		return refused(fault.CodeVerbNotFound, "The verb is being replaced. Describe it again.", nil), s, nil
	}
	it := shelf.verbs[place]
	shown := show(it, len(it.Description))
	shown.Parameters = tools[0].Tool.Schema
	if p, known := b.d.Tools.kept.Get(key{it.SchemaHash, Form{Format: tooldef.OpenAI, Budget: describedBudget}}); known {
		shown.Omits = p.Omits
	}
	return encode(shown), s.with(tools[0], true), nil
}

// text returns a text argument that is not empty.
func text(args json.RawMessage, name string) (string, bool) {
	var object map[string]json.RawMessage
	var value string
	if json.Unmarshal(args, &object) != nil || json.Unmarshal(object[name], &value) != nil {
		return "", false
	}
	value = strings.TrimSpace(value)
	return value, value != ""
}

// refused is what the model reads of a call that cannot be answered.
func refused(code fault.Code, detail string, near []string) json.RawMessage {
	failed := map[string]any{"code": code, "detail": detail}
	if len(near) > 0 {
		failed["near"] = near
	}
	return encode(map[string]any{"error": failed})
}

func encode(v any) json.RawMessage {
	raw, err := exactjson.Encode(v)
	if err != nil {
		return json.RawMessage(`{}`) // it is made of texts and schemas
	}
	return raw
}
