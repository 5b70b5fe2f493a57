package run

import (
	"cmp"
	"context"
	"net/http"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/audit"
)

// Refused records that a call was refused before it got here, for the permission of its key
// or the origin of its page. The error is that of audit.Journal.Add.
func (s *Service) Refused(ctx context.Context, who actor.Actor, refusal *fault.Error) error {
	return s.noteRefusal(ctx, who, Request{}, refusal)
}

// noteRefusal records a refusal that claimed no run. Calls that are malformed or come from an
// unknown caller leave no record, and neither do failures of ours. It returns nil where the
// caller may be told of the refusal.
func (s *Service) noteRefusal(ctx context.Context, who actor.Actor, req Request, refusal error) error {
	f := fault.As(refusal)
	if f == nil {
		return nil
	}
	switch f.Code.Spec().Status {
	case http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
	default:
		return nil
	}
	name, err := verb.Parse(req.Verb)
	if err != nil {
		name = verb.Name{} // a call that was refused before its body was read
	}
	n := audit.Note{
		By: who, About: req.Verb,
		Record: audit.Record{
			Action: audit.RunRefused, Provider: name.Provider, Verb: name.Verb, Outcome: string(StateRefused), ExecutionID: f.ExecutionID,
		},
		Details: map[string]any{"code": f.Code},
	}
	if req.SessionID != "" {
		n.Record.SessionID = &req.SessionID
	}
	if n.Record.ExecutionID == "" {
		n.Record.ExecutionID = req.ExecutionID
	}
	if n.Record.ExecutionID != "" {
		n.About = n.Record.ExecutionID
	}
	return s.d.Journal.Add(ctx, n)
}

// noteConflict records that an actor could not cancel or resolve a run, and returns the
// refusal, or the error of audit.Journal.Add.
func (s *Service) noteConflict(ctx context.Context, who actor.Actor, r Run, operation string, f *fault.Error) error {
	err := s.d.Journal.Add(ctx, audit.Note{
		By: who, About: r.ID.String(), Record: recordBy(who, r, audit.RunRefused, r.State),
		Details: map[string]any{"code": f.Code, "operation": operation},
	})
	return cmp.Or(err, error(f))
}

// noteRepeat records that a call is answered from a run that another call claimed.
func (s *Service) noteRepeat(ctx context.Context, who actor.Actor, out Outcome) error {
	r := out.Run
	return s.d.Journal.Add(ctx, audit.Note{
		By: who, About: r.ID.String(),
		Record: audit.Record{
			Action: audit.RunRepeated, Provider: r.Verb.Provider, Verb: r.Verb.Verb, RiskLevel: string(r.Risk), Decision: r.Decision,
			Outcome: string(r.State), ExecutionID: r.ExecutionID, SessionID: r.SessionID,
		},
		Details: map[string]any{"args_match": len(out.ArgsDiffer) == 0},
	})
}
