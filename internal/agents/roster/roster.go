// Package roster keeps the agents of each tenant: their versions, which of them is published, and
// whether they are active. The API reads and changes them here, and messages take compiled
// versions. It asks no model and calls nothing.
package roster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/base/bytelru"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/quota"
)

// Status is whether an agent takes messages.
type Status string

// The states of an agent.
const (
	Active Status = "active"
	Paused Status = "paused" // it takes no messages
)

// Agent is the record of an agent, without its definition.
type Agent struct {
	ID     uuid.UUID
	Name   string // of the newest version
	Status Status
	Newest int32 // the number of the newest version
	// Published is the version that answers messages.
	Published   int32
	PublishedBy string // "user:<id>" or "key:<id>"
	PublishedAt time.Time
	// Revision counts all changes of the agent.
	Revision  int32
	CreatedBy string
	CreatedAt time.Time
	UpdatedBy string
	UpdatedAt time.Time
}

// Stored is one version of an agent as it is stored.
type Stored struct {
	AgentID uuid.UUID
	Number  int32
	Name    string
	// Source is the definition with its defaults, as JSON; nil in lists.
	Source    json.RawMessage
	Size      int32 // bytes of the definition
	Digest    []byte
	CreatedBy string
	CreatedAt time.Time
	// PublishedBy and PublishedAt are of its last publication; nil where it never was.
	PublishedBy *string
	PublishedAt *time.Time
	// Published is the version that answers messages; 0 in lists. Current says that it is this one.
	Published int32
	Current   bool
}

// Record is an agent with the definition of its newest version.
type Record struct {
	Agent
	Definition *agentdef.Definition
}

// Deps are what a Service works with; Now may be nil.
type Deps struct {
	DB     *db.Pool
	Quotas quota.Limits
	Now    func() time.Time
}

// compiledBytes is how much memory the definitions take that a process keeps ready.
const compiledBytes = 32 << 20

// Service keeps the agents of all tenants. It is safe for concurrent use.
type Service struct {
	d        Deps
	q        *dbsqlc.Queries
	compiled *bytelru.Cache[versionKey, compiled]
}

// New checks the collaborators.
func New(d Deps) (*Service, error) {
	if d.DB == nil {
		return nil, errors.New("roster: a database is required")
	}
	d.Now = db.Clock(d.Now)
	cache, err := bytelru.New[versionKey, compiled](compiledBytes)
	if err != nil {
		return nil, fmt.Errorf("roster: %w", err)
	}
	return &Service{d: d, q: dbsqlc.New(), compiled: cache}, nil
}

func notFound() error { return fault.New(fault.CodeAgentNotFound, "") }

// readError is why an agent could not be read.
func readError(err error) error {
	if db.IsNoRows(err) {
		return notFound()
	}
	return fmt.Errorf("roster: read: %w", err)
}

func digest(source []byte) []byte {
	sum := sha256.Sum256(source)
	return sum[:]
}

func agentOf(r dbsqlc.Agent) Agent {
	return Agent{
		ID: r.ID, Name: r.Name, Status: Status(r.Status), Newest: r.LatestVersion,
		Published: r.PublishedVersion, PublishedBy: r.PublishedBy, PublishedAt: r.PublishedAt.UTC(), Revision: r.Revision,
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.UTC(), UpdatedBy: r.UpdatedBy, UpdatedAt: r.UpdatedAt.UTC(),
	}
}

func storedOf(r dbsqlc.AgentVersion, published int32) Stored {
	return Stored{
		AgentID: r.AgentID, Number: r.Version, Name: r.Name, Source: r.Definition, Size: r.Size, Digest: r.Digest,
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.UTC(), PublishedBy: r.PublishedBy, PublishedAt: db.UTC(r.PublishedAt),
		Published: published, Current: published == r.Version,
	}
}

func recordOf(a dbsqlc.Agent, source []byte) (Record, error) {
	d, err := agentdef.Decode(source)
	if err != nil {
		return Record{}, fmt.Errorf("roster: %s: %w", a.ID, err)
	}
	return Record{Agent: agentOf(a), Definition: d}, nil
}

// Get returns an agent with its newest version; AGENT_NOT_FOUND.
func (s *Service) Get(ctx context.Context, tenant, id uuid.UUID) (Record, error) {
	b := &db.Batch{}
	row := db.Queue(b, s.q.GetAgent, dbsqlc.GetAgentParams{TenantID: tenant, ID: id})
	newest := db.Queue(b, s.q.GetAgentVersion, dbsqlc.GetAgentVersionParams{TenantID: tenant, AgentID: id})
	if err := s.d.DB.Send(ctx, tenant, b); err != nil {
		return Record{}, readError(err)
	}
	return recordOf(row.Value, newest.Value.AgentVersion.Definition)
}

// Stored returns a version of an agent, the newest one for 0; AGENT_NOT_FOUND.
func (s *Service) Stored(ctx context.Context, tenant, id uuid.UUID, number int32) (Stored, error) {
	row, err := s.q.GetAgentVersion(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetAgentVersionParams{TenantID: tenant, AgentID: id, Version: number})
	if err != nil {
		return Stored{}, readError(err)
	}
	return storedOf(row.AgentVersion, row.PublishedVersion), nil
}

// Filter narrows a list. A field with its zero value does not narrow it.
type Filter struct {
	Status Status
	Before *uuid.UUID
	Limit  int
}

// List returns the newest agents first, and whether there are more.
func (s *Service) List(ctx context.Context, tenant uuid.UUID, f Filter) (page []Agent, more bool, err error) {
	rows, err := s.q.ListAgents(ctx, s.d.DB.Reading(tenant, db.ListLimit), dbsqlc.ListAgentsParams{
		TenantID: tenant, Before: f.Before, Status: db.Optional(string(f.Status)), Most: int32(f.Limit + 1),
	})
	if err != nil {
		return nil, false, fmt.Errorf("roster: list: %w", err)
	}
	rows, more = db.Page(rows, f.Limit)
	page = make([]Agent, len(rows))
	for i, row := range rows {
		page[i] = agentOf(row)
	}
	return page, more, nil
}

// Versions returns the versions of an agent without their definitions, the newest first, and
// whether there are more. before continues after that number; 0 begins. AGENT_NOT_FOUND.
func (s *Service) Versions(ctx context.Context, tenant, id uuid.UUID, before int32, limit int) (page []Stored, more bool, err error) {
	b := &db.Batch{}
	a := db.Queue(b, s.q.GetAgent, dbsqlc.GetAgentParams{TenantID: tenant, ID: id})
	arg := dbsqlc.ListAgentVersionsParams{TenantID: tenant, AgentID: id, Most: int32(limit + 1)}
	if before > 0 {
		arg.Before = &before
	}
	list := db.Queue(b, s.q.ListAgentVersions, arg)
	if err := s.d.DB.SendReading(ctx, tenant, db.ListLimit, b); err != nil {
		return nil, false, readError(err)
	}
	rows, more := db.Page(list.Value, limit)
	page = make([]Stored, len(rows))
	for i, r := range rows {
		page[i] = Stored{
			AgentID: id, Number: r.Version, Name: r.Name, Size: r.Size, Digest: r.Digest, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.UTC(),
			PublishedBy: r.PublishedBy, PublishedAt: db.UTC(r.PublishedAt), Current: a.Value.PublishedVersion == r.Version,
		}
	}
	return page, more, nil
}
