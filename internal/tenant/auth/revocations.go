package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

const (
	// revokedChannel is what RevokeAPIKey notifies, with the key's id as payload.
	revokedChannel = "key_revoked"
	// remembered is how long a revoked id is kept: longer than any request is on its
	// way from reading its key to Bind.
	remembered = 10 * time.Minute
)

// RevocationsDeps are what Revocations works with; Now may be nil.
type RevocationsDeps struct {
	DB *db.Pool
	// Dial opens the connection that listens, outside the pool.
	Dial func(context.Context) (*pgx.Conn, error)
	Log  *slog.Logger
	Now  func() time.Time
}

// Revocations ends the requests of keys that are revoked while they run. Each API
// process has one and runs its Listen; a revocation on any of them reaches all.
type Revocations struct {
	d RevocationsDeps
	q *dbsqlc.Queries

	mu      sync.Mutex
	watched map[uuid.UUID]*watchedKey
	revoked map[uuid.UUID]time.Time // when it was heard of
}

// watchedKey is a key with requests under way.
type watchedKey struct {
	tenant  uuid.UUID
	watches map[*watch]struct{}
}

type watch struct{ cancel context.CancelCauseFunc }

// NewRevocations checks the collaborators.
func NewRevocations(d RevocationsDeps) (*Revocations, error) {
	if d.DB == nil || d.Dial == nil || d.Log == nil {
		return nil, errors.New("auth: revocations need a database, a dialer and a log")
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Revocations{
		d: d, q: dbsqlc.New(),
		watched: map[uuid.UUID]*watchedKey{}, revoked: map[uuid.UUID]time.Time{},
	}, nil
}

// Bind returns a context that is cancelled, with the fault API_KEY_REVOKED as its
// cause, when the principal's key is revoked; stop releases it and must be called.
// A notice that came between the reading of the key and Bind counts.
func (r *Revocations) Bind(ctx context.Context, p Principal) (bound context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if p.Kind != actor.Key {
		return ctx, func() { cancel(nil) }
	}
	w := &watch{cancel: cancel}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, gone := r.revoked[p.KeyID]; gone {
		cancel(fault.New(fault.CodeAPIKeyRevoked, ""))
		return ctx, func() {}
	}
	key := r.watched[p.KeyID]
	if key == nil {
		key = &watchedKey{tenant: p.TenantID, watches: map[*watch]struct{}{}}
		r.watched[p.KeyID] = key
	}
	key.watches[w] = struct{}{}
	return ctx, func() {
		r.release(p.KeyID, w)
		cancel(nil)
	}
}

func (r *Revocations) release(id uuid.UUID, w *watch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := r.watched[id]
	if key == nil {
		return
	}
	delete(key.watches, w)
	if len(key.watches) == 0 {
		delete(r.watched, id)
	}
}

// revoke cancels what the key has under way here and what it will bind.
func (r *Revocations) revoke(id uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.d.Now()
	for old, heard := range r.revoked {
		if now.Sub(heard) > remembered {
			delete(r.revoked, old)
		}
	}
	r.revoked[id] = now
	if key := r.watched[id]; key != nil {
		for w := range key.watches {
			w.cancel(fault.New(fault.CodeAPIKeyRevoked, ""))
		}
	}
}

// Listen hears revocations until ctx ends, and returns its error. On each new connection,
// and every few seconds, it looks up the watched keys: a lost notice is not repeated.
func (r *Revocations) Listen(ctx context.Context) error {
	return db.Listener{
		Connection: db.Connection{Dial: r.d.Dial, Log: r.d.Log, Purpose: "revoked keys"},
		Channel:    revokedChannel,
		Recheck:    r.recheck,
		Hear: func(_ context.Context, payload string) {
			if id, err := uuid.Parse(payload); err == nil {
				r.revoke(id)
			}
		},
	}.Listen(ctx)
}

// recheck looks up which of the watched keys are revoked, in one query a tenant.
func (r *Revocations) recheck(ctx context.Context) error {
	for tenant, keys := range r.watchedKeys() {
		gone, err := r.q.ListRevokedAmong(ctx, r.d.DB.Tenant(tenant), dbsqlc.ListRevokedAmongParams{TenantID: tenant, Ids: keys})
		if err != nil {
			return fmt.Errorf("auth: look up watched keys: %w", err)
		}
		for _, id := range gone {
			r.revoke(id)
		}
	}
	return nil
}

func (r *Revocations) watchedKeys() map[uuid.UUID][]uuid.UUID {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := map[uuid.UUID][]uuid.UUID{}
	for id, key := range r.watched {
		keys[key.tenant] = append(keys[key.tenant], id)
	}
	return keys
}
