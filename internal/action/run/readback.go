package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/audit"
)

// A write whose outcome is unknown may be proven by a read that its verb declares. The row is
// outcome_unknown from the beginning and stays so until a look at the provider proves the
// effect. So a crash loses nothing, and a step that is repeated looks once more. A look that
// proves nothing changes nothing: the effect may come later.

// readBackLimit bounds one look.
const readBackLimit = 5 * time.Second

// nextLook returns how long to wait for the next look at the provider. more is false where
// there is none. since is the time since the outcome became unknown. The first look is made
// at once. Most providers show an effect within seconds, and the last look is for one that
// was still at work on the call.
func nextLook(since time.Duration) (wait time.Duration, more bool) {
	for _, at := range []time.Duration{2 * time.Second, 10 * time.Second, time.Minute} {
		if since < at {
			return at - since, true
		}
	}
	return 0, false
}

// endedStep returns the step of a run that has ended. Where its outcome is unknown and its verb
// declares a read-back, the send step looks at the provider.
func (s *Service) endedStep(ctx context.Context, r Run, ref flow.RunRef) (flow.Step, error) {
	step := flow.Step{State: r.State, Done: true}
	if r.State != StateOutcomeUnknown || r.Attempt != ref.Attempt {
		return step, nil
	}
	t, err := s.d.Targets.Target(ctx, r.TenantID, r.Verb, r.account(), r.Effective())
	if err != nil {
		return step, unlessFault(err)
	}
	step.Done = t.ReadBack() == nil
	return step, nil
}

// unlessFault returns nil for a refusal, and any other error as it is.
func unlessFault(err error) error {
	if f := fault.As(err); f != nil && f.Code != fault.CodeServiceUnavailable {
		return nil
	}
	return err
}

// lookAgainAt makes another look for a run whose outcome is unknown, and returns what follows.
func (s *Service) lookAgainAt(ctx context.Context, ref flow.RunRef) (flow.Step, error) {
	r, err := s.get(ctx, ref.TenantID, ref.RunID)
	if err != nil {
		return flow.Step{}, err
	}
	if r.State != StateOutcomeUnknown || r.Attempt != ref.Attempt {
		return flow.Step{State: r.State, Done: true}, nil
	}
	t, err := s.d.Targets.Target(ctx, r.TenantID, r.Verb, r.account(), r.Effective())
	if err != nil {
		return flow.Step{State: r.State, Done: true}, unlessFault(err)
	}
	step, _, err := s.look(ctx, prepared{run: r, target: t})
	return step, err
}

// look asks the provider whether the write took effect, where its verb declares how. It
// returns the step that follows, and whether the run is executed now.
func (s *Service) look(ctx context.Context, p prepared) (step flow.Step, proven bool, err error) {
	over := flow.Step{State: p.run.State, Done: true}
	if p.target == nil || p.target.ReadBack() == nil {
		return over, false, nil
	}
	result, trusted, err := s.readBack(ctx, p)
	if err != nil {
		s.d.Log.WarnContext(ctx, "a read-back failed", "run_id", p.run.ID, "error", err)
	}
	if result != nil {
		done, found, err := s.proven(ctx, p, result, trusted)
		if err != nil || !found {
			return over, false, err
		}
		s.ended(done)
		return flow.Step{State: done.State, Done: true}, true, nil
	}
	if wait, more := nextLook(s.d.Now().Sub(p.run.UpdatedAt)); more {
		return flow.Step{State: p.run.State, After: wait}, false, nil
	}
	return over, false, nil
}

// Probe looks at what a run is about, by the read-back of its verb. args replace those of the run;
// nil leaves them. A read that fails is a look too: the error is one of ours.
func (s *Service) Probe(ctx context.Context, ref flow.RunRef, args json.RawMessage) (look verb.Look, err error) {
	r, err := s.get(ctx, ref.TenantID, ref.RunID)
	if err != nil {
		return look, err
	}
	t, err := s.d.Targets.Target(ctx, r.TenantID, r.Verb, r.account(), r.Effective())
	if err != nil {
		look.Declared, look.State = true, verb.LookNotRead // for all that is known
		return look, unlessFault(err)
	}
	if t.ReadBack() == nil {
		return look, nil
	}
	look.Declared = true
	own, lacks := t.ReadBack().Resolve(r.Effective())
	declared := own
	if args != nil {
		if args, err = s.d.Targets.Named(ctx, r.TenantID, r.Verb, args); err != nil && unlessFault(err) != nil {
			return look, err
		}
		declared, lacks = t.ReadBack().Resolve(args)
		look.Elsewhere = lacks != nil || !bytes.Equal(own.Args, declared.Args)
	}
	if lacks != nil {
		return look, nil //nolint:nilerr // such a call is not looked up
	}
	look.Of = r.Verb.Provider + ":" + declared.Verb + " " + string(declared.Args)
	if look.State, look.Value, _, err = s.probe(ctx, r, declared); look.State == verb.LookNotRead {
		s.d.Log.WarnContext(ctx, "a probe could not read", "run_id", r.ID, "verb", r.Verb.Provider+":"+declared.Verb, "error", err)
	}
	return look, nil
}

// readBack makes the declared read, and returns its result where that proves the effect, otherwise nil.
// trusted: it has no words of others than the tenant, as results of the verb that reads.
func (s *Service) readBack(ctx context.Context, p prepared) (found []byte, trusted bool, err error) {
	declared, err := p.target.ReadBack().Resolve(p.run.Effective())
	if err != nil {
		return nil, false, fmt.Errorf("run: read-back: %w", err)
	}
	state, found, trusted, err := s.probe(ctx, p.run, declared)
	if state != verb.LookFound || !declared.Match.Matches(found) {
		return nil, false, err
	}
	return found, trusted, nil
}

// probe makes the declared read, with the credential of a call of that verb. The read is not made
// where the tenant's policies would not let it through at once, where a kill switch covers it, where
// the provider's circuit is not closed, or where the caller's key was revoked. found is nil where
// the state is not LookFound; trusted: it has no words of others than the tenant. An error comes with
// LookNotRead.
func (s *Service) probe(ctx context.Context, r Run, declared verb.ReadBack) (state verb.LookState, found []byte, trusted bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readBackLimit)
	defer cancel()
	revoked, err := s.keyRevoked(ctx, r)
	if err != nil || revoked {
		return verb.LookNotRead, nil, false, err
	}
	name := verb.Name{Provider: r.Verb.Provider, Verb: declared.Verb}
	t, err := s.d.Targets.Target(ctx, r.TenantID, name, r.account(), declared.Args)
	if err != nil {
		return verb.LookNotRead, nil, false, err
	}
	verdict, err := t.Judge(ctx, declared.Args, r.about())
	switch {
	case err != nil:
		return verb.LookNotRead, nil, false, err
	case t.Operation() != verb.Read, verdict.Decision != governance.Allow:
		return verb.LookNotRead, nil, false, nil
	case len(t.Check(declared.Args)) > 0:
		return verb.LookNotRead, nil, false, fault.New(fault.CodeInvalidArgs, "")
	}
	call, err := t.Prepare(ctx, declared.Args)
	if err != nil {
		return verb.LookNotRead, nil, false, err
	}
	if stopped, err := s.isStopped(ctx, r, name); err != nil || stopped {
		return verb.LookNotRead, nil, false, err
	}
	a := call.Look(ctx)
	defer a.free()
	switch {
	case a.Phase != attempt.Answered:
	case a.Status >= 200 && a.Status < 300 && a.Result != nil && !a.Denied:
		return verb.LookFound, a.Result, t.Trusts(a.Result, a.Wrapped, true), nil
	case a.Status == http.StatusNotFound, a.Status == http.StatusGone:
		return verb.LookNotFound, nil, false, nil
	}
	return verb.LookNotRead, nil, false, nil
}

// proven commits that the run was executed. found is false where a person or a late answer
// settled it first.
func (s *Service) proven(ctx context.Context, p prepared, result []byte, trusted bool) (done Run, found bool, err error) {
	b := &db.Batch{}
	read := p.run.Verb.Provider + ":" + p.target.ReadBack().Verb
	changed := db.Queue(b, s.q.ResolveRun, dbsqlc.ResolveRunParams{
		TenantID: p.run.TenantID, ID: p.run.ID, State: string(StateExecuted), Result: p.run.sealOptional(datakey.RunResult, result), Trusted: &trusted,
		ResolveReason: "The read-back " + read + " found that it took effect.",
	})
	s.requireChanged(b, p.run)
	rec := p.record(audit.RunResolved)
	rec.ActorType, rec.ActorID, rec.Outcome = actor.System, "", string(StateExecuted)
	rec.Details = mustJSON(map[string]string{"resolved_by": "read_back", "verb": read})
	audit.Queue(b, rec)
	p.emitEnd(b, ending{state: StateExecuted, result: result, resolved: true}, s.d.Now())
	return s.apply(ctx, p.run, b, changed)
}
