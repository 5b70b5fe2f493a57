package audit

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/chain"
)

// SealEvery is how often SealDue is due.
func (t *Trail) SealEvery() time.Duration { return t.cfg.SealEvery }

// SealDue seals once what was appended, of every tenant, and signs the checkpoints that are
// due. Any number of processes may do so at once, and appending never waits for them. It
// skips a tenant that another process is sealing, and goes on after a tenant that fails.
func (t *Trail) SealDue(ctx context.Context) error {
	t.due.mu.Lock()
	defer t.due.mu.Unlock()
	tenants, err := t.tenants(ctx)
	if err != nil {
		return err
	}
	for _, tenant := range tenants {
		mine, err := t.sealAll(ctx, tenant, false)
		if err != nil {
			t.d.Log.WarnContext(ctx, "audit records not sealed", "tenant_id", tenant, "error", err)
		}
		if err != nil || !mine {
			continue // the next pass looks again
		}
		if last, err := dbsqlc.New().LastAuditCheckpoint(ctx, t.d.DB.Tenant(tenant), tenant); err == nil && t.recent(last.At) {
			t.due.sealed(tenant, last.At.Add(t.cfg.CheckpointEvery))
			continue
		}
		if _, err := t.checkpoint(ctx, tenant, chain.KindHourly); err != nil {
			t.d.Log.ErrorContext(ctx, "audit checkpoint not signed", "tenant_id", tenant, "error", err)
			t.due.sealed(tenant, t.now().Add(signAgain))
			continue
		}
		t.due.sealed(tenant, time.Time{})
	}
	return nil
}

// signAgain is how long a checkpoint that could not be signed waits for the next try: what
// contradicts a chain does not go away by itself.
const signAgain = time.Minute

// recent reports whether a checkpoint of that time need not be followed by one yet.
func (t *Trail) recent(at time.Time) bool { return t.now().Sub(at) < t.cfg.CheckpointEvery }

// Seal seals a tenant's records, and waits up to Config.SettleWait for those whose
// transactions were under way when it was called or are delayed by such.
func (t *Trail) Seal(ctx context.Context, tenant uuid.UUID) error {
	began, err := dbsqlc.New().AuditSnapshot(ctx, t.d.DB.Tenant(tenant))
	if err != nil {
		return fmt.Errorf("audit: seal: %w", err)
	}
	const poll = 20 * time.Millisecond
	tick := time.NewTicker(poll)
	defer tick.Stop()
	patience := time.NewTimer(t.cfg.SettleWait)
	defer patience.Stop()
	for {
		now, err := dbsqlc.New().AuditSnapshot(ctx, t.d.DB.Tenant(tenant))
		if err != nil {
			return fmt.Errorf("audit: seal: %w", err)
		}
		if _, err := t.sealAll(ctx, tenant, true); err != nil {
			return err
		}
		if now.Complete >= began.Newest {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-patience.C:
			return nil
		case <-tick.C:
		}
	}
}

// sealAll seals batch after batch, each in a transaction of its own: a long one would
// itself keep later records from being sealed. mine is false where another process has the
// lock, so that records may be left.
func (t *Trail) sealAll(ctx context.Context, tenant uuid.UUID, wait bool) (mine bool, err error) {
	for more := true; more; {
		more, mine = false, false
		err := t.locked(ctx, tenant, wait, func(tx pgx.Tx, head head) (err error) {
			mine = true
			more, err = t.sealBatch(ctx, tx, head)
			return err
		})
		if err != nil {
			return false, fmt.Errorf("audit: seal: %w", err)
		}
		if more && ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
	}
	return mine, nil
}

// head is where a tenant's chain stands.
type head struct {
	dbsqlc.AuditHeadRow
	tenant uuid.UUID
	hash   chain.Hash
}

// locked runs fn as the only one who writes to the tenant's chain, not at all where
// another does and wait is false.
func (t *Trail) locked(ctx context.Context, tenant uuid.UUID, wait bool, fn func(pgx.Tx, head) error) error {
	q := dbsqlc.New()
	return t.d.DB.InTenant(ctx, tenant, func(tx pgx.Tx) error {
		if wait {
			if err := q.LockAuditChain(ctx, tx, tenant.String()); err != nil {
				return err
			}
		} else if got, err := q.TryLockAuditChain(ctx, tx, tenant.String()); err != nil || !got {
			return err
		}
		// A statement after the lock sees what its last holder committed.
		row, err := q.AuditHead(ctx, tx, tenant)
		if err != nil {
			return err
		}
		h := head{AuditHeadRow: row, tenant: tenant, hash: chain.Genesis(tenant)}
		if row.Seq > 0 {
			h.hash, _ = chain.HashOf(row.Hash) // the table checks the length
		}
		return fn(tx, h)
	})
}

// sealBatch adds the next seals and reports whether there may be more to do.
func (t *Trail) sealBatch(ctx context.Context, tx pgx.Tx, h head) (more bool, err error) {
	if h.Entered {
		n, err := t.seal(ctx, tx, &h, dbsqlc.AuditToSeal, h.tenant, h.Mark, int32(t.cfg.Batch))
		return n > t.cfg.Batch, err
	}
	// In this cluster for the first time, or its xids have gone back.
	enter := dbsqlc.EnterAuditClusterParams{TenantID: h.tenant, Entry: h.Entry + 1, Mark: "0"}
	if h.Seq > 0 || h.ForeignRecords {
		t.d.Log.InfoContext(ctx, "the audit records are in another cluster than before: sealing by what has no seal", "tenant_id", h.tenant)
		enter.Mark = strconv.FormatInt(h.Complete, 10)
		if _, err := t.seal(ctx, tx, &h, dbsqlc.AuditToSealAnew, h.tenant, enter.Mark); err != nil {
			return false, err
		}
		enter.AfterSeq = h.Seq
	}
	return true, dbsqlc.New().EnterAuditCluster(ctx, tx, enter)
}

// sealInsert is how many seals one statement inserts.
const sealInsert = 5000

// seal continues the chain with the records of a query and moves h on. It keeps
// their hashes and one record at a time in memory.
func (t *Trail) seal(ctx context.Context, tx pgx.Tx, h *head, sql string, args ...any) (n int, err error) {
	var (
		p    dbsqlc.AddAuditSealsParams
		text []byte
		full []dbsqlc.AddAuditSealsParams
	)
	p.FirstSeq = h.Seq + 1
	flush := func() {
		if p.TenantID, p.LastSeq = h.tenant, h.Seq; p.LastSeq >= p.FirstSeq {
			full = append(full, p)
			p = dbsqlc.AddAuditSealsParams{FirstSeq: h.Seq + 1}
		}
	}
	err = stream(ctx, tx, sql, args, func(rows pgx.Rows) error {
		var r chain.Record
		var xid string
		if err := rows.Scan(append(recordFields(&r), &xid)...); err != nil {
			return err
		}
		text = r.AppendText(text[:0])
		leaf := chain.Leaf(text)
		h.hash = chain.Link(h.hash, leaf)
		h.Seq++
		n++
		hash := h.hash
		p.RecordIds, p.Xids = append(p.RecordIds, r.ID), append(p.Xids, xid)
		p.Leaves, p.Hashes = append(p.Leaves, leaf[:]), append(p.Hashes, hash[:])
		if len(p.RecordIds) == sealInsert {
			flush()
		}
		return nil
	})
	flush()
	for _, p := range full {
		if err == nil {
			err = dbsqlc.New().AddAuditSeals(ctx, tx, p)
		}
	}
	return n, err
}

// checkpoint signs where the chain stands, if it stands further than the last
// checkpoint and, for an hourly one, that is old enough. It signs nothing that
// contradicts the last checkpoint: that is CONFLICT. The end of the chain is returned.
func (t *Trail) checkpoint(ctx context.Context, tenant uuid.UUID, kind chain.Kind) (end head, err error) {
	q := dbsqlc.New()
	err = t.locked(ctx, tenant, kind == chain.KindExport, func(tx pgx.Tx, h head) error {
		end = h
		last, err := q.LastAuditCheckpoint(ctx, tx, tenant)
		switch {
		case db.IsNoRows(err):
			if h.Seq == 0 {
				return nil // nothing to sign for
			}
		case err != nil:
			return err
		default:
			at, err := hashAt(ctx, tx, tenant, last.Seq)
			if err != nil && !db.IsNoRows(err) {
				return err
			}
			if err != nil || string(at[:]) != string(last.Hash) {
				return fault.New(fault.CodeConflict, "The audit chain contradicts its last checkpoint. GET /v1/audit/verify says more.")
			}
			if last.Seq == h.Seq || kind == chain.KindHourly && t.recent(last.At) {
				return nil
			}
		}
		c := chain.Checkpoint{TenantID: tenant, Seq: h.Seq, Hash: h.hash, Kind: kind, At: t.now()}
		t.d.Signer.SignCheckpoint(&c)
		return q.AddAuditCheckpoint(ctx, tx, dbsqlc.AddAuditCheckpointParams{
			ID: uuid.Must(uuid.NewV7()), TenantID: tenant, Seq: c.Seq, Hash: c.Hash[:], Kind: string(c.Kind), At: c.At, Kid: c.KID, Signature: c.Signature,
		})
	})
	if err != nil {
		return head{}, fmt.Errorf("audit: checkpoint: %w", err)
	}
	return end, nil
}
