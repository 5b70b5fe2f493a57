package run

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/circuit"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
)

// The circuit of a tenant's provider is a row that all processes share. A call reads it with its
// verb, the mark of sending looks at it again, and the statement that records an attempt's outcome
// notes what is news of the provider. So no call pays a trip for it, and one that succeeds at a
// healthy provider writes nothing.

// atCircuit stops a run that may be sent as far as governance is concerned, and whose provider's
// circuit does not let it pass now. A new call whose caller waits is refused at once. Any other
// waits for the circuit as it waits where a provider says 429: if the next probe may begin within
// its time. One that may have been sent has to wait for that, or its time ends it.
func (s *Service) atCircuit(ctx context.Context, p prepared) (step flow.Step, stopped bool, err error) {
	wait, stops := p.target.Circuit().Stops()
	if !stops {
		return flow.Step{}, false, nil
	}
	r, now := p.run, s.d.Now()
	step = flow.Step{State: r.State, After: min(max(wait, lookAgain), switchedOffMost)}
	if r.State == StateSending || r.MaybeSent {
		if r.ExpiresAt != nil {
			step.After = min(step.After, max(r.ExpiresAt.Sub(now), lookAgain))
		}
		return step, true, nil
	}
	time := r.span(now)
	if r.Step != nil && r.ExpiresAt != nil { // a Map or a turn waits, and not a caller
		time = span{left: r.ExpiresAt.Sub(now), nobodyWaits: true}
	}
	if (time.nobodyWaits || r.Sends > 0) && wait < time.left {
		return step, true, nil
	}
	f := fault.Newf(fault.CodeCircuitOpen,
		"The last calls of %s failed, so no call is sent to it for a while. Nothing of this one was sent; the id may be used again.", r.Verb.Provider)
	f.Retryable, f.RetryAfter = true, wait
	step, err = s.refuse(ctx, p, f)
	return step, true, err
}

// queueProbe makes the run the probe of a circuit that was not closed when its verb was read. The
// batch is undone where the circuit does not let it pass.
func (s *Service) queueProbe(b *db.Batch, p prepared) {
	if !p.target.Circuit().IsClosed() {
		db.Queue(b, s.q.TakeProbe, dbsqlc.TakeProbeParams{TenantID: p.run.TenantID, Provider: p.run.Verb.Provider, RunID: p.run.ID})
	}
}

// seenCalls is what this process has seen of providers and not recorded yet.
type seenCalls struct {
	mu   sync.Mutex
	seen *lru.Cache[seenKey, seenTally]
}

type seenKey struct {
	tenant   uuid.UUID
	provider string
}

// seenTally counts only what was seen since then, for the length of a window.
type seenTally struct {
	circuit.Tally

	since time.Time
}

// seenMost is how many providers of tenants a process remembers, 150 bytes each. One that it
// forgets had successes that count for no rate.
const seenMost = 1 << 14

func newSeenCalls() *seenCalls {
	seen, err := lru.New[seenKey, seenTally](seenMost)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &seenCalls{seen: seen}
}

// add counts one attempt. With take it returns all that was seen, and forgets it. news: a failure
// is among it.
func (c *seenCalls) add(k seenKey, v circuit.Verdict, first, take bool, now time.Time) (t circuit.Tally, news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, known := c.seen.Get(k)
	if !known || now.Sub(seen.since) > circuit.TheRule().Window {
		seen = seenTally{since: now}
	}
	seen.Tally = seen.Add(v, first)
	if news = seen.Streak > 0 || seen.Failed > 0; take || news {
		c.seen.Remove(k)
		return seen.Tally, news
	}
	c.seen.Add(k, seen)
	return circuit.Tally{}, false
}

// giveBack takes up again what could not be recorded.
func (c *seenCalls) giveBack(k seenKey, t circuit.Tally, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, known := c.seen.Get(k)
	if !known {
		seen.since = now
	}
	seen.Tally = t.Then(seen.Tally)
	c.seen.Add(k, seen)
}

// callReport is what the outcome of an attempt is recorded with: what this process has seen of its
// provider, that attempt included.
type callReport struct {
	key    seenKey
	run    uuid.UUID
	tally  circuit.Tally
	kind   *string // of the failure, nil where the attempt succeeded
	answer *db.Answer[string]
}

// seeCall judges an attempt of the run. It returns nil where there is nothing to record: a success
// at a provider that is well, and what says nothing.
func (s *Service) seeCall(p prepared, a Answer) *callReport {
	v, kind := circuit.Judge(p.target.Operation(), circuit.Attempt{
		Phase: a.Phase, Cause: a.Cause, Status: a.Status, Complete: a.Complete, Timeout: a.Timeout,
	})
	if v == circuit.Unclear {
		return nil
	}
	k := seenKey{p.run.TenantID, p.run.Verb.Provider}
	take := p.target.Circuit().Troubled()
	tally, news := s.seen.add(k, v, p.run.Sends == 1, take, s.d.Now())
	if !take && !news {
		return nil
	}
	c := &callReport{key: k, run: p.run.ID, tally: tally}
	if v == circuit.Failed {
		c.kind = &kind
	}
	return c
}

// queueCalls adds the report to the batch that records the outcome. It locks the circuit after the
// run and before the counters of budgets, as the mark of sending does.
func (s *Service) queueCalls(b *db.Batch, c *callReport) {
	if c == nil {
		return
	}
	c.answer = db.Queue(b, s.q.RecordCalls, dbsqlc.RecordCallsParams{
		TenantID: c.key.tenant, Provider: c.key.provider, RunID: c.run, RecordID: uuid.Must(uuid.NewV7()), Kind: c.kind,
		Calls: int32(c.tally.Calls), Failed: int32(c.tally.Failed), Streak: int32(c.tally.Streak), Success: c.tally.Success,
		Rule: circuit.TheRule().Array(),
	})
}

// Outcomes of record_calls that something follows from; see db/functions/record_calls.sql.
const (
	callsBusy     = "busy"
	callsOpened   = "opened"
	callsReopened = "reopened"
	callsClosed   = "closed"
)

// recorded does what follows from a report once its batch has committed.
func (s *Service) recorded(ctx context.Context, c *callReport) {
	if c == nil {
		return
	}
	about := []any{"tenant_id", c.key.tenant, "provider", c.key.provider}
	switch c.answer.Value {
	case callsBusy:
		s.seen.giveBack(c.key, c.tally, s.d.Now())
	case callsOpened, callsReopened:
		s.d.Log.WarnContext(ctx, "the circuit of a provider is open", append(about, "again", c.answer.Value == callsReopened, "error_kind", kindOf(c))...)
	case callsClosed:
		s.d.Log.InfoContext(ctx, "the circuit of a provider is closed again", about...)
	}
}

func kindOf(c *callReport) string {
	if c.kind == nil {
		return ""
	}
	return *c.kind
}
