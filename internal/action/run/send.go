package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
)

// sendOnce makes one attempt at the provider. The row moves to sending, and that commits,
// before the first byte leaves. A step that finds the row in sending, without a recent mark, knows
// that a crash came between. It sends again only what may be repeated. It uses what Govern
// found out in this process (carry.go), otherwise it reads the row. An error means that the
// step should be repeated.
func (s *Service) sendOnce(ctx context.Context, ref flow.RunRef) (flow.Step, error) {
	p, known := s.carried.judgement(ref)
	if !known {
		// Another process judged the run, or a crash came between: it is judged here again.
		n, err := s.admit(ctx, ref)
		switch {
		case err == nil && n.step.State == StateOutcomeUnknown && !n.step.Done:
			return s.lookAgainAt(ctx, ref)
		case err != nil || n.send == nil:
			return n.step, err
		}
		p = *n.send
	}
	if m, maybe := s.carried.mayBeUnsent(p.run); maybe {
		return s.takeBack(ctx, p, m)
	}
	if again, yes := s.underWay(p.run); yes {
		return again, nil
	}
	if len(p.verdict.Lookups) > 0 && p.stopped == nil {
		// A repeat of a call that may have been sent: policies have changed since.
		return flow.Step{}, &lookupsNeededError{p}
	}
	if step, other, err := s.becameAnother(ctx, p); other || err != nil {
		return step, err
	}
	if p.stopped != nil && mayResend(p.target) {
		return s.switchedOff(p.run), nil
	}
	if step, stopped, err := s.atCircuit(ctx, p); stopped || err != nil {
		return step, err
	}
	if wait := s.pauseOf(p.run); wait > 0 {
		return flow.Step{State: p.run.State, After: wait}, nil
	}
	once := natureOf(p.target)
	call, err := p.target.Prepare(ctx, p.run.Effective())
	if f := fault.As(err); f != nil && f.Code != fault.CodeServiceUnavailable {
		return s.unprepared(ctx, p, f)
	}
	if err != nil {
		return flow.Step{}, err
	}
	began := time.Now()
	sends, before, err := s.markSending(ctx, p, once.resend)
	if f := fault.As(err); f != nil && f.Code == fault.CodeBudgetExceeded {
		return s.unprepared(ctx, p, f)
	}
	if err != nil {
		return flow.Step{}, err
	}
	if sends == 0 {
		return s.notSendable(ctx, ref)
	}
	p.run.Sends = sends
	return s.sendMarked(ctx, marked{p: p, call: call, before: before, began: began})
}

// marked is a run whose mark of sending is committed, and the call that is to be sent.
type marked struct {
	p      prepared
	call   Call
	before history
	// began is when the mark was begun.
	began time.Time
	// release gives back the place of the call; nil where the sender has it.
	release func()
}

// sendMarked sends the call and records what came of it.
func (s *Service) sendMarked(ctx context.Context, m marked) (flow.Step, error) {
	p := m.p
	alive := s.keepAlive(ctx, p.run, m.began)
	defer alive.stop()
	failpoint.Hit("after_sending", p.run.ID)
	answer := m.call.Send(ctx, providerKey(p.run), alive.mayBegin)
	defer answer.free()
	failpoint.Hit("after_response", p.run.ID)
	p.calls = s.seeCall(p, answer)
	// An answer to a write is recorded even if Postgres is away for a while, up to the
	// step's own time limit.
	st := settle(natureOf(p.target), answer, int(p.run.Sends), m.before, p.run.span(s.d.Now()))
	st.end.words = p.words(st, answer)
	st.end.trusted = p.target.Trusts(st.end.result, answer.Wrapped, st.end.state == StateExecuted && !answer.Note.HasWords())
	return s.recordAnswer(ctx, p, st)
}

// becameAnother ends a run that may have been sent, where a repeat would be another request,
// or would not be let through now. Votes are not checked again, because the call has begun.
func (s *Service) becameAnother(ctx context.Context, p prepared) (step flow.Step, other bool, err error) {
	if p.run.State != StateSending && !p.run.MaybeSent {
		return flow.Step{}, false, nil
	}
	if p.run.expired(s.d.Now()) || p.mayRepeat() != "" {
		step, err = s.giveUpUnknown(ctx, p)
		return step, true, err
	}
	if !p.run.Held {
		return flow.Step{}, false, nil
	}
	a, _, err := s.readApproval(ctx, p.run)
	if err != nil || p.rebuilt(a.Bound) == "" {
		return flow.Step{}, false, err
	}
	step, err = s.giveUpUnknown(ctx, p)
	return step, true, err
}

// unprepared ends a run whose request cannot be built. The run is refused where nothing was
// sent, and its outcome is unknown where the send had begun before a crash.
func (s *Service) unprepared(ctx context.Context, p prepared, f *fault.Error) (flow.Step, error) {
	if p.run.State == StateSending || p.run.MaybeSent {
		return s.giveUpUnknown(ctx, p)
	}
	return s.refuse(ctx, p, f)
}

// markSending is the fence's last gate, in one round trip. It returns how often the run was
// sent, this time included, and what is known of the earlier attempts. With 0 the run must
// not be sent. The error is BUDGET_EXCEEDED where a budget has no room for the call: then the run
// is as it was.
func (s *Service) markSending(ctx context.Context, p prepared, resend bool) (sends int32, before history, err error) {
	failpoint.Hit("before_sending", p.run.ID)
	r := p.run
	b := &db.Batch{}
	sent, record := s.queueMark(b, p, resend)
	err = s.d.DB.Send(ctx, r.TenantID, b)
	switch {
	case db.IsNotChanged(err), db.IsWindowMoved(err):
		return 0, history{}, nil
	case fault.HasCode(err, fault.CodeBudgetExceeded):
		return 0, history{}, err
	case err != nil:
		// The commit may have been lost on its way back: this process knows that it has not sent.
		s.carried.notSent(r.ref(), lostMark{sends: r.Sends + 1, record: record})
		return 0, history{}, fmt.Errorf("run: mark sending: %w", err)
	}
	return sent.Value[0].Sends, history{maybeSent: sent.Value[0].MaybeSent, inDoubt: sent.Value[0].InDoubt}, nil
}

// queueMark adds the move to sending, with what is written with it. The batch is undone where the
// run must not be sent. record is the id of the audit record.
func (s *Service) queueMark(b *db.Batch, p prepared, resend bool) (sent *db.Answer[[]dbsqlc.MarkSendingRow], record uuid.UUID) {
	r := p.run
	equal := p.comparedAs()
	s.queueGate(b, r, equal)
	read := p.target.Read()
	kind, label := p.target.CredentialName()
	sent = db.Queue(b, s.q.MarkSending, dbsqlc.MarkSendingParams{
		CredentialID: p.target.CredentialID(), CredentialType: kind, CredentialLabel: label, TenantID: r.TenantID, ID: r.ID, Attempt: r.Attempt, Resend: resend,
		SilentSeconds: lostAfter.Seconds(), PolicyVersion: p.target.PolicyVersion(), ApprovalID: r.ApprovalID,
		ProviderAt: read.ProviderAt, CredentialAt: read.CredentialAt, RequestHash: p.requestHash(), Normalizer: db.Optional(p.target.Normalizer()), Covers: governance.SwitchesOver(r.Verb, r.about().AgentID),
		Probe: !p.target.Circuit().IsClosed(), Windowed: p.isCounted(), Equal: equal,
	})
	record = s.queueLetThrough(b, p)
	// The last statement: it may lock a counter of the tenant until the commit.
	db.Queue(b, s.q.RequireSending, dbsqlc.RequireSendingParams{TenantID: r.TenantID, ID: r.ID, IsWrite: p.target.Operation() == verb.Write})
	return sent, record
}

// queueGate adds what waits for those who close the gate, and for an equal call; see EnterGate.
func (s *Service) queueGate(b *db.Batch, r Run, equal []byte) {
	gate := dbsqlc.EnterGateParams{TenantID: r.TenantID.String(), Provider: r.Verb.Provider, Equal: equal}
	if r.KeyID != nil {
		text := r.KeyID.String()
		gate.KeyID = &text
	}
	db.QueueExec(b, s.q.EnterGate, gate)
}

// queueLetThrough adds what is written with a mark of sending. record is the id of the audit record.
func (s *Service) queueLetThrough(b *db.Batch, p prepared) (record uuid.UUID) {
	r := p.run
	action := audit.RunAllowed
	if p.verdict.Notify {
		action = audit.RunNotified
	}
	rec := p.record(action)
	rec.ID, rec.Details = uuid.Must(uuid.NewV7()), p.letThroughBy()
	audit.Queue(b, rec)
	if p.verdict.Notify && r.Sends == 0 { // the tenant is told once, however many attempts follow
		r.emit(b, event.Notified{Call: r.eventCall(), PolicyName: r.PolicyName, Reason: r.Reason, Args: rec.Input}, r.releasedBy()...)
	}
	p.queueMatches(b)
	p.queueWindows(b)
	s.queueProbe(b, p)
	return rec.ID
}

// takeBack makes a run claimed again that this process has marked as sending and provably has
// not sent. It changes nothing where the mark is another's.
func (s *Service) takeBack(ctx context.Context, p prepared, m lostMark) (flow.Step, error) {
	r := p.run
	ours, err := s.q.HasAuditRecord(ctx, s.d.DB.Tenant(r.TenantID), dbsqlc.HasAuditRecordParams{TenantID: r.TenantID, ID: m.record})
	if err != nil {
		return flow.Step{}, fmt.Errorf("run: was the mark made: %w", err)
	}
	if !ours {
		s.carried.forget(r.ref())
		return flow.Step{State: r.State, After: lookAgain}, nil
	}
	step, err := s.recordOnce(ctx, p, settlement{again: true, after: lookAgain, harmless: true})
	if err == nil {
		s.carried.forget(p.run.ref())
	}
	return step, err
}

// lookAgain is the pause before a run is judged again, after a change between its
// judgement and its sending.
const lookAgain = 50 * time.Millisecond

// notSendable returns what follows where the gate was closed. The run has ended meanwhile, a
// crash left it in sending, its key was revoked, a kill switch covers it, its provider's circuit
// has opened, policies or approvals have changed, other calls have got into a window, or an equal write is
// not settled.
func (s *Service) notSendable(ctx context.Context, ref flow.RunRef) (flow.Step, error) {
	// This comes first, so that a repeat of this step reads everything again.
	s.carried.forgetJudgement(ref)
	p, mine, err := s.load(ctx, ref)
	if err != nil {
		return flow.Step{}, err
	}
	if m, maybe := s.carried.mayBeUnsent(p.run); mine && maybe {
		return s.takeBack(ctx, p, m)
	}
	switch {
	case !mine:
		return flow.Step{State: p.run.State, Done: true}, nil
	case p.run.State == StateSending:
		if again, yes := s.underWay(p.run); yes {
			return again, nil
		}
	}
	revoked, err := s.keyRevoked(ctx, p.run)
	if err != nil {
		return flow.Step{}, err
	}
	if revoked {
		return s.unprepared(ctx, p, fault.New(fault.CodeAPIKeyRevoked, ""))
	}
	// The clock of Postgres may be ahead of ours: until ours has caught up, the run would be
	// tried for nothing.
	late, err := s.q.RunExpired(ctx, s.d.DB.Tenant(p.run.TenantID), dbsqlc.RunExpiredParams{TenantID: p.run.TenantID, ID: p.run.ID})
	switch {
	case err != nil:
		return flow.Step{}, fmt.Errorf("run: is the run expired: %w", err)
	case late && (p.run.State == StateSending || p.run.State == StateClaimed):
		return s.expire(ctx, p)
	}
	if f, err := s.equalOf(ctx, p); err != nil {
		return flow.Step{}, err
	} else if f != nil {
		return s.refuse(ctx, p, f)
	}
	if p.run.State == StateSending || p.run.MaybeSent {
		if (p.stopped != nil || !p.target.Circuit().IsClosed()) && mayResend(p.target) {
			// The next step looks at everything else that a repeat depends on.
			return flow.Step{State: p.run.State, After: lookAgain}, nil
		}
		if p.run.Held || p.run.GrantID != nil || p.run.expired(s.d.Now()) || p.mayRepeat() != "" || !mayResend(p.target) {
			return s.giveUpUnknown(ctx, p)
		}
		return flow.Step{State: p.run.State, After: lookAgain}, nil
	}
	step, err := s.Govern(ctx, ref)
	if !step.Done && step.State == StateClaimed {
		step.After = max(step.After, lookAgain)
	}
	return step, err
}

func (s *Service) keyRevoked(ctx context.Context, r Run) (bool, error) {
	if r.KeyID == nil {
		return false, nil
	}
	revoked, err := s.q.KeyRevoked(ctx, s.d.DB.Tenant(r.TenantID), dbsqlc.KeyRevokedParams{TenantID: r.TenantID, KeyID: *r.KeyID})
	if err != nil {
		return false, fmt.Errorf("run: is the key revoked: %w", err)
	}
	return revoked, nil
}

// giveUpUnknown ends a run that was sent before a crash and may not be sent again.
func (s *Service) giveUpUnknown(ctx context.Context, p prepared) (flow.Step, error) {
	code, message := unknownOutcome()
	return s.finish(ctx, p, ending{state: StateOutcomeUnknown, code: code, message: message, lost: true}, audit.RunOutcomeUnknown)
}

// recordEvery is the pause between attempts to record an answer while Postgres is away.
const recordEvery = 250 * time.Millisecond

// recordAnswer commits what follows from the answer. It tries again until that succeeds or
// the step's time is over.
func (s *Service) recordAnswer(ctx context.Context, p prepared, st settlement) (flow.Step, error) {
	failpoint.Hit("before_record", p.run.ID)
	for {
		step, err := s.recordOnce(ctx, p, st)
		if err == nil {
			failpoint.Hit("after_record", p.run.ID)
			return step, nil
		}
		s.d.Log.WarnContext(ctx, "recording a provider's answer failed, trying again", "run_id", p.run.ID, "error", err)
		select {
		case <-ctx.Done():
			return flow.Step{}, err
		case <-time.After(recordEvery):
		}
	}
}

func (s *Service) recordOnce(ctx context.Context, p prepared, st settlement) (flow.Step, error) {
	if !st.again {
		return s.finish(ctx, p, st.end, endedAction(st.end.state))
	}
	r := p.run
	maybeSent := !st.harmless && p.target.Operation() == verb.Write
	b := &db.Batch{}
	db.Queue(b, s.q.BackToClaimed, dbsqlc.BackToClaimedParams{TenantID: r.TenantID, ID: r.ID, Attempt: r.Attempt, Sends: r.Sends, MaybeSent: maybeSent, InDoubt: maybeSent && st.lost, PauseMs: st.after.Milliseconds()})
	s.requireChanged(b, r)
	p.note(b, audit.RunRetried, string(StateClaimed), mustJSON(map[string]any{"may_have_had_effect": maybeSent, "again_after_ms": st.after.Milliseconds()}))
	s.queueCalls(b, p.calls)
	if st.harmless {
		p.queueReturn(b)
	}
	err := s.d.DB.Send(ctx, r.TenantID, b)
	switch {
	case db.IsNotChanged(err):
		// It was changed before, and the answer to that was lost, or the run has ended.
		step, err := s.movedOn(ctx, r.ref())
		if step.State == StateClaimed && !step.Done {
			step.After = max(step.After, st.after)
		}
		return step, err
	case err != nil:
		return flow.Step{}, fmt.Errorf("run: back to claimed: %w", err)
	}
	s.recorded(ctx, p.calls)
	// The next attempt reads and judges the call again: much may change until then.
	s.carried.forget(r.ref())
	return flow.Step{State: StateClaimed, After: st.after}, nil
}

// queueReturn gives back what the attempt has taken of budgets: it provably had no effect.
func (p prepared) queueReturn(b *db.Batch) {
	if p.target.Operation() == verb.Write {
		db.Queue(b, dbsqlc.New().ReturnWriteCall, dbsqlc.ReturnWriteCallParams{TenantID: p.run.TenantID, ID: p.run.ID})
	}
}

// providerKey returns the idempotency key that the provider gets. It is the same in all
// attempts of the run, and callers do not know it.
func providerKey(r Run) string {
	sum := sha256.Sum256([]byte("agentruntime run " + r.TenantID.String() + " " + r.ID.String()))
	return "ark-" + hex.EncodeToString(sum[:16])
}
