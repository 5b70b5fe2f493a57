// Package execution has the executions of Maps: the fence of triggers, the rows that say how far
// each is, and what their workflow reads and writes. The API triggers, reads and stops them; the
// activities of the workflow MapRun call it. It decides nothing that the step machine decides, and
// it calls no verb: internal/service/stepping does, by way of package run.
package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/bytelru"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/ended"
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

// Service runs Maps. Its parts are one below the other, and call only those below: triggers and
// changes, people, steps, then views and places, workflows, rows.
type Service struct {
	*rows
	*workflows
	*places
	*views
	*steps
	*people
	*changes
	*triggers
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

// heads keeps executions without their outputs. A payload has up to 1 MiB, so their bytes are
// bounded, and not their number.
type heads struct {
	*bytelru.Cache[uuid.UUID, Execution]
}

// headsMost is how many bytes of heads a process keeps. One that it forgets is read again.
const headsMost = 32 << 20

func newHeads() (*heads, error) {
	kept, err := bytelru.New[uuid.UUID, Execution](headsMost)
	if err != nil {
		return nil, fmt.Errorf("execution: %w", err)
	}
	return &heads{kept}, nil
}

// headSize is what an execution takes besides its texts.
const headSize = 1 << 10

// Add keeps the head of an execution.
func (h *heads) Add(e Execution) {
	e.Output = nil
	h.Cache.Add(e.ID, e, headSize+len(e.payload)+len(e.Metadata)+len(e.WaitingFor), nil)
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
	s := &Service{rows: r, workflows: &workflows{rows: r, starts: newStarts()}, views: &views{r}}
	s.places = &places{rows: r, workflows: s.workflows, sweptKey: sweptKey{key: []byte{}}}
	s.steps = &steps{rows: r, workflows: s.workflows, places: s.places, views: s.views, filters: judged}
	s.people = &people{rows: r, workflows: s.workflows, views: s.views, steps: s.steps}
	s.changes = &changes{rows: r, views: s.views, steps: s.steps, people: s.people, reruns: newRerunCache()}
	s.triggers = &triggers{
		rows: r, workflows: s.workflows, places: s.places, views: s.views, steps: s.steps, people: s.people,
		room: d.Quotas.Room(quota.MapExecutions, d.Now),
	}
	d.Notices.OnNotice(s.hearEnd)
	return s, nil
}

// Execution is one execution of a Map as its row is.
type Execution struct {
	ID          uuid.UUID
	TenantID    uuid.UUID
	ExecutionID string
	MapID       uuid.UUID
	Version     int32
	MapType     mapdef.MapType
	DryRun      bool
	Attempt     int32
	Fingerprint []byte
	Metadata    json.RawMessage
	SessionID   string
	Customer    string
	Origin      actor.Kind
	KeyID       *uuid.UUID
	UserID      *uuid.UUID
	ParentID    string
	Step        string
	Depth       int32
	RequestID   string
	SourceAddr  string
	WorkflowID  string
	Status      stepmachine.Status
	WaitingFor  json.RawMessage
	WantsCancel bool
	WantsPause  bool
	Actions     int32
	// Tokens is how many tokens its model steps have used, some of them by an estimate where Estimated is.
	Tokens     int64
	Estimated  bool
	Asked      bool
	Governance string
	Output     json.RawMessage
	Error      *stepmachine.Error
	// ErrorLeftOut: it has an error, which is too long for a list.
	ErrorLeftOut bool
	// Undoing is what came of undoing the steps.
	Undoing Undoing
	// KeepsState: it has failed, and its state is kept, from which a retry goes on.
	KeepsState bool
	BegunAt    *time.Time
	UpdatedAt  time.Time
	FinishedAt *time.Time
	// ErasedAt is when its texts were erased; nil while they are kept.
	ErasedAt *time.Time

	// Awaited: the step that started it waits for its end. Wrote: a call may have changed something.
	Awaited, Wrote bool
	// Tainted: what has started it, or a model of its own by then, had read what others than the tenant
	// wrote. Chain has the messages to agents above it.
	Tainted bool
	// TaintSources say what. Reads are the sources of others' words that its values have: of its payload
	// until it ends; nil where that is not known.
	TaintSources, Reads []string
	Chain               agentloop.Chain
	// broken is why Chain could not be read, and is empty; nil where it could.
	broken error

	callerWorkflow                  string // of the message that has started it
	mapName                         string // where the execution was claimed just now, otherwise ""
	payload                         string // sealed
	payloadInvented, outputInvented []string

	// changesOf is the dry run whose list has the changes of this one, nil for its own. changesAt is
	// their place in it, changesPath the steps that lead to this execution.
	changesOf   *uuid.UUID
	changesAt   []int32
	changesPath []string
}

// CreatedAt returns when the execution was triggered, from its id.
func (e Execution) CreatedAt() time.Time { return e.Ref().TriggeredAt() }

// Ended reports whether nothing further happens by itself.
func (e Execution) Ended() bool { return e.FinishedAt != nil }

// AgainSince returns when the attempt began; zero for the first one.
func (e Execution) AgainSince() time.Time {
	if e.Attempt < 2 || e.BegunAt == nil {
		return time.Time{}
	}
	return *e.BegunAt
}

// Took returns how long it took, or has taken until now.
func (e Execution) Took(now time.Time) time.Duration {
	if e.FinishedAt != nil {
		now = *e.FinishedAt
	}
	return max(now.Sub(e.CreatedAt()), 0)
}

// Waits returns what the execution waits for; nil where it waits for nothing.
func (e Execution) Waits() *stepmachine.WaitsFor {
	w := &stepmachine.WaitsFor{}
	if len(e.WaitingFor) == 0 || json.Unmarshal(e.WaitingFor, w) != nil {
		return nil
	}
	return w
}

// Ref names the execution for its workflow.
func (e Execution) Ref() flow.MapRef {
	return flow.MapRef{TenantID: e.TenantID, ID: e.ID, Attempt: e.Attempt}
}

// Starter returns the key or the user for whom the execution acts.
func (e Execution) Starter() actor.Actor {
	who := actor.Actor{Kind: actor.System, TenantID: e.TenantID, RequestID: e.RequestID, SourceAddr: e.SourceAddr}
	switch {
	case e.KeyID != nil:
		who.Kind, who.ID = actor.Key, *e.KeyID
	case e.UserID != nil:
		who.Kind, who.ID = actor.User, *e.UserID
	}
	return who
}

// About returns the metadata of what the step starts: a call or another execution. The words of the caller
// go on with it, because policies judge by them.
func (e Execution) About(step string) map[string]any {
	about := map[string]any{"map_id": e.MapID.String(), "step": step}
	governance.WordsOf(e.Origin == actor.Map || e.Origin == actor.Agent, e.Metadata).Write(about)
	return about
}

// place is where a text of the execution is sealed.
func (e Execution) place(f datakey.Field) datakey.Place {
	return datakey.Place{Tenant: e.TenantID, Row: e.ID, Field: f}
}

// headOfRow is a row without its texts.
func headOfRow(r dbsqlc.MapExecution) Execution {
	e := Execution{
		ID: r.ID, TenantID: r.TenantID, ExecutionID: r.ExecutionID, MapID: r.MapID, Version: r.Version, MapType: mapdef.MapType(r.MapType),
		DryRun: r.DryRun, Attempt: r.Attempt, Fingerprint: r.Fingerprint, Metadata: r.Metadata, SessionID: db.Text(r.SessionID),
		Customer: db.Text(r.Customer), Origin: actor.Kind(r.Origin), KeyID: r.KeyID, UserID: r.UserID, ParentID: db.Text(r.ParentID),
		Step: db.Text(r.Step), Depth: r.Depth, RequestID: r.RequestID, SourceAddr: r.SourceAddr, WorkflowID: r.WorkflowID,
		Status: stepmachine.Status(r.Status), WaitingFor: r.WaitingFor, WantsCancel: r.WantsCancel, WantsPause: r.WantsPause,
		Actions: r.Actions, Tokens: r.TokensUsed, Estimated: r.UsageEstimated, Asked: r.Asked, Governance: r.Governance, BegunAt: r.BegunAt, UpdatedAt: r.UpdatedAt, FinishedAt: r.FinishedAt, ErasedAt: r.ErasedAt,
		Awaited: r.Awaited, Wrote: r.Wrote, KeepsState: r.State != nil,
		payload: r.Payload, payloadInvented: r.PayloadInvented, outputInvented: r.OutputInvented,
		changesOf: r.ChangesOf, changesAt: r.ChangesAt, changesPath: r.ChangesPath,
		Tainted: r.Tainted, TaintSources: r.TaintSources, Reads: r.Reads, callerWorkflow: db.Text(r.CallerWorkflow),
	}
	e.takeChain(r.Chain)
	return e
}

// openExecution reads a row with its output and its error.
func (s *rows) openExecution(ctx context.Context, r dbsqlc.MapExecution) (Execution, error) {
	e := headOfRow(r)
	key, err := s.d.Keys.Key(ctx, r.TenantID)
	if err != nil {
		return e, fmt.Errorf("execution: %w", err)
	}
	if e.WaitingFor, err = s.Waiting(ctx, e); err != nil {
		return e, err
	}
	if e.Output, err = openOptional(key, e.place(datakey.MapOutput), r.Output); err != nil {
		return e, err
	}
	if e.Error, err = readOptional[stepmachine.Error](key, e.place(datakey.MapError), r.Error); err != nil {
		return e, err
	}
	undoing, err := readOptional[Undoing](key, e.place(datakey.MapUndoing), r.Compensation)
	if err == nil && undoing != nil {
		e.Undoing = *undoing
	}
	return e, err
}

// Waiting returns what the execution waits for, with the approval that people decide, or the question.
func (s *rows) Waiting(ctx context.Context, e Execution) (json.RawMessage, error) {
	w := e.Waits()
	switch {
	case e.Status == stepmachine.StatusPending:
		return s.waitingForApproval(ctx, e)
	case w != nil && w.Ask > 0:
		return s.waitingForAnswer(ctx, e)
	default:
		return e.WaitingFor, nil
	}
}

// readOptional opens a text and reads it; nil where there is none.
func readOptional[T any](key *datakey.Key, at datakey.Place, sealed *string) (*T, error) {
	text, err := openOptional(key, at, sealed)
	if err != nil || text == nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(text, v); err != nil {
		return nil, fmt.Errorf("execution: %s of %s: %w", at.Field, at.Row, err)
	}
	return v, nil
}

func openOptional(key *datakey.Key, at datakey.Place, stored *string) ([]byte, error) {
	if stored == nil {
		return nil, nil
	}
	text, err := key.Open(at, *stored)
	if err != nil {
		return nil, fmt.Errorf("execution: %s of %s: %w", at.Field, at.Row, err)
	}
	return text, nil
}

func sealOptional(key *datakey.Key, at datakey.Place, text []byte) *string {
	if text == nil {
		return nil
	}
	stored := key.Seal(at, text)
	return &stored
}

// readExecution returns the execution with its output.
func (s *rows) readExecution(ctx context.Context, tenant, id uuid.UUID) (Execution, error) {
	row, err := s.q.GetMapExecution(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetMapExecutionParams{TenantID: tenant, ID: id})
	if err != nil {
		return Execution{}, fmt.Errorf("execution: get: %w", err)
	}
	return s.openExecution(ctx, row)
}

// hearEnd hands an execution that another process has ended to those that wait for it in this one.
func (s *rows) hearEnd(ctx context.Context, tenant, id uuid.UUID) {
	if !s.hub.Awaited(id) {
		return
	}
	if e, err := s.readExecution(ctx, tenant, id); err == nil && e.Ended() {
		s.hub.Deliver(e.ID, e.Attempt, e)
	}
}

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("execution: %T: %v", v, err)) // of our own types
	}
	return text
}
