// Package bench measures the running service: rate, latency, CPU, SQL round trips and Temporal writes
// of a request, beside those of another request in the same run. The bench command of the development
// binary calls Run and starts the servers for it. Goals are ratios and counts, and never times.
package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	temporalclient "go.temporal.io/sdk/client"
)

// Config is what a benchmark measures.
type Config struct {
	// Round is the length of one round, Pairs how many rounds each of two requests gets.
	Round time.Duration
	Pairs int
	// Pending is how many held calls wait while others run, and Queued how many Maps of another
	// tenant wait while Maps are triggered.
	Pending, Queued int
	// Only is a regular expression for the names of the scenarios to measure; "" measures all.
	Only string
	// Page is the file into which the table is written, between its two marks; "" writes none.
	Page string
}

// Start starts the whole service in this process, with its data in dir. A tracer of its connections to
// Postgres counts their trips, and countWrite is called for each write of Temporal to its main store.
type Start func(ctx context.Context, dir string, trips *Trips, countWrite func()) (Service, error)

// Service is a running service with a tenant whose provider is the sandbox.
type Service struct {
	// APIURL, TemporalAddress and DatabaseURL say where it is; the last is of the
	// service's role.
	APIURL, TemporalAddress, DatabaseURL string
	// Namespace is Temporal's.
	Namespace string
	// Email and Password log the tenant's owner in. RuntimeKey may run and list actions.
	Email, Password, RuntimeKey string
	// Provider is the slug of the sandbox, the others are its address, API key and OpenAPI document.
	Provider, ProviderURL, ProviderKey string
	Document                           json.RawMessage
	// Stop ends the service.
	Stop func()
}

type benchmark struct {
	Config
	caller // of the key that may run actions

	start  Start
	out    io.Writer
	dir    string
	trips  Trips
	writes atomic.Int64
	// stops end what the present group of scenarios has started, the last one first.
	stops []func()
	owner caller
	// manager may manage credentials, writer may write to the agents.
	manager, writer caller
	floor           temporalclient.Client
	// stored is a credential, trigger the path that triggers the Map, agent, guided and goal are paths of
	// agents.
	stored, trigger, agent, guided, goal string
	crowd                                *crowd
}

// Run measures the scenarios, prints each to out as soon as it is measured, and writes their table into the
// page. A missed goal is an error.
func Run(ctx context.Context, cfg Config, start Start, out io.Writer) (err error) {
	only, err := regexp.Compile(cfg.Only)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	b := &benchmark{Config: cfg, start: start, out: out}
	b.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}} // a connection for each client
	if b.dir, err = os.MkdirTemp("", "agentruntime-bench-"); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(b.dir)
	var (
		others  float64
		results []result
	)
	fmt.Fprint(out, line(columns()))
	for _, g := range b.groups() {
		measured, share, err := b.group(ctx, g, only)
		if err != nil {
			return err
		}
		others = max(others, share)
		results = append(results, measured...)
	}
	fmt.Fprintf(out, "\n%s\n", idle(others))
	if cfg.Page != "" && cfg.Only == "" {
		if err := writePage(cfg, results, others); err != nil {
			return err
		}
	}
	missed := 0
	for _, r := range results {
		missed += r.missed()
	}
	if missed > 0 {
		return fmt.Errorf("bench: %d goals missed; %s", missed, idle(others))
	}
	return nil
}

// group measures those scenarios of a group whose names fit, on a service of their own. It returns too
// how much of a core others used meanwhile.
func (b *benchmark) group(ctx context.Context, g group, only *regexp.Regexp) (results []result, others float64, err error) {
	defer b.stop()
	for _, s := range g.scenarios {
		if !only.MatchString(s.name()) {
			continue
		}
		if len(b.stops) == 0 {
			if err := g.setUp(ctx); err != nil {
				return nil, 0, fmt.Errorf("bench: %w", err)
			}
		}
		var r result
		share, err := beside(func() (err error) { r, err = b.measure(ctx, s); return err })
		if err != nil {
			return nil, 0, fmt.Errorf("bench: %s: %w", s.name(), err)
		}
		others = max(others, share)
		fmt.Fprint(b.out, line(r.cells()))
		results = append(results, r)
	}
	return results, others, nil
}

// begin starts a service without data, and logs its owner in.
func (b *benchmark) begin(ctx context.Context, name string) (err error) {
	if b.service, err = b.start(ctx, filepath.Join(b.dir, name), &b.trips, func() { b.writes.Add(1) }); err != nil {
		return err
	}
	b.later(b.service.Stop)
	b.caller = b.with(keyHeader, b.service.RuntimeKey)
	b.owner, _, err = b.logIn(ctx, b.service.Email, b.service.Password)
	return err
}

// later has the end of the group call stop.
func (b *benchmark) later(stop func()) { b.stops = append(b.stops, stop) }

func (b *benchmark) stop() {
	b.http.CloseIdleConnections()
	for _, stop := range slices.Backward(b.stops) {
		stop()
	}
	b.stops = nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
