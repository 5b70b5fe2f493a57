package run

import (
	"context"

	"github.com/google/uuid"

	"agentruntime/internal/governance"
	"agentruntime/internal/verb"
)

// Evaluation is what governance says of a call that is not made.
type Evaluation struct {
	Verb      verb.Name
	Risk      verb.Risk
	Operation verb.Operation
	Verdict   governance.Verdict
}

// Evaluate decides about a call without making it. It does not hold the arguments
// against the schema, always decides where the verb is known, and writes nothing.
func (s *Service) Evaluate(ctx context.Context, tenant uuid.UUID, rawVerb string) (Evaluation, error) {
	name, err := verb.Parse(rawVerb)
	if err != nil {
		return Evaluation{}, err
	}
	m, err := s.Targets.Meta(ctx, tenant, name)
	if err != nil {
		return Evaluation{}, err
	}
	return Evaluation{
		Verb: name, Risk: m.Risk, Operation: m.Operation,
		Verdict: governance.Evaluate(governance.Call{Verb: name, Risk: m.Risk, Operation: m.Operation}),
	}, nil
}
