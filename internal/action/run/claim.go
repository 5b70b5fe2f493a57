package run

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/audit"
)

// Request asks for one run.
type Request struct {
	Verb string
	Args json.RawMessage
	// Origin of a step of an agent or a Map; the zero Origin for a call over HTTP, whose
	// origin is the actor.
	Origin Origin
	// ExecutionID and IdempotencyKey are the caller's; either may be empty. A step has
	// the key that StepKey makes, and neither of these.
	ExecutionID    string
	IdempotencyKey string
	// KeyByHeader: IdempotencyKey came by the Idempotency-Key header. A repeat of it with
	// other arguments is refused.
	KeyByHeader bool
	// StepKey is the fence key of a step, see StepKey; "" for a call over HTTP.
	StepKey   string
	SessionID string
	Metadata  json.RawMessage
	DryRun    bool
	// Wait is how long to wait for the run's end, at most Config.MaxWait; nil means
	// Config.DefaultWait.
	Wait *time.Duration
	// ExpiresIn is how long the run may be sent, in whole seconds, at most MaxExpiresIn; nil
	// means 15 minutes.
	ExpiresIn *time.Duration
	// Since is when the attempt began that the step is of; zero for the first one. A run that an
	// earlier attempt has claimed, with other arguments, refuses the call: it is not what the step asks.
	// Within one attempt a step asks the same again only where its process died.
	Since time.Time
	// Unsettled says with which writes of unknown outcome the call is compared; "" for none. Where one of
	// them is equal, the call is not made.
	Unsettled Unsettled
	// Claimed is called when the run of a step is claimed; nil where nobody asks.
	Claimed func()
}

// Outcome is the answer to a request: the run, and how this call relates to it.
type Outcome struct {
	Run Run
	// Cached: an earlier call claimed the run, and this one only reads it.
	Cached bool
	// ArgsDiffer has the JSON Pointers where the arguments of this call differ from those of
	// the run, at most ten; nil where they are the same.
	ArgsDiffer []string
	// ApprovalStatus is the status of the approval of an intercepted run; "" for any other.
	ApprovalStatus string
}

// Fault returns the refusal that answers this call, see Run.Fault. A repeat is told that it
// is one, and where its arguments differ.
func (o Outcome) Fault() *fault.Error {
	f := o.Run.Fault()
	if f == nil || !o.Cached {
		return f
	}
	same := len(o.ArgsDiffer) == 0
	f.CachedFrom, f.ArgsMatch, f.ArgsDiffer = o.Run.ExecutionID, &same, o.ArgsDiffer
	f.Message = o.Differs() + f.Message
	return f
}

// Differs returns a sentence that names the arguments of a repeat that were not used, or "". It stands
// before all else that the call is told.
func (o Outcome) Differs() string {
	if len(o.ArgsDiffer) == 0 {
		return ""
	}
	return "The arguments of this call were not used: the run of this id has others at " + strings.Join(o.ArgsDiffer, ", ") + ". "
}

// Outcomes of claim_run; see db/functions/claim_run.sql.
const (
	claimFresh       = "fresh"
	claimReclaimed   = "reclaimed"
	claimExisting    = "existing"
	claimMismatch    = "mismatch"
	claimConflict    = "conflict"
	claimUnknownVerb = "unknown_verb"
	claimReseal      = "reseal"
)

// claimTries is how often a claim is made that lost a race for one of its two keys, or whose
// arguments must be sealed for another run. The second try finds the run of the winner, and
// keys never move to another run. The others are in reserve.
const claimTries = 4

// startLimit is the time limit of one attempt to reach the workflow engine.
const startLimit = 10 * time.Second

// stepPrefix begins the fence keys that we derive. Callers' keys are visible ASCII, so no
// caller can claim a key with this character.
const stepPrefix = "\x1f"

// StepKey returns the fence key of a step of another execution. The same step, iteration
// and attempt always get the same key, and callers cannot claim it. The caller raises the
// attempt only after an end that provably had no effect.
func StepKey(executionID, path string, iteration, attempt int) string {
	return stepPrefix + executionID + stepPrefix + path + stepPrefix + strconv.Itoa(iteration) + stepPrefix + strconv.Itoa(attempt)
}

// Claimed is the result of a claim: the run that has the names of the call.
type Claimed struct {
	Outcome
	// Fresh: this call claimed the run, so it must be driven or started.
	Fresh bool
	// giveUp is the time until which the caller waits.
	giveUp time.Time
	// ownID: we made the run's only name, so the caller cannot repeat the call by it.
	ownID bool
	// req is the call, print its fingerprint.
	req   Request
	print []byte
	// read is what the claim read for the call, nil where it did not.
	read json.RawMessage
}

// Ref returns the claim by which the driving workflow names the run.
func (c Claimed) Ref() flow.RunRef { return c.Run.ref() }

// answer returns how the run answers the call. An answer belongs to one attempt: where
// another call has claimed the id since, this call only reads that call's run. The error is
// IDEMPOTENCY_KEY_REUSED where the caller takes no run with other arguments, and
// EXECUTION_UNREADABLE where what answers the call does not open, RESULT_EXPIRED where it is no
// longer kept.
func (c Claimed) answer(r Run) (Outcome, error) {
	out := Outcome{Run: r, Cached: !c.Fresh || r.Attempt != c.Run.Attempt}
	if r.ErasedAt != nil {
		return Outcome{}, r.resultExpired()
	}
	if slices.Contains(r.Unreadable, unreadableResult) || r.Unreadable != nil && !bytes.Equal(r.Fingerprint, c.print) {
		return Outcome{}, r.unreadable()
	}
	if out.Cached {
		out.ArgsDiffer = argsDiffer(r, c.req.Args, c.print)
	}
	if len(out.ArgsDiffer) > 0 && (c.req.KeyByHeader || r.Attempt == 1 && r.CreatedAt.Before(c.req.Since)) {
		f := reused(r, "other arguments ("+strings.Join(out.ArgsDiffer, ", ")+")")
		if !c.req.KeyByHeader {
			f.Message = "An earlier attempt has made this call with other arguments (" + strings.Join(out.ArgsDiffer, ", ") + "). Nothing ran."
		}
		f.ArgsMatch, f.ArgsDiffer = new(bool), out.ArgsDiffer
		return Outcome{}, f
	}
	return out, nil
}

// Do claims the run, starts its workflow and waits for its end, at most req.Wait. A run that
// an earlier call claimed is waited for and read, never executed again. The run may have
// ended in any state; see Run.Fault. The error is a fault where the call is refused or the
// workflow engine cannot be reached, and otherwise a failure of the database or ctx's cause.
func (s *Service) Do(ctx context.Context, who actor.Actor, req Request) (Outcome, error) {
	if name, err := verb.Parse(req.Verb); err == nil { // the claim refuses any other
		// Before anything compares, judges or stores them.
		if req.Args, err = s.d.Targets.Named(ctx, who.TenantID, name, req.Args); err != nil {
			return Outcome{}, err
		}
	}
	id := uuid.Must(uuid.NewV7())
	// Waiting begins before the claim, so that the run's end cannot be missed.
	w := s.hub.Join(id, 1)
	defer s.hub.Leave(id, w)
	c, err := s.claim(ctx, id, who, req, nil)
	if err != nil {
		return Outcome{}, cmp.Or(s.noteRefusal(ctx, who, req, err), err)
	}
	r := c.Run
	if !c.Fresh {
		if err := s.noteRepeat(ctx, who, c.Outcome); err != nil {
			return Outcome{Run: r}, err
		}
	}
	if r.ID != id {
		w = s.hub.Join(r.ID, r.Attempt)
		defer s.hub.Leave(r.ID, w)
	}
	switch {
	case c.Fresh:
		r, err = s.startAndWait(ctx, c, w)
	case !r.State.Answers():
		s.startAgain(ctx, r)
		r, err = s.await(ctx, r, w, nil, c.giveUp)
	}
	if err != nil {
		return Outcome{Run: r}, err
	}
	out, err := c.answer(r)
	if err != nil {
		return out, cmp.Or(s.noteRefusal(ctx, who, req, err), err)
	}
	if out.Cached && c.Fresh { // another call has claimed the id since
		err = s.noteRepeat(ctx, who, out)
	}
	if err == nil && r.State == StateIntercepted {
		out.ApprovalStatus, err = s.approvalStatus(ctx, out)
	}
	return out, err
}

// approvalStatus returns the status of the approval of an intercepted run. It reads the
// approval only for a repeat: nobody can have decided about a new one.
func (s *Service) approvalStatus(ctx context.Context, out Outcome) (string, error) {
	if !out.Cached {
		return string(governance.ApprovalPending), nil
	}
	a, _, err := s.readApproval(ctx, out.Run)
	return string(a.Status), err
}

// Claim takes the names of the call in the fence, or finds the run that has them. It starts
// nothing: the workflow that the origin names drives the run of a step, and may repeat the
// claim after a crash. A refusal is a fault.
func (s *Service) Claim(ctx context.Context, who actor.Actor, req Request) (Claimed, error) {
	return s.claim(ctx, uuid.Must(uuid.NewV7()), who, req, nil)
}

// Await waits for the run's answer, at most until the given time, and returns the run as it
// is then. The error is ctx's cause, or a failure of the database.
func (s *Service) Await(ctx context.Context, r Run, until time.Time) (Run, error) {
	if r.State.Answers() {
		return r, nil
	}
	w := s.hub.Join(r.ID, r.Attempt)
	defer s.hub.Leave(r.ID, w)
	return s.await(ctx, r, w, nil, until)
}

// claim is Claim with the id of a new run, and with what is written in the same transaction.
func (s *Service) claim(ctx context.Context, id uuid.UUID, who actor.Actor, req Request, also func(*db.Batch)) (Claimed, error) {
	plan, err := s.planClaim(ctx, id, who, req)
	if err != nil {
		return Claimed{}, err
	}
	return s.claimPlanned(ctx, plan, also)
}

// claimPlanned makes the claim.
func (s *Service) claimPlanned(ctx context.Context, plan claimPlan, also func(*db.Batch)) (Claimed, error) {
	c, key, call, p := plan.claimed, plan.key, plan.call, plan.params
	req, tenant := c.req, p.TenantID
	if also != nil {
		// What goes with the claim is written whether or not the claim is a repeat.
	} else if r, answers, err := s.repeated(ctx, key, tenant, p.Keys, plan.verb(), req); err != nil || answers {
		if err == nil {
			c.Run = r
			c.Outcome, err = c.answer(r)
		}
		return c, err
	}
	if s.cfg.OneProcess || req.StepKey != "" {
		// The run is governed in this process within milliseconds.
		p.Ask, p.Digests = true, s.d.Targets.Digests(key, req.Args)
		r := Run{Origin: call.Origin, Metadata: req.Metadata}
		p.Customer, p.Credential = r.about().Named(), r.credential()
	}
	claimed, r, err := s.claimRow(ctx, key, call, req.Args, p, also)
	if equal, underWay := db.Unsettled(err); equal != "" {
		return Claimed{}, unsettled(equal, underWay)
	}
	if err != nil {
		return Claimed{}, s.lostClaim(ctx, c, call, Run{TenantID: tenant, key: key}, err)
	}
	c.Run, c.read = r, claimed.Target
	switch claimed.Outcome {
	case claimUnknownVerb:
		return Claimed{}, fault.New(fault.CodeVerbNotFound, "No such verb in your catalog. GET /v1/runtime/actions/catalog lists the verbs that it has.")
	case claimConflict:
		return Claimed{}, fault.New(fault.CodeIdempotencyConflict, "")
	case claimMismatch:
		return Claimed{}, reused(r, "another verb, or a dry run against a real one")
	case claimFresh, claimReclaimed:
		c.Fresh = true
		failpoint.Hit("after_claim", r.ID)
	}
	s.before.add(tenant, p.Keys)
	c.Outcome, err = c.answer(r)
	return c, err
}

// seconds returns d in whole seconds, nil for nil.
func seconds(d *time.Duration) *int32 {
	if d == nil {
		return nil
	}
	n := int32(min(*d, MaxExpiresIn) / time.Second)
	return &n
}

func (s *Service) waitOf(req Request) time.Duration {
	if req.Wait == nil {
		return s.cfg.DefaultWait
	}
	return min(*req.Wait, s.cfg.MaxWait)
}

// originOf completes the origin of a call. A call over HTTP has its actor as origin, and a
// workflow of its own, which is named after the key that was claimed first.
func originOf(who actor.Actor, o Origin, key string) Origin {
	if o.Kind == "" {
		o = Origin{Kind: who.Kind}
	}
	if o.KeyID == nil && o.UserID == nil {
		o.KeyID, o.UserID = who.KeyID(), who.UserID()
	}
	if o.WorkflowID == "" {
		o.WorkflowID, o.Driver = flow.RunWorkflowID(who.TenantID, key), flow.DriverRun
	}
	return o
}

// ownName returns the execution_id of a run for which the caller has none.
func ownName(id uuid.UUID) string { return "exec_" + id.String() }

// names returns the keys to claim and the execution id of the call.
func names(id uuid.UUID, req Request) (keys []string, execution string, err error) {
	execution = req.ExecutionID
	if execution == "" {
		execution = ownName(id)
	}
	if req.StepKey != "" {
		return []string{req.StepKey}, execution, nil
	}
	for _, k := range []string{req.ExecutionID, req.IdempotencyKey} {
		if strings.HasPrefix(k, stepPrefix) {
			return nil, "", fault.New(fault.CodeInvalidIdempotencyKey, "")
		}
		if k != "" && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		keys = []string{execution}
	}
	return keys, execution, nil
}

func reused(r Run, how string) *fault.Error {
	f := fault.Newf(fault.CodeIdempotencyKeyReused, "This id was used before for %s. Nothing ran.", how)
	f.ExecutionID = r.ExecutionID
	return f
}

// claimRow asks the fence and reads the run that the keys name: one round trip. The arguments
// are sealed for the run of the call. Where the keys name another run that is to be claimed
// again, they are sealed once more, for that run. A claim that lost a race for one of its two
// keys is made again too.
func (s *Service) claimRow(
	ctx context.Context, key *datakey.Key, call claimedCall, args json.RawMessage, p dbsqlc.ClaimRunParams, also func(*db.Batch),
) (claimed dbsqlc.ClaimRunRow, r Run, err error) {
	for range claimTries {
		p.Call = string(mustJSON(call))
		p.Args = Run{ID: call.ID, TenantID: p.TenantID, key: key}.seal(datakey.RunArgs, args)
		claimed, r, err = s.claimOnce(ctx, key, p, also)
		switch {
		case db.IsRaced(err):
		case err != nil || claimed.Outcome != claimReseal:
			return claimed, r, err
		default:
			call.ID = r.ID
		}
	}
	return claimed, Run{}, errors.New("run: claim: the keys name another run each time")
}

// claimOnce is one try of claimRow. A run that is larger than the arguments of the call, which
// are in memory already, is read apart; see WithRoom.
func (s *Service) claimOnce(ctx context.Context, key *datakey.Key, p dbsqlc.ClaimRunParams, also func(*db.Batch)) (_ dbsqlc.ClaimRunRow, r Run, err error) {
	b := &db.Batch{}
	claimed := db.Queue(b, s.q.ClaimRun, p)
	rows := db.Queue(b, s.q.RunByKeys, dbsqlc.RunByKeysParams{TenantID: p.TenantID, Keys: p.Keys, Most: int64(smallRun + len(p.Args))})
	if also != nil {
		also(b)
	}
	if err := s.d.DB.Send(ctx, p.TenantID, b); err != nil {
		return claimed.Value, Run{}, fmt.Errorf("run: claim: %w", err)
	}
	found := rows.Value
	if outcome := claimed.Value.Outcome; len(found) == 0 && outcome != claimUnknownVerb && outcome != claimConflict {
		if found, err = s.large(ctx, p.TenantID, p.Keys); err != nil {
			return claimed.Value, Run{}, err
		}
	}
	r, _ = oneOf(key, found)
	return claimed.Value, r, nil
}

// startAndWait starts the workflow and waits for the row to end. The start does not depend
// on the caller: the run continues when the caller disconnects.
func (s *Service) startAndWait(ctx context.Context, c Claimed, w waiter) (Run, error) {
	r := c.Run
	if s.cfg.OneProcess {
		s.carried.addClaim(claimedRun{run: r, read: c.read, at: s.d.Now()})
	}
	failed := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
		defer cancel()
		if err := s.start(ctx, r); err != nil {
			failed <- err
		}
	}()
	select {
	case done := <-w.C:
		return done, nil
	case err := <-failed:
		return s.notStarted(ctx, c, w, err)
	case <-ctx.Done():
		return r, context.Cause(ctx)
	case <-time.After(time.Until(c.giveUp)):
		return r, nil
	case <-time.After(s.cfg.PollEvery):
	}
	ended, err := s.await(ctx, r, w, failed, c.giveUp) // the start may still read r
	if f, yes := errors.AsType[startError](err); yes {
		return s.notStarted(ctx, c, w, f.cause)
	}
	return ended, err
}

// startError says that the run's workflow was not started.
type startError struct{ cause error }

func (e startError) Error() string { return "run: workflow not started: " + e.cause.Error() }

// notStarted answers a call whose workflow could not be started. A caller with an id of their
// own repeats the call by it, and the sweeper starts the run too. A caller without one can
// only make another call, so theirs is withdrawn before they are told.
func (s *Service) notStarted(ctx context.Context, c Claimed, w waiter, cause error) (Run, error) {
	s.d.Log.WarnContext(ctx, "workflow not started", "run_id", c.Run.ID, "error", cause)
	message := "The workflow engine cannot be reached. The call stands and runs once the engine is back: " +
		"repeat it with the same id, or cancel it with POST /v1/executions/{id}/cancel."
	if c.ownID {
		withdrawn, err := s.withdraw(ctx, c.Run)
		switch {
		case err == nil && !withdrawn:
			// The engine took the start after all, and only its answer was lost.
			return s.await(ctx, c.Run, w, nil, c.giveUp)
		case err == nil:
			message = "The workflow engine cannot be reached. The call was withdrawn and nothing of it will run: make it again."
		default:
			s.d.Log.WarnContext(ctx, "claim not withdrawn", "run_id", c.Run.ID, "error", err)
			message = "The workflow engine cannot be reached, and the call may still run. Read GET /v1/executions/{id} before you make it again."
		}
	}
	f := fault.New(fault.CodeServiceUnavailable, message).Because(cause)
	f.ExecutionID, f.Retryable = c.Run.ExecutionID, true
	return c.Run, f
}

// withdraw cancels a claim of which nothing has come. It returns false where the run has
// moved on.
func (s *Service) withdraw(ctx context.Context, r Run) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	b := &db.Batch{}
	changed := db.Queue(b, s.q.WithdrawRun, dbsqlc.WithdrawRunParams{TenantID: r.TenantID, ID: r.ID, Attempt: r.Attempt})
	s.requireChanged(b, r)
	rec := prepared{run: r}.record(audit.RunCancelled)
	rec.ActorType, rec.ActorID, rec.Outcome = actor.System, "", string(StateCancelled)
	rec.Details = mustJSON(map[string]string{"reason": "The workflow engine could not be reached, and the caller had no id to repeat the call by."})
	audit.Queue(b, rec)
	_, found, err := s.apply(ctx, r, b, changed)
	if found {
		s.carried.forget(r.ref())
	}
	return found, err
}

func (s *Service) start(ctx context.Context, r Run) error {
	in := flow.ActionRunInput{RunRef: r.ref()}
	return s.d.Engine.StartRun(ctx, in, r.WorkflowID, s.listing(r))
}

// graceForStarter is how long a claim may have no workflow while its caller's process
// is still starting it.
const graceForStarter = time.Second

// startAgain repairs a claim whose process died before it started the workflow. The engine
// recognizes a start that was made before, so a needless one does nothing. Nothing is
// started for a run that another workflow drives.
func (s *Service) startAgain(ctx context.Context, r Run) {
	if r.State != StateClaimed || r.Driver != flow.DriverRun || s.d.Now().Sub(r.UpdatedAt) < graceForStarter {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
		defer cancel()
		if err := s.start(ctx, r); err != nil {
			s.d.Log.WarnContext(ctx, "workflow not started", "run_id", r.ID, "error", err)
		}
	}()
}

// await waits for the end of the run. It gets a notice, and reads the row every PollEvery in
// case the notice was lost. When the time is over it returns the run as it is then. The error
// is a startError where failed says that the workflow was not started.
func (s *Service) await(ctx context.Context, r Run, w waiter, failed <-chan error, until time.Time) (Run, error) {
	// The run may have ended between the claim's read and the join.
	poll := time.NewTimer(0)
	defer poll.Stop()
	deadline := time.NewTimer(time.Until(until))
	defer deadline.Stop()
	for {
		select {
		case done := <-w.C:
			return done, nil
		case cause := <-failed:
			return r, startError{cause}
		case <-poll.C:
			now, err := s.read(ctx, r.TenantID, r.ID)
			switch {
			case err == nil && now.State.Answers():
				return now, nil
			case err == nil:
				r = now
			case errors.Is(err, context.Canceled):
				return r, context.Cause(ctx)
			case !fault.HasCode(err, fault.CodeServiceUnavailable):
				return r, err
			}
			poll.Reset(s.cfg.PollEvery)
		case <-deadline.C:
			return r, nil
		case <-ctx.Done():
			return r, context.Cause(ctx)
		}
	}
}

// get returns the run. The error is EXECUTION_UNREADABLE where its arguments or its result do
// not open.
func (s *Service) get(ctx context.Context, tenant, id uuid.UUID) (Run, error) {
	r, err := s.read(ctx, tenant, id)
	if err == nil && r.Unreadable != nil {
		return Run{}, r.unreadable()
	}
	return r, err
}

// read returns the run with what of it opens.
func (s *Service) read(ctx context.Context, tenant, id uuid.UUID) (Run, error) {
	row, err := s.q.GetRun(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetRunParams{TenantID: tenant, ID: id})
	if err != nil {
		return Run{}, fmt.Errorf("run: get: %w", err)
	}
	return s.fromRow(ctx, row)
}
