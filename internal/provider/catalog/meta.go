package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/bytelru"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
)

// Meta is what a run and an evaluation need to know of a verb before its schema
// and plan.
type Meta struct {
	Name        verb.Name
	Domain      string
	Risk        verb.Risk
	Operation   verb.Operation
	Idempotency verb.Idempotency
	SchemaHash  Hash
	PlanHash    Hash
	BaseURL     string
	Auth        json.RawMessage
	// ProviderAt is when the provider was last changed.
	ProviderAt time.Time
	// Quarantine is why calls of the verb are blocked; nil where an import did not.
	Quarantine *verb.Quarantine
	// Trusted: results of the verb are the tenant's own words, but for the places Taint.
	Trusted bool
	Taint   []string
	// Egress: the verb reaches an address of the caller's choice.
	Egress bool
	// Shared says that the verb is of the platform's provider, which the tenant has enabled.
	Shared bool
}

// QueueOwnMeta adds the question for a verb of the tenant's own to a batch. Once the batch
// was sent, the function returned reads the answer; found is false where the tenant has no
// such verb, and then Catalog.Meta finds one of the platform's.
func QueueOwnMeta(b *db.Batch, tenant uuid.UUID, name verb.Name) func() (m Meta, found bool) {
	answer := db.Queue(b, dbsqlc.New().GetOwnVerbMeta,
		dbsqlc.GetOwnVerbMetaParams{TenantID: tenant, Provider: name.Provider, Name: name.Verb})
	return func() (Meta, bool) {
		for _, r := range answer.Value {
			return metaOf(dbsqlc.GetVerbMetaRow{
				Provider: r.Provider, Name: r.Name, Domain: r.Domain, RiskLevel: r.RiskLevel, OperationType: r.OperationType,
				Idempotency: r.Idempotency, SchemaHash: r.SchemaHash, PlanHash: r.PlanHash, BaseUrl: r.BaseUrl, Auth: r.Auth, UpdatedAt: r.UpdatedAt, Quarantine: r.Quarantine,
				Trusted: r.Trusted, Egress: r.Egress,
			}), true
		}
		return Meta{}, false
	}
}

// Meta returns what is known of a verb, the tenant's own or one of the platform's that the
// tenant has enabled; VERB_NOT_FOUND.
func (c *Catalog) Meta(ctx context.Context, tenant uuid.UUID, name verb.Name) (Meta, error) {
	row, err := dbsqlc.New().GetVerbMeta(ctx, c.db.Tenant(tenant), dbsqlc.GetVerbMetaParams{TenantID: tenant, Provider: name.Provider, Name: name.Verb})
	if err != nil {
		return Meta{}, verbError(err)
	}
	return metaOf(row), nil
}

// ReadMeta reads the part "verb" of what the SQL function call_target returned for a verb. found
// is false where the tenant has no such verb of its own.
func ReadMeta(name verb.Name, part json.RawMessage) (m Meta, found bool, err error) {
	var r *struct {
		Domain        string          `json:"domain"`
		RiskLevel     string          `json:"risk_level"`
		OperationType string          `json:"operation_type"`
		Idempotency   string          `json:"idempotency"`
		SchemaHash    []byte          `json:"schema_hash"`
		PlanHash      []byte          `json:"plan_hash"`
		BaseURL       string          `json:"base_url"`
		Auth          json.RawMessage `json:"auth"`
		ProviderAt    time.Time       `json:"provider_at"`
		Quarantine    json.RawMessage `json:"quarantine"`
		Trusted       json.RawMessage `json:"trusted"`
		Egress        bool            `json:"egress"`
	}
	if err := json.Unmarshal(part, &r); err != nil {
		return Meta{}, false, fmt.Errorf("catalog: read a verb: %w", err)
	}
	if r == nil {
		return Meta{}, false, nil
	}
	return metaOf(dbsqlc.GetVerbMetaRow{
		Provider: name.Provider, Name: name.Verb, Domain: r.Domain, RiskLevel: r.RiskLevel, OperationType: r.OperationType,
		Idempotency: r.Idempotency, SchemaHash: r.SchemaHash, PlanHash: r.PlanHash, BaseUrl: r.BaseURL, Auth: r.Auth, UpdatedAt: r.ProviderAt, Quarantine: r.Quarantine, Trusted: r.Trusted, Egress: r.Egress,
	}), true, nil
}

func metaOf(r dbsqlc.GetVerbMetaRow) Meta {
	return Meta{
		Name: verb.Name{Provider: r.Provider, Verb: r.Name}, Domain: r.Domain, Risk: verb.Risk(r.RiskLevel),
		Operation: verb.Operation(r.OperationType), Idempotency: verb.Idempotency(r.Idempotency),
		SchemaHash: storedHash(r.SchemaHash), PlanHash: storedHash(r.PlanHash),
		BaseURL: r.BaseUrl, Auth: r.Auth, ProviderAt: r.UpdatedAt.UTC(), Quarantine: markOf(r.Quarantine), Shared: r.Shared,
		Trusted: len(r.Trusted) > 0 && string(r.Trusted) != "null", Taint: taintOf(r.Trusted), Egress: r.Egress,
	}
}

func verbError(err error) error {
	if db.IsNoRows(err) {
		return fault.New(fault.CodeVerbNotFound, "")
	}
	return fmt.Errorf("catalog: read a verb: %w", err)
}

// ErrReplaced says that a verb changed between its Meta and Load. Read its Meta again.
var ErrReplaced = errors.New("catalog: the verb was replaced in the meantime")

// Compiled loads verbs' schemas and plans and keeps them in compiled form. T is
// what the compile function makes of them; it must be safe for concurrent use.
type Compiled[T any] struct {
	catalog *Catalog
	compile Compile[T]
	cache   *bytelru.Cache[artefactKey, T]
}

// Compile makes the compiled form of a verb. It also returns about how many bytes of memory
// that form takes.
type Compile[T any] func(schema, plan json.RawMessage) (form T, size int, err error)

// artefactKey names a compiled pair by content: a replaced verb has another key, so
// nothing is ever invalidated.
type artefactKey struct {
	tenant       uuid.UUID // uuid.Nil for a shared verb, which is compiled once for all tenants
	schema, plan Hash
}

// NewCompiled returns a cache of at most most bytes over the catalog.
func NewCompiled[T any](c *Catalog, most int, compile Compile[T]) (*Compiled[T], error) {
	if c == nil || compile == nil {
		return nil, errors.New("catalog: a catalog and a compile function are required")
	}
	cache, err := bytelru.New[artefactKey, T](most)
	if err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	return &Compiled[T]{catalog: c, compile: compile, cache: cache}, nil
}

// Load returns the compiled form of the verb that m describes: from memory, else
// with one round trip. VERB_NOT_FOUND; ErrReplaced.
func (l *Compiled[T]) Load(ctx context.Context, tenant uuid.UUID, m Meta) (T, error) {
	var none T
	key := artefactKey{tenant: tenant, schema: m.SchemaHash, plan: m.PlanHash}
	if m.Shared {
		key.tenant = uuid.Nil
	}
	if v, ok := l.cache.Get(key); ok {
		return v, nil
	}
	row, err := l.catalog.artefacts(ctx, tenant, m)
	if err != nil {
		return none, verbError(err)
	}
	if storedHash(row.SchemaHash) != m.SchemaHash || storedHash(row.PlanHash) != m.PlanHash {
		return none, ErrReplaced
	}
	v, size, err := l.compile(json.RawMessage(row.Schema), json.RawMessage(row.Plan))
	if err != nil {
		return none, fmt.Errorf("catalog: compile %s: %w", m.Name, err)
	}
	l.cache.Add(key, v, size, nil)
	return v, nil
}

// artefacts reads what Load compiles. Who has read the Meta of a shared verb may call it.
func (c *Catalog) artefacts(ctx context.Context, tenant uuid.UUID, m Meta) (dbsqlc.GetVerbArtefactsRow, error) {
	if m.Shared {
		row, err := c.q.GetPlatformVerbArtefacts(ctx, c.db.Tenant(tenant), dbsqlc.GetPlatformVerbArtefactsParams{Provider: m.Name.Provider, Name: m.Name.Verb})
		return dbsqlc.GetVerbArtefactsRow(row), err
	}
	return c.q.GetVerbArtefacts(ctx, c.db.Tenant(tenant), dbsqlc.GetVerbArtefactsParams{TenantID: tenant, Provider: m.Name.Provider, Name: m.Name.Verb})
}
