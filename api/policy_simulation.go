package api

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
)

type simulateBody struct {
	Policy     *candidateBody `json:"policy"`
	From       *string        `json:"from"`
	To         *string        `json:"to"`
	SampleSize *int           `json:"sample_size"`
}

// candidateBody is a policy as for its creation, with the id of the policy that it would
// replace.
type candidateBody struct {
	policyBody

	ID *string `json:"id"`
}

type period struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

type simulation struct {
	Period       period           `json:"period"`
	Sample       string           `json:"sample"`
	RunsInPeriod int64            `json:"runs_in_period"`
	RunsJudged   int              `json:"runs_judged"`
	RunsSkipped  int              `json:"runs_skipped"`
	Partial      bool             `json:"partial"`
	Windows      policy.Counting  `json:"windows"`
	Lookups      string           `json:"lookups"`
	InDoubt      int              `json:"lookups_in_doubt"`
	Matched      int              `json:"matched"`
	Newly        newly            `json:"newly"`
	Unchanged    int              `json:"unchanged"`
	Warnings     []policy.Warning `json:"warnings"`
}

type newly struct {
	Blocked  changed `json:"blocked"`
	Held     changed `json:"held"`
	Notified changed `json:"notified"`
	Allowed  changed `json:"allowed"`
}

// changed counts the runs, out of those judged, whose decision would change.
type changed struct {
	Count   int          `json:"count"`
	Of      int          `json:"of"`
	Samples []changedRun `json:"samples"`
}

type changedRun struct {
	ExecutionID string          `json:"execution_id"`
	Verb        string          `json:"verb"`
	Args        json.RawMessage `json:"args"`
	CreatedAt   time.Time       `json:"created_at"`
	From        policy.Effect   `json:"from"`
	To          policy.Effect   `json:"to"`
	Reason      string          `json:"reason"`
}

func viewSimulation(m policy.Simulation) simulation {
	kind := func(e policy.Effect) changed {
		c := changed{Count: m.Newly[e].Count, Of: m.Judged, Samples: make([]changedRun, len(m.Newly[e].Samples))}
		for i, r := range m.Newly[e].Samples {
			c.Samples[i] = changedRun{r.ExecutionID, r.Verb.String(), r.Args, r.CreatedAt, r.From, r.To, r.Reason}
		}
		return c
	}
	sample := "all"
	if m.Sampled {
		sample = "uniform"
	}
	lookups := "none"
	if m.LookupsInDoubt > 0 {
		lookups = "in_doubt"
	}
	return simulation{
		Period: period(m.Period), Sample: sample, RunsInPeriod: m.Runs, RunsJudged: m.Judged, RunsSkipped: m.Skipped, Partial: m.Partial, Windows: m.Windows,
		Lookups: lookups, InDoubt: m.LookupsInDoubt,
		Matched: m.Matched, Unchanged: m.Unchanged, Warnings: wire.Array(m.Warnings),
		Newly: newly{Blocked: kind(policy.Blocked), Held: kind(policy.Held), Notified: kind(policy.Notified), Allowed: kind(policy.Allowed)},
	}
}

func (h *policyHandlers) simulatePolicy(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b simulateBody
	if err := c.DecodeExact(&b, "/policy"+conditionValues, "/policy"+lookupArgs); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	in := policy.Candidate{From: optionalTime(&v, "/from", b.From), To: optionalTime(&v, "/to", b.To), Sample: policy.DefaultSample}
	if b.Policy == nil {
		v.Add("/policy", "required", "policy is required, as for its creation.")
	} else {
		in.Draft = b.Policy.draft(&v, "/policy")
		if b.Policy.ID != nil {
			id := wire.IDOf(*b.Policy.ID)
			in.Replaces = &id
		}
	}
	if b.SampleSize != nil {
		in.Sample = *b.SampleSize
		if in.Sample < 1 || in.Sample > policy.MaxSample {
			v.Add("/sample_size", "range", fmt.Sprintf("sample_size is 1 to %d.", policy.MaxSample))
		}
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	defer h.burst()() // it has many runs in memory
	m, err := h.policies.Simulate(ctx, c.Actor.TenantID, in)
	return wire.Answer(viewSimulation, m, err)
}

type coverage struct {
	PolicyID   uuid.UUID         `json:"policy_id"`
	From       time.Time         `json:"from"`
	To         time.Time         `json:"to"`
	Runs       int64             `json:"runs"`
	Matched    int64             `json:"matched"`
	Decided    int64             `json:"decided"`
	ByDecision decisionCounts    `json:"by_decision"`
	WouldHave  decisionCounts    `json:"would_have"`
	ByVersion  []versionCoverage `json:"by_version"`
	ByDay      []dayCoverage     `json:"by_day"`
}

type decisionCounts struct {
	Allow           int64 `json:"allow"`
	PendingApproval int64 `json:"pending_approval"`
	Block           int64 `json:"block"`
}

type versionCoverage struct {
	Version int32 `json:"version"`
	Matched int64 `json:"matched"`
	Decided int64 `json:"decided"`
}

type dayCoverage struct {
	Date    string `json:"date"`
	Matched int64  `json:"matched"`
	Decided int64  `json:"decided"`
}

func (h *policyHandlers) policyCoverage(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var v wire.Validation
	from, to := v.QueryTime(c, "from"), v.QueryTime(c, "to")
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	id := c.ID()
	got, err := h.policies.Coverage(ctx, c.Actor.TenantID, id, from, to)
	if err != nil {
		return wire.Reply{}, err
	}
	out := coverage{
		PolicyID: id, From: got.Period.From, To: got.Period.To, Runs: got.Runs, Matched: got.Matched, Decided: got.Decided,
		ByDecision: countsOf(got.ByDecision), WouldHave: countsOf(got.WouldHave),
		ByVersion: make([]versionCoverage, len(got.ByVersion)), ByDay: make([]dayCoverage, len(got.ByDay)),
	}
	for i, n := range got.ByVersion {
		out.ByVersion[i] = versionCoverage(n)
	}
	for i, n := range got.ByDay {
		out.ByDay[i] = dayCoverage(n)
	}
	return wire.OK(out), nil
}

func countsOf(m map[governance.Decision]int64) decisionCounts {
	return decisionCounts{Allow: m[governance.Allow], PendingApproval: m[governance.PendingApproval], Block: m[governance.Block]}
}
