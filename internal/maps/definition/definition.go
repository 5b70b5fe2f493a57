// Package definition keeps the Maps of each tenant: their versions, which of them is published,
// and how Maps start each other. internal/service/authoring checks a definition and stores it
// here, the API lists and reads, and the engine takes compiled versions. It does not look at the
// verbs and policies that a definition names, and it runs nothing.
package definition

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
	"agentruntime/internal/base/bytelru"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/record/quota"
)

// Map is the record of a Map, without its definition.
type Map struct {
	ID          uuid.UUID
	Name        string // of the newest version
	Description string // of the newest version
	Newest      int32  // the number of the newest version
	// Published is the version that triggers run; nil where none was published yet.
	Published   *int32
	PublishedBy *string // "user:<id>" or "key:<id>"
	PublishedAt *time.Time
	// Revision counts all changes of the Map.
	Revision  int32
	CreatedBy string
	CreatedAt time.Time
	UpdatedBy string
	UpdatedAt time.Time
	// MapType is that of the newest version, as of the read.
	MapType mapdef.MapType
}

// Stored is one version of a Map as it is stored.
type Stored struct {
	MapID  uuid.UUID
	Number int32
	Name   string
	// Source is the definition as written, as JSON; nil in lists.
	Source    json.RawMessage
	Size      int32 // bytes of the definition
	Digest    []byte
	CreatedBy string
	CreatedAt time.Time
	// PublishedBy and PublishedAt are of its last publication; nil where it never was.
	PublishedBy *string
	PublishedAt *time.Time
	// Current says that triggers run this version.
	Current bool
	// MapType is as of the read; "" in lists.
	MapType mapdef.MapType
}

// Record is a Map with its newest version.
type Record struct {
	Map
	Version Stored
}

// Deps are what a Service works with; Now may be nil.
type Deps struct {
	DB     *db.Pool
	Quotas quota.Limits
	Now    func() time.Time
}

// compiledBytes is how much memory the definitions take that a process keeps ready.
const compiledBytes = 64 << 20

// Service keeps the Maps of all tenants. It is safe for concurrent use.
type Service struct {
	d        Deps
	q        *dbsqlc.Queries
	compiled *bytelru.Cache[versionKey, compiled]
}

// New checks the collaborators.
func New(d Deps) (*Service, error) {
	if d.DB == nil {
		return nil, errors.New("definition: a database is required")
	}
	d.Now = db.Clock(d.Now)
	cache, err := bytelru.New[versionKey, compiled](compiledBytes)
	if err != nil {
		return nil, fmt.Errorf("definition: %w", err)
	}
	return &Service{d: d, q: dbsqlc.New(), compiled: cache}, nil
}

// Draft is a definition to be stored. It was read and checked.
type Draft struct {
	Definition *mapdef.Definition
	// Source is the text that the definition was read from.
	Source json.RawMessage
}

func (d Draft) digest() []byte {
	sum := sha256.Sum256(d.Source)
	return sum[:]
}

func notFound() error { return fault.New(fault.CodeMapNotFound, "") }

// readError is why a Map could not be read.
func readError(err error) error {
	if db.IsNoRows(err) {
		return notFound()
	}
	return fmt.Errorf("definition: read: %w", err)
}

// Invalid returns the INVALID_MAP that names the faults.
func Invalid(faults []mapdef.Fault) error {
	f := fault.New(fault.CodeInvalidMap, "")
	f.Details = make([]fault.Detail, len(faults))
	for i, one := range faults {
		f.Details[i] = fault.Detail{Path: one.Path, Rule: one.Rule, Message: one.Message}
	}
	return f
}

func mapOf(r dbsqlc.Map) Map {
	return Map{
		ID: r.ID, Name: r.Name, Description: r.Description, Newest: r.LatestVersion,
		Published: r.PublishedVersion, PublishedBy: r.PublishedBy, PublishedAt: db.UTC(r.PublishedAt), Revision: r.Revision,
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.UTC(), UpdatedBy: r.UpdatedBy, UpdatedAt: r.UpdatedAt.UTC(),
	}
}

func storedOf(r dbsqlc.MapVersion, published *int32) Stored {
	return Stored{
		MapID: r.MapID, Number: r.Version, Name: r.Name, Source: r.Definition, Size: r.Size, Digest: r.Digest,
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.UTC(), PublishedBy: r.PublishedBy, PublishedAt: db.UTC(r.PublishedAt),
		Current: published != nil && *published == r.Version,
	}
}

// Get returns a Map with its newest version; MAP_NOT_FOUND.
func (s *Service) Get(ctx context.Context, tenant, id uuid.UUID) (Record, error) {
	b := &db.Batch{}
	row := db.Queue(b, s.q.GetMap, dbsqlc.GetMapParams{TenantID: tenant, ID: id})
	newest := db.Queue(b, s.q.GetMapVersion, dbsqlc.GetMapVersionParams{TenantID: tenant, MapID: id})
	if err := s.d.DB.Send(ctx, tenant, b); err != nil {
		return Record{}, readError(err)
	}
	rec := Record{Map: mapOf(row.Value), Version: storedOf(newest.Value.MapVersion, newest.Value.PublishedVersion)}
	kind, err := s.typeOf(ctx, s.d.DB.Tenant(tenant), tenant, newest.Value.MapVersion)
	rec.MapType, rec.Version.MapType = kind, kind
	return rec, err
}

// Exists returns MAP_NOT_FOUND where the tenant has no such Map.
func (s *Service) Exists(ctx context.Context, tenant, id uuid.UUID) error {
	if _, err := s.q.GetMap(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetMapParams{TenantID: tenant, ID: id}); err != nil {
		return readError(err)
	}
	return nil
}

// Version returns a version of a Map, the newest one for 0; MAP_NOT_FOUND.
func (s *Service) Version(ctx context.Context, tenant, id uuid.UUID, number int32) (Stored, error) {
	row, err := s.q.GetMapVersion(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetMapVersionParams{TenantID: tenant, MapID: id, Version: number})
	if db.IsNoRows(err) {
		return Stored{}, fault.Newf(fault.CodeMapNotFound, "No such Map, or no version %d of it.", number)
	}
	if err != nil {
		return Stored{}, readError(err)
	}
	v := storedOf(row.MapVersion, row.PublishedVersion)
	v.MapType, err = s.typeOf(ctx, s.d.DB.Tenant(tenant), tenant, row.MapVersion)
	return v, err
}
