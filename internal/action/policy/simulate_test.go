package policy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/dev/testkit"
)

func (b *bench) simulate(t *testing.T, c policy.Candidate) policy.Simulation {
	t.Helper()
	if c.Sample == 0 {
		c.Sample = policy.DefaultSample
	}
	m, err := b.Simulate(t.Context(), b.ours, c)
	require.NoError(t, err)
	n := m.Unchanged
	for _, one := range m.Newly {
		n += one.Count
	}
	require.Equal(t, m.Judged, n, "each run has changed or has not")
	require.LessOrEqual(t, int64(m.Judged+m.Skipped), m.Runs)
	return m
}

// A run is judged by the record of its customer as it is now.
func TestSimulateReadsTheRecordOfTheCustomer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, tags := range map[string]string{"ada": "{vip}", "bob": "{}"} {
		id := uuid.Must(uuid.NewV7())
		b.exec(t, `INSERT INTO customers (id, tenant_id, external_id, metadata, tags, created_at, updated_at) VALUES ($1, $2, $3, '{"plan":"gold"}', $4, now(), now())`, id, b.ours, name, tags)
		b.exec(t, `INSERT INTO customer_identifiers (tenant_id, identifier, customer_id) VALUES ($1, $2, $3)`, b.ours, "id:"+name, id)
	}
	at := b.now.Add(-time.Hour)
	vip := b.ran(t, b.ours, at, "shop:create_order", `{"amount":1}`, `{"customer_id":"ada"}`)
	b.ran(t, b.ours, at, "shop:create_order", `{"amount":1}`, `{"customer_id":"bob"}`)
	nobody := b.ran(t, b.ours, at, "shop:create_order", `{"amount":1}`, `{"customer_id":"nobody"}`)
	for _, tc := range []struct {
		field string
		value string
		op    governance.Operator
		want  []string
	}{
		{"customer.tags", `"vip"`, governance.OpContains, []string{vip.String(), nobody.String()}}, // what is not known counts as matched
		{"customer.external_id", `"ada"`, governance.OpEquals, []string{vip.String()}},
		{"customer.metadata.plan", `null`, governance.OpNotExists, []string{nobody.String()}},
	} {
		c := when(tc.field, tc.op, tc.value)
		m := b.simulate(t, policy.Candidate{Draft: policy.Draft{Name: "VIP", Action: "block", Conditions: []governance.Condition{c}}})
		var got []string
		for _, s := range m.Newly[policy.Blocked].Samples {
			got = append(got, s.ExecutionID)
		}
		require.ElementsMatch(t, tc.want, got, tc.field)
	}
}

func TestSimulate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	day := func(n int) time.Time { return b.now.Add(-time.Duration(n) * 24 * time.Hour) }
	b.ran(t, b.ours, day(1), "shop:list_orders", `{"limit":1}`, `{}`)                           // low
	b.ran(t, b.ours, day(1), "shop:create_order", `{"amount":50}`, `{}`)                        // medium
	large := b.ran(t, b.ours, day(2), "shop:create_order", `{"amount":5000,"token":"t"}`, `{}`) // medium
	dry := b.ran(t, b.ours, day(2), "shop:create_order", `{"amount":6000}`, `{"dryRun":true,"agent_id":"a"}`)
	b.ran(t, b.ours, day(3), "shop:create_refund", `{"amount":5000}`, `{}`)   // high
	b.ran(t, b.ours, day(3), "gone:create_order", `{"amount":5000}`, `{}`)    // not in the catalog
	b.ran(t, b.ours, day(8), "shop:create_order", `{"amount":5000}`, `{}`)    // before the period
	b.ran(t, b.them, day(2), "shop:create_order", `{"amount":5000}`, `{}`)    // another tenant's
	b.ran(t, b.ours, b.now.Add(1), "shop:create_order", `{"amount":1}`, `{}`) // after it

	blocks := policy.Draft{Name: "Large", Mode: "shadow", Matchers: verbs("shop:create_order"), Conditions: []governance.Condition{when("args.amount", governance.OpGreater, "1000")}, Action: "block"}
	off := false
	blocks.Enabled = &off // judged as if it were on
	m := b.simulate(t, policy.Candidate{Draft: blocks})
	require.EqualValues(t, 6, m.Runs)
	require.Equal(t, 5, m.Judged)
	require.Equal(t, 1, m.Skipped)
	require.False(t, m.Sampled)
	require.False(t, m.Partial)
	require.Equal(t, 2, m.Matched)
	require.Equal(t, 2, m.Newly[policy.Blocked].Count)
	seen := map[string]policy.ChangedRun{}
	for _, s := range m.Newly[policy.Blocked].Samples {
		seen[s.ExecutionID] = s
	}
	require.Contains(t, seen, dry.String())
	one := seen[large.String()]
	require.Equal(t, policy.Notified, one.From)
	require.Equal(t, policy.Blocked, one.To)
	require.JSONEq(t, `{"amount":5000,"token":"[masked]"}`, string(one.Args))
	require.Equal(t, "shop:create_order", one.Verb.String())
	require.Contains(t, one.Reason, "Large")
	require.Zero(t, b.version(t, b.ours), "a simulation writes nothing")

	m = b.simulate(t, policy.Candidate{Draft: policy.Draft{Name: "Hold", Action: "require_approval"}})
	require.Equal(t, 5, m.Newly[policy.Held].Count, "high risk is held too")
	require.Equal(t, []policy.WarningCode{policy.TooFewApprovers}, codes(m.Warnings))
	m = b.simulate(t, policy.Candidate{Draft: policy.Draft{Name: "Quiet", Matchers: verbs("shop:*"), Action: "allow"}})
	require.Equal(t, 3, m.Newly[policy.Allowed].Count)
	require.Equal(t, 2, m.Unchanged, "the low risk and the high one, which allow does not open")
	require.Equal(t, 5, m.Matched)
	m = b.simulate(t, policy.Candidate{Draft: policy.Draft{Name: "Tell", Matchers: verbs("shop:list_*"), Action: "notify"}})
	require.Equal(t, 1, m.Newly[policy.Notified].Count)
	m = b.simulate(t, policy.Candidate{Draft: policy.Draft{
		Name: "By agent", Conditions: []governance.Condition{when("agent_id", governance.OpEquals, `"a"`)}, Action: "block",
	}})
	require.Equal(t, 1, m.Newly[policy.Blocked].Count)

	from, to := day(9), day(7)
	m = b.simulate(t, policy.Candidate{Draft: blocks, From: &from, To: &to})
	require.EqualValues(t, 1, m.Runs)
	require.Equal(t, 1, m.Newly[policy.Blocked].Count)
}

// Arguments that do not fit are refused whatever the policies say, so a candidate blocks nothing there.
func TestSimulateLeavesCallsThatWereRefusedForTheirArguments(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sent := b.ran(t, b.ours, b.now.Add(-time.Hour), "shop:create_order", `{"amount":5000}`, `{}`)
	refused := b.ran(t, b.ours, b.now.Add(-time.Hour), "shop:create_order", `{"amount":"much"}`, `{}`)
	b.exec(t, "UPDATE runs SET state = 'refused', error_code = 'INVALID_ARGS' WHERE id = $1", refused)
	m := b.simulate(t, policy.Candidate{Draft: policy.Draft{Name: "All", Matchers: verbs("shop:*"), Action: "block"}})
	require.Equal(t, 2, m.Judged)
	require.Equal(t, 1, m.Unchanged)
	require.Equal(t, []string{sent.String()}, executionsOf(m.Newly[policy.Blocked]))
}

func TestSimulateAReplacement(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ran(t, b.ours, b.now.Add(-time.Hour), "shop:list_orders", `{}`, `{}`)
	p := b.create(t, block("No lists", "shop:list_*"))
	b.create(t, policy.Draft{Name: "Watched", Mode: "shadow", Action: "block"})

	loose := policy.Draft{Name: "Lists", Matchers: verbs("shop:list_*"), Action: "notify"}
	m := b.simulate(t, policy.Candidate{Draft: loose})
	require.Equal(t, 1, m.Unchanged, "beside the block it changes nothing")
	m = b.simulate(t, policy.Candidate{Draft: loose, Replaces: &p.ID})
	require.Equal(t, 1, m.Newly[policy.Notified].Count)
	require.Equal(t, policy.Blocked, m.Newly[policy.Notified].Samples[0].From)

	unknown := uuid.New()
	_, err := b.Simulate(t.Context(), b.ours, policy.Candidate{Draft: loose, Replaces: &unknown, Sample: 1})
	require.True(t, fault.HasCode(err, fault.CodePolicyNotFound))
	_, err = b.Simulate(t.Context(), b.them, policy.Candidate{Draft: loose, Replaces: &p.ID, Sample: 1})
	require.True(t, fault.HasCode(err, fault.CodePolicyNotFound))
	_, err = b.Simulate(t.Context(), b.ours, policy.Candidate{Draft: policy.Draft{Name: "x", Action: "deny"}, Sample: 1})
	require.True(t, fault.HasCode(err, fault.CodeValidation))
	require.Equal(t, "/policy/action/type", fault.As(err).Details[0].Path)
	_, err = b.Simulate(t.Context(), b.ours, policy.Candidate{Draft: loose, From: &b.now, To: &b.now, Sample: 1})
	require.True(t, fault.HasCode(err, fault.CodeValidation))
}

// A sample is of the size asked for, the same each time and no part of the period is
// preferred.
func TestSimulateASample(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 400 {
		b.ran(t, b.ours, b.now.Add(-time.Duration(i+1)*time.Minute), "shop:create_order", fmt.Sprintf(`{"amount":%d}`, i), `{}`)
	}
	recent := policy.Draft{Name: "Recent", Conditions: []governance.Condition{when("args.amount", governance.OpLess, "200")}, Action: "block"}
	m := b.simulate(t, policy.Candidate{Draft: recent, Sample: 100})
	require.EqualValues(t, 400, m.Runs)
	require.Equal(t, 100, m.Judged)
	require.True(t, m.Sampled)
	require.InDelta(t, 50, m.Matched, 25) // five standard deviations
	require.Len(t, m.Newly[policy.Blocked].Samples, 10)
	require.Equal(t, m, b.simulate(t, policy.Candidate{Draft: recent, Sample: 100}))
	all := b.simulate(t, policy.Candidate{Draft: recent, Sample: 400})
	require.False(t, all.Sampled)
	require.Equal(t, 200, all.Matched)
}

func TestASimulationOutOfTimeSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ran(t, b.ours, b.now.Add(-time.Hour), "shop:list_orders", `{}`, `{}`)
	hurried, err := policy.New(policy.Deps{DB: b.db.Pool, Subjects: b.dispatch, Keys: testkit.Keys{}, Now: func() time.Time { return b.now }, SimulationLimit: time.Nanosecond})
	require.NoError(t, err)
	_, err = hurried.Simulate(t.Context(), b.ours, policy.Candidate{Draft: policy.Draft{Name: "x", Action: "block"}, Sample: 10})
	require.True(t, fault.HasCode(err, fault.CodeServiceUnavailable), "%v", err)
	require.True(t, fault.As(err).Retryable)
}

// The samples of one kind have a bound in bytes. The first is always there.
func TestSimulateShowsFewLargeSamples(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 4 {
		b.ran(t, b.ours, b.now.Add(-time.Hour), "shop:create_order", `{"note":"`+strings.Repeat("x", 100<<10)+`"}`, `{}`)
	}
	m := b.simulate(t, policy.Candidate{Draft: policy.Draft{Name: "x", Action: "block"}, Sample: 10})
	require.Equal(t, 4, m.Newly[policy.Blocked].Count)
	require.Len(t, m.Newly[policy.Blocked].Samples, 2)
	for range 4 {
		b.ran(t, b.ours, b.now.Add(-30*time.Hour), "shop:create_order", `{"note":"`+strings.Repeat("x", 300<<10)+`"}`, `{}`)
	}
	from, to := b.now.Add(-40*time.Hour), b.now.Add(-20*time.Hour)
	m = b.simulate(t, policy.Candidate{Draft: policy.Draft{Name: "x", Action: "block"}, From: &from, To: &to, Sample: 10})
	require.Len(t, m.Newly[policy.Blocked].Samples, 1)
}

// waiting finds no verb until it is let go on.
type waiting struct {
	policy.Subjects

	began, goOn chan struct{}
	whose       uuid.UUID
}

func (s *waiting) Subject(ctx context.Context, tenant uuid.UUID, name verb.Name) (policy.Subject, error) {
	if tenant == s.whose {
		s.began <- struct{}{}
		<-s.goOn
	}
	return s.Subjects.Subject(ctx, tenant, name)
}

// A tenant simulates once at a time. Another one simulates meanwhile.
func TestSimulationsOfATenantTakeTurns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ran(t, b.ours, b.now.Add(-time.Hour), "shop:list_orders", `{}`, `{}`)
	subjects := &waiting{Subjects: b.dispatch, began: make(chan struct{}), goOn: make(chan struct{}), whose: b.ours}
	s, err := policy.New(policy.Deps{DB: b.db.Pool, Subjects: subjects, Keys: testkit.Keys{}, Now: func() time.Time { return b.now }})
	require.NoError(t, err)
	c := policy.Candidate{Draft: policy.Draft{Name: "x", Action: "block"}, Sample: 10}
	simulated := make(chan error)
	const waiting, tooMany = 8, 3
	for range 1 + waiting + tooMany {
		go func() {
			_, err := s.Simulate(t.Context(), b.ours, c)
			simulated <- err
		}()
	}
	<-subjects.began
	for range tooMany { // the line is full: only these end before the first goes on
		err := <-simulated
		require.True(t, fault.HasCode(err, fault.CodeServiceUnavailable), "%v", err)
		require.Positive(t, fault.As(err).RetryAfter)
	}
	_, err = s.Simulate(t.Context(), b.them, c)
	require.NoError(t, err)
	go func() {
		for range waiting {
			subjects.goOn <- struct{}{}
			<-subjects.began
		}
		subjects.goOn <- struct{}{}
	}()
	for range 1 + waiting {
		require.NoError(t, <-simulated)
	}
}

// stuck finds one verb; the next look-up lasts until the time is over.
type stuck struct {
	policy.Subjects

	asked int
}

func (s *stuck) Subject(ctx context.Context, tenant uuid.UUID, name verb.Name) (policy.Subject, error) {
	if s.asked++; s.asked > 1 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Subjects.Subject(ctx, tenant, name)
}

func TestASimulationShowsWhatItHasWhenTheTimeIsOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 20 {
		b.ran(t, b.ours, b.now.Add(-time.Hour), "shop:list_orders", `{}`, `{}`)
		b.ran(t, b.ours, b.now.Add(-time.Hour), "shop:create_order", `{}`, `{}`)
	}
	hurried, err := policy.New(policy.Deps{DB: b.db.Pool, Subjects: &stuck{Subjects: b.dispatch}, Keys: testkit.Keys{}, Now: func() time.Time { return b.now }, SimulationLimit: 3 * time.Second})
	require.NoError(t, err)
	m, err := hurried.Simulate(t.Context(), b.ours, policy.Candidate{Draft: policy.Draft{Name: "x", Action: "block"}, Sample: 30})
	require.NoError(t, err)
	require.True(t, m.Partial)
	require.Positive(t, m.Judged)
	require.Less(t, m.Judged, 30)
	require.EqualValues(t, 40, m.Runs)
	require.Equal(t, m.Judged, m.Newly[policy.Blocked].Count)
}

// A simulation judges conditions on windows by the runs that were recorded before each, also by those
// before the period, and by the policies as they stand and with the candidate alike.
func TestSimulateCountsWindows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sum := governance.Window{By: "customer_id", Per: "2h", Sum: "args.amount"}
	draft := policy.Draft{Name: "At most 100", Action: "block", Matchers: verbs("shop:create_order"), Conditions: []governance.Condition{
		{Window: &sum, Operator: governance.OpGreater, Value: json.RawMessage("100")},
	}}
	at := func(minutes int, customer, state, amount string) string {
		when := b.now.Add(time.Duration(minutes) * time.Minute)
		id := b.ran(t, b.ours, when, "shop:create_order", `{"amount":`+amount+`}`, `{"customer_id":"`+customer+`"}`)
		b.exec(t, "UPDATE runs SET state = $2, sent_at = $3 WHERE id = $1", id, state, when.Add(time.Second))
		return id.String()
	}
	at(-300, "c1", "executed", "90") // too long ago
	at(-100, "c1", "executed", "60") // before the period
	at(-50, "c1", "executed", "30")
	at(-49, "c1", "failed", "10")
	at(-48, "c1", "executed", "-1000")
	over := at(-40, "c1", "outcome_unknown", "15")
	at(-39, "c2", "executed", "100")
	behind := at(-38, "c1", "executed", "-1")
	from := b.now.Add(-time.Hour)
	m := b.simulate(t, policy.Candidate{Draft: draft, From: &from})
	require.Equal(t, policy.WindowsCounted, m.Windows)
	require.Equal(t, 6, m.Judged)
	require.ElementsMatch(t, []string{over, behind}, executionsOf(m.Newly[policy.Blocked]))
	p := b.create(t, draft)
	sum.Per = "30m"
	m = b.simulate(t, policy.Candidate{Draft: draft, From: &from, Replaces: &p.ID})
	require.ElementsMatch(t, []string{over, behind}, executionsOf(m.Newly[policy.Notified]))
	m = b.simulate(t, policy.Candidate{Draft: draft, From: &from})
	require.Equal(t, 6, m.Unchanged)

	require.Equal(t, policy.NoWindows, b.simulateOther(t).Windows)
	b.exec(t, `INSERT INTO runs (id, tenant_id, execution_id, claim_key, provider, verb, args, fingerprint, dry_run, metadata, request_id,
		source_addr, give_up_at, created_at, workflow_id, state, sent_at) SELECT gen_random_uuid(), $1, 'e' || n, 'e' || n, 'shop', 'create_refund', '{}', '', false,
		'{}', '', '', now(), now(), 'w', 'executed', $2::timestamptz - interval '1 minute' FROM generate_series(1, 10000) AS n`, b.ours, b.now)
	m = b.simulate(t, policy.Candidate{Draft: draft, From: &from, Sample: 10})
	require.Equal(t, policy.WindowsInDoubt, m.Windows)
	require.Equal(t, 6, m.Judged)
}

// A run whose arguments cannot be read ends no simulation: it is skipped and counted, and the others
// are judged. The operator is told once, and the line of the log shows no argument.
func TestSimulateSkipsRunsWhoseArgumentsCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key, err := testkit.Keys{}.Key(t.Context(), b.ours)
	require.NoError(t, err)
	sealed := func(args string) (string, uuid.UUID) {
		id := b.ran(t, b.ours, b.now.Add(-time.Hour), "shop:create_order", `{}`, `{"customer_id":"`+uuid.NewString()+`"}`)
		text := key.Seal(datakey.Place{Tenant: b.ours, Row: id, Field: datakey.RunArgs}, []byte(args))
		b.exec(t, "UPDATE runs SET args = $2 WHERE id = $1", id, text)
		return text, id
	}
	_, small := sealed(`{"amount":50}`)
	text, large := sealed(`{"amount":5000}`)
	for name, args := range map[string]string{
		"sealed for another run": text,
		"cut off":                text[:len(text)-8],
		"no base64":              "s1.%%%",
		"nothing sealed":         "s1.",
		"no JSON":                `{"amount":50`,
		"empty":                  "",
	} {
		b.ran(t, b.ours, b.now.Add(-time.Hour), "shop:create_order", args, `{"customer_id":"`+name+`"}`)
	}
	b.exec(t, "UPDATE runs SET state = 'executed', sent_at = created_at WHERE tenant_id = $1", b.ours)
	var said bytes.Buffer
	service, err := policy.New(policy.Deps{
		DB: b.db.Pool, Subjects: b.dispatch, Keys: testkit.Keys{}, Now: func() time.Time { return b.now }, Log: slog.New(slog.NewJSONHandler(&said, nil)),
	})
	require.NoError(t, err)
	b.Service = service
	for name, c := range map[string]governance.Condition{
		"of the arguments": when("args.amount", governance.OpGreater, "1000"),
		"of a window":      {Window: &governance.Window{By: "customer_id", Per: "2h", Sum: "args.amount"}, Operator: governance.OpGreater, Value: json.RawMessage("1000")},
	} {
		said.Reset()
		m := b.simulate(t, policy.Candidate{Draft: policy.Draft{Name: "Large", Action: "block", Matchers: verbs("shop:create_order"), Conditions: []governance.Condition{c}}})
		require.EqualValues(t, 8, m.Runs, name)
		require.Equal(t, 2, m.Judged, name)
		require.Equal(t, 6, m.Skipped, name)
		require.False(t, m.Partial, name)
		require.Equal(t, []string{large.String()}, executionsOf(m.Newly[policy.Blocked]), name)
		require.Equal(t, 1, m.Unchanged, "%s: %s is as it was", name, small)
		require.Equal(t, 1, strings.Count(said.String(), "cannot be read"), said.String())
		require.Contains(t, said.String(), `"runs":6`)
		require.NotContains(t, said.String(), "amount")
	}
}

// simulateOther simulates a policy without windows, for a tenant that has none.
func (b *bench) simulateOther(t *testing.T) policy.Simulation {
	t.Helper()
	m, err := b.Simulate(t.Context(), b.them, policy.Candidate{Draft: policy.Draft{Name: "x", Action: "block"}, Sample: 1})
	require.NoError(t, err)
	return m
}

func executionsOf(c *policy.Changed) (ids []string) {
	for _, s := range c.Samples {
		ids = append(ids, s.ExecutionID)
	}
	return ids
}

// slowOnce takes all the time that there is to find the second verb.
type slowOnce struct {
	policy.Subjects

	asked int
}

func (s *slowOnce) Subject(ctx context.Context, tenant uuid.UUID, name verb.Name) (policy.Subject, error) {
	if s.asked++; s.asked == 2 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Subjects.Subject(ctx, tenant, name)
}

// Counting that takes too long leaves time to judge.
func TestSimulationWithoutTimeToCountLeavesWindowsInDoubt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"shop:create_order", "shop:create_refund"} {
		id := b.ran(t, b.ours, b.now.Add(-time.Hour), name, `{"amount":1}`, `{"customer_id":"c1"}`)
		b.exec(t, "UPDATE runs SET state = 'executed', sent_at = $2 WHERE id = $1", id, b.now.Add(-time.Hour))
	}
	hurried, err := policy.New(policy.Deps{DB: b.db.Pool, Subjects: &slowOnce{Subjects: b.dispatch}, Keys: testkit.Keys{}, Now: func() time.Time { return b.now }, SimulationLimit: 10 * time.Second})
	require.NoError(t, err)
	m, err := hurried.Simulate(t.Context(), b.ours, policy.Candidate{Draft: limit(governance.Window{By: "customer_id", Per: "1h", Sum: "args.amount"}), Sample: 10})
	require.NoError(t, err)
	require.Equal(t, policy.WindowsInDoubt, m.Windows)
	require.False(t, m.Partial)
	require.Equal(t, 1, m.Newly[policy.Blocked].Count, "in doubt; high risk is blocked anyway")
}
