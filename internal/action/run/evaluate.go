package run

import (
	"context"
	"encoding/json"

	"agentruntime/db"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/verb"
)

// Evaluation is the decision about a call that is not made.
type Evaluation struct {
	Verb      verb.Name
	Risk      verb.Risk
	Operation verb.Operation
	Verdict   governance.Verdict
}

// Question is a call that is asked about and not made.
type Question struct {
	Verb           string
	Args, Metadata json.RawMessage
	SessionID      string // "" for none
	DryRun         bool
}

// Evaluate decides about a call without making it, and writes nothing. It does not check
// the arguments against the schema, so it decides about every known verb. The error is
// INVALID_VERB, VERB_NOT_FOUND, or a failure to read the verb.
func (s *Service) Evaluate(ctx context.Context, who actor.Actor, q Question) (Evaluation, error) {
	name, err := verb.Parse(q.Verb)
	if err != nil {
		return Evaluation{}, err
	}
	tenant := who.TenantID
	args, err := s.d.Targets.Named(ctx, tenant, name, q.Args)
	if err != nil {
		return Evaluation{}, err
	}
	about := q.about(who)
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

// about returns what conditions may ask about the call besides its arguments.
func (q Question) about(who actor.Actor) governance.Context {
	made := governance.Made{SessionID: db.Optional(q.SessionID), DryRun: q.DryRun, Metadata: q.Metadata}
	if who.Kind == actor.Key {
		made.KeyID = idText(&who.ID)
	}
	return made.Context()
}
