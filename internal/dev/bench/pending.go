package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// heldAmount is the amount that the benchmark's policy holds.
const heldAmount = 4242

// pendingRuns says what runs that wait for a human cost, and what they cost others.
type pendingRuns struct {
	n              int
	bytes          int64 // resident memory for each, of all processes, shared memory counted once
	before, beside Sample
	decision       Sample // from the approver's request to the recorded outcome
	holding        Sample // of which only SQL and Writes are set
}

// held measures calls that wait for a human: how long an approval takes to the
// provider's answer on an idle machine, and what many pending ones cost.
func (b *benchmark) held(ctx context.Context) (p pendingRuns, err error) {
	if b.Approvals == 0 && b.Pending == 0 {
		return p, nil
	}
	owner, _, err := b.logIn(ctx, b.service.Email, b.service.Password)
	if err != nil {
		return p, err
	}
	err = b.post(ctx, owner, "/v1/policies", map[string]any{
		"name": "bench", "verbMatchers": []any{map[string]string{"type": "verb", "value": b.service.Provider + ":create_order"}},
		"conditions": []any{map[string]any{"field": "args.amount", "operator": "equals", "value": heldAmount}},
		"action":     map[string]string{"type": "require_approval"},
	}, nil)
	if err != nil {
		return p, err
	}
	if p.decision, p.holding, err = b.decisions(ctx, owner); err != nil {
		return p, err
	}
	const clients = 16
	load := func() Sample {
		return Load(ctx, clients, b.Round, func() Cost { return Cost{} }, b.action)
	}
	load() // what a first load leaves behind is not the pending runs'
	p.before = Median([]Sample{load(), load(), load()})
	resident := settled()
	if p.n, err = b.fillPending(ctx, clients); err != nil {
		return p, err
	}
	p.bytes = (settled() - resident) / int64(max(p.n, 1))
	p.beside = Median([]Sample{load(), load(), load()})
	return p, nil
}

// settled is the memory of all processes once garbage is given back. The second
// collection takes what finalisers of the first let go.
func settled() int64 {
	debug.FreeOSMemory()
	debug.FreeOSMemory()
	return Proportional()
}

// decisions approves held calls one after the other, and counts what both cost.
func (b *benchmark) decisions(ctx context.Context, owner credential) (decision, holding Sample, err error) {
	if b.Approvals == 0 {
		return decision, holding, nil
	}
	took := make([]time.Duration, b.Approvals)
	n := float64(len(took))
	for i := range took {
		var id string
		sql, writes := b.trips.Count(), b.writes.Load()
		if id, err = b.hold(ctx); err != nil {
			return decision, holding, err
		}
		holding.SQL += float64(b.trips.Count()-sql) / n
		holding.Writes += float64(b.writes.Load()-writes) / n
		var decided struct {
			Outcome string `json:"outcome"`
		}
		sql, writes = b.trips.Count(), b.writes.Load()
		start := time.Now()
		if err := b.post(ctx, owner, "/v1/approvals/"+id+"/approve", struct{}{}, &decided); err != nil {
			return decision, holding, err
		}
		took[i] = time.Since(start)
		decision.SQL += float64(b.trips.Count()-sql) / n
		decision.Writes += float64(b.writes.Load()-writes) / n
		if decided.Outcome != "executed" {
			return decision, holding, fmt.Errorf("bench: an approved call is %q", decided.Outcome)
		}
	}
	slices.Sort(took)
	at := func(q int) time.Duration { return took[min(len(took)-1, len(took)*q/100)] }
	decision.Requests, decision.P50, decision.P99, decision.Max = int64(len(took)), at(50), at(99), took[len(took)-1]
	return decision, holding, nil
}

// hold makes a call that a policy holds and returns its approval's id.
func (b *benchmark) hold(ctx context.Context) (string, error) {
	body := fmt.Appendf(nil, `{"verb":"%s:create_order","args":{"customer_id":"cus_1001","amount":%d,"currency":"eur"},"execution_id":"%s"}`,
		b.service.Provider, heldAmount, uuid.NewString())
	raw, err := b.call(ctx, http.MethodPost, "/v1/runtime/actions/run", b.runtime, body, http.StatusForbidden)
	if err != nil {
		return "", err
	}
	var answer struct {
		Error struct {
			ApprovalID string `json:"approval_id"`
			Decision   string `json:"decision"`
		} `json:"error"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Error.Decision != "pending_approval" {
		return "", fmt.Errorf("bench: a call was not held: %s", raw)
	}
	return answer.Error.ApprovalID, nil
}

// fillPending holds calls until there are as many as asked for.
func (b *benchmark) fillPending(ctx context.Context, clients int) (int, error) {
	var made atomic.Int64
	var wg sync.WaitGroup
	failed := make(chan error, clients)
	for range clients {
		wg.Go(func() {
			for made.Add(1) <= int64(b.Pending) {
				if _, err := b.hold(ctx); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		return 0, err
	default:
		return b.Pending, nil
	}
}

func (p pendingRuns) print(w io.Writer) error {
	if p.n == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "approvals, one after the other: %d decided; from the approver's request to the recorded outcome p50 %.1f ms, p99 %.1f ms, most %.1f ms; %.1f SQL trips, %.1f Temporal writes\n"+
		"a call that is held: %.1f SQL trips, %.1f Temporal writes\n"+
		"%d runs pending: %.1f KB resident each; runs at 16 clients %.0f/s before and %.0f/s beside them\n\n",
		p.decision.Requests, milliseconds(p.decision.P50), milliseconds(p.decision.P99), milliseconds(p.decision.Max), p.decision.SQL, p.decision.Writes, p.holding.SQL, p.holding.Writes,
		p.n, float64(p.bytes)/1024, p.before.Rate, p.beside.Rate)
	return err
}

// goals are those of the project for held runs (docs/costs.md).
func (p pendingRuns) goals() []Goal {
	if p.n == 0 {
		return nil
	}
	return []Goal{
		{What: "decision to recorded outcome, p99, idle, s", Ratio: p.decision.P99.Seconds(), AtMost: 0.1},
		{What: "SQL trips of a decision", Ratio: p.decision.SQL, AtMost: 12},
		{What: fmt.Sprintf("runs beside %d pending / without, rate at 16 clients", p.n), Ratio: p.beside.Rate / p.before.Rate, AtLeast: 0.9},
		{What: "resident memory of a pending run, KB", Ratio: float64(p.bytes) / 1024, AtMost: 50},
	}
}
