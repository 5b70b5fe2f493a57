package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/bytelru"
)

// Set is one version of a tenant's rules: its enabled policies, compiled, and its masks.
// It is immutable and safe for concurrent use. nil is the set of a tenant without rules.
type Set struct {
	// Policies judges calls.
	Policies *governance.Set
	masks    Masks
}

// Judge is Policies; nil where there are none.
func (s *Set) Judge() *governance.Set {
	if s == nil {
		return nil
	}
	return s.Policies
}

// Masks returns the tenant's masks.
func (s *Set) Masks() Masks {
	if s == nil {
		return nil
	}
	return s.masks
}

// keptBytes is how much memory the compiled rules take that a process keeps, of all tenants
// together. A policy of three conditions takes about 2 KB.
const keptBytes = 64 << 20

// loadLimit bounds the read that several calls may wait for.
const loadLimit = 10 * time.Second

// Sets keeps the sets of the tenants that were used last, by version. Every change counts
// the version up in its own transaction, and every call reads the current version. So a
// change acts on the next call in every process, without any invalidation.
type Sets struct {
	db *db.Pool
	q  *dbsqlc.Queries

	loading singleflight.Group
	kept    *bytelru.Cache[uuid.UUID, *Set]
}

// NewSets returns an empty cache over the database.
func NewSets(pool *db.Pool) (*Sets, error) {
	if pool == nil {
		return nil, errors.New("policy: a database is required")
	}
	s := &Sets{db: pool, q: dbsqlc.New()}
	var err error
	s.kept, err = bytelru.New[uuid.UUID, *Set](keptBytes)
	return s, err
}

// QueueVersion adds the question for the tenant's version to a batch of the tenant. Once
// the batch was sent, the function returned reads the answer: 0 where the tenant never had
// a policy.
func QueueVersion(b *db.Batch, tenant uuid.UUID) func() int64 {
	versions := db.Queue(b, dbsqlc.New().PolicySetVersion, tenant)
	return func() int64 {
		if len(versions.Value) == 0 {
			return 0
		}
		return versions.Value[0]
	}
}

// Load returns the tenant's set of the version that was read, or of a later one: from
// memory, otherwise with one round trip. If it returns an error, the caller must fail: no
// call is made without its policies.
func (s *Sets) Load(ctx context.Context, tenant uuid.UUID, version int64) (*Set, error) {
	if version == 0 {
		return nil, nil //nolint:nilnil // no set judges by the registry defaults
	}
	if set := s.get(tenant, version); set != nil {
		return set, nil
	}
	// One load serves all waiters, so it must survive its caller's cancellation. A request
	// for a newer version starts a new load.
	key := tenant.String() + "/" + strconv.FormatInt(version, 10)
	done := s.loading.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadLimit)
		defer cancel()
		return s.read(ctx, tenant)
	})
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case out := <-done:
		if out.Err != nil {
			return nil, out.Err
		}
		set, _ := out.Val.(*Set)
		return set, nil
	}
}

// HoldsTainted reports whether an enforced policy of the tenant holds or blocks calls by what an agent has read.
func (s *Sets) HoldsTainted(ctx context.Context, tenant uuid.UUID) (bool, error) {
	b := &db.Batch{}
	version := QueueVersion(b, tenant)
	if err := s.db.Send(ctx, tenant, b); err != nil {
		return false, fmt.Errorf("policy: %w", err)
	}
	set, err := s.Load(ctx, tenant, version())
	return set.Judge().HoldsTainted(), err
}

// Current reads the tenant's set as it stands, for a caller that has no version at hand.
func (s *Sets) Current(ctx context.Context, tenant uuid.UUID) (*Set, error) {
	return s.read(ctx, tenant)
}

func (s *Sets) get(tenant uuid.UUID, version int64) *Set {
	if set, ok := s.kept.Get(tenant); ok && set.Policies.Version() >= version {
		return set
	}
	return nil
}

// put keeps the set, unless a later one is kept.
func (s *Sets) put(tenant uuid.UUID, set *Set) {
	s.kept.Add(tenant, set, set.size(), func(old *Set) bool { return old.Policies.Version() <= set.Policies.Version() })
}

// maskSize is about how many bytes of memory one mask takes besides its texts.
const maskSize = 256

func (s *Set) size() int { return s.Policies.Size() + len(s.masks)*(maskSize+2*maxMaskText) }

// read loads and compiles the set as it stands.
func (s *Sets) read(ctx context.Context, tenant uuid.UUID) (*Set, error) {
	stored, masks, version, err := load(ctx, s.q, s.db.Tenant(tenant), tenant)
	if err != nil {
		return nil, err
	}
	set := &Set{Policies: governance.Compile(version, stored), masks: masks}
	s.put(tenant, set)
	return set, nil
}

// stored is one policy of LoadPolicySet.
type stored struct {
	ID       uuid.UUID       `json:"id"`
	Version  int32           `json:"version"`
	Name     string          `json:"name"`
	Mode     governance.Mode `json:"mode"`
	Document json.RawMessage `json:"document"`
}

// load reads a tenant's enabled policies and masks in one snapshot.
func load(ctx context.Context, q *dbsqlc.Queries, on dbsqlc.DBTX, tenant uuid.UUID) ([]governance.Policy, []MaskPath, int64, error) {
	rows, err := q.LoadPolicySet(ctx, on, tenant)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("policy: load: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil, 0, nil
	}
	var all []stored
	if err := json.Unmarshal(rows[0].Policies, &all); err != nil {
		return nil, nil, 0, fmt.Errorf("policy: load: %w", err)
	}
	policies := make([]governance.Policy, len(all))
	for i, one := range all {
		policies[i] = one.policy()
	}
	return policies, readMasks(rows[0].MaskPaths), rows[0].Version, nil
}

// policy reads the document. An unreadable policy could match any call, so it blocks all
// calls until it is replaced or deleted.
func (s stored) policy() governance.Policy {
	p, err := decode(s.Document)
	if err != nil {
		p = Policy{Policy: governance.Policy{Enabled: true, Action: governance.ActionBlock}}
	}
	p.ID, p.Version, p.Name, p.Mode, p.Enabled = s.ID, s.Version, s.Name, s.Mode, true
	return p.Policy
}
