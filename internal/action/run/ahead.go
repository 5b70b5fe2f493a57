package run

import (
	"context"
	"encoding/hex"
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
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/ended"
)

// A step claims its run and sends it in the same process. Where this process has read the verb, its
// credential and the policies for a call a moment ago, the step is judged by these before its claim.
// Claim and mark of sending are then one transaction. Its gate compares all three, as for a run that
// was judged after its claim. Where something has changed, where the call is not simply allowed, or
// where the step has its run already, the transaction is undone and the step takes the usual way.

// readFor names what call_target reads for calls of a verb that name no customer. credential is the
// only one that they may use, the zero id where they take the newest.
type readFor struct {
	tenant     uuid.UUID
	verb       verb.Name
	credential uuid.UUID
}

// lastRead is what call_target returned at a time.
type lastRead struct {
	read json.RawMessage
	at   time.Time
}

// readMost is the most bytes of what was read that is kept for the next step.
const readMost = 16 << 10

func readForOf(r Run) readFor {
	f := readFor{tenant: r.TenantID, verb: r.Verb}
	if only := r.credential(); only != nil {
		f.credential = *only
	}
	return f
}

// keepRead keeps what a claim has read for the next steps that make such calls. What was read for a
// customer, and what the tenant's own secrets were compared with, are of one call.
func (s *Service) keepRead(c Claimed) {
	r := c.Run
	if c.read == nil || len(c.read) > readMost || r.about().Named() != nil || len(s.d.Targets.Digests(r.key, r.Args)) > 0 {
		return
	}
	s.carried.reads.Add(readForOf(r), lastRead{read: c.read, at: s.d.Now()})
}

// planned returns the run of a claim that is fresh, before it is claimed.
func (c claimPlan) planned(now time.Time) Run {
	call := c.call
	return Run{
		ID: call.ID, TenantID: c.params.TenantID, ExecutionID: call.ExecutionID, ClaimKey: c.params.Keys[0], Attempt: 1, State: StateClaimed,
		Verb: c.verb(), Args: c.claimed.req.Args, Fingerprint: c.params.Fingerprint, Unsettled: call.Unsettled, DryRun: call.DryRun, SessionID: db.Optional(call.SessionID),
		Metadata: c.params.Metadata, Origin: call.Origin, RequestID: call.RequestID, SourceAddr: call.SourceAddr,
		GiveUpAt: call.GiveUpAt, ExpiresAt: &call.ExpiresAt, ExpiresIn: c.claimed.req.ExpiresIn, CreatedAt: now, UpdatedAt: now, key: c.key,
	}
}

// foresee judges the step before its claim. known is false where it takes the usual way.
func (s *Service) foresee(ctx context.Context, r Run) (p prepared, call Call, known bool) {
	last, has := s.carried.reads.Get(readForOf(r))
	if !has || r.DryRun || s.d.Now().Sub(last.at) > readKept || r.about().Named() != nil || len(s.d.Targets.Digests(r.key, r.Args)) > 0 {
		return p, nil, false
	}
	t, err := s.d.Targets.TargetRead(ctx, r.TenantID, r.Verb, r.account(), r.Args, last.read)
	if err != nil {
		return p, nil, false
	}
	p = prepared{run: r, target: t}
	if p.judge(ctx) != nil || p.stopped != nil || len(p.verdict.Lookups) > 0 || p.verdict.Decision != governance.Allow || p.verdict.ApprovalRequired() ||
		len(t.Check(r.Args)) > 0 || t.Connected() != nil || !t.Circuit().IsClosed() {
		return p, nil, false
	}
	call, err = t.Prepare(ctx, r.Args)
	return p, call, err == nil
}

// stepAhead claims the run of the step and marks it as sending in one transaction, then sends it.
// done is false where the step takes the usual way, and nothing was written.
func (s *Service) stepAhead(ctx context.Context, plan claimPlan, w ended.Waiter[Run], also func(*db.Batch)) (at Progress, done bool, err error) {
	p, call, known := s.foresee(ctx, plan.planned(s.d.Now()))
	if !known {
		return Progress{}, false, nil
	}
	r := p.run
	release, free := s.sends.Try(r.TenantID.String(), r.Verb.Provider)
	if !free {
		return Progress{}, false, nil
	}
	m := marked{p: p, call: call, began: time.Now(), release: release}
	committed, err := s.claimMarked(ctx, plan, &m, also)
	if !committed || err != nil {
		release()
		s.carried.reads.Remove(readForOf(r))
		return Progress{}, false, err
	}
	if claimed := plan.claimed.req.Claimed; claimed != nil {
		claimed()
	}
	step, err := s.send(ctx, r.ref(), &m)
	if err != nil {
		return Progress{}, false, err
	}
	at, err = s.after(ctx, r, step, w)
	return at, err == nil, err
}

// mark returns the mark of sending of the new run.
func (p prepared) mark() *claimedMark {
	kind, label := p.target.CredentialName()
	return &claimedMark{
		State: StateSending, Sends: 1, CredentialID: p.target.CredentialID(), CredentialType: kind, CredentialLabel: label,
		RequestHash: `\x` + hex.EncodeToString(p.requestHash()), Normalizer: db.Optional(p.target.Normalizer()), Windowed: p.isCounted(),
	}
}

// queueMarkAhead is queueMark for a run that is claimed with the mark.
func (s *Service) queueMarkAhead(b *db.Batch, p prepared) (record uuid.UUID) {
	r := p.run
	equal := p.comparedAs()
	s.queueGate(b, r, equal)
	record = s.queueLetThrough(b, p)
	read := p.target.Read()
	require := dbsqlc.RequireSendingAheadParams{
		TenantID: r.TenantID, ID: r.ID, Provider: r.Verb.Provider, PolicyVersion: p.target.PolicyVersion(), ProviderAt: read.ProviderAt,
		CredentialAt: read.CredentialAt, Covers: governance.SwitchesOver(r.Verb, r.about().AgentID), IsWrite: p.target.Operation() == verb.Write, Equal: equal,
	}
	if r.credential() == nil {
		require.Newest = p.target.CredentialID()
	}
	// The last statement: it may lock a counter of the tenant until the commit.
	db.Queue(b, s.q.RequireSendingAhead, require)
	return record
}

// claimMarked commits the claim with the mark. With false nothing was written, because something
// does not let the run pass so.
func (s *Service) claimMarked(ctx context.Context, plan claimPlan, m *marked, also func(*db.Batch)) (committed bool, err error) {
	p, r := plan.params, m.p.run
	call := plan.call
	call.claimedMark = m.p.mark()
	p.Call = string(mustJSON(call))
	p.Args = r.seal(datakey.RunArgs, r.Args)
	b := &db.Batch{}
	db.Queue(b, s.q.ClaimRun, p)
	also(b)
	record := s.queueMarkAhead(b, m.p)
	failpoint.Hit("before_sending", r.ID)
	err = s.d.DB.Send(ctx, r.TenantID, b)
	switch {
	case db.IsNotChanged(err), db.IsWindowMoved(err), db.IsRaced(err), db.IsUnsettled(err), fault.HasCode(err, fault.CodeBudgetExceeded):
		return false, nil
	case err != nil:
		// The commit may have been lost on its way back: this process knows that it has not sent.
		s.carried.notSent(r.ref(), lostMark{sends: 1, record: record})
		return false, fmt.Errorf("run: claim and mark sending: %w", err)
	}
	failpoint.Hit("after_claim", r.ID)
	m.p.run.Sends = call.Sends
	s.before.add(r.TenantID, p.Keys)
	return true, nil
}
