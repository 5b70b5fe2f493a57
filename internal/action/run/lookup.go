package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/audit"
)

// A policy may need a read at a provider before it can judge a call: a look-up. It may take
// seconds, so it is made where attempts are made, apart from the steps (underway.go). The row keeps
// the answers, as far as conditions ask about them, so that no attempt looks up twice. ReleaseRun
// drops them: after a hold the call is judged by what is true at its dispatch. So does each end.

const (
	// lookupLimit bounds one look-up, from its first byte on.
	lookupLimit = 5 * time.Second
	// lookupsAtOnce is how many look-ups of one run are made at once.
	lookupsAtOnce = 3
	// lookupRounds is how often a run may be judged again because of look-ups. Each round answers one
	// of each policy, so more than three follow changes of policies only.
	lookupRounds = 8
)

// lookupsNeededError says that a claimed run cannot be judged before its look-ups are made.
type lookupsNeededError struct{ prepared }

func (*lookupsNeededError) Error() string { return "run: look-ups are needed" }

// lookups returns what the error asks for, nil where it is another one.
func lookups(err error) *lookupsNeededError {
	var n *lookupsNeededError
	errors.As(err, &n)
	return n
}

// needsLookups reports whether the run waits for look-ups now. A kill switch stops it without them.
func (p prepared) needsLookups() bool {
	return len(p.verdict.Lookups) > 0 && p.stopped == nil && p.run.State == StateClaimed
}

// lookedUp is what came of one look-up.
type lookedUp struct {
	answer governance.Answer
	rec    audit.Record
	calls  *callReport
}

// lookUp makes the look-ups of a run and keeps their answers in its row. Done is set in the step where
// the run has ended instead.
func (s *Service) lookUp(ctx context.Context, n *lookupsNeededError) (flow.Step, error) {
	revoked, err := s.keyRevoked(ctx, n.run)
	if err != nil {
		return flow.Step{}, err
	}
	if revoked {
		return s.unprepared(ctx, n.prepared, fault.New(fault.CodeAPIKeyRevoked, ""))
	}
	calls := n.verdict.Lookups
	made, errs := make([]lookedUp, len(calls)), make([]error, len(calls))
	places := make(chan struct{}, lookupsAtOnce)
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			made[i], errs[i] = s.lookUpOne(ctx, n.prepared, call)
		})
	}
	wg.Wait()
	// Those that have an answer are kept, so that a repeat of the step makes the others only.
	answers := map[string]lookedUp{}
	for i, call := range calls {
		if errs[i] == nil {
			answers[call.Key] = made[i]
		}
	}
	var unkept error
	if len(answers) > 0 {
		unkept = s.keepAnswers(ctx, n, answers)
	}
	return flow.Step{}, errors.Join(errors.Join(errs...), unkept)
}

// lookUpOne makes one look-up, in the name of the run. What goes wrong at the provider is an answer.
func (s *Service) lookUpOne(ctx context.Context, p prepared, l governance.LookupCall) (lookedUp, error) {
	t, err := s.d.Targets.Target(ctx, p.run.TenantID, l.Verb, p.run.lookupAccount(l.Verb), l.Args)
	if fault.HasCode(err, fault.CodeVerbNotFound) {
		return p.lookedUp(l, nil, governance.Answer{Failure: governance.LookupNoVerb}), nil
	}
	if err != nil {
		return lookedUp{}, fmt.Errorf("run: look up %s: %w", l.Verb, err)
	}
	why, err := s.mayLookUp(ctx, p.run, t, l)
	if err != nil || why != "" {
		return p.lookedUp(l, t, governance.Answer{Failure: why}), err
	}
	release, err := s.lookupShare(p.run, l.Verb.Provider) //nolint:contextcheck // waiting ends with the process, not with the step
	if err != nil {
		return lookedUp{}, err
	}
	defer release()
	return s.callLookup(ctx, p, t, l)
}

// lookupAccount is account for a call of the verb. A credential that a Map names is one of the run's
// own provider.
func (r Run) lookupAccount(name verb.Name) Account {
	by := r.account()
	if name.Provider != r.Verb.Provider {
		by.Credential = nil
	}
	return by
}

// mayLookUp returns why the look-up is not made, "" where it may be.
func (s *Service) mayLookUp(ctx context.Context, r Run, t Target, l governance.LookupCall) (governance.LookupFailure, error) {
	switch {
	case t.Operation() != verb.Read, t.Risk() != verb.RiskLow && t.Risk() != verb.RiskMedium:
		return governance.LookupNoRead, nil
	case t.Quarantined():
		return governance.LookupQuarantined, nil
	case len(t.Check(l.Args)) > 0:
		return governance.LookupArgs, nil
	case t.Connected() != nil:
		return governance.LookupNotConnected, nil //nolint:nilerr // that it is not connected is the result
	}
	// It sees each kill switch whose caller has an answer, and the circuit.
	stopped, err := s.isStopped(ctx, r, l.Verb)
	if stopped {
		return governance.LookupStopped, err
	}
	return "", err
}

// lookupShare waits for a place of the run's tenant at the provider, as an attempt does.
func (s *Service) lookupShare(r Run, provider string) (release func(), err error) {
	if release, free := s.sends.Try(r.TenantID.String(), provider); free {
		return release, nil
	}
	waiting, stop := s.turnOf(r)
	defer stop()
	release, err = s.sends.Take(waiting, r.TenantID.String(), provider)
	if err != nil {
		return nil, fmt.Errorf("run: a place for a look-up: %w", err)
	}
	return release, nil
}

// callLookup makes the one attempt of a look-up.
func (s *Service) callLookup(ctx context.Context, p prepared, t Target, l governance.LookupCall) (lookedUp, error) {
	limited, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	failed := func(why governance.LookupFailure) lookedUp { return p.lookedUp(l, t, governance.Answer{Failure: why}) }
	call, err := t.Prepare(limited, l.Args)
	switch f := fault.As(err); {
	case err == nil:
	case fault.HasCode(err, fault.CodeInvalidArgs):
		return failed(governance.LookupArgs), nil
	case f != nil && f.Code != fault.CodeServiceUnavailable:
		return failed(governance.LookupNotConnected), nil
	case f != nil:
		return failed(governance.LookupFailed), nil
	case limited.Err() != nil:
		return failed(governance.LookupTimeout), nil
	default:
		return lookedUp{}, fmt.Errorf("run: look up %s: %w", l.Verb, err)
	}
	failpoint.Hit("before_lookup", p.run.ID)
	a := call.Look(limited)
	defer a.free()
	failpoint.Hit("after_lookup", p.run.ID)
	if a.Result == nil && limited.Err() != nil {
		a.Timeout = true // its time was over, and not that of the verb
	}
	out := p.lookedUp(l, t, answerOf(l, a))
	of := prepared{run: p.run, target: t}
	of.run.Verb, of.run.Sends = l.Verb, 1
	out.calls = s.seeCall(of, a)
	return out, nil
}

// answerOf returns what the provider's answer comes to.
func answerOf(l governance.LookupCall, a Answer) governance.Answer {
	switch {
	case a.Timeout:
		return governance.Answer{Failure: governance.LookupTimeout}
	case a.Phase == attempt.Answered && a.Status >= http.StatusBadRequest && a.Status < http.StatusInternalServerError, a.Denied:
		return governance.Answer{Failure: governance.LookupRefused}
	case a.Phase == attempt.Answered && a.Status >= http.StatusOK && a.Status < http.StatusMultipleChoices && a.Result != nil:
		return l.Answered(a.Result)
	}
	return governance.Answer{Failure: governance.LookupFailed}
}

// lookedUp returns the outcome with its audit record, which contains no values.
func (p prepared) lookedUp(l governance.LookupCall, t Target, a governance.Answer) lookedUp {
	rec := p.record(audit.RunLookedUp)
	rec.Provider, rec.Verb, rec.RiskLevel, rec.Decision, rec.Input = l.Verb.Provider, l.Verb.Verb, "", "", nil
	if t != nil {
		rec.RiskLevel = string(t.Risk())
	}
	rec.Outcome = "answered"
	if a.Failure != "" {
		rec.Outcome = string(a.Failure)
	}
	rec.Details = mustJSON(map[string]any{"call": p.run.Verb.String(), "for": l.For})
	return lookedUp{answer: a, rec: rec}
}

// keepAnswers commits the answers, by the keys of their look-ups, with their audit records and what was
// seen of the providers.
func (s *Service) keepAnswers(ctx context.Context, n *lookupsNeededError, made map[string]lookedUp) error {
	r := n.run
	r.lookups = maps.Clone(r.lookups)
	if r.lookups == nil {
		r.lookups = map[string]governance.Answer{}
	}
	b := &db.Batch{}
	for key, one := range made {
		r.lookups[key] = one.answer
		audit.Queue(b, one.rec)
	}
	kept := db.Queue(b, s.q.KeepLookups, dbsqlc.KeepLookupsParams{
		TenantID: r.TenantID, ID: r.ID, Attempt: r.Attempt, Lookups: r.sealOptional(datakey.RunLookups, mustJSON(r.lookups)),
	})
	for _, one := range made {
		s.queueCalls(b, one.calls)
	}
	failpoint.Hit("before_lookup_kept", r.ID)
	if err := s.d.DB.Send(ctx, r.TenantID, b); err != nil {
		return fmt.Errorf("run: keep the answers of look-ups: %w", err)
	}
	failpoint.Hit("after_lookup_kept", r.ID)
	for _, one := range made {
		s.recorded(ctx, one.calls)
	}
	s.carried.forget(r.ref())
	if kept.Value > 0 { // otherwise the run has moved on, and its row is read
		n.read.run = r
		s.carried.addClaim(n.read)
	}
	return nil
}

// openLookups reads the answers that a row has. Without what does not open, they are looked up again.
func (r *Run) openLookups(stored *string) {
	text, err := r.open(datakey.RunLookups, stored)
	if err != nil || text == nil {
		return
	}
	if json.Unmarshal(text, &r.lookups) != nil {
		r.lookups = nil // not a part of them
	}
}

// weight returns the bytes of what is carried of a run.
func (r Run) weight() int {
	n := len(r.Args)
	for _, a := range r.lookups {
		n += len(a.Value)
	}
	return n
}
