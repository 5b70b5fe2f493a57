// Package catalog is what a tenant can call: its imported providers and their
// verbs, which of them are connected, and for the run path the compiled form of a
// verb. The api package lists and imports through it, the run path looks verbs up.
// It never calls a provider and never sees a credential's content.
package catalog

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/circuit"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/record/quota"
)

// Deps are the collaborators of a Catalog.
type Deps struct {
	DB  *db.Pool
	Now func() time.Time // nil is time.Now
	// Quotas bound the providers and verbs of a tenant.
	Quotas quota.Limits
}

// Catalog reads and replaces the catalogs of all tenants. It is safe for
// concurrent use.
type Catalog struct {
	db  *db.Pool
	now func() time.Time
	q   *dbsqlc.Queries

	quotas quota.Limits
}

// New builds a Catalog; the database is required.
func New(d Deps) (*Catalog, error) {
	if d.DB == nil {
		return nil, errors.New("catalog: database is required")
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Catalog{db: d.DB, now: d.Now, q: dbsqlc.New(), quotas: d.Quotas}, nil
}

// Verb is one verb as a caller sees it.
type Verb struct {
	Name        verb.Name
	Domain      string
	Description string
	Risk        verb.Risk
	Operation   verb.Operation
	Idempotency verb.Idempotency
	SchemaHash  Hash
	Schema      json.RawMessage // JSON Schema of the arguments
	// Security is what a call presents.
	Security verb.Security
	// Trust says whose words its results are, and Taint which places of them taint all the same. Lists
	// have neither.
	Trust verb.Trust
	Taint []string
	// Egress: the verb reaches an address of the caller's choice. Lists do not have it.
	Egress bool
	// Connected: the call presents nothing, or the tenant's credential has what it needs.
	Connected bool
	// Quarantine is why calls of the verb are blocked; nil where an import did not.
	Quarantine *verb.Quarantine
	// Method and Path are what a call sends, the path with its {names}. They are "" where a list
	// was not asked for them, and where the verb is no HTTP call.
	Method, Path string
}

// Provider is an imported provider.
type Provider struct {
	Slug         string
	Name         string
	Domain       string
	BaseURL      string
	AuthType     credential.Kind // credential.None counts as connected
	Auth         json.RawMessage // how a credential is sent; the catalog does not look into it
	DocumentHash Hash
	Imported     int // verbs that can be called
	Degraded     []verb.Report
	Rejected     []verb.Report
	Servers      []verb.Server // the document's, each with how many verbs call it
	Notes        Notes
	Corrections  Corrections
	Connected    bool
	Shared       bool // the platform's
	Enabled      bool // the tenant can call it: its own, or one of the platform's that it has enabled
	// Trust says whose words its results are; only of a provider that was read by itself.
	Trust     verb.Trust
	CreatedAt time.Time
	UpdatedAt time.Time // of the last change
	// Circuit is that of the tenant's calls; only of a provider that was read by itself.
	Circuit circuit.Record
}

// Hash is a SHA-256.
type Hash [sha256.Size]byte

// HashOf returns the hash of the bytes as they are.
func HashOf(b []byte) Hash { return sha256.Sum256(b) }

// storedHash reads a hash that this package wrote.
func storedHash(b []byte) (h Hash) {
	copy(h[:], b)
	return h
}
