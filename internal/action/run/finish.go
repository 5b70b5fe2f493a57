package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/verb"
	"agentruntime/internal/record/audit"
)

// errNotOurs rolls the batch back: the row was not in a state to be ended by this
// attempt, so its audit record must not be written either.
var errNotOurs = errors.New("run: the row belongs to another attempt")

func isNotOurs(err error) bool { return errors.Is(err, errNotOurs) }

func isMissing(err error) bool { return db.IsNoRows(err) }

// endsFrom lists the states that a run may be ended from. A call that was sent and
// answered late still settles what a crash had left unknown.
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

func finishParams(r Run, e ending) dbsqlc.FinishRunParams {
	p := dbsqlc.FinishRunParams{
		State: string(e.state), ProviderStatus: int32(e.status), ErrorCode: string(e.code), ErrorMessage: e.message,
		Retryable: e.retryable, RetryAfterMs: e.retryAfter.Milliseconds(), ApprovalID: e.approvalID,
		RiskLevel: string(r.Risk), OperationType: string(r.Operation), Decision: r.Decision, PolicyName: r.PolicyName,
		Reason: r.Reason, TenantID: r.TenantID, ID: r.ID, Attempt: r.Attempt, FromStates: endsFrom(e),
	}
	if p.ApprovalID == nil {
		p.ApprovalID = r.ApprovalID // of a run that a human released
	}
	if e.result != nil {
		text := string(e.result)
		p.Result = &text
	}
	if len(e.details) > 0 {
		p.ErrorDetails = mustJSON(e.details)
	}
	return p
}

// apply sends a batch whose first statement returns the changed run; found is false,
// and nothing is changed, where the row was not in a state for it.
func (s *Service) apply(ctx context.Context, r Run, b *pgx.Batch) (done Run, found bool, err error) {
	err = s.DB.Batch(ctx, r.TenantID, b, func(res pgx.BatchResults) error {
		var err error
		if done, found, err = oneRow(res); err != nil {
			return err
		}
		if !found {
			return errNotOurs
		}
		return nil
	})
	if err != nil && !isNotOurs(err) {
		return Run{}, false, fmt.Errorf("run: change: %w", err)
	}
	return done, found, nil
}

// record starts an audit record about the run.
func (p prepared) record(action audit.Action) audit.Record {
	r := p.run
	rec := audit.Record{
		TenantID: r.TenantID, ActorType: actor.Workflow, ActorID: r.ID.String(), Action: action,
		Provider: r.Verb.Provider, Verb: r.Verb.Verb, RiskLevel: string(r.Risk), Decision: r.Decision,
		ExecutionID: r.ExecutionID, SessionID: r.SessionID, RequestID: r.RequestID, SourceAddr: r.SourceAddr,
	}
	if r.KeyID != nil {
		rec.ActorType, rec.ActorID = actor.Key, r.KeyID.String()
	}
	if p.target != nil {
		rec.Input = p.target.Mask(r.Effective())
	}
	return rec
}

// auditDetails says how a run ended, without the provider's answer.
func auditDetails(e ending) json.RawMessage {
	d := map[string]any{}
	if e.code != "" {
		d["code"], d["message"] = e.code, e.message
	}
	if e.status != 0 {
		d["provider_status"] = e.status
	}
	if e.approvalID != nil {
		d["approval_id"] = *e.approvalID
	}
	return mustJSON(d)
}

// mustJSON encodes values of this package's own types, which cannot fail.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// mayResend reports whether a call of the verb that may have been sent already can
// be sent again without a second effect.
func mayResend(t Target) bool {
	return t.Operation() == verb.Read || t.Idempotency() == verb.IdempotencyIntrinsic || t.Idempotency().Header() != ""
}

// unknownOutcome is the fault of a write that was sent and not answered.
func unknownOutcome() (fault.Code, string) {
	return fault.CodeOutcomeUnknown, "The call was sent and the provider's answer was lost: it may or may not have taken effect. " +
		"It is not sent again under this id. Look at the provider, then settle it with POST /v1/executions/{id}/resolve."
}
