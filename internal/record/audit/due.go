package audit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// due is what a process knows about which tenants need a sealer. So a pass costs what was
// appended since the one before, however many tenants there are.
type due struct {
	mu sync.Mutex // one pass at a time
	// since is the transaction up to which all records were looked at; 0 before the first
	// pass. full is when that pass began.
	since int64
	full  time.Time
	// again are tenants whose records another process was sealing, or that failed.
	again map[uuid.UUID]bool
	// unsigned are tenants whose chain has grown since their last checkpoint, and when the
	// next one is due.
	unsigned map[uuid.UUID]time.Time
}

func newDue() *due { return &due{again: map[uuid.UUID]bool{}, unsigned: map[uuid.UUID]time.Time{}} }

// tenants returns those that need a sealer now: with new records, with records that an
// earlier pass left, and with a checkpoint that is due. It looks at every tenant where it
// knows nothing yet: in the first pass, after the transactions of the cluster have gone
// back, and once per CheckpointEvery, in case a process ended that knew of a checkpoint.
func (t *Trail) tenants(ctx context.Context) ([]uuid.UUID, error) {
	d, now := t.due, t.now()
	on := t.d.DB.Presenting(db.SettingSeal, "on")
	found, err := dbsqlc.New().AuditAppended(ctx, on, d.since)
	if err != nil {
		return nil, fmt.Errorf("audit: look for records to seal: %w", err)
	}
	all := found.Tenants
	if d.since == 0 || found.Complete < d.since || now.Sub(d.full) >= t.cfg.CheckpointEvery {
		if all, err = dbsqlc.New().AuditDue(ctx, on, now.Add(-t.cfg.CheckpointEvery)); err != nil {
			return nil, fmt.Errorf("audit: look for records to seal: %w", err)
		}
		d.full = now
	}
	d.since = found.Complete
	for _, tenant := range all {
		d.again[tenant] = true
	}
	for tenant, at := range d.unsigned {
		if !at.After(now) {
			d.again[tenant] = true
		}
	}
	out := make([]uuid.UUID, 0, len(d.again))
	for tenant := range d.again {
		out = append(out, tenant)
	}
	return out, nil
}

// sealed notes that nothing is left of the tenant for now, and when its next checkpoint is
// due; a zero time means that none is.
func (d *due) sealed(tenant uuid.UUID, checkpoint time.Time) {
	delete(d.again, tenant)
	delete(d.unsigned, tenant)
	if !checkpoint.IsZero() {
		d.unsigned[tenant] = checkpoint
	}
}
