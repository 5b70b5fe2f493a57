// Package rules is the model builtin:rules, which every agent can ask. It is no language model: it goes
// by the words of a message and by the schemas of tools. The same request always gets the same answer.
package rules

import (
	"context"
	"strings"

	"agentruntime/internal/kernel/model"
)

// Name is what the model calls itself in answers.
const Name = "builtin:rules (no language model)"

// Model answers by rules. The zero value is ready.
type Model struct{}

// Generate implements model.Model.
func (Model) Generate(ctx context.Context, _ model.Request, stream func(delta string)) (model.Response, error) {
	if err := ctx.Err(); err != nil {
		return model.Response{}, err
	}
	answer := model.Response{Model: Name, Text: "I work by rules and am no language model. I found nothing that I can do for this.", Finish: model.Stopped}
	if stream != nil {
		for piece := range strings.SplitAfterSeq(answer.Text, " ") {
			stream(piece)
		}
	}
	return answer, nil
}

// Can reports whether the model can do what a step of a Map asks for.
func Can(model.Purpose) bool { return false }
