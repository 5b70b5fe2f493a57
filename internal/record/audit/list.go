package audit

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/internal/kernel/chain"
)

// Entry is a record with its place in the chain, nil and nothing where it is not
// sealed yet.
type Entry struct {
	chain.Record
	Seq  *int64
	Hash []byte
}

// List returns the newest records first, at most limit of those before the id before,
// and whether there are more.
func (t *Trail) List(ctx context.Context, tenant uuid.UUID, f Filter, before *uuid.UUID, limit int) (page []Entry, more bool, err error) {
	args := []any{tenant}
	where := f.where(&args)
	if before != nil {
		args = append(args, *before)
		where += fmt.Sprintf(" AND r.id < $%d", len(args))
	}
	args = append(args, limit+1)
	sql := fmt.Sprintf(`SELECT %s, s.seq, s.hash
  FROM (SELECT r.* FROM audit_records r WHERE r.tenant_id = $1%s ORDER BY r.id DESC LIMIT $%d) r
  LEFT JOIN audit_seals s ON s.tenant_id = r.tenant_id AND s.record_id = r.id
 ORDER BY r.id DESC`, recordColumns, where, len(args))
	err = stream(ctx, t.d.DB.Reading(tenant, db.ListLimit), sql, args, func(rows pgx.Rows) error {
		var e Entry
		if err := rows.Scan(append(recordFields(&e.Record), &e.Seq, &e.Hash)...); err != nil {
			return err
		}
		page = append(page, e)
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("audit: list: %w", err)
	}
	page, more = db.Page(page, limit)
	return page, more, nil
}
