package audit

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/record/chain"
)

// Config are the times and sizes of the trail. Zero fields take their default.
type Config struct {
	// SealEvery is how often new records are looked for; 2 s.
	SealEvery time.Duration
	// CheckpointEvery is the time between the checkpoints of a growing chain; an hour.
	CheckpointEvery time.Duration
	// SettleWait bounds how long an export waits for transactions under way, so that it
	// has every record whose call was answered before; 2 s.
	SettleWait time.Duration
	// Batch is about how many records one transaction seals; 2,000.
	Batch int
}

func (c *Config) setDefaults() {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&c.SealEvery, 2*time.Second)
	set(&c.CheckpointEvery, time.Hour)
	set(&c.SettleWait, 2*time.Second)
	if c.Batch == 0 {
		c.Batch = 2000
	}
}

// Deps are what the trail works with.
type Deps struct {
	DB     *db.Pool
	Signer *chain.Signer
	// OldKeys are public keys that signed before Signer's.
	OldKeys []ed25519.PublicKey
	Log     *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Trail is the record once it is written: sealed into a chain, signed, read, exported
// and verified.
type Trail struct {
	d    Deps
	cfg  Config
	keys chain.Keys
	now  func() time.Time // as the database stores it
	due  *due
}

// New checks what it is given.
func New(cfg Config, d Deps) (*Trail, error) {
	if d.DB == nil || d.Signer == nil || d.Log == nil {
		return nil, errors.New("audit: database, signer and log are required")
	}
	cfg.setDefaults()
	t := &Trail{d: d, cfg: cfg, keys: chain.Keys{}, now: db.Clock(d.Now), due: newDue()}
	t.keys.Add(d.Signer.Public())
	for _, key := range d.OldKeys {
		if len(key) != ed25519.PublicKeySize {
			return nil, errors.New("audit: an Ed25519 public key has 32 bytes")
		}
		t.keys.Add(key)
	}
	return t, nil
}

// Keys are the public keys that signatures of this trail are checked with.
func (t *Trail) Keys() []chain.Key { return t.keys.List() }

// recordColumns are those of a record r, in the order of recordFields.
const recordColumns = `r.id, r.tenant_id, r.at, r.actor_type, r.actor_id, r.action, r.provider, r.verb, r.risk_level, r.decision, r.outcome,
       r.subject_type, r.subject_id, r.execution_id, r.session_id, r.request_id, r.source_addr, r.input, r.details`

// recordFields are the places that recordColumns are scanned into.
func recordFields(r *chain.Record) []any {
	return []any{
		&r.ID, &r.TenantID, &r.At, &r.ActorType, &r.ActorID, &r.Action, &r.Provider, &r.Verb, &r.RiskLevel, &r.Decision, &r.Outcome,
		&r.SubjectType, &r.SubjectID, &r.ExecutionID, &r.SessionID, &r.RequestID, &r.SourceAddr, &r.Input, &r.Details,
	}
}

// stream calls use for each row. It keeps one row in memory at a time.
func stream(ctx context.Context, tx dbsqlc.DBTX, sql string, args []any, use func(pgx.Rows) error) error {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := use(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// hashAt is the hash of a tenant's chain after the record seq.
func hashAt(ctx context.Context, tx dbsqlc.DBTX, tenant uuid.UUID, seq int64) (chain.Hash, error) {
	if seq == 0 {
		return chain.Genesis(tenant), nil
	}
	raw, err := dbsqlc.New().AuditSealHash(ctx, tx, dbsqlc.AuditSealHashParams{TenantID: tenant, Seq: seq})
	if err != nil {
		return chain.Hash{}, err
	}
	h, ok := chain.HashOf(raw)
	if !ok {
		return chain.Hash{}, errors.New("audit: a hash of the chain has not 32 bytes")
	}
	return h, nil
}
