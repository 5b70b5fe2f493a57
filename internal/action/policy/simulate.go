package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/turns"
	"agentruntime/internal/base/verb"
)

// Effect is what a caller sees of a decision.
type Effect string

// Effects, from the freest to the strictest.
const (
	Allowed  Effect = "allowed"
	Notified Effect = "notified" // runs, and the tenant is told
	Held     Effect = "held"     // waits for an approval
	Blocked  Effect = "blocked"
)

func effectOf(d governance.Decision, notify bool) Effect {
	switch {
	case d == governance.Block:
		return Blocked
	case d == governance.PendingApproval:
		return Held
	case notify:
		return Notified
	default:
		return Allowed
	}
}

// Candidate is a policy to be tried over recorded runs.
type Candidate struct {
	Draft Draft
	// Replaces is the policy in whose place it is put; nil adds it to those there are.
	Replaces *uuid.UUID
	From, To *time.Time // nil: the last week
	Sample   int        // how many runs are judged at most
}

// Limits of a simulation.
const (
	DefaultSample = 1000
	MaxSample     = 10_000
	// simulations is how many run at once in a process, simulationLimit how long one takes
	// at most, its waiting included.
	simulations     = 2
	simulationLimit = 20 * time.Second
	// simulationsOfTenant is how many of these one tenant has, simulationsEach how many more of
	// it may wait, and simulationsMost how many in all.
	simulationsOfTenant = 1
	simulationsEach     = 8
	simulationsMost     = 64
	// simulationRetry is when a refused caller should come back.
	simulationRetry = 10 * time.Second
	// maskingLimit bounds the look-ups for the samples, after the runs were judged.
	maskingLimit = 5 * time.Second
	// runsAtOnce is how many runs are in memory; one may have a megabyte of arguments.
	runsAtOnce = 32
	// subjectsKept is how many verbs are.
	subjectsKept = 256
	// samplesShown is how many runs of each kind of change are shown.
	samplesShown = 10
	// sampleBytes is how many bytes of arguments those of one kind have, unless the first alone has
	// more.
	sampleBytes = 256 << 10
)

// Simulation is what a candidate would have changed.
type Simulation struct {
	Period Period
	// Runs are those of the period, Judged those that were judged: all, or where there are
	// more than the sample a part of them that is fair and the same each time. Skipped are
	// those of the sample whose verb is no longer in the catalog, or whose arguments were erased or
	// cannot be read.
	Runs            int64
	Judged, Skipped int
	Sampled         bool
	// Partial: the time was over before the sample was; what was judged is a fair part.
	Partial bool
	Windows Counting
	// LookupsInDoubt are judged runs whose decision depends on a look-up. A simulation makes none.
	LookupsInDoubt int
	Matched        int // runs that the candidate matches
	Unchanged      int
	Newly          map[Effect]*Changed // by what the runs would come to
	Warnings       []Warning
}

// Changed are the runs that would have come to something else than they would today.
type Changed struct {
	Count   int
	Samples []ChangedRun

	bytes int // of the arguments of Samples
}

// ChangedRun is one of them.
type ChangedRun struct {
	ExecutionID string
	Verb        verb.Name
	Args        json.RawMessage // masked
	CreatedAt   time.Time
	From, To    Effect
	Reason      string // of To
}

// Simulate judges recorded runs, dry runs among them, by the tenant's policies as they
// stand and by the same with the candidate, as if it were enabled and enforced. Nothing
// is written. What is wrong with the candidate is VALIDATION_ERROR, POLICY_NOT_FOUND
// where it replaces none, SERVICE_UNAVAILABLE where the time was over before the first
// run was judged.
func (s *Service) Simulate(ctx context.Context, tenant uuid.UUID, c Candidate) (Simulation, error) {
	period, err := s.periodOf(c.From, c.To, "/")
	if err != nil {
		return Simulation{}, err
	}
	p, err := s.check(ctx, tenant, c.Draft)
	if err != nil {
		return Simulation{}, under("/policy", err)
	}
	if c.Replaces != nil {
		p.ID = *c.Replaces // it is no duplicate of itself
	}
	warnings, err := s.warnings(ctx, tenant, p)
	if err != nil {
		return Simulation{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.simulationLimit)
	defer cancel()
	sim := &simulating{s: s, tenant: tenant, out: Simulation{Period: period, Newly: map[Effect]*Changed{}, Warnings: warnings}}
	for _, e := range []Effect{Blocked, Held, Notified, Allowed} {
		sim.out.Newly[e] = &Changed{Samples: []ChangedRun{}}
	}
	err = sim.run(bounded, p, c)
	if err != nil && errors.Is(bounded.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		if sim.out.Judged == 0 {
			f := fault.New(fault.CodeServiceUnavailable, "The simulation took too long. Try a shorter period, or again when no other is running.")
			f.Retryable, f.RetryAfter = true, simulationRetry
			return Simulation{}, f.Because(err)
		}
		sim.out.Partial, err = true, nil
	}
	sim.warnOfLookups()
	return sim.out, err
}

// newTurns shares the simulations of a process out among tenants.
func newTurns(wait time.Duration) *turns.Turns {
	return turns.New(turns.Config{Slots: simulations, Share: simulationsOfTenant, Wait: wait, Each: simulationsEach, Most: simulationsMost})
}

// crowded is the answer to a simulation that gets no turn; other errors stay.
func crowded(err error) error {
	if !errors.Is(err, turns.ErrCrowded) && !errors.Is(err, turns.ErrBusy) {
		return err
	}
	f := fault.New(fault.CodeServiceUnavailable, "Other simulations are under way. Try again when they are done.")
	f.Retryable, f.RetryAfter = true, simulationRetry
	return f.Because(err)
}

// under puts the places of a fault under a member of the body.
func under(path string, err error) error {
	f := fault.As(err)
	if f == nil || len(f.Details) == 0 {
		return err
	}
	moved := *f
	if strings.HasPrefix(f.Message, f.Details[0].Path+":") {
		moved.Message = path + f.Message
	}
	moved.Details = slices.Clone(f.Details)
	for i := range moved.Details {
		moved.Details[i].Path = path + moved.Details[i].Path
	}
	return &moved
}

// simulating is one simulation under way.
type simulating struct {
	s             *Service
	tenant        uuid.UUID
	candidate     uuid.UUID
	replaces      bool // it takes the place of a policy
	before, after *governance.Set
	history       *governance.History                // nil where windows are in doubt
	subjects      *simplelru.LRU[verb.Name, Subject] // nil for a verb that is gone
	unread        unread
	out           Simulation
}

// unread are runs whose arguments cannot be read. One line of the log tells the operator of all.
type unread struct {
	count int
	first uuid.UUID
	why   error // of the first
}

func (u *unread) add(run uuid.UUID, why error) {
	if u.count++; u.count == 1 {
		u.first, u.why = run, why
	}
}

func (m *simulating) run(ctx context.Context, p Policy, c Candidate) error {
	free, err := m.s.turns.Take(ctx, m.tenant.String())
	if err != nil {
		return crowded(err)
	}
	defer free()
	if err := m.compile(ctx, p.Policy, c.Replaces); err != nil {
		return err
	}
	if m.subjects, err = simplelru.NewLRU[verb.Name, Subject](subjectsKept, nil); err != nil {
		return fmt.Errorf("policy: simulate: %w", err)
	}
	on := m.s.db.Reading(m.tenant, db.ScanLimit)
	low, high := m.out.Period.bounds()
	if m.out.Runs, err = m.s.q.CountRunsBetween(ctx, on, dbsqlc.CountRunsBetweenParams{TenantID: m.tenant, Low: low, High: high}); err != nil {
		return fmt.Errorf("policy: simulate: count: %w", err)
	}
	ids, err := m.s.q.SampleRuns(ctx, on, dbsqlc.SampleRunsParams{TenantID: m.tenant, Low: low, High: high, N: int32(c.Sample)})
	if err != nil {
		return fmt.Errorf("policy: simulate: sample: %w", err)
	}
	// Runs that began in between may be in the sample.
	m.out.Runs = max(m.out.Runs, int64(len(ids)))
	m.out.Sampled = m.out.Runs > int64(len(ids))
	// The samples are shown even where the time is over before the runs are.
	defer m.maskSamples(context.WithoutCancel(ctx))
	defer m.tellOfUnread(ctx)
	for some := range slices.Chunk(ids, runsAtOnce) {
		if err := m.judge(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

func (m *simulating) tellOfUnread(ctx context.Context) {
	if u := m.unread; u.count > 0 {
		m.s.log.WarnContext(ctx, "a simulation skips runs whose arguments cannot be read", "tenant_id", m.tenant, "runs", u.count, "first_run_id", u.first, "error", u.why)
	}
}

// maskSamples hides the tenant's own secrets in what is shown.
func (m *simulating) maskSamples(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maskingLimit)
	defer cancel()
	for _, changed := range m.out.Newly {
		for i := range changed.Samples {
			changed.Samples[i].Args = m.s.subjects.MaskOwn(ctx, m.tenant, changed.Samples[i].Args)
		}
	}
}

// compile makes the sets without and with the candidate, and counts what their windows contained.
func (m *simulating) compile(ctx context.Context, p governance.Policy, replaces *uuid.UUID) error {
	on := m.s.db.Reading(m.tenant, db.ScanLimit)
	all, _, version, err := load(ctx, m.s.q, on, m.tenant)
	if err != nil {
		return err
	}
	m.before = governance.Compile(version, all)
	before := slices.Clone(all)
	p.Mode, p.Enabled = governance.Enforce, true
	if replaces != nil {
		_, err := m.s.q.GetPolicy(ctx, on, dbsqlc.GetPolicyParams{TenantID: m.tenant, ID: *replaces})
		if err != nil {
			return readError(err)
		}
		p.ID = *replaces
		all = slices.DeleteFunc(all, func(old governance.Policy) bool { return old.ID == p.ID })
	} else if p.ID, err = uuid.NewV7(); err != nil {
		return fmt.Errorf("policy: make an id: %w", err)
	}
	m.candidate, m.replaces = p.ID, replaces != nil
	m.after = governance.Compile(version, append(all, p))
	if err := m.countWindows(ctx, append(before, p)); err != nil {
		return fmt.Errorf("policy: simulate: count windows: %w", err)
	}
	return nil
}

// judge judges runs in the order of their ids in the list.
func (m *simulating) judge(ctx context.Context, ids []uuid.UUID) error {
	rows, err := m.s.q.RunsToJudge(ctx, m.s.db.Reading(m.tenant, db.ScanLimit), dbsqlc.RunsToJudgeParams{TenantID: m.tenant, Ids: ids})
	if err != nil {
		return fmt.Errorf("policy: simulate: read runs: %w", err)
	}
	byID := make(map[uuid.UUID]dbsqlc.RunsToJudgeRow, len(rows))
	for _, r := range rows {
		byID[r.ID] = r
	}
	for _, id := range ids {
		r, ok := byID[id]
		if !ok {
			continue
		}
		subject, err := m.subject(ctx, verb.Name{Provider: r.Provider, Verb: r.Verb})
		if err != nil {
			return err
		}
		if subject == nil || r.ErasedAt != nil {
			m.out.Skipped++
			continue
		}
		key, err := m.s.keys.Key(ctx, m.tenant)
		if err != nil {
			return fmt.Errorf("policy: simulate: %w", err)
		}
		if r.Args, err = openArgs(key, m.tenant, r); err != nil {
			m.out.Skipped++
			m.unread.add(r.ID, err)
			continue
		}
		if m.compare(ctx, subject, r); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (m *simulating) subject(ctx context.Context, name verb.Name) (Subject, error) {
	if known, ok := m.subjects.Get(name); ok {
		return known, nil
	}
	subject, err := m.s.subjects.Subject(ctx, m.tenant, name)
	if fault.HasCode(err, fault.CodeVerbNotFound) {
		subject, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	m.subjects.Add(name, subject)
	return subject, nil
}

// openArgs returns the arguments of a run. The error says that they do not open under the key, or are
// no JSON. It is about this row alone: the others can be judged.
func openArgs(key *datakey.Key, tenant uuid.UUID, r dbsqlc.RunsToJudgeRow) (string, error) {
	args, err := key.Open(datakey.Place{Tenant: tenant, Row: r.ID, Field: datakey.RunArgs}, r.Args)
	if err != nil {
		return "", fmt.Errorf("policy: simulate: %w", err)
	}
	if !json.Valid(args) {
		return "", errNoJSON
	}
	return string(args), nil
}

// errNoJSON says that stored arguments are no JSON. It does not show them.
var errNoJSON = errors.New("policy: simulate: the stored arguments are no JSON")

// compare judges one run, unless the time is over.
func (m *simulating) compare(ctx context.Context, subject Subject, r dbsqlc.RunsToJudgeRow) {
	if r.ErrorCode == string(fault.CodeInvalidArgs) {
		// No policy sends arguments that do not fit, so none changes what came of the call.
		m.out.Judged++
		m.out.Unchanged++
		return
	}
	args := json.RawMessage(r.Args)
	about := madeAs(r).Context()
	about.Customer, about.CustomerNames = r.Customer, r.CustomerNames
	call := subject.Call(args, about)
	call.Done = ctx.Done()
	from, to, is := m.pair(call, governance.Decision(r.Decision))
	if ctx.Err() != nil {
		return // what was not judged counts on the strict side
	}
	m.out.Judged++
	if slices.Contains(is.Matched, m.candidate) {
		m.out.Matched++
	}
	if from == to {
		m.out.Unchanged++
		return
	}
	changed := m.out.Newly[to]
	changed.Count++
	if n := len(changed.Samples); n == 0 || n < samplesShown && changed.bytes+len(args) <= sampleBytes {
		changed.bytes += len(args)
		changed.Samples = append(changed.Samples, ChangedRun{
			ExecutionID: r.ExecutionID, Verb: verb.Name{Provider: r.Provider, Verb: r.Verb}, Args: subject.Mask(args),
			CreatedAt: r.CreatedAt.UTC(), From: from, To: to, Reason: m.after.Evaluate(is.call).Reason,
		})
	}
}

// madeAs says how a recorded run was made, at the time at which it began.
func madeAs(r dbsqlc.RunsToJudgeRow) governance.Made {
	text := func(id *uuid.UUID) *string {
		if id == nil {
			return nil
		}
		text := id.String()
		return &text
	}
	return governance.Made{
		Own: r.Origin == string(actor.Agent) || r.Origin == string(actor.Map), AgentID: text(r.AgentID), CustomerID: text(r.CustomerID),
		SessionID: r.SessionID, KeyID: text(r.KeyID), DryRun: r.DryRun, Metadata: r.Metadata, Now: r.CreatedAt,
	}
}
