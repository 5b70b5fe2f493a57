// Package idempotency lets a caller repeat a creation whose answer was lost. The API asks
// Keys what the Idempotency-Key of a call has made, and gives the call's Creation to the
// domain in the context. The domain package that creates queues it in its own transaction. So the thing and
// the memory of it are there together, or neither is. What is kept are hashes and an id, never
// a body or an answer.
package idempotency

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

// Kept is how long a key names what it has made.
const Kept = 24 * time.Hour

// Creation is one creation with an Idempotency-Key.
type Creation struct {
	tenant    uuid.UUID
	endpoint  string
	kind      actor.Kind
	key, body []byte // hashes
	at        time.Time
}

type contextKey struct{}

// With returns a context in which Queue and Write remember the creation.
func With(ctx context.Context, c Creation) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// Queue remembers in the batch, which creates it, the id of what the call makes. It does
// nothing in a call without an Idempotency-Key. It belongs first in the batch: a concurrent
// repeat then waits there, and fails; see Taken.
func Queue(ctx context.Context, b *db.Batch, id string) {
	c, given := ctx.Value(contextKey{}).(Creation)
	if !given {
		return
	}
	q := dbsqlc.New()
	db.QueueExec(b, q.ForgetCreation, dbsqlc.ForgetCreationParams{
		TenantID: c.tenant, Endpoint: c.endpoint, CallerKind: string(c.kind), KeyHash: c.key, Before: c.at.Add(-Kept),
	})
	db.QueueExec(b, q.InsertCreation, dbsqlc.InsertCreationParams{
		TenantID: c.tenant, Endpoint: c.endpoint, CallerKind: string(c.kind), KeyHash: c.key, BodyHash: c.body, ResourceID: id, CreatedAt: c.at,
	})
}

// Write is Queue for a transaction that sends its statements one by one, as its first
// statement.
func Write(ctx context.Context, tx pgx.Tx, id string) error {
	b := &db.Batch{}
	if Queue(ctx, b, id); b.Len() == 0 {
		return nil
	}
	if err := b.SendIn(ctx, tx); err != nil {
		return fmt.Errorf("idempotency: remember: %w", err)
	}
	return nil
}

// Taken reports whether a creation failed because a concurrent one under the same key was
// first. Keys.Find then finds what that one made.
func Taken(err error) bool { return db.IsUnique(err, "idempotency_keys_pkey") }

// Config has the values of Keys.
type Config struct {
	// Pepper keys the hashes: a body with a short secret cannot be found out from its hash.
	Pepper []byte
	// Most is how many creations with keys a tenant may make in the time that they are Kept.
	Most int64
}

// Deps are what Keys works with; Now may be nil.
type Deps struct {
	DB  *db.Pool
	Now func() time.Time
}

// Keys looks up and forgets what creations have made.
type Keys struct {
	cfg Config
	db  *db.Pool
	q   *dbsqlc.Queries
	now func() time.Time
}

// New checks configuration and collaborators.
func New(cfg Config, d Deps) (*Keys, error) {
	if d.DB == nil || len(cfg.Pepper) == 0 || cfg.Most < 1 {
		return nil, errors.New("idempotency: a database, a pepper and a limit are required")
	}
	return &Keys{cfg: cfg, db: d.DB, q: dbsqlc.New(), now: db.Clock(d.Now)}, nil
}

// Call is a call that creates, with its Idempotency-Key.
type Call struct {
	Who      actor.Actor
	Endpoint string // as POST /v1/grants
	Key      string
	Body     []byte
}

// Find returns the id of what an earlier call made under the key, "" where there is none, and
// the creation that this call would be. It refuses with IDEMPOTENCY_KEY_REUSED where the
// earlier call had another body, and QUOTA_EXCEEDED where the tenant has made too many
// creations with keys.
func (k *Keys) Find(ctx context.Context, call Call) (id string, c Creation, err error) {
	c = Creation{
		tenant: call.Who.TenantID, endpoint: call.Endpoint, kind: call.Who.Kind, at: k.now(),
		key: k.hash("key", []byte(call.Key)), body: k.hash("body", call.Body),
	}
	row, err := k.q.FindCreation(ctx, k.db.Tenant(c.tenant), dbsqlc.FindCreationParams{
		TenantID: c.tenant, Endpoint: c.endpoint, CallerKind: string(c.kind), KeyHash: c.key, Since: c.at.Add(-Kept), Most: k.cfg.Most,
	})
	switch {
	case err != nil:
		return "", Creation{}, fmt.Errorf("idempotency: look up a key: %w", err)
	case row.ResourceID != nil && !hmac.Equal(row.BodyHash, c.body):
		return "", Creation{}, fault.New(fault.CodeIdempotencyKeyReused, "This Idempotency-Key has created something from another body. Send another key.")
	case row.ResourceID != nil:
		return *row.ResourceID, c, nil
	case row.Used >= k.cfg.Most:
		return "", Creation{}, fault.Newf(fault.CodeQuotaExceeded,
			"The tenant has reached its quota idempotency_keys: at most %d creations with an Idempotency-Key in 24 hours. Send the call without the header, or later.", k.cfg.Most)
	}
	return "", c, nil
}

// hash is keyed, also by what is hashed.
func (k *Keys) hash(of string, content []byte) []byte {
	sum := sha256.Sum256(content)
	mac := hmac.New(sha256.New, k.cfg.Pepper)
	mac.Write([]byte("idempotency " + of + " " + hex.EncodeToString(sum[:])))
	return mac.Sum(nil)
}

// ForgetEvery is the pause between two calls of Forget, and forgetMost how many keys one
// statement forgets.
const (
	ForgetEvery = 10 * time.Minute
	forgetMost  = 1000
)

// Forget deletes what was no longer Kept at the time now, of all tenants.
func Forget(ctx context.Context, pool *db.Pool, now time.Time) error {
	for {
		n, err := dbsqlc.New().ForgetOldCreations(ctx, pool.Presenting(db.SettingSweep, "on"), dbsqlc.ForgetOldCreationsParams{
			Before: now.Add(-Kept), Most: forgetMost,
		})
		if err != nil {
			return fmt.Errorf("idempotency: forget: %w", err)
		}
		if n < forgetMost {
			return nil
		}
	}
}
