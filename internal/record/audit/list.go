package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/internal/record/chain"
)

// Entry is a record with its place in the chain, nil and nothing where it is not
// sealed yet.
type Entry struct {
	chain.Record
	Seq  *int64
	Hash []byte
}

// pageBytes bounds the inputs and details of a page, as for approvals. One record has up to
// 1 MiB of input, and a page 500 records.
const pageBytes = 4 << 20

// List returns the newest records first, at most limit of those before the id before,
// and whether there are more. A page also ends where its records have 4 MiB.
func (t *Trail) List(ctx context.Context, tenant uuid.UUID, f Filter, before *uuid.UUID, limit int) (page []Entry, more bool, err error) {
	args := []any{tenant}
	where := f.where(&args)
	if before != nil {
		args = append(args, *before)
		where += fmt.Sprintf(" AND r.id < $%d", len(args))
	}
	args = append(args, limit+1, pageBytes)
	// The sizes of inputs are known without reading them. So what is beyond the page is not
	// read at all.
	sql := fmt.Sprintf(`SELECT %s, s.seq, s.hash, r.found
  FROM (SELECT l.*, count(*) OVER () AS found,
               sum(octet_length(l.input)) OVER (ORDER BY l.id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS above
          FROM (SELECT r.* FROM audit_records r WHERE r.tenant_id = $1%s ORDER BY r.id DESC LIMIT $%d) l) r
  LEFT JOIN audit_seals s ON s.tenant_id = r.tenant_id AND s.record_id = r.id
 WHERE coalesce(r.above, 0) < $%d
 ORDER BY r.id DESC`, recordColumns, where, len(args)-1, len(args))
	found, size := 0, 0
	err = stream(ctx, t.d.DB.Reading(tenant, db.ListLimit), sql, args, func(rows pgx.Rows) error {
		var e Entry
		if err := rows.Scan(append(recordFields(&e.Record), &e.Seq, &e.Hash, &found)...); err != nil {
			return err
		}
		page = append(page, e)
		if size += len(e.Input) + len(e.Details); size >= pageBytes || len(page) == limit {
			return errFull
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFull) {
		return nil, false, fmt.Errorf("audit: list: %w", err)
	}
	return page, found > len(page), nil
}
