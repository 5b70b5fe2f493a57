package run_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/circuit"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/provider/providererror"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/ended"
)

// rig is a run service over a real database. Its engine makes the workflow's steps in this
// process, and its provider counts calls.
type rig struct {
	*run.Service

	approvals *approval.Sweeper
	journal   *audit.Journal // of the process that was made last
	t         *testing.T
	db        testkit.DB
	tenant    uuid.UUID
	key       uuid.UUID
	targets   *targets
	engine    *engine
	provider  *provider
	keys      *keys
	ahead     atomic.Int64 // how far the service's clock is ahead of ours, in nanoseconds
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, db: testkit.Database(t), tenant: uuid.New(), key: uuid.New(), provider: &provider{}, keys: &keys{}}
	r.targets = &targets{provider: r.provider}
	r.engine = &engine{}
	r.admin(`INSERT INTO tenants (id, name) VALUES ($1, 'test')`, r.tenant)
	r.admin(`INSERT INTO users (id, tenant_id, email, name, password_hash, role, created_at, joined_at) VALUES ($1, $1, 'a@b.c', 'A', 'x', 'owner', now(), now())`, r.tenant)
	r.admin(`INSERT INTO api_keys (id, tenant_id, key_hash, preview, name, permissions, identity_mode, allowed_origins, created_by, created_at)
	         VALUES ($1, $2, sha256('x'), 'p', 'n', '{actions:run}', 'identified', '{}', $2, now())`, r.key, r.tenant)
	r.admin(`INSERT INTO providers (tenant_id, slug, name, domain, base_url, auth_type, auth, document_hash, imported, degraded, rejected, created_at, updated_at)
	         VALUES ($1, 'shop', 'Shop', 'shop', 'http://shop', 'none', '{"type":"none"}', '\x00', 1, '[]', '[]', now(), now())`, r.tenant)
	for _, v := range []struct{ name, risk, op, idem string }{
		{"read", "low", "read", "intrinsic"},
		{"pay", "medium", "write", "none"},
		{"refund", "high", "write", "none"},
		{"keyed", "medium", "write", "header:Idempotency-Key"},
	} {
		r.admin(`INSERT INTO verbs (tenant_id, provider, name, domain, description, risk_level, operation_type, idempotency, schema_hash, plan_hash, search, schema, plan)
		         VALUES ($1, 'shop', $2, 'shop', '', $3, $4, $5, '\x00', '\x00', '', '{}', '{}')`, r.tenant, v.name, v.risk, v.op, v.idem)
	}
	r.Service, r.approvals = r.process(r.engine)
	r.engine.service = r.Service
	return r
}

func (r *rig) now() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }

// process is the service in one process over the database, with the sweeper of approvals.
func (r *rig) process(e run.Engine, more ...func(*run.Config)) (*run.Service, *approval.Sweeper) {
	r.t.Helper()
	sweeper, err := approval.NewSweeper(approval.SweeperConfig{ClosedAfter: time.Millisecond},
		approval.SweeperDeps{DB: r.db.Pool, Workflows: e, Log: testkit.Quiet(), Now: r.now})
	require.NoError(r.t, err)
	cfg := run.Config{OneProcess: true, PollEvery: 50 * time.Millisecond, SweepAfter: time.Millisecond}
	for _, m := range more {
		m(&cfg)
	}
	r.journal, err = audit.NewJournal(audit.JournalConfig{}, audit.JournalDeps{DB: r.db.Pool, Log: testkit.Quiet(), Now: r.now})
	require.NoError(r.t, err)
	notices, err := ended.NewNotices(ended.Config{}, ended.Deps{DB: r.db.Pool, Log: testkit.Quiet()})
	require.NoError(r.t, err)
	s, err := run.New(cfg, run.Deps{
		DB: r.db.Pool, Targets: r.targets, Engine: e, Approvals: sweeper, Journal: r.journal, Notices: notices, Keys: r.keys, Log: testkit.Quiet(), Now: r.now,
	})
	require.NoError(r.t, err)
	sweeper.Own(approval.SubjectRun, s)
	return s, sweeper
}

// another is the service in a second process over the same database.
func (r *rig) another() *run.Service {
	r.t.Helper()
	s, _ := r.process(r.engine)
	return s
}

// Sweep does both jobs that repair what crashes leave behind.
func (r *rig) Sweep(ctx context.Context) error {
	if err := r.Service.Sweep(ctx); err != nil {
		return err
	}
	return r.approvals.Once(ctx)
}

func (r *rig) admin(sql string, args ...any) {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.db.AdminURL)
	require.NoError(r.t, err)
	defer conn.Close(context.WithoutCancel(r.t.Context()))
	_, err = conn.Exec(r.t.Context(), sql, args...)
	require.NoError(r.t, err)
}

func (r *rig) caller() actor.Actor {
	return actor.Actor{Kind: actor.Key, TenantID: r.tenant, ID: r.key, RequestID: "req_test", SourceAddr: "192.0.2.1"}
}

// workflow returns the id of the workflow of the run that first claimed key.
func (r *rig) workflow(key string) string { return flow.RunWorkflowID(r.tenant, key) }

func (r *rig) do(verbName, id, args string, more ...func(*run.Request)) (run.Outcome, error) {
	req := run.Request{Verb: "shop:" + verbName, Args: json.RawMessage(args), ExecutionID: id, Metadata: json.RawMessage(`{}`)}
	for _, m := range more {
		m(&req)
	}
	return r.Do(r.t.Context(), r.caller(), req)
}

func (r *rig) count(sql string) (n int) {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.db.AdminURL)
	require.NoError(r.t, err)
	defer conn.Close(context.WithoutCancel(r.t.Context()))
	require.NoError(r.t, conn.QueryRow(r.t.Context(), sql).Scan(&n))
	return n
}

func (r *rig) text(sql string) (s string) {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.db.AdminURL)
	require.NoError(r.t, err)
	defer conn.Close(context.WithoutCancel(r.t.Context()))
	require.NoError(r.t, conn.QueryRow(r.t.Context(), sql).Scan(&s))
	return s
}

// engine makes the steps as workflows.ActionRun does.
type engine struct {
	service *run.Service
	starts  atomic.Int64
	// dead: starts are ignored, as after a crash between claim and start.
	dead    atomic.Bool
	started sync.Map // flow.RunRef
	open    sync.Map // workflow id → whether the workflow is open
	inputs  sync.Map // workflow id → flow.ActionRunInput
	nudged  atomic.Int64
	told    sync.Map     // ids of workflows that were nudged
	asked   atomic.Int64 // whether a workflow is open
	// telling is called once, while a workflow is told to read its row.
	telling atomic.Pointer[func()]
}

func (e *engine) StartRun(ctx context.Context, in flow.ActionRunInput, workflowID string, _ flow.Listing) error {
	if e.dead.Load() {
		return nil
	}
	if _, started := e.started.LoadOrStore(in.RunRef, true); started {
		return nil
	}
	e.starts.Add(1)
	e.open.Store(workflowID, true)
	e.inputs.Store(workflowID, in)
	go e.walk(context.WithoutCancel(ctx), in.RunRef, workflowID)
	return nil
}

// walk makes steps until the run ends or waits for approval.
func (e *engine) walk(ctx context.Context, ref flow.RunRef, workflowID string) {
	step, err := e.service.Govern(ctx, ref)
	for err == nil && !step.Done {
		if step.ApprovalID != "" {
			return
		}
		step, err = e.service.Send(ctx, ref)
		if step.After > 0 {
			timer := time.NewTimer(min(step.After, 5*time.Millisecond))
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
	}
	e.open.Store(workflowID, false)
}

func (e *engine) Nudge(ctx context.Context, workflowID string) (open bool, err error) {
	e.nudged.Add(1)
	e.told.Store(workflowID, true)
	if f := e.telling.Swap(nil); f != nil {
		(*f)()
	}
	open, _, err = e.IsOpen(ctx, workflowID)
	return open, err
}

func (e *engine) IsOpen(_ context.Context, workflowID string) (open, found bool, err error) {
	e.asked.Add(1)
	v, found := e.open.Load(workflowID)
	if !found {
		return false, false, nil
	}
	return v.(bool), true, nil
}

// provider answers calls and counts their effects.
type provider struct {
	effects atomic.Int64
	answer  atomic.Pointer[func(n int64) run.Answer]
	keys    sync.Map
	// dialing is called once, between the mark and the first byte.
	dialing atomic.Pointer[func(mayBegin func() bool)]
	args    atomic.Pointer[json.RawMessage] // of the last call
	// reads answers the verb read, and looked counts that; nil where it is as any other.
	reads  atomic.Pointer[func(ctx context.Context, args json.RawMessage) run.Answer]
	looked atomic.Int64
}

func (p *provider) last() string { return string(*p.args.Load()) }

func (p *provider) replies(f func(n int64) run.Answer) { p.answer.Store(&f) }

type targets struct {
	provider *provider
	policies atomic.Pointer[governance.Set]
	schema   atomic.Pointer[string]
	readBack atomic.Pointer[verb.ReadBack] // of pay
	// normalizer is that of all verbs, nil for none.
	normalizer atomic.Pointer[string]
	read       atomic.Pointer[run.Read] // nil: nothing is compared
	// imported is what an import changes of every verb.
	imported atomic.Pointer[func(*target)]
	customer atomic.Pointer[string] // of the last call
	// meanwhile is called once, after a run was read and before what it depends on is.
	meanwhile atomic.Pointer[func()]
	// credential is what calls are sent with; nil means that none is needed.
	credential atomic.Pointer[uuid.UUID]
	// switches are the kill switches that are set, as the verb is read.
	switches atomic.Pointer[[]governance.KillSwitch]
	// over reads the circuit as the verb is read; nil where a test is not about it.
	over atomic.Pointer[func() circuit.Gate]
	// gone: the catalog no longer has the verb.
	gone atomic.Bool
	// count reads what the windows of a call contain; nil where a test is not about them.
	count atomic.Pointer[func(context.Context, *governance.Call) error]
	// taken counts the calls that were judged by what was read with their row.
	taken atomic.Int64
}

func (t *targets) Target(_ context.Context, _ uuid.UUID, name verb.Name, by run.Account, _ json.RawMessage) (run.Target, error) {
	t.customer.Store(&by.Customer)
	if f := t.meanwhile.Swap(nil); f != nil {
		(*f)()
	}
	if t.gone.Load() {
		return nil, fault.New(fault.CodeVerbNotFound, "")
	}
	return t.target(name), nil
}

// TargetRead is Target as it is now, not as it was read.
func (t *targets) TargetRead(ctx context.Context, tenant uuid.UUID, name verb.Name, by run.Account, args, _ json.RawMessage) (run.Target, error) {
	t.taken.Add(1)
	return t.Target(ctx, tenant, name, by, args)
}

func (t *targets) Named(_ context.Context, _ uuid.UUID, _ verb.Name, args json.RawMessage) (json.RawMessage, error) {
	return args, nil
}

func (t *targets) Digests(*datakey.Key, json.RawMessage) [][]byte { return [][]byte{} }

func (t *targets) Mask(_ context.Context, _ uuid.UUID, _ verb.Name, texts run.Texts) run.Texts {
	return texts
}

func (t *targets) MaskRead(_ context.Context, _ uuid.UUID, _ verb.Name, _ run.Account, texts run.Texts, _ json.RawMessage) run.Texts {
	t.taken.Add(1)
	return texts
}

func (t *targets) MaskMetadata(context.Context, uuid.UUID) func(verb.Name, json.RawMessage) json.RawMessage {
	return func(_ verb.Name, metadata json.RawMessage) json.RawMessage { return metadata }
}

func (t *targets) target(name verb.Name) target {
	var names []string
	if c := t.customer.Load(); c != nil && *c != "" {
		names = []string{*c}
	}
	out := target{provider: t.provider, switches: t.switches.Load(), customerNames: names, credential: t.credential.Load(), read: t.read.Load(), policies: t.policies.Load(), name: name, risk: verb.RiskMedium, op: verb.Write, idem: verb.IdempotencyNone}
	if f := t.over.Load(); f != nil {
		out.gate = (*f)()
	}
	out.count = t.count.Load()
	switch name.Verb {
	case "read":
		out.risk, out.op, out.idem = verb.RiskLow, verb.Read, verb.IdempotencyIntrinsic
	case "refund":
		out.risk = verb.RiskHigh
	case "keyed":
		out.idem = "header:Idempotency-Key"
	}
	if name.Verb == "pay" {
		out.readBack = t.readBack.Load()
	}
	if program := t.normalizer.Load(); program != nil {
		out.normalizer = *program
	}
	if hash := t.schema.Load(); hash != nil {
		out.schema = *hash
	}
	if change := t.imported.Load(); change != nil {
		(*change)(&out)
	}
	return out
}

type target struct {
	provider      *provider
	switches      *[]governance.KillSwitch
	credential    *uuid.UUID
	customerNames []string
	policies      *governance.Set
	schema        string
	readBack      *verb.ReadBack
	normalizer    string
	read          *run.Read
	name          verb.Name
	risk          verb.Risk
	op            verb.Operation
	idem          verb.Idempotency
	gate          circuit.Gate
	quarantined   bool
	count         *func(context.Context, *governance.Call) error
}

func (t target) Risk() verb.Risk               { return t.risk }
func (t target) Operation() verb.Operation     { return t.op }
func (t target) Idempotency() verb.Idempotency { return t.idem }
func (t target) ReadBack() *verb.ReadBack      { return t.readBack }
func (t target) Normalizer() string            { return t.normalizer }
func (t target) Quarantined() bool             { return t.quarantined }
func (t target) SchemaHash() []byte            { return []byte(t.schema) }

// Trusts: the tenant trusts what comes of payments where all of it is in the result, and nothing that it reads.
func (t target) Trusts(_ json.RawMessage, _ string, whole bool) bool {
	return t.name.Verb == "pay" && whole
}
func (t target) PolicyVersion() int64     { return t.policies.Version() }
func (t target) Connected() *fault.Error  { return nil }
func (t target) CustomerNames() []string  { return t.customerNames }
func (t target) CredentialID() *uuid.UUID { return t.credential }

func (t target) CredentialName() (kind, label string) { return "bearer", "the shop's" }

func (t target) Mask(args json.RawMessage) json.RawMessage { return args }

func (t target) MaskResult(result json.RawMessage) json.RawMessage { return result }

func (t target) Words(a providererror.Answer) *providererror.Error {
	return providererror.Of(a, plain{})
}

// plain masks nothing.
type plain struct{}

func (plain) MaskResult(result json.RawMessage) json.RawMessage { return result }
func (plain) MaskText(text string) string                       { return text }

func (t target) Read() run.Read {
	if t.read == nil {
		return run.Read{}
	}
	return *t.read
}

func (t target) Judge(ctx context.Context, args json.RawMessage, about governance.Context) (governance.Verdict, error) {
	c := governance.Call{Verb: t.name, Domain: "shop", Risk: t.risk, Operation: t.op, Args: args, Context: about}
	if t.count != nil {
		if err := (*t.count)(ctx, &c); err != nil {
			return governance.Verdict{}, err
		}
	}
	return t.policies.Evaluate(c), nil
}

func (t target) StoppedBy(about governance.Context) *governance.KillSwitch {
	if t.switches == nil {
		return nil
	}
	return governance.StoppedBy(*t.switches, t.name, about.AgentID)
}

func (t target) Circuit() circuit.Gate { return t.gate }

func (t target) Meets([]governance.Condition, json.RawMessage, governance.Context) bool { return true }

func (t target) Check(args json.RawMessage) []fault.Detail {
	if bytes.Contains(args, []byte(`"bad":true`)) {
		return []fault.Detail{{Path: "/args/bad", Rule: "unknown", Message: "no such argument"}}
	}
	return nil
}

func (t target) Prepare(_ context.Context, args json.RawMessage) (run.Call, error) {
	return call{t, args}, nil
}

// heard adds what the provider said, where the test does not.
func heard(a run.Answer) run.Answer {
	if a.Phase == attempt.Answered && a.Said.Status == 0 {
		a.Said = providererror.Answer{Status: a.Status, Media: "application/json", Body: a.Result, Whole: a.Complete, RetryAfter: a.RetryAfter}
	}
	return a
}

type call struct {
	target

	args json.RawMessage
}

func (c call) Preview(args json.RawMessage) json.RawMessage { return args }

func (c call) Look(ctx context.Context) run.Answer {
	if f := c.provider.reads.Load(); f != nil && c.name.Verb == "read" {
		c.provider.looked.Add(1)
		return (*f)(ctx, c.args)
	}
	return c.Send(ctx, "", func() bool { return true })
}

func (c call) Send(_ context.Context, key string, mayBegin func() bool) run.Answer {
	if f := c.provider.dialing.Swap(nil); f != nil {
		(*f)(mayBegin)
	}
	if !mayBegin() {
		return run.Answer{Phase: attempt.NotSent}
	}
	n := c.provider.effects.Add(1)
	c.provider.args.Store(&c.args)
	c.provider.keys.Store(key, true)
	if f := c.provider.answer.Load(); f != nil {
		return heard((*f)(n))
	}
	return run.Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}
}
