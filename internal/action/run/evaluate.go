package run

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/kernel/governance"
	"agentruntime/internal/kernel/verb"
)

// Evaluation is the decision about a call that is not made.
type Evaluation struct {
	Verb      verb.Name
	Risk      verb.Risk
	Operation verb.Operation
	Verdict   governance.Verdict
}

// Evaluate decides about a call without making it, and writes nothing. It does not check
// the arguments against the schema, so it decides about every known verb. The error is
// INVALID_VERB, VERB_NOT_FOUND, or a failure to read the verb.
func (s *Service) Evaluate(ctx context.Context, tenant uuid.UUID, rawVerb string, args, metadata json.RawMessage) (Evaluation, error) {
	name, err := verb.Parse(rawVerb)
	if err != nil {
		return Evaluation{}, err
	}
	if args, err = s.d.Targets.Named(ctx, tenant, name, args); err != nil {
		return Evaluation{}, err
	}
	about := governance.ContextOf(metadata)
	t, err := s.d.Targets.Target(ctx, tenant, name, Account{Customer: db.Text(about.CustomerID)}, args)
	if err != nil {
		return Evaluation{}, err
	}
	v, err := t.Judge(ctx, args, about)
	if stopped := t.StoppedBy(about); stopped != nil {
		v = stopped.Verdict()
	}
	return Evaluation{Verb: name, Risk: t.Risk(), Operation: t.Operation(), Verdict: v}, err
}
