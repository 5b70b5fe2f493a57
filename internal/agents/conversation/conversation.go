// Package conversation keeps the sessions of agents: what was said, the line of messages of each
// session, and what became of each message, a turn. A turn's row is the truth, and its workflow is
// its driver. The package asks no model and makes no call: internal/service/answering does.
package conversation

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
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/lookagain"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/ended"
	"agentruntime/internal/record/quota"
)

// Agent is a version of an agent, ready to answer.
type Agent struct {
	ID         uuid.UUID
	Version    int32
	Definition *agentdef.Definition
	// Paused: the agent takes no messages.
	Paused bool
}

// Agents finds agents.
type Agents interface {
	// Agent returns a version of an agent; 0 is the published one. It refuses with AGENT_NOT_FOUND.
	Agent(ctx context.Context, tenant, id uuid.UUID, version int32) (Agent, error)
}

// Customers finds the customers that write.
type Customers interface {
	// Check refuses a message with IDENTITY_REQUIRED, and with an identity of the wrong form. It reads
	// nothing.
	Check(ctx context.Context, who actor.Actor, req Request) error
	// Writer returns the customer of a message, and what of its identity was not used; nil where the
	// message has none.
	Writer(ctx context.Context, who actor.Actor, req Request) (*Writer, error)
}

// Writer is the customer of a message.
type Writer struct {
	ID uuid.UUID
	// Ignored are the members of the identity that were not used.
	Ignored []string
}

// Engine runs workflows.
type Engine interface {
	// StartTurn starts the workflow of a turn. A start that was made before is not an error.
	StartTurn(ctx context.Context, in flow.TurnInput, workflowID string, listing flow.Listing) error
	// IsOpen reports whether the workflow is open. found is false where the engine does not know it.
	IsOpen(ctx context.Context, workflowID string) (open, found bool, err error)
	// Nudge tells the workflow to read its row again.
	Nudge(ctx context.Context, workflowID string) (open bool, err error)
}

// Keys finds the data key of a tenant.
type Keys interface {
	Key(ctx context.Context, tenant uuid.UUID) (*datakey.Key, error)
}

// Config has the times of the service; zero values take the defaults.
type Config struct {
	// DefaultWait is how long a message waits for its reply, MaxWait the most that it may ask for (55 s,
	// 60 s).
	DefaultWait, MaxWait time.Duration
	// PollEvery is how often a waiting call reads the row in case a notice was lost (2 s).
	PollEvery time.Duration
	PublicURL string
	// Keep is how long a session is kept after its last message (30 days).
	Keep time.Duration
}

// Deps are the collaborators; all are required but Now and Quotas.
type Deps struct {
	DB        *db.Pool
	Agents    Agents
	Customers Customers
	Engine    Engine
	Keys      Keys
	Notices   *ended.Notices
	Log       *slog.Logger
	Now       func() time.Time
	Quotas    quota.Limits
}

// Service keeps the sessions of all agents.
type Service struct {
	cfg Config
	d   Deps
	q   *dbsqlc.Queries
	hub *ended.Hub[Turn]
	// rooms are those of most callers, visited those of keys that visitors may have.
	rooms, visited rooms
	// followed are the turns of which callers in this process read the reply while it is written.
	followed followers
	sweeping sweeping
}

// rooms count the sessions and the open messages of tenants near their quotas only: each message makes
// one of the second, and one without a session of the first.
type rooms struct{ sessions, open *quota.Room }

func newRooms(l quota.Limits, now func() time.Time) rooms {
	return rooms{l.Room(quota.Conversations, now), l.Room(quota.OpenTurns, now)}
}

// New checks the collaborators.
func New(cfg Config, d Deps) (*Service, error) {
	if d.DB == nil || d.Agents == nil || d.Customers == nil || d.Engine == nil || d.Keys == nil || d.Notices == nil || d.Log == nil {
		return nil, errors.New("conversation: database, agents, customers, engine, keys, notices and log are required")
	}
	if cfg.DefaultWait == 0 {
		cfg.DefaultWait = 55 * time.Second
	}
	if cfg.MaxWait == 0 {
		cfg.MaxWait = time.Minute
	}
	if cfg.PollEvery == 0 {
		cfg.PollEvery = 2 * time.Second
	}
	if cfg.Keep == 0 {
		cfg.Keep = 30 * 24 * time.Hour
	}
	d.Now = db.Clock(d.Now)
	s := &Service{
		cfg: cfg, d: d, q: dbsqlc.New(), hub: ended.NewHub[Turn](), followed: followers{of: map[uuid.UUID]map[*Follower]struct{}{}},
		rooms: newRooms(d.Quotas, d.Now), visited: newRooms(d.Quotas.Visited(), d.Now),
		sweeping: sweeping{open: lookagain.New[seenTurn]()},
	}
	d.Notices.OnNotice(s.hear)
	return s, nil
}

// State is how far a turn is.
type State string

// The states.
const (
	Queued  State = "queued"  // others of the session are answered before it
	Working State = "working" // it has the session
	Waiting State = "waiting" // for people; the session is free
	Ended   State = "ended"
)

// Status is how a turn stands for callers.
type Status string

// The statuses.
const (
	StatusRunning   Status = "running"
	StatusPaused    Status = "paused" // running, and a kill switch covers a call
	StatusPending   Status = "pending_approval"
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
	StatusEscalated Status = "escalated"
	StatusCancelled Status = "cancelled"
)

// Turn is one message to an agent, and what became of it, as its row is.
type Turn struct {
	ID           uuid.UUID
	TenantID     uuid.UUID
	ExecutionID  string
	AgentID      uuid.UUID
	Version      int32
	Conversation uuid.UUID
	Kind         flow.Kind
	// Goal is what a goal was given; nil for a message. Progress is how its criteria stand; nil where nobody
	// has looked yet.
	Goal     *Goal
	Progress *Progress
	// SessionID is the caller's name of the session; "" where the message is in none.
	SessionID string
	State     State
	Status    Status
	// Message is what was written, Reply the last reply; nil where there is none.
	Message  string
	Reply    *string
	Replies  int32
	Metadata json.RawMessage
	Identity json.RawMessage
	Customer *uuid.UUID
	// CustomerName is the customer_id as the caller wrote it.
	CustomerName string
	KeyID        *uuid.UUID
	RequestID    string
	SourceAddr   string
	WorkflowID   string
	Error        *stepmachine.Error
	Stop         agentloop.Stop
	Model        string
	SOP          string
	// SOPs are the procedures that fit the message, with the reasons.
	SOPs        []agentloop.Hit
	Tokens      int64
	Estimated   bool // some of the tokens are an estimate
	MoneyMicros int64
	Actions     int32
	Governance  string
	ApprovalID  string
	// ParentID is the execution that has asked, "" for a message of a caller. Chain has what stands above
	// the message.
	ParentID string
	Chain    agentloop.Chain
	// MapExecution is the execution_id of the last Map that it has started; "" where there is none.
	MapExecution string
	WantsCancel  bool
	// TakenOver: a person took over while the agent worked on it, and nothing says yet what came of its
	// calls.
	TakenOver bool
	Tainted   bool
	// TaintSources say what has tainted the session.
	TaintSources []string
	// Language is that of the session before the message, a code; "" for none.
	Language string
	Streamed bool
	// Remembers: the message reads and writes what is remembered of its customer. Memory is what it has
	// read and written.
	Remembers bool
	Memory    Memory
	// StreamOpen: text was streamed that is neither void nor the reply.
	StreamOpen bool
	WorkedMS   int64
	BegunAt    *time.Time
	UpdatedAt  time.Time
	FinishedAt *time.Time

	fingerprint    []byte
	callerWorkflow string
}

// Ref names the turn for its workflow.
func (t Turn) Ref() flow.TurnRef { return flow.TurnRef{TenantID: t.TenantID, ID: t.ID} }

// CreatedAt returns when the message was written, from the turn's id.
func (t Turn) CreatedAt() time.Time {
	seconds, nanos := t.ID.Time().UnixTime()
	return time.Unix(seconds, nanos).UTC()
}

// Took returns how long it took to its last reply, or until now.
func (t Turn) Took(now time.Time) time.Duration {
	if t.Replies > 0 {
		now = t.UpdatedAt
	}
	return max(now.Sub(t.CreatedAt()), 0)
}

// Starter returns the key for which the turn acts.
func (t Turn) Starter() actor.Actor {
	who := actor.Actor{Kind: actor.System, TenantID: t.TenantID, RequestID: t.RequestID, SourceAddr: t.SourceAddr}
	if t.KeyID != nil {
		who.Kind, who.ID = actor.Key, *t.KeyID
	}
	return who
}

// answered reports whether there is something for those who wait: a reply, or the end.
func (t Turn) answered() bool { return t.Replies > 0 || t.State == Ended }

func (t Turn) place(f datakey.Field) datakey.Place {
	return datakey.Place{Tenant: t.TenantID, Row: t.ID, Field: f}
}

// open reads a row with its texts.
func (s *Service) open(ctx context.Context, r dbsqlc.GetTurnRow) (Turn, error) {
	t := Turn{
		ID: r.ID, TenantID: r.TenantID, ExecutionID: r.ExecutionID, AgentID: r.AgentID, Version: r.Version, Conversation: r.Conversation, Kind: flow.Kind(r.Kind),
		SessionID: db.Text(r.SessionID), State: State(r.State), Status: Status(r.Status), Replies: r.Replies, Metadata: r.Metadata, Identity: r.Identity,
		Customer: r.Customer, CustomerName: db.Text(r.CustomerName), KeyID: r.KeyID, RequestID: r.RequestID, SourceAddr: r.SourceAddr,
		WorkflowID: r.WorkflowID, Stop: agentloop.Stop(r.StopReason), Model: r.Model, SOP: r.Sop, Tokens: r.TokensUsed, Estimated: r.UsageEstimated,
		MoneyMicros: r.MoneyMicros, Actions: r.Actions, Governance: r.Governance, ApprovalID: db.Text(r.ApprovalID), WantsCancel: r.WantsCancel,
		MapExecution: db.Text(r.MapExecutionID),
		Language:     db.Text(r.SpokenLanguage),
		Tainted:      r.Tainted, TaintSources: r.TaintSources, Remembers: r.Remembers, Streamed: r.Streamed, StreamOpen: r.StreamOpen, WorkedMS: r.WorkedMs, BegunAt: r.BegunAt, UpdatedAt: r.UpdatedAt, FinishedAt: r.FinishedAt,
		TakenOver:   r.NewsAt != nil && State(r.State) == Ended && agentloop.Stop(r.StopReason) == agentloop.Escalated,
		fingerprint: r.Fingerprint, ParentID: db.Text(r.ParentID), callerWorkflow: db.Text(r.CallerWorkflow),
	}
	if r.Chain != nil { // without it, the limits of those above would not count
		if err := json.Unmarshal(r.Chain, &t.Chain); err != nil {
			return t, fmt.Errorf("conversation: what is above %s: %w", t.ID, err)
		}
	}
	key, err := s.d.Keys.Key(ctx, r.TenantID)
	if err != nil {
		return t, fmt.Errorf("conversation: %w", err)
	}
	text, err := key.Open(t.place(datakey.TurnMessage), r.Message)
	if err != nil {
		return t, fmt.Errorf("conversation: message of %s: %w", t.ID, err)
	}
	t.Message = string(text)
	if t.Status == StatusEscalated && r.Replies == 0 {
		t.Reply = new(agentloop.TakenOver) // the agent has said nothing
	}
	if r.Reply != nil {
		if text, err = key.Open(t.place(datakey.TurnReply), *r.Reply); err != nil {
			return t, fmt.Errorf("conversation: reply of %s: %w", t.ID, err)
		}
		t.Reply = new(string(text))
	}
	for _, what := range []struct {
		field  datakey.Field
		sealed *string
		into   any
	}{{datakey.TurnError, r.Error, &t.Error}, {datakey.TurnMemory, r.Memory, &t.Memory}, {datakey.TurnHits, r.Hits, &t.SOPs}} {
		if what.sealed == nil {
			continue
		}
		if text, err = key.Open(t.place(what.field), *what.sealed); err == nil {
			err = json.Unmarshal(text, what.into)
		}
		if err != nil {
			return t, fmt.Errorf("conversation: %s of %s: %w", what.field, t.ID, err)
		}
	}
	return t, t.openGoal(key, r)
}

// read returns a turn.
func (s *Service) read(ctx context.Context, ref flow.TurnRef) (Turn, error) {
	row, err := s.q.GetTurn(ctx, s.d.DB.Tenant(ref.TenantID), dbsqlc.GetTurnParams{TenantID: ref.TenantID, ID: ref.ID})
	if err != nil {
		return Turn{}, fmt.Errorf("conversation: get: %w", err)
	}
	return s.open(ctx, row)
}

// hear hands a turn that another process has answered to those that wait for it in this one.
func (s *Service) hear(ctx context.Context, tenant, id uuid.UUID) {
	s.followed.wake(id)
	if !s.hub.Awaited(id) {
		return
	}
	if t, err := s.read(ctx, flow.TurnRef{TenantID: tenant, ID: id}); err == nil && t.answered() {
		s.hub.Deliver(t.ID, t.Replies, t)
	}
}

// tell tells those who wait that the turn has a reply, or has ended.
func (s *Service) tell(t Turn) {
	s.hub.Deliver(t.ID, max(t.Replies, 1), t)
	s.followed.end(t)
	s.d.Notices.Tell(t.TenantID, t.ID)
}

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("conversation: %T: %v", v, err)) // of our own types
	}
	return text
}

func sealOptional(key *datakey.Key, at datakey.Place, text []byte) *string {
	if text == nil {
		return nil
	}
	stored := key.Seal(at, text)
	return &stored
}
