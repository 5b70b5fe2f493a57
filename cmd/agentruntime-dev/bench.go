package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"agentruntime/db"
	"agentruntime/internal/dev/bench"
	"agentruntime/internal/kernel/verb"
	"agentruntime/internal/provider/catalog"
)

// benchCommand runs the whole service in this process, puts load on it and prints
// what a request costs beside the floor: the bare workflow with two empty local
// activities, on the same Temporal server and with the same process layout.
func benchCommand() *cobra.Command {
	o := options{listen: "127.0.0.1:0", temporal: "127.0.0.1:0", ui: "127.0.0.1:0"}
	b := &benchmark{}
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure the service against the bare workflow", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd.Context(), o, os.Stdout) },
	}
	cmd.Flags().DurationVar(&b.round, "round", 3*time.Second, "length of one round")
	cmd.Flags().IntSliceVar(&b.clients, "clients", []int{1, 16, 64}, "how many clients call at once")
	cmd.Flags().StringVar(&b.profile, "cpuprofile", "", "file for a CPU profile of the action runs at the largest number of clients")
	cmd.Flags().IntVar(&b.approvals, "approvals", 300, "held calls that are approved one after the other")
	cmd.Flags().IntVar(&b.pending, "pending", 10_000, "held calls that wait while others run")
	cmd.Flags().IntVar(&b.large, "verbs", 100_000, "verbs in the large catalog")
	return cmd
}

// rounds is how often each scenario is measured; the report shows the median.
const rounds = 3

// smallCatalog is how many verbs the small catalog has.
const smallCatalog = 1_000

type benchmark struct {
	round   time.Duration
	profile string
	clients []int
	large   int
	// approvals and pending: see held.
	approvals, pending int

	stack   *stack
	trips   bench.Trips
	writes  atomic.Int64
	http    *http.Client
	manager *caller // with credentials:manage
	runtime *caller // with the runtime permissions
	big     *caller // of a tenant with a large catalog
	// credential is the id of one that the development tenant has.
	credential string
}

// caller is one credential.
type caller struct{ key string }

func (b *benchmark) run(ctx context.Context, o options, w io.Writer) error {
	dir, err := os.MkdirTemp("", "agentruntime-bench-")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
	o.data = dir
	fmt.Fprint(w, configurations)
	stock, err := b.stockFloor(ctx, filepath.Join(dir, "stock"))
	if err != nil {
		return err
	}
	if b.stack, err = newStack(o); err != nil {
		return err
	}
	defer b.stack.close()
	b.stack.log = slog.New(slog.DiscardHandler)
	b.stack.tracer = &b.trips
	b.stack.countWrites = func(string) { b.writes.Add(1) }
	if err := b.stack.startAll(ctx); err != nil {
		return err
	}
	b.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}
	fmt.Fprintf(w, "idle: %d MB resident, all processes together\n", bench.Resident()>>20)
	if err := b.prepare(ctx); err != nil {
		return err
	}
	floor, stop, err := floorOn(b.stack.ready.TemporalAddress, b.stack.log)
	if err != nil {
		return err
	}
	defer stop()
	rows, err := b.measure(ctx, []scenario{
		{"floor", floor},
		{"run", b.action},
		{"fence hit", b.fenceHit},
		{"evaluate", b.evaluate},
		{"bare GET", b.bareGet},
		{"catalog 1,000", b.page(b.runtime)},
		{fmt.Sprintf("catalog %d", b.large), b.page(b.big)},
	})
	if err != nil {
		return err
	}
	if err := b.profileRuns(ctx); err != nil {
		return err
	}
	pending, err := b.held(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "after load: %d MB resident, all processes together\n\n", bench.Resident()>>20)
	if err := bench.Print(w, append([]bench.Row{{Name: stockName, Sample: stock}}, rows...)); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := pending.print(w); err != nil {
		return err
	}
	missed, err := bench.PrintGoals(w, append(goals(append(rows, bench.Row{Name: stockName, Sample: stock})), pending.goals()...))
	if err == nil && missed > 0 {
		err = fmt.Errorf("bench: %d goals missed", missed)
	}
	return err
}

// profileRuns writes a CPU profile of one more round of action runs.
func (b *benchmark) profileRuns(ctx context.Context) error {
	if b.profile == "" {
		return nil
	}
	f, err := os.Create(b.profile)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer f.Close()
	if err := pprof.StartCPUProfile(f); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer pprof.StopCPUProfile()
	bench.Load(ctx, slices.Max(b.clients), b.round, func() bench.Cost { return bench.Cost{} }, b.action)
	return nil
}

type scenario struct {
	name string
	op   bench.Op
}

// measure runs the scenarios in turn, three times over, so that a slow moment of
// the machine does not fall on one of them alone.
func (b *benchmark) measure(ctx context.Context, scenarios []scenario) ([]bench.Row, error) {
	cost := func() bench.Cost {
		return bench.Cost{CPU: bench.CPU(), SQL: b.trips.Count(), Writes: b.writes.Load()}
	}
	var rows []bench.Row
	for _, clients := range b.clients {
		samples := make([][]bench.Sample, len(scenarios))
		for range rounds {
			for i, s := range scenarios {
				samples[i] = append(samples[i], bench.Load(ctx, clients, b.round, cost, s.op))
			}
		}
		for i, s := range scenarios {
			m := bench.Median(samples[i])
			if m.Errors > 0 {
				return nil, fmt.Errorf("bench: %s: %d errors, the first: %w", s.name, m.Errors, m.FirstError)
			}
			rows = append(rows, bench.Row{Name: s.name, Sample: m})
		}
	}
	return rows, nil
}

// goals are those of the project (docs/costs.md).
func goals(rows []bench.Row) []bench.Goal {
	at := func(name string, clients int) bench.Sample {
		for _, r := range rows {
			if r.Name == name && r.Clients == clients {
				return r.Sample
			}
		}
		return bench.Sample{}
	}
	rate := func(a, b string) float64 { return at(a, 16).Rate / at(b, 16).Rate }
	large := rows[len(rows)-2].Name // the last row is the stock floor's
	return []bench.Goal{
		{What: "floor / floor as start-dev runs it, rate at 16 clients", Ratio: rate("floor", stockName), AtLeast: 2},
		{What: "runs / floor, rate at 16 clients", Ratio: rate("run", "floor"), AtLeast: 0.6},
		{What: "run / floor, p50 at 1 client", Ratio: float64(at("run", 1).P50) / float64(at("floor", 1).P50), AtMost: 2},
		{What: "fence hits / runs, rate at 16 clients", Ratio: rate("fence hit", "run"), AtLeast: 4},
		{What: "evaluations / runs, rate at 16 clients", Ratio: rate("evaluate", "run"), AtLeast: 4},
		{What: "fence hits / bare GET, rate at 16 clients", Ratio: rate("fence hit", "bare GET"), AtLeast: 0.7},
		{What: "evaluations / bare GET, rate at 16 clients", Ratio: rate("evaluate", "bare GET"), AtLeast: 0.7},
		{What: "slowest run at 16 clients, s", Ratio: at("run", 16).Max.Seconds(), AtMost: 1},
		{What: "first page: large / small catalog, p50 at 1 client", Ratio: float64(at(large, 1).P50) / float64(at("catalog 1,000", 1).P50), AtMost: 2},
	}
}

// prepare makes the tenants, keys and catalogs.
func (b *benchmark) prepare(ctx context.Context) error {
	dev := b.stack.ready.tenant
	c := &client{base: b.stack.ready.APIURL}
	if err := c.logIn(ctx, &dev); err != nil {
		return err
	}
	b.runtime = &caller{dev.RuntimeKey}
	var made struct {
		Key string `json:"key"`
	}
	err := c.post(ctx, "/v1/api-keys", map[string]any{"name": "bench", "permissions": []string{"credentials:manage"}}, &made)
	if err != nil {
		return err
	}
	b.manager = &caller{made.Key}
	if b.big, err = b.largeTenant(ctx); err != nil {
		return err
	}
	if err := b.fill(ctx, uuid.MustParse(dev.TenantID), smallCatalog); err != nil {
		return err
	}
	if err := b.action(ctx, 0); err != nil {
		return err
	}
	raw, err := b.call(ctx, http.MethodGet, "/v1/credentials", b.manager.key, nil, http.StatusOK)
	if err != nil {
		return err
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &list); err != nil || len(list.Data) == 0 {
		return errors.New("bench: the development tenant has no credential to read")
	}
	b.credential = list.Data[0].ID
	return nil
}

func (b *benchmark) largeTenant(ctx context.Context) (*caller, error) {
	c := &client{base: b.stack.ready.APIURL}
	t := tenant{Email: "large@example.com", Password: uuid.NewString()}
	if err := c.post(ctx, "/v1/auth/signup", map[string]string{"email": t.Email, "password": t.Password}, nil); err != nil {
		return nil, err
	}
	if err := c.logIn(ctx, &t); err != nil {
		return nil, err
	}
	var made struct {
		Key string `json:"key"`
	}
	err := c.post(ctx, "/v1/api-keys", map[string]any{"name": "bench", "permissions": []string{"actions:run", "actions:catalog"}}, &made)
	if err != nil {
		return nil, err
	}
	return &caller{made.Key}, b.fill(ctx, uuid.MustParse(t.TenantID), b.large)
}

// fill gives a tenant n verbs, 500 to a provider.
func (b *benchmark) fill(ctx context.Context, tenantID uuid.UUID, n int) error {
	pool, err := db.Open(ctx, db.Config{URL: b.stack.appURL, MaxConns: 2})
	if err != nil {
		return err
	}
	defer pool.Close()
	c, err := catalog.New(catalog.Deps{DB: pool})
	if err != nil {
		return err
	}
	const each = 500
	schema := json.RawMessage(`{"type":"object","properties":{"id":{"type":"string","description":"Which one."},"amount":{"type":"integer"}},"required":["id"]}`)
	for p := range n / each {
		verbs := make([]catalog.NewVerb, each)
		for i := range verbs {
			verbs[i] = catalog.NewVerb{
				Name: fmt.Sprintf("verb_%04d", i), Domain: fmt.Sprintf("domain_%d", i%20), Description: "Does one thing to one of them.",
				Risk: verb.RiskMedium, Operation: verb.Write, Idempotency: verb.IdempotencyNone, Schema: schema, Plan: json.RawMessage(`{}`),
			}
		}
		_, err := c.Replace(ctx, tenantID, catalog.Provider{
			Slug: fmt.Sprintf("provider%03d", p), Name: "Provider", Domain: "bench", BaseURL: "https://example.com", AuthType: "bearer", Auth: json.RawMessage(`{"type":"bearer"}`),
		}, verbs)
		if err != nil {
			return err
		}
	}
	return nil
}

// action runs a write of the sandbox: governed, sent, recorded.
func (b *benchmark) action(ctx context.Context, i int64) error {
	id := uuid.NewString()
	if i == 0 {
		id = "bench-fence"
	}
	_, err := b.call(ctx, http.MethodPost, "/v1/runtime/actions/run", b.runtime.key, order(id), http.StatusOK)
	return err
}

// fenceHit repeats a call that has run.
func (b *benchmark) fenceHit(ctx context.Context, _ int64) error {
	_, err := b.call(ctx, http.MethodPost, "/v1/runtime/actions/run", b.runtime.key, order("bench-fence"), http.StatusOK)
	return err
}

func order(id string) []byte {
	return []byte(`{"verb":"` + shopProvider + `:create_order","args":{"customer_id":"cus_1001","amount":1999,"currency":"eur"},"execution_id":"` + id + `"}`)
}

func (b *benchmark) evaluate(ctx context.Context, _ int64) error {
	body := []byte(`{"verb":"` + shopProvider + `:create_refund","args":{"order_id":"ord_1001","amount":100}}`)
	_, err := b.call(ctx, http.MethodPost, "/v1/runtime/governance/evaluate", b.runtime.key, body, http.StatusOK)
	return err
}

// bareGet is an authenticated GET of one row: two round trips, as a fence hit and
// an evaluation have.
func (b *benchmark) bareGet(ctx context.Context, _ int64) error {
	_, err := b.call(ctx, http.MethodGet, "/v1/credentials/"+b.credential, b.manager.key, nil, http.StatusOK)
	return err
}

func (b *benchmark) page(who *caller) bench.Op {
	return func(ctx context.Context, _ int64) error {
		_, err := b.call(ctx, http.MethodGet, "/v1/runtime/actions/catalog?limit=100", who.key, nil, http.StatusOK)
		return err
	}
}

func (b *benchmark) call(ctx context.Context, method, path, key string, body []byte, want int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, b.stack.ready.APIURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-API-Key", key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := b.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, raw)
	}
	return raw, err
}
