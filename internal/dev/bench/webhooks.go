package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/record/event"
)

// deliveries says how fast webhooks are told while others hang.
type deliveries struct {
	hanging int
	// runs are those at 16 clients whose events one webhook that answers is told of, beside the ones
	// that hang. lag is from the event to its arrival.
	runs Sample
	told int
	lag  struct{ p50, p99 time.Duration }
	// rate is first attempts a second of what has gathered for toldAtOnce webhooks.
	attempts int
	rate     float64
}

// What gathers for the webhooks that answer.
const (
	toldAtOnce  = 10
	eventsEach  = 1000
	eventsBatch = 100
	// catchUp is how long the webhooks that answer may take to be told of everything.
	catchUp = time.Minute
)

// inbox is the receivers of all webhooks. Those below /hang get no answer.
type inbox struct {
	url     string
	stopped chan struct{}
	server  *http.Server

	mu   sync.Mutex
	lags map[string][]time.Duration // by path
}

func openInbox(ctx context.Context) (*inbox, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	in := &inbox{url: "http://" + l.Addr().String(), stopped: make(chan struct{}), lags: map[string][]time.Duration{}}
	in.server = &http.Server{Handler: in, ReadHeaderTimeout: time.Minute}
	go func() { _ = in.server.Serve(l) }()
	return in, nil
}

func (in *inbox) close() {
	close(in.stopped)
	_ = in.server.Close() // nothing is lost with it
}

// ServeHTTP implements http.Handler.
func (in *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var e struct{ Timestamp time.Time }
	raw, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(raw, &e) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/hang") {
		select {
		case <-in.stopped:
		case <-r.Context().Done():
		}
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.lags[r.URL.Path] = append(in.lags[r.URL.Path], time.Since(e.Timestamp))
}

// got returns the lags of what came below the path, in order.
func (in *inbox) got(path string) (lags []time.Duration) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for at, some := range in.lags {
		if strings.HasPrefix(at, path) {
			lags = append(lags, some...)
		}
	}
	slices.Sort(lags)
	return lags
}

// await waits until so many came below the path.
func (in *inbox) await(ctx context.Context, path string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	for len(in.got(path)) < n {
		select {
		case <-ctx.Done():
			return fmt.Errorf("bench: %d of %d deliveries came: %w", len(in.got(path)), n, ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// webhooks measures how webhooks that answer are told while others of their tenant hang, and have
// more and more to be told of.
func (b *benchmark) webhooks(ctx context.Context) (d deliveries, err error) {
	if d.hanging = b.Hanging; d.hanging == 0 {
		return d, nil
	}
	owner, tenant, err := b.logIn(ctx, b.service.Email, b.service.Password)
	if err != nil {
		return d, err
	}
	in, err := openInbox(ctx)
	if err != nil {
		return d, err
	}
	defer in.close()
	subscribe := func(n int, path, events string) error {
		for i := range n {
			err := b.post(ctx, owner, "/v1/webhooks", map[string]any{"url": fmt.Sprintf("%s%s/%d", in.url, path, i), "events": []string{events}}, nil)
			if err != nil {
				return err
			}
		}
		return nil
	}
	executed := string(event.ActionExecuted)
	if err := errors.Join(subscribe(d.hanging, "/hang", executed), subscribe(1, "/one", executed), subscribe(toldAtOnce, "/many", string(event.KeyRevoked))); err != nil {
		return d, err
	}
	const clients = 16
	samples := make([]Sample, rounds)
	for i := range samples {
		samples[i] = Load(ctx, clients, b.Round, b.cost, b.action)
		d.told += int(samples[i].Requests)
	}
	if d.runs = Median(samples); d.runs.Errors > 0 {
		return d, fmt.Errorf("bench: runs beside webhooks that hang: %w", d.runs.FirstError)
	}
	if err := in.await(ctx, "/one", d.told); err != nil {
		return d, err
	}
	lags := in.got("/one")
	d.lag.p50, d.lag.p99 = lags[len(lags)/2], lags[len(lags)*99/100]
	d.attempts = toldAtOnce * eventsEach
	began := time.Now()
	if err := b.emit(ctx, tenant, eventsEach); err != nil {
		return d, err
	}
	if err := in.await(ctx, "/many", d.attempts); err != nil {
		return d, err
	}
	d.rate = float64(d.attempts) / time.Since(began).Seconds()
	return d, nil
}

// emit writes events as changes do, without the changes.
func (b *benchmark) emit(ctx context.Context, tenant uuid.UUID, n int) error {
	pool, err := db.Open(ctx, db.Config{URL: b.service.DatabaseURL, MaxConns: 2})
	if err != nil {
		return err
	}
	defer pool.Close()
	for range n / eventsBatch {
		batch := &db.Batch{}
		for range eventsBatch {
			event.Queue(batch, event.Event{TenantID: tenant, Body: event.Revoked{APIKeyID: "bench"}})
		}
		if err := pool.Send(ctx, tenant, batch); err != nil {
			return err
		}
	}
	return nil
}

func (d deliveries) print(w io.Writer) error {
	if d.hanging == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "webhooks, %d of which hang: %d events of runs at 16 clients (%.0f/s beside them) told to one that answers, lag p50 %.0f ms, p99 %.0f ms; "+
		"%d first attempts of what has gathered for %d others at %.0f/s\n\n",
		d.hanging, d.told, d.runs.Rate, milliseconds(d.lag.p50), milliseconds(d.lag.p99), d.attempts, toldAtOnce, d.rate)
	return err
}

// goals are those of the project for webhooks (docs/costs.md). runs is the rate of runs at 16 clients
// that nobody is told of.
func (d deliveries) goals(runs float64) []Goal {
	if d.hanging == 0 {
		return nil
	}
	return []Goal{
		{What: fmt.Sprintf("first attempts beside %d webhooks that hang / runs, rate at 16 clients", d.hanging), Ratio: d.rate / runs, AtLeast: 3},
		{What: "event to arrival beside them, p99, s", Ratio: d.lag.p99.Seconds(), AtMost: 2},
	}
}
