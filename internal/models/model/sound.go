package model

import (
	"encoding/json"
	"slices"
	"strings"
)

const (
	// mostTokens is more than any model reads or writes in one call.
	mostTokens = 1 << 40
	// mostName is how many bytes of a name of a model are kept.
	mostName = 200
)

// Sound returns the response with counts, names and arguments as budgets and rows can keep them. What
// answers as a model is a server of others: it may count below zero, or beyond any number. Arguments that
// are no JSON become their text as JSON, so that a call with them is refused; without any they are empty.
func (r Response) Sound() Response {
	r.Model, r.Finish = soundName(r.Model), Finish(soundName(string(r.Finish)))
	r.Usage = Usage{In: soundCount(r.Usage.In), Cached: soundCount(r.Usage.Cached), CacheWritten: soundCount(r.Usage.CacheWritten), Out: soundCount(r.Usage.Out), Estimate: r.Usage.Estimate}
	r.Calls = slices.Clone(r.Calls)
	for i := range r.Calls {
		r.Calls[i].Args = soundArgs(r.Calls[i].Args)
	}
	return r
}

// How many calls of one answer are made, and how many are kept. Those between are told that they were not
// made. The rest is left out, so that the next request has a bounded length.
const (
	MaxCalls = 16
	MaxTold  = 4 * MaxCalls
)

// NotMade is what the model hears of a call of its answer after the first MaxCalls.
const NotMade = "an answer may ask for at most 16 calls; this one and those after it were not made: ask for them again"

// Bounded returns the response without the calls that are too many.
func (r Response) Bounded() Response {
	r.Calls = r.Calls[:min(len(r.Calls), MaxTold)]
	return r
}

func soundArgs(args json.RawMessage) json.RawMessage {
	switch {
	case len(args) == 0:
		return json.RawMessage("{}")
	case json.Valid(args):
		return args
	}
	text, err := json.Marshal(string(args))
	if err != nil {
		return json.RawMessage("null") // any text can be encoded
	}
	return text
}

func soundCount(n int64) int64 { return min(max(n, 0), mostTokens) }

func soundName(s string) string {
	s = strings.ReplaceAll(s, "\x00", "")
	return strings.ToValidUTF8(s[:min(len(s), mostName)], "")
}
