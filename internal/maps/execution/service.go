// Package execution has the executions of Maps: the fence of triggers, the rows that say how far
// each is, and what their workflow reads and writes. The API triggers, reads and stops them; the
// activities of the workflow MapRun call it. It decides nothing that the step machine decides, and
// it calls no verb: internal/service/stepping does, by way of package run.
//
// Service has eight parts, and a part calls only those below it. Its files begin with its name:
//
//	triggers   start executions, retry, pause and cancel them, and sweep.
//	changes    are those of dry runs: lists, decisions, the apply.
//	people     decide, send signals and cause events that steps wait for.
//	steps      is what the workflow reads and writes, to the end of the execution.
//	views      are what callers and models see, masked.
//	places     are those of concurrency keys.
//	workflows  are started and told that there is news.
//	rows       are read and opened; all other parts have them.
package execution

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/ended"
	"agentruntime/internal/record/event"
	"agentruntime/internal/record/quota"
)

// Version is a version of a Map, ready to run.
type Version struct {
	MapID   uuid.UUID
	Number  int32
	Program *stepmachine.Program
	MapType mapdef.MapType

	// assumed: it was the published one when this process read it last. The claim makes sure.
	assumed bool
}

// Definitions finds the versions of Maps.
type Definitions interface {
	// Version returns a version by its number; 0 for the published one. It refuses with
	// MAP_NOT_FOUND, and with CONFLICT where none is published.
	Version(ctx context.Context, tenant, id uuid.UUID, number int32) (Version, error)
	// LastPublished returns, without a round trip, the version that was the published one when Version
	// was asked last; false where nothing is known, or the type depends on Maps that it starts.
	LastPublished(tenant, id uuid.UUID) (Version, bool)
	// Named returns the version of this number for a trigger. It refuses with MAP_NOT_FOUND, also
	// where the Map was deleted.
	Named(ctx context.Context, tenant, id uuid.UUID, number int32) (Version, error)
}

// Results reads what the runs of steps have brought.
type Results interface {
	// Result returns the result of a run, in the clear.
	Result(ctx context.Context, tenant, run uuid.UUID) (json.RawMessage, error)
}

// Arguments checks arguments of verbs.
type Arguments interface {
	// Check returns what is wrong with the arguments by the verb's schema, with paths below
	// "/args". The error is VERB_NOT_FOUND where the tenant has no such verb.
	Check(ctx context.Context, tenant uuid.UUID, verb string, args json.RawMessage) ([]fault.Detail, error)
	// MaskCalls masks the texts of calls in place, like those of runs: by the schemas of the verbs, by
	// the tenant's masks, and by the secrets that the tenant has stored. Where those cannot be read,
	// known is false, and all values are masked.
	MaskCalls(ctx context.Context, tenant uuid.UUID, calls []ShownCall) (known bool)
	// QueueOwn adds the question which texts of a value are secrets that the tenant has stored. The
	// function returns the value without them once the batch is sent.
	QueueOwn(ctx context.Context, b *db.Batch, tenant uuid.UUID, value json.RawMessage) (func() json.RawMessage, error)
}

// Events reads the events that steps wait for.
type Events interface {
	// Awaited returns the next complete events of each wait, at most so many.
	Awaited(ctx context.Context, tenant uuid.UUID, waits []event.Wait, most int) ([]event.Awaited, error)
	// Get returns an event by its public id. It refuses with EVENT_NOT_FOUND.
	Get(ctx context.Context, tenant uuid.UUID, id string) (event.Stored, error)
}

// Engine runs workflows.
type Engine interface {
	// StartMap starts the workflow of an attempt. A start that was made before is not an error.
	StartMap(ctx context.Context, in flow.MapInput, workflowID string, listing flow.Listing) error
	// IsOpen reports whether the workflow is open. found is false where the engine does not know it.
	IsOpen(ctx context.Context, workflowID string) (open, found bool, err error)
	// Nudge tells the workflow to read its row again.
	Nudge(ctx context.Context, workflowID string) (open bool, err error)
	// StartApply starts the workflow that applies the changes of a dry run. A start that was made
	// before is not an error.
	StartApply(ctx context.Context, in flow.ApplyRef, listing flow.Listing) error
}

// Keys finds the data key of a tenant.
type Keys interface {
	Key(ctx context.Context, tenant uuid.UUID) (*datakey.Key, error)
}

// Sandbox shares out the evaluation of costly expressions.
type Sandbox interface {
	// For returns the part of one party, so that none takes all.
	For(party string) expression.Sandbox
	// Briefly is For one that does not wait for long: then its *expression.BusyError comes.
	Briefly(party string) expression.Sandbox
}

// Config has the times of the service; zero values take the defaults.
type Config struct {
	// DefaultWait is how long a trigger waits for the end, MaxWait the most that it may ask for
	// (30 s, 60 s).
	DefaultWait, MaxWait time.Duration
	// PollEvery is how often a waiting call reads the row in case a notice was lost (2 s).
	PollEvery time.Duration
	PublicURL string
	// OneProcess: the worker runs in this process.
	OneProcess bool
	// Keep is how long the texts of ended executions are kept (30 days).
	Keep time.Duration
}

// Deps are the collaborators; all are required but Now and Quotas.
type Deps struct {
	DB          *db.Pool
	Definitions Definitions
	Results     Results
	Arguments   Arguments
	Engine      Engine
	Keys        Keys
	Events      Events
	Notices     *ended.Notices
	Journal     *audit.Journal
	// Sandbox evaluates what may take much time or memory.
	Sandbox Sandbox
	Log     *slog.Logger
	Now     func() time.Time
	Quotas  quota.Limits
}

// Service runs Maps. Each method belongs to one of its parts.
type Service struct {
	*rows

	workflows
	places
	views
	steps
	people
	changes
	triggers
}

// rows reads the rows of executions and the values of their steps. Every other part has it.
type rows struct {
	cfg Config
	d   Deps
	q   *dbsqlc.Queries
	hub *ended.Hub[Execution]
	// heads are what never changes of executions that were looked at lately.
	heads *heads
}

// workflows starts the workflows of executions and tells them to look at their rows.
type workflows struct {
	*rows

	starts *starts
}

// places gives the places of concurrency keys.
type places struct {
	*rows

	workflows *workflows
	// sweptKey is where the last pass of SweepPlaces stopped.
	sweptKey sweptKey
}

// views is what callers and models see of executions: without what the tenant keeps secret.
type views struct{ *rows }

// steps is what the workflow of an execution reads and writes: its begin, the ends of its steps and
// its own end.
type steps struct {
	*rows

	workflows *workflows
	places    *places
	views     *views
	// filters are values of filters that several executions ask for.
	filters *filters
}

// people is what an execution waits for: decisions of people, signals and events.
type people struct {
	*rows

	workflows *workflows
	views     *views
	steps     *steps
	// sweptNews is where the last pass of SweepNews stopped.
	sweptNews sweptTo
}

// changes has the changes of dry runs: their lists, the decision about them, and the apply.
type changes struct {
	*rows

	views  *views
	steps  *steps
	people *people
	reruns *rerunCache
}

// triggers starts executions, at the request of callers, steps and messages, and stops them.
type triggers struct {
	*rows

	workflows *workflows
	places    *places
	views     *views
	steps     *steps
	people    *people
	room      *quota.Room
	// swept is where the last pass of Sweep stopped.
	swept sweptTo
}

// New checks the collaborators.
func New(cfg Config, d Deps) (*Service, error) {
	if d.DB == nil || d.Definitions == nil || d.Results == nil || d.Arguments == nil || d.Engine == nil || d.Keys == nil || d.Events == nil || d.Notices == nil || d.Journal == nil || d.Sandbox == nil || d.Log == nil {
		return nil, errors.New("execution: database, definitions, results, arguments, engine, keys, events, notices, journal, machines, sandbox and log are required")
	}
	if cfg.DefaultWait == 0 {
		cfg.DefaultWait = 30 * time.Second
	}
	if cfg.MaxWait == 0 {
		cfg.MaxWait = time.Minute
	}
	if cfg.Keep == 0 {
		cfg.Keep = 30 * 24 * time.Hour
	}
	if cfg.PollEvery == 0 {
		cfg.PollEvery = 2 * time.Second
	}
	d.Now = db.Clock(d.Now)
	kept, err := newHeads()
	if err != nil {
		return nil, err
	}
	judged, err := newFilters()
	if err != nil {
		return nil, err
	}
	r := &rows{cfg: cfg, d: d, q: dbsqlc.New(), hub: ended.NewHub[Execution](), heads: kept}
	s := &Service{rows: r}
	s.workflows = workflows{rows: r, starts: newStarts()}
	s.places = places{rows: r, workflows: &s.workflows, sweptKey: sweptKey{key: []byte{}}}
	s.views = views{r}
	s.steps = steps{rows: r, workflows: &s.workflows, places: &s.places, views: &s.views, filters: judged}
	s.people = people{rows: r, workflows: &s.workflows, views: &s.views, steps: &s.steps}
	s.changes = changes{rows: r, views: &s.views, steps: &s.steps, people: &s.people, reruns: newRerunCache()}
	s.triggers = triggers{
		rows: r, workflows: &s.workflows, places: &s.places, views: &s.views, steps: &s.steps, people: &s.people,
		room: d.Quotas.Room(quota.MapExecutions, d.Now),
	}
	d.Notices.OnNotice(s.hearEnd)
	return s, nil
}
