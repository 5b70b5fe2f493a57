package audit

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/record/chain"
)

// What can be wrong with a chain.
const (
	ProblemSealMissing     = "seal_missing"            // a place of the chain is not there
	ProblemRecordMissing   = "record_missing"          // a sealed record is not there
	ProblemRecordAltered   = "record_altered"          // a record is not as it was sealed
	ProblemHashBroken      = "hash_broken"             // a hash does not follow from the one before
	ProblemCheckpointKey   = "checkpoint_key_unknown"  // signed with a key that is not configured
	ProblemCheckpointFalse = "checkpoint_signature"    // the signature is false
	ProblemCheckpointHash  = "checkpoint_hash"         // the chain had another hash when it was signed
	ProblemCheckpointAhead = "checkpoint_beyond_chain" // the chain was longer when it was signed
)

// Finding is a problem and where it is.
type Finding struct {
	Seq      int64
	RecordID *uuid.UUID // nil where it is not about one
	Problem  string
}

// Report is what Verify found.
type Report struct {
	Records     int64 // of the tenant
	Sealed      int64
	Unsealed    int64 // records without a place in the chain
	Checkpoints int64
	HeadSeq     int64 // 0 where nothing is sealed
	HeadHash    chain.Hash
	Problems    int64
	First       *Finding // nil where there is none
}

// Verify computes a tenant's chain again from its records, and checks the seals and all
// checkpoints against it. It reads everything, and keeps one record in memory at a time.
func (t *Trail) Verify(ctx context.Context, tenant uuid.UUID) (Report, error) {
	w := &walk{tenant: tenant, keys: t.keys, computed: chain.Genesis(tenant)}
	tx := t.d.DB.Reading(tenant, db.ScanLimit)
	for {
		before := w.seq
		if err := w.piece(ctx, tx); err != nil {
			return Report{}, fmt.Errorf("audit: verify: %w", err)
		}
		if w.seq == before {
			break
		}
	}
	if err := w.finish(ctx, tx); err != nil {
		return Report{}, fmt.Errorf("audit: verify: %w", err)
	}
	return w.Report, nil
}

// walk goes along a chain.
type walk struct {
	Report
	tenant   uuid.UUID
	keys     chain.Keys
	seq      int64      // of the last place seen
	computed chain.Hash // of the chain up to there
	present  int64      // sealed records that exist
	place    place
}

func (w *walk) found(problem string, seq int64, id *uuid.UUID) {
	if w.Problems++; w.First == nil {
		w.First = &Finding{Seq: seq, RecordID: id, Problem: problem}
	}
}

// piece takes the next places. It pages by what there is, not by counting, so that a
// gap does not end the walk.
func (w *walk) piece(ctx context.Context, tx dbsqlc.DBTX) error {
	sql := `SELECT s.seq, s.record_id, s.leaf, s.hash, r.id IS NOT NULL, ` + recordColumns + `
  FROM (SELECT * FROM audit_seals WHERE tenant_id = $1 AND seq > $2 ORDER BY seq LIMIT $3) s
  LEFT JOIN audit_records r ON r.tenant_id = $1 AND r.id = s.record_id
 ORDER BY s.seq`
	from := w.seq
	hashes := map[int64]chain.Hash{from: w.computed}
	err := stream(ctx, tx, sql, []any{w.tenant, from, pieceRecords}, func(rows pgx.Rows) error {
		if err := w.place.scan(rows); err != nil {
			return err
		}
		w.take(&w.place)
		hashes[w.seq] = w.place.hash
		return nil
	})
	if err != nil || w.seq == from {
		return err
	}
	return w.checkpoints(ctx, tx, from+1, w.seq, func(seq int64) (chain.Hash, error) {
		hash, there := hashes[seq]
		if !there {
			return hash, pgx.ErrNoRows
		}
		return hash, nil
	})
}

func (w *walk) take(p *place) {
	id := p.id
	if p.seq != w.seq+1 {
		w.found(ProblemSealMissing, w.seq+1, nil)
	}
	if p.shown {
		w.present++
		p.text = p.record.AppendText(p.text[:0])
		if chain.Leaf(p.text) != p.leaf {
			w.found(ProblemRecordAltered, p.seq, &id)
		}
	} else {
		w.found(ProblemRecordMissing, p.seq, &id)
	}
	if p.seq == w.seq+1 && chain.Link(w.computed, p.leaf) != p.hash {
		w.found(ProblemHashBroken, p.seq, &id)
	}
	// What comes after is judged by itself, so that one problem is not counted at every
	// place behind it.
	w.seq, w.computed = p.seq, p.hash
	w.Sealed++
}

// checkpoints looks at those from first to last; hashAt finds the hash of a place, no
// rows where it is not there.
func (w *walk) checkpoints(ctx context.Context, tx dbsqlc.DBTX, first, last int64, hashAt func(int64) (chain.Hash, error)) error {
	rows, err := dbsqlc.New().AuditCheckpoints(ctx, tx, dbsqlc.AuditCheckpointsParams{TenantID: w.tenant, FirstSeq: first, LastSeq: last})
	if err != nil {
		return err
	}
	for _, row := range rows {
		c := checkpointOf(row)
		w.Checkpoints++
		hash, err := hashAt(c.Seq)
		if err != nil && !db.IsNoRows(err) {
			return err
		}
		switch known, good := c.Verify(w.keys); {
		case !known:
			w.found(ProblemCheckpointKey, c.Seq, nil)
		case !good:
			w.found(ProblemCheckpointFalse, c.Seq, nil)
		case err != nil:
			w.found(ProblemCheckpointAhead, c.Seq, nil)
		case hash != c.Hash:
			w.found(ProblemCheckpointHash, c.Seq, nil)
		}
	}
	return nil
}

// finish looks at what lies beyond the chain's end.
func (w *walk) finish(ctx context.Context, tx dbsqlc.DBTX) error {
	w.HeadSeq, w.HeadHash = w.seq, w.computed
	records, err := dbsqlc.New().CountAuditRecords(ctx, tx, w.tenant)
	if err != nil {
		return err
	}
	w.Records, w.Unsealed = records, max(records-w.present, 0)
	// A seal that was added meanwhile is there, and its checkpoint does not lie ahead.
	const end = 1<<63 - 1
	return w.checkpoints(ctx, tx, w.seq+1, end, func(seq int64) (chain.Hash, error) { return hashAt(ctx, tx, w.tenant, seq) })
}
