package audit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/record/chain"
)

// Export is a file in the making: a part of a tenant's chain that is settled, and how
// it is written.
type Export struct {
	trail  *Trail
	tenant uuid.UUID
	filter Filter
	csv    bool
	header chain.Header
	// last is the end of the part; the export is empty where it lies before the header's
	// first record.
	last     int64
	lastHash chain.Hash
}

// NDJSON prepares an export that can be verified: it seals what is committed and signs a
// checkpoint. CONFLICT where the chain contradicts its last checkpoint.
func (t *Trail) NDJSON(ctx context.Context, tenant uuid.UUID, f Filter) (*Export, error) {
	return t.export(ctx, tenant, f, false)
}

// CSV prepares an export for reading in a spreadsheet. Sealed and signed like NDJSON,
// but what is written cannot be verified.
func (t *Trail) CSV(ctx context.Context, tenant uuid.UUID, f Filter) (*Export, error) {
	return t.export(ctx, tenant, f, true)
}

func (t *Trail) export(ctx context.Context, tenant uuid.UUID, f Filter, csv bool) (*Export, error) {
	if err := t.Seal(ctx, tenant); err != nil {
		return nil, err
	}
	end, err := t.checkpoint(ctx, tenant, chain.KindExport)
	if err != nil {
		return nil, err
	}
	x := &Export{trail: t, tenant: tenant, filter: f, csv: csv, last: end.Seq, lastHash: end.hash}
	x.header = chain.Header{TenantID: tenant, FirstSeq: 1, Filters: f.header()}
	if !f.none() {
		if err := x.narrow(ctx); err != nil {
			return nil, fmt.Errorf("audit: export: %w", err)
		}
	}
	if x.header.PrevHash, err = hashAt(ctx, t.d.DB.Tenant(tenant), tenant, x.header.FirstSeq-1); err != nil {
		return nil, fmt.Errorf("audit: export: %w", err)
	}
	return x, nil
}

// narrow finds the first and the last record that the filter lets through. Those that
// it leaves out before and behind need not be in the file at all.
func (x *Export) narrow(ctx context.Context) error {
	args := []any{x.tenant, x.last}
	sql := `SELECT min(s.seq), max(s.seq) FROM audit_records r
  JOIN audit_seals s ON s.tenant_id = r.tenant_id AND s.record_id = r.id
 WHERE r.tenant_id = $1 AND s.seq <= $2` + x.filter.where(&args)
	tx := x.trail.d.DB.Reading(x.tenant, db.ScanLimit)
	var first, last *int64
	if err := tx.QueryRow(ctx, sql, args...).Scan(&first, &last); err != nil {
		return err
	}
	if first == nil {
		x.header.FirstSeq = x.last + 1
		return nil
	}
	x.header.FirstSeq, x.last = *first, *last
	var err error
	x.lastHash, err = hashAt(ctx, tx, x.tenant, x.last)
	return err
}

// The size of a piece: the records of one query, and the bytes after which it ends. Pieces
// are made one at a time. So an export of any length takes this much memory, and a slow
// reader occupies no connection to Postgres.
const (
	pieceRecords = 1000
	pieceBytes   = 1 << 20
)

// WriteTo writes the file and stops at the first error of w or when ctx ends. An NDJSON
// file that was not written to its end lacks its trailer, and is recognised by that.
func (x *Export) WriteTo(ctx context.Context, w io.Writer) error {
	f := x.format()
	piece := f.begin(nil)
	for at := x.header.FirstSeq; at <= x.last; {
		next, err := x.piece(ctx, f, &piece, at)
		if err != nil {
			return fmt.Errorf("audit: export: %w", err)
		}
		if next == at {
			break // seals are missing: the file says so by where it ends
		}
		if _, err := w.Write(piece); err != nil {
			return fmt.Errorf("audit: export: %w", err)
		}
		at, piece = next, piece[:0]
	}
	if _, err := w.Write(f.end(piece)); err != nil {
		return fmt.Errorf("audit: export: %w", err)
	}
	return nil
}

// errFull ends a piece that has bytes enough.
var errFull = errors.New("audit: the piece is full")

// piece appends the records from the seq at on and returns where the next piece begins.
func (x *Export) piece(ctx context.Context, f format, piece *[]byte, at int64) (next int64, err error) {
	tx := x.trail.d.DB.Reading(x.tenant, db.ScanLimit)
	checkpoints, err := dbsqlc.New().AuditCheckpoints(ctx, tx,
		dbsqlc.AuditCheckpointsParams{TenantID: x.tenant, FirstSeq: at, LastSeq: min(at+pieceRecords-1, x.last)})
	if err != nil {
		return at, err
	}
	next = at
	args := []any{x.tenant, at, min(at+pieceRecords-1, x.last), pieceBytes}
	sql := fmt.Sprintf(sealedRecords, x.filter.where(&args))
	var p place
	err = stream(ctx, tx, sql, args, func(rows pgx.Rows) error {
		if err := p.scan(rows); err != nil {
			return err
		}
		*piece = f.record(*piece, &p)
		for len(checkpoints) > 0 && checkpoints[0].Seq <= p.seq {
			c := checkpointOf(checkpoints[0])
			*piece = f.checkpoint(*piece, &c)
			checkpoints = checkpoints[1:]
		}
		if next = p.seq + 1; len(*piece) >= pieceBytes {
			return errFull
		}
		return nil
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	return next, err
}

// sealedRecords are the places of a tenant ($1) from one seq ($2) to another ($3), each with
// its record where there is one and it meets the conditions of %s. They end where the inputs
// before have $4 bytes: otherwise the rest of a thousand large records would be read for
// nothing behind each piece.
const sealedRecords = `SELECT r.seq, r.record_id, r.leaf, r.hash, r.shown, ` + recordColumns + `
  FROM (SELECT s.seq, s.record_id, s.leaf, s.hash, r.id IS NOT NULL AS shown, ` + recordColumns + `,
               sum(octet_length(r.input)) OVER (ORDER BY s.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS above
          FROM audit_seals s LEFT JOIN audit_records r ON r.tenant_id = $1 AND r.id = s.record_id%s
         WHERE s.tenant_id = $1 AND s.seq BETWEEN $2 AND $3) r
 WHERE coalesce(r.above, 0) < $4
 ORDER BY r.seq`

// place is a place of the chain, with its record where that is shown.
type place struct {
	seq    int64
	id     uuid.UUID
	leaf   chain.Hash
	hash   chain.Hash
	shown  bool
	record chain.Record
	text   []byte // of the record, where one has asked for it
}

func (p *place) scan(rows pgx.Rows) error {
	var leaf, hash []byte
	fields := recordFields(&p.record)
	to := append([]any{&p.seq, &p.id, &leaf, &hash, &p.shown}, fields...)
	p.record = chain.Record{}
	// What is NULL goes into no text: look first whether there is a record.
	if err := rows.Scan(append(append([]any{}, to[:5]...), make([]any, len(fields))...)...); err != nil {
		return err
	}
	p.leaf, _ = chain.HashOf(leaf) // the table checks the lengths
	p.hash, _ = chain.HashOf(hash)
	if !p.shown {
		return nil
	}
	return rows.Scan(to...)
}

func checkpointOf(row dbsqlc.AuditCheckpoint) chain.Checkpoint {
	hash, _ := chain.HashOf(row.Hash) // the table checks the length
	return chain.Checkpoint{
		TenantID: row.TenantID, Seq: row.Seq, Hash: hash, Kind: chain.Kind(row.Kind), At: row.At, KID: row.Kid, Signature: row.Signature,
	}
}

// format writes a file piece by piece: each method appends.
type format interface {
	begin(b []byte) []byte
	record(b []byte, p *place) []byte
	checkpoint(b []byte, c *chain.Checkpoint) []byte
	end(b []byte) []byte
}

func (x *Export) format() format {
	if x.csv {
		return csvFormat{}
	}
	return &ndjson{x: x, content: sha256.New()}
}

// ndjson is the format of package chain.
type ndjson struct {
	x            *Export
	content      hash.Hash
	count, shown int64
}

// add takes the bytes from from on into the digest that the trailer signs.
func (n *ndjson) add(b []byte, from int) []byte {
	_, _ = n.content.Write(b[from:]) // a hash never fails
	return b
}

func (n *ndjson) begin(b []byte) []byte { return n.add(n.x.header.AppendLine(b), len(b)) }

func (n *ndjson) record(b []byte, p *place) []byte {
	from := len(b)
	n.count++
	if !p.shown {
		return n.add(chain.AppendLeaf(b, p.seq, p.hash, p.leaf), from)
	}
	n.shown++
	p.text = p.record.AppendText(p.text[:0])
	return n.add(chain.AppendRecord(b, p.seq, p.hash, p.text), from)
}

func (n *ndjson) checkpoint(b []byte, c *chain.Checkpoint) []byte {
	return n.add(c.AppendLine(b), len(b))
}

func (n *ndjson) end(b []byte) []byte {
	t := chain.Trailer{
		TenantID: n.x.tenant, FirstSeq: n.x.header.FirstSeq, LastSeq: n.x.last, PrevHash: n.x.header.PrevHash, LastHash: n.x.lastHash,
		Count: n.count, Shown: n.shown, Filters: n.x.header.Filters, Content: chain.Hash(n.content.Sum(nil)),
		At: n.x.trail.now(),
	}
	if t.LastSeq < t.FirstSeq {
		t.LastHash = t.PrevHash
	}
	n.x.trail.d.Signer.SignTrailer(&t)
	return t.AppendLine(b)
}
