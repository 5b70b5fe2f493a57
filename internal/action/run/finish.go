package run

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/providererror"
	"agentruntime/internal/provider/resultnote"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/resultfile"
)

func isMissing(err error) bool { return db.IsNoRows(err) }

// ending is how a run ends.
type ending struct {
	state   State
	result  json.RawMessage
	note    resultnote.Note // what is kept beside the result
	file    *uuid.UUID      // the file that the result names
	status  int             // the provider's
	code    fault.Code
	message string
	// words are what the provider said with an answer that is no result; nil where it said nothing.
	words      *providererror.Error
	details    []fault.Detail
	retryable  bool
	retryAfter time.Duration
	approvalID *string
	// fromSending: a refusal of a call that had moved to sending and had no effect.
	fromSending bool
	// resolved: the outcome was unknown before.
	resolved bool
	// trusted: what came back has no words of others than the tenant.
	trusted bool
	// lost: nothing was heard of the call. It counts as lost only after lostAfter.
	lost bool
}

// endsFrom returns the states from which a run may end so; see moves. A late answer to a
// call still settles an outcome that a crash had left unknown.
func endsFrom(e ending) []string {
	if e.fromSending {
		return []string{string(StateSending)}
	}
	switch e.state {
	case StateExecuted, StateFailed:
		return []string{string(StateSending), string(StateOutcomeUnknown)}
	case StateOutcomeUnknown:
		return []string{string(StateSending), string(StateClaimed)}
	default:
		return []string{string(StateClaimed)}
	}
}

// finish commits the end of the run, its audit record and more in one transaction and round
// trip, then tells those who wait. It does not change a row that another attempt or a person
// ended meanwhile.
func (s *Service) finish(ctx context.Context, p prepared, e ending, action audit.Action, more ...func(*db.Batch)) (flow.Step, error) {
	b := &db.Batch{}
	changed := db.Queue(b, s.q.FinishRun, finishParams(p.run, e))
	s.requireChanged(b, p.run)
	if e.file != nil {
		resultfile.QueueKeep(b, p.run.TenantID, *e.file, p.run.ID)
	}
	for _, queue := range more {
		queue(b)
	}
	p.note(b, action, string(e.state), p.endDetails(e))
	p.emitEnd(b, e, s.d.Now())
	s.queueCalls(b, p.calls)
	if e.fromSending {
		p.queueReturn(b)
	}
	done, found, err := s.apply(ctx, p.run, b, changed)
	if err != nil {
		return flow.Step{}, err
	}
	s.carried.forget(p.run.ref())
	if !found {
		return s.movedOn(ctx, p.run.ref())
	}
	s.recorded(ctx, p.calls)
	step := flow.Step{State: done.State, Done: true}
	if done.State == StateOutcomeUnknown {
		// Those who wait hear the outcome of the first look, if it proves one.
		p.run = done
		next, proven, err := s.look(ctx, p)
		if proven {
			return next, nil
		}
		step = next
		if err != nil {
			// The look may have proved the effect, and could not record it: there is another.
			step = flow.Step{State: done.State, After: aliveEvery}
		}
	}
	s.ended(done)
	return step, nil
}

func finishParams(r Run, e ending) dbsqlc.FinishRunParams {
	p := dbsqlc.FinishRunParams{
		State: string(e.state), Trusted: e.trusted, ProviderStatus: int32(e.status), ErrorCode: string(e.code), ErrorMessage: e.message,
		Retryable: e.retryable, RetryAfterMs: e.retryAfter.Milliseconds(), ApprovalID: e.approvalID,
		Result:    r.sealOptional(datakey.RunResult, e.result),
		RiskLevel: string(r.Risk), OperationType: string(r.Operation), Decision: r.Decision, PolicyName: r.PolicyName,
		Reason: r.Reason, TenantID: r.TenantID, ID: r.ID, Attempt: r.Attempt, Sends: r.Sends, FromStates: endsFrom(e),
	}
	if !e.note.Empty() {
		p.ResultNote = r.sealOptional(datakey.RunResultNote, mustJSON(e.note))
	}
	if e.words != nil {
		p.ProviderError = r.sealOptional(datakey.RunProviderError, mustJSON(e.words))
	}
	if e.lost {
		p.SilentSeconds = lostAfter.Seconds()
	}
	if p.ApprovalID == nil {
		p.ApprovalID = r.ApprovalID // an approver released the run
	}
	if len(e.details) > 0 {
		p.ErrorDetails = mustJSON(e.details)
	}
	return p
}

// block ends the run as blocked, with a closed approval record that says why.
func (s *Service) block(ctx context.Context, p prepared) (flow.Step, error) {
	id := approval.NewID()
	p.run.Decision = string(governance.Block)
	record := p.approval(id, governance.ApprovalOfBlock)
	e := ending{state: StateBlocked, code: fault.CodeGovernanceBlocked, message: p.verdict.Reason, approvalID: &id}
	return s.finish(ctx, p, e, audit.RunBlocked, func(b *db.Batch) { approval.RecordBlock(b, record) }, p.queueMatches)
}

// refuse ends the run before anything was sent; its id may be used again.
func (s *Service) refuse(ctx context.Context, p prepared, f *fault.Error) (flow.Step, error) {
	return s.finish(ctx, p, ending{
		state: StateRefused, code: f.Code, message: f.Message, details: f.Details, retryable: f.Retryable, retryAfter: f.RetryAfter,
	}, audit.RunRefused)
}

// requireChanged makes the batch fail, and so undoes it, where it did not change the run.
func (s *Service) requireChanged(b *db.Batch, r Run) {
	db.Queue(b, s.q.RequireRunChanged, dbsqlc.RequireRunChangedParams{TenantID: r.TenantID, ID: r.ID})
}

// apply sends a batch that requires the run to change. Where the row was not in a state for
// it, nothing is changed and found is false.
func (s *Service) apply(ctx context.Context, r Run, b *db.Batch, changed *db.Answer[[]dbsqlc.Run]) (done Run, found bool, err error) {
	err = s.d.DB.Send(ctx, r.TenantID, b)
	switch {
	case db.IsNotChanged(err):
		return Run{}, false, nil
	case err != nil:
		return Run{}, false, fmt.Errorf("run: change: %w", err)
	}
	done, found = oneOf(r.key, changed.Value)
	return done, found, nil
}

// movedOn returns the step of a run that another process or a person changed first. A run
// that has ended is done. Any other run continues, and the send step looks at its new state:
// if the workflow ended here, nothing would wait for the run's approval.
func (s *Service) movedOn(ctx context.Context, ref flow.RunRef) (flow.Step, error) {
	s.carried.forget(ref)
	r, err := s.glance(ctx, ref.TenantID, ref.RunID)
	if err != nil {
		return flow.Step{}, err
	}
	waits := r.State == StateIntercepted && r.ApprovalID != nil
	if r.Attempt != ref.Attempt || r.State.Ended() && !waits {
		return flow.Step{State: r.State, Done: true}, nil
	}
	if r.State == StateSending {
		return flow.Step{State: r.State, After: aliveEvery}, nil
	}
	return flow.Step{State: r.State, After: lookAgain}, nil
}

// mustJSON encodes values of this package's own types, which always encode.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// mayResend reports whether a call of the verb that may have been sent already can
// be sent again without a second effect. failpoint.FenceOff is false, except in the build
// that shows what the crash rig finds.
func mayResend(t Target) bool {
	return failpoint.FenceOff || t.Operation() == verb.Read || t.Idempotency() == verb.IdempotencyIntrinsic || t.Idempotency().Header() != ""
}

// unknownOutcome is the fault of a write that was sent and not answered.
func unknownOutcome() (fault.Code, string) {
	return fault.CodeOutcomeUnknown, "The call was sent and the provider's answer was lost: it may or may not have taken effect. " + howToSettle
}

const howToSettle = "It is not sent again under this id. Look at the provider, then settle it with POST /v1/executions/{id}/resolve."
