package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"sync/atomic"
	"time"
)

// Config is what a benchmark measures.
type Config struct {
	// Round is the length of one round.
	Round time.Duration
	// Clients lists how many clients call at once; each scenario runs with each number. With 0
	// alone, only what has a number of its own is measured.
	Clients []int
	// Approvals is the number of held calls that are approved one after the other.
	Approvals int
	// Pending is the number of held calls that wait while others run.
	Pending int
	// Hanging is the number of webhooks that hang while others are told; 0 leaves webhooks out.
	Hanging int
	// Queued is the number of Maps of another tenant that wait while Maps are triggered; 0 leaves them
	// out, and the counts of what requests about Maps cost.
	Queued int
	// Verbs is the size of the large catalog.
	Verbs int
	// Profile is the file for a CPU profile of the action runs at the largest number of
	// clients; "" writes none.
	Profile string
}

// Deps start the servers and show the report.
type Deps struct {
	// Start starts the whole service in this process, with its data in dir.
	Start func(ctx context.Context, dir string, m Meters) (Service, error)
	// StartStock starts a Temporal server configured as `temporal server start-dev` is,
	// and returns its address.
	StartStock func(ctx context.Context, dir string) (addr string, stop func(), err error)
	// StartProvider starts a provider in a process of its own, with its data in dir.
	StartProvider func(ctx context.Context, dir string) (Outside, error)
	// RunClient runs Client in a process of its own, until it ends.
	RunClient func(ctx context.Context, in io.Reader, out io.Writer) error
	// Namespace is Temporal's, on both servers.
	Namespace string
	// Out receives the report.
	Out io.Writer
}

// Meters count what the service spends; the one who starts the service connects them.
type Meters struct {
	// Trips is a tracer of the service's connections to Postgres.
	Trips *Trips
	// CountWrite counts one write of Temporal to its main store.
	CountWrite func()
}

// Service is a running service with a tenant whose provider is the sandbox.
type Service struct {
	// APIURL, TemporalAddress and DatabaseURL say where it is; the last is of the
	// service's role.
	APIURL, TemporalAddress, DatabaseURL string
	// Email and Password log the tenant's owner in. RuntimeKey may run and list actions.
	Email, Password, RuntimeKey string
	// Provider is the slug of the sandbox.
	Provider string
	// Stop ends the service.
	Stop func()
}

// rounds is how often each scenario is measured; the report shows the median.
const rounds = 3

// mapName is the scenario of a Map with five steps, two of them calls.
const mapName = "Map of 5 steps"

// smallCatalog is how many verbs the small catalog has.
const smallCatalog = 1_000

type benchmark struct {
	Config

	deps    Deps
	service Service
	trips   Trips
	writes  atomic.Int64
	http    *http.Client
	manager credential // with credentials:manage
	runtime credential // with the runtime permissions
	big     credential // of a tenant with a large catalog
	// stored is the id of a provider's credential that the tenant has.
	stored string
	// trigger is the path that triggers the Map that is measured.
	trigger string
	// agent and guided are the paths of messages to the agents that are measured, goal that of goals,
	// writer a key for them.
	agent, guided, goal string
	writer              credential
	others              others
}

// Run measures the service under load and prints what a request costs beside the floor.
// The floor is the bare workflow with two empty local activities, on the same Temporal
// server and with the same process layout. A missed goal is an error.
func Run(ctx context.Context, cfg Config, deps Deps) error {
	dir, err := os.MkdirTemp("", "agentruntime-bench-")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
	cfg.Clients = slices.DeleteFunc(slices.Clone(cfg.Clients), func(n int) bool { return n == 0 })
	b := &benchmark{Config: cfg, deps: deps, http: newHTTP()}
	fmt.Fprint(deps.Out, configurations)
	if b.others.before, err = beside(func() error { return quiet(ctx) }); err != nil {
		return err
	}
	stock, err := b.stockFloor(ctx, filepath.Join(dir, "stock"))
	if err != nil {
		return err
	}
	if err := b.start(ctx, filepath.Join(dir, "service")); err != nil {
		return err
	}
	defer b.stop()
	return b.report(ctx, dir, Row{Name: stockName, Sample: stock})
}

// start starts the service without data in place of the one before.
func (b *benchmark) start(ctx context.Context, dir string) (err error) {
	b.stop()
	b.service, err = b.deps.Start(ctx, dir, Meters{Trips: &b.trips, CountWrite: func() { b.writes.Add(1) }})
	b.runtime = credential{key: b.service.RuntimeKey}
	return err
}

// stop ends the service that runs, if any.
func (b *benchmark) stop() {
	if b.service.Stop == nil {
		return
	}
	b.service.Stop()
	b.service.Stop = nil
	b.http.CloseIdleConnections()
}

// newHTTP returns a client that keeps a connection for each caller.
func newHTTP() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}
}

// report measures the running service and prints what was found.
func (b *benchmark) report(ctx context.Context, dir string, stock Row) error {
	w := b.deps.Out
	fmt.Fprintf(w, "idle: %d MB resident, all processes together\n", Resident()>>20)
	if err := b.prepare(ctx); err != nil {
		return err
	}
	floor, stop, err := b.floorOn(b.service.TemporalAddress)
	if err != nil {
		return err
	}
	defer stop()
	var (
		rows  []Row
		ofMap comparison
	)
	b.others.during, err = beside(func() (err error) {
		rows, err = b.measure(ctx, []scenario{
			{"floor", floor},
			{"run", b.action},
			{mapName, b.mapOfFive},
			{turnName, b.turn},
			{streamedName, b.streamedTurn},
			{goalName, b.pursue},
			{guidedName, b.follow},
			{"fence hit", b.fenceHit},
			{"evaluate", b.evaluate},
			{"bare GET", b.bareGet},
			{"catalog 1,000", b.page(b.runtime)},
			{b.largeCatalog(), b.page(b.big)},
		})
		if err == nil && slices.Contains(b.Clients, 16) {
			ofMap, err = b.compare(ctx, mapName+" / run", 16, b.mapOfFive, b.action)
		}
		return err
	})
	if err != nil {
		return err
	}
	outside, err := b.outside(ctx, dir)
	if err != nil {
		return err
	}
	rows = append(rows, outside...)
	if err := Print(w, append([]Row{stock}, rows...)); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := ofMap.print(w); err != nil {
		return err
	}
	if err := b.profileRuns(ctx); err != nil {
		return err
	}
	besides, err := b.besides(ctx, w, rateOf(rows, "run", 16))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "after load: %d MB resident, all processes together\n", Resident()>>20)
	queued, err := b.queued(ctx, dir)
	if err != nil {
		return err
	}
	if err := queued.print(w); err != nil {
		return err
	}
	if err := b.others.print(w); err != nil {
		return err
	}
	missed, err := PrintGoals(w, append(b.goals(append(rows, stock), ofMap), slices.Concat(besides, queued.goals())...))
	switch {
	case err != nil || missed == 0:
		return err
	case !b.others.idle():
		return fmt.Errorf("bench: %d goals missed, on a machine that is not idle", missed)
	}
	return fmt.Errorf("bench: %d goals missed", missed)
}

// besides measures what is no rate of a request, prints each part as soon as it is measured, and
// returns the goals. runs is the rate of runs at 16 clients.
func (b *benchmark) besides(ctx context.Context, w io.Writer, runs float64) ([]Goal, error) {
	// Before the held calls: they use up the places of what waits for people.
	counted, err := b.countMaps(ctx)
	if err != nil {
		return nil, err
	}
	if err := counted.print(w); err != nil {
		return nil, err
	}
	pending, err := b.held(ctx)
	if err != nil {
		return nil, err
	}
	if err := pending.print(w); err != nil {
		return nil, err
	}
	told, err := b.webhooks(ctx)
	if err != nil {
		return nil, err
	}
	if err := told.print(w); err != nil {
		return nil, err
	}
	return slices.Concat(pending.goals(), told.goals(runs)), nil
}

func (b *benchmark) largeCatalog() string { return fmt.Sprintf("catalog %d", b.Verbs) }

// cost is what was spent so far.
func (b *benchmark) cost() Cost {
	return Cost{CPU: CPU(), SQL: b.trips.Count(), Writes: b.writes.Load()}
}

// profileRuns writes a CPU profile of one more round of action runs.
func (b *benchmark) profileRuns(ctx context.Context) error {
	if b.Profile == "" {
		return nil
	}
	f, err := os.Create(b.Profile)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer f.Close()
	if err := pprof.StartCPUProfile(f); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer pprof.StopCPUProfile()
	Load(ctx, slices.Max(b.Clients), b.Round, func() Cost { return Cost{} }, b.action)
	return nil
}

type scenario struct {
	name string
	op   Op
}

// measure runs the scenarios in turn, three times over, so that a slow moment of
// the machine does not fall on one of them alone.
func (b *benchmark) measure(ctx context.Context, scenarios []scenario) ([]Row, error) {
	var rows []Row
	for _, clients := range b.Clients {
		samples := make([][]Sample, len(scenarios))
		for range rounds {
			for i, s := range scenarios {
				samples[i] = append(samples[i], Load(ctx, clients, b.Round, b.cost, s.op))
			}
		}
		for i, s := range scenarios {
			m := Median(samples[i])
			if m.Errors > 0 {
				return nil, fmt.Errorf("bench: %s: %d errors, the first: %w", s.name, m.Errors, m.FirstError)
			}
			rows = append(rows, Row{Name: s.name, Sample: m})
		}
	}
	return rows, nil
}

// rateOf returns the rate of a scenario, 0 where it was not measured with so many clients.
func rateOf(rows []Row, name string, clients int) float64 {
	for _, r := range rows {
		if r.Name == name && r.Clients == clients {
			return r.Rate
		}
	}
	return 0
}

// goals are those of the project (docs/costs.md).
func (b *benchmark) goals(rows []Row, ofMap comparison) []Goal {
	if len(b.Clients) == 0 {
		return nil
	}
	at := func(name string, clients int) Sample {
		for _, r := range rows {
			if r.Name == name && r.Clients == clients {
				return r.Sample
			}
		}
		return Sample{}
	}
	rate := func(a, b string) float64 { return at(a, 16).Rate / at(b, 16).Rate }
	large := b.largeCatalog()
	return []Goal{
		{What: "floor / floor as start-dev runs it, rate at 16 clients", Ratio: rate("floor", stockName), AtLeast: 1.8},
		{What: "runs / floor, rate at 16 clients", Ratio: rate("run", "floor"), AtLeast: 0.45},
		{What: "runs / floor, rate at 64 clients", Ratio: at("run", 64).Rate / at("floor", 64).Rate, AtLeast: 0.45},
		{What: "runs from outside, rate at 64 clients / at 16", Ratio: at(outsideName, 64).Rate / at(outsideName, 16).Rate, AtLeast: 0.8},
		{What: "run / floor, p50 at 1 client", Ratio: float64(at("run", 1).P50) / float64(at("floor", 1).P50), AtMost: 2.6},
		// The periodic work of a process and the notices of many runs are a part of one more.
		{What: "SQL trips of a run at 16 clients", Ratio: at("run", 16).SQL, AtMost: 4.5},
		{What: "Maps of 5 steps / runs in turns, rate at 16 clients", Ratio: ofMap.median(), AtLeast: 0.6},
		{What: "SQL trips of a Map at 16 clients", Ratio: at(mapName, 16).SQL, AtMost: 14},
		{What: "Temporal writes of a Map at 16 clients", Ratio: at(mapName, 16).Writes, AtMost: 4},
		{What: "messages / runs, p50 at 1 client", Ratio: float64(at(turnName, 1).P50) / float64(at("run", 1).P50), AtMost: 2.5},
		{What: "streamed messages / runs, p50 at 1 client", Ratio: float64(at(streamedName, 1).P50) / float64(at("run", 1).P50), AtMost: 2.5},
		{What: "goals of one step / runs, p50 at 1 client", Ratio: float64(at(goalName, 1).P50) / float64(at("run", 1).P50), AtMost: 6},
		{What: "SQL trips of a goal of one step at 16 clients", Ratio: at(goalName, 16).SQL, AtMost: 28},
		{What: "SQL trips of a message by a Map of one step at 16 clients", Ratio: at(guidedName, 16).SQL, AtMost: 66},
		{What: "fence hits / runs, rate at 16 clients", Ratio: rate("fence hit", "run"), AtLeast: 4},
		{What: "evaluations / runs, rate at 16 clients", Ratio: rate("evaluate", "run"), AtLeast: 4},
		{What: "fence hits / bare GET, rate at 16 clients", Ratio: rate("fence hit", "bare GET"), AtLeast: 0.65},
		{What: "evaluations / bare GET, rate at 16 clients", Ratio: rate("evaluate", "bare GET"), AtLeast: 0.6},
		{What: "slowest run at 16 clients, s", Ratio: at("run", 16).Max.Seconds(), AtMost: 1},
		{What: "first page: large / small catalog, p50 at 1 client", Ratio: float64(at(large, 1).P50) / float64(at("catalog 1,000", 1).P50), AtMost: 2},
	}
}
