package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"agentruntime/db"
)

// fewQueued is how many Maps of another tenant wait where few do.
const fewQueued = 100

// countEvery is how often the open Maps are counted. Meanwhile each trigger counts as one.
const countEvery = time.Second

// inTurns lets one Map of each key run at a time, keys is how many keys there are.
const (
	inTurns = `"concurrency":{"key":"${trigger_data.key}","limit":1,"when_full":"queue"},`
	keys    = 10
)

// fillers is how many callers trigger the Maps that are to wait, keepers how many replace those that
// end meanwhile.
const fillers, keepers = 48, 2

// queuedMaps says how long the triggers of one tenant take while Maps of another wait. Both tenants
// run the Map of five steps.
type queuedMaps struct {
	n int
	// alone is without the other tenant, few beside fewQueued of its Maps, many beside n.
	alone, few, many Sample
	// ended is how many Maps of the other tenant ended in a second meanwhile.
	endedFew, endedMany float64
}

// crowd is the other tenant. It triggers as many Maps as it needs to have so many open.
type crowd struct {
	b      *benchmark
	runs   *benchmark // the same service, as the other tenant
	tenant uuid.UUID
	pool   *db.Pool
	wanted atomic.Int64
	open   atomic.Int64
	made   atomic.Int64
}

// queued measures the triggers of one caller beside the Maps of another tenant, on a service of its own:
// what the other parts leave to do goes on for minutes, and would slow one of the rounds more than another.
func (b *benchmark) queued(ctx context.Context, dir string) (q queuedMaps, err error) {
	if q.n = b.Queued; q.n == 0 {
		return q, nil
	}
	if err := b.start(ctx, filepath.Join(dir, "queued")); err != nil {
		return q, err
	}
	owner, _, err := b.logIn(ctx, b.service.Email, b.service.Password)
	if err != nil {
		return q, err
	}
	if err := b.publish(ctx, owner, ""); err != nil {
		return q, err
	}
	provider, err := b.deps.StartProvider(ctx, filepath.Join(dir, "crowd"))
	if err != nil {
		return q, err
	}
	defer provider.Stop()
	c, err := b.gather(ctx, provider)
	if err != nil {
		return q, err
	}
	defer c.pool.Close()
	if q.alone, err = b.triggers(ctx); err != nil {
		return q, err
	}
	ctx, stop := context.WithCancel(ctx)
	failed := make(chan error, keepers+1)
	var all sync.WaitGroup
	all.Go(func() { failed <- c.count(ctx) })
	for range keepers {
		all.Go(func() { failed <- c.keep(ctx) })
	}
	defer all.Wait()
	defer stop()
	beside := func(n int) (s Sample, ended float64, err error) {
		if err := c.fill(ctx, n, failed); err != nil {
			return s, 0, err
		}
		began, before := time.Now(), c.made.Load()-c.open.Load()
		s, err = b.triggers(ctx)
		return s, float64(c.made.Load()-c.open.Load()-before) / time.Since(began).Seconds(), err
	}
	if q.few, q.endedFew, err = beside(fewQueued); err != nil {
		return q, err
	}
	q.many, q.endedMany, err = beside(q.n)
	return q, err
}

// triggers is a round of one caller, thirty times as long as others: it is about the slowest, and the
// p99 of a few hundred triggers is the second or third of all. A fifth more goes before and is not
// counted: what the filling of a line leaves to write ends meanwhile.
func (b *benchmark) triggers(ctx context.Context) (Sample, error) {
	if s := Load(ctx, 1, 6*b.Round, b.cost, b.mapOfFive); s.FirstError != nil {
		return s, s.FirstError
	}
	s := Load(ctx, 1, 30*b.Round, b.cost, b.mapOfFive)
	return s, s.FirstError
}

// gather makes the other tenant, with the same Map.
func (b *benchmark) gather(ctx context.Context, provider Outside) (*crowd, error) {
	other := &benchmark{Config: b.Config, deps: b.deps, service: b.service, http: newHTTP()}
	other.service.Provider = outsideProvider
	email, password := "crowd@example.com", uuid.NewString()
	if err := b.post(ctx, credential{}, "/v1/auth/signup", map[string]string{"email": email, "password": password}, nil); err != nil {
		return nil, err
	}
	owner, tenant, err := b.logIn(ctx, email, password)
	if err != nil {
		return nil, err
	}
	if other.runtime, err = b.newKey(ctx, owner, "actions:run"); err != nil {
		return nil, err
	}
	if err := other.connect(ctx, owner, provider); err != nil {
		return nil, err
	}
	if err := other.publish(ctx, owner, inTurns); err != nil {
		return nil, err
	}
	pool, err := db.Open(ctx, db.Config{URL: b.service.DatabaseURL, MaxConns: 1})
	return &crowd{b: b, runs: other, tenant: tenant, pool: pool}, err
}

// count looks again and again how many Maps are open.
func (c *crowd) count(ctx context.Context) error {
	for {
		var open int64
		err := c.pool.Tenant(c.tenant).QueryRow(ctx, "SELECT count(*) FROM map_executions WHERE tenant_id = $1 AND finished_at IS NULL", c.tenant).Scan(&open)
		if err != nil {
			return ended(ctx, err)
		}
		c.open.Store(open)
		// A count reads them all, which would slow what is measured.
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(countEvery):
		}
	}
}

// keep triggers a Map when one has ended. It waits for none.
func (c *crowd) keep(ctx context.Context) error {
	for ctx.Err() == nil {
		if c.open.Load() < c.wanted.Load() {
			if err := c.trigger(ctx); err != nil {
				return ended(ctx, err)
			}
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// trigger triggers a Map and does not wait for its end.
func (c *crowd) trigger(ctx context.Context) error {
	body := fmt.Appendf(nil, `{"payload":{"order_id":"ord_1001","key":"k%d"}}`, c.made.Load()%keys)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.b.service.APIURL+c.runs.trigger, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Prefer", "wait=0")
	if _, err := c.runs.send(req, c.runs.runtime, http.StatusOK, http.StatusAccepted, http.StatusForbidden); err != nil {
		return err
	}
	c.made.Add(1)
	c.open.Add(1)
	return nil
}

// ended hides what the end of ctx has caused.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// fill triggers Maps until so many are open. Those that end are replaced from then on.
func (c *crowd) fill(ctx context.Context, n int, failed <-chan error) error {
	c.wanted.Store(int64(n))
	filling, ctx := errgroup.WithContext(ctx)
	for range fillers {
		filling.Go(func() error {
			for c.open.Load() < int64(n) {
				if err := c.trigger(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := filling.Wait()
	select {
	case stopped := <-failed:
		return errors.Join(errors.New("bench: the other tenant stopped"), stopped, err)
	default:
		return err
	}
}

func (q queuedMaps) print(w io.Writer) error {
	if q.n == 0 {
		return nil
	}
	fmt.Fprintf(w, "triggers of a Map by 1 client, beside Maps of another tenant that wait:\n")
	for _, row := range []struct {
		beside int
		s      Sample
		ended  float64
	}{{0, q.alone, 0}, {fewQueued, q.few, q.endedFew}, {q.n, q.many, q.endedMany}} {
		fmt.Fprintf(w, "  beside %5d: p50 %.1f ms, p99 %.1f ms, most %.1f ms, of %d; %.0f/s of the others end\n",
			row.beside, milliseconds(row.s.P50), milliseconds(row.s.P99), milliseconds(row.s.Max), row.s.Requests, row.ended)
	}
	_, err := fmt.Fprintln(w)
	return err
}

// goals are those of the project for the shares of tenants (docs/costs.md).
func (q queuedMaps) goals() []Goal {
	if q.n == 0 {
		return nil
	}
	p99 := func(a, b Sample) float64 { return float64(a.P99) / float64(b.P99) }
	return []Goal{
		{What: fmt.Sprintf("trigger beside %d Maps of another tenant / beside %d, p99", q.n, fewQueued), Ratio: p99(q.many, q.few), AtMost: 1.2},
		{What: fmt.Sprintf("trigger beside %d Maps of another tenant / alone, p99", q.n), Ratio: p99(q.many, q.alone), AtMost: 3},
	}
}
