package rules

import (
	"encoding/json"
	"slices"

	"agentruntime/internal/agents/wordrank"
	"agentruntime/internal/models/model"
)

// classify answers a step that chooses a label: the one of which the data has most words, or the label
// other where it has none of any.
func classify(e *effort, req model.Request) (string, error) {
	var schema struct {
		Properties struct{ Label struct{ Enum []string } }
	}
	data, _ := dataOf(asked(req))
	if json.Unmarshal(req.OutputSchema, &schema) != nil || len(schema.Properties.Label.Enum) == 0 {
		return "", cannot("classify without labels")
	}
	labels := schema.Properties.Label.Enum
	label, score := bestLabel(e, labels, plainOf(dataIn(data, "input")))
	if score == 0 {
		if label = "other"; !slices.Contains(labels, label) {
			return "", cannot("tell which label fits, because the data has no word of any; the label other is for that")
		}
	}
	return encoded(map[string]string{"label": label}), nil
}

// bestLabel returns the label of which the text has most words; 0 where it has none of any.
func bestLabel(e *effort, labels []string, text string) (label string, best int) {
	const reading = 4 // bytes for a unit
	if !e.spend(len(text) / reading) {
		return "", 0
	}
	has := map[string]bool{}
	for _, key := range keysOf(text) {
		has[key] = true
	}
	for _, one := range labels {
		keys, score := keysOf(inWords(one)), 0
		for _, key := range keys {
			if has[key] {
				score++
			}
		}
		if !e.spend(1 + len(keys)) {
			break
		}
		if score > best {
			label, best = one, score
		}
	}
	return label, best
}

// keysOf returns what the words of a text are compared by, in their order.
func keysOf(text string) (keys []string) {
	for _, w := range wordrank.Words(text) {
		keys = append(keys, w.Key)
	}
	return keys
}
