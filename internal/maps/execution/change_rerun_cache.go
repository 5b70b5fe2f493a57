package execution

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// To rebuild a change costs as much as the dry run had steps. So a process goes on, for the next
// change, where the one before has stopped. Another process begins again.
const (
	rerunsMost = 4
	rerunBytes = 16 << 20 // of texts, for each
	// rerunLast is how long a rebuild is kept that nothing goes on with.
	rerunLast = 10 * time.Minute
)

// rerunCache are the dry runs that this process has run once more. One hand has each at a time.
type rerunCache struct {
	mu   sync.Mutex
	kept map[uuid.UUID]keptRerun
}

type keptRerun struct {
	*rerun

	forget *time.Timer
}

func newRerunCache() *rerunCache { return &rerunCache{kept: map[uuid.UUID]keptRerun{}} }

// take returns the rebuild of a dry run. The caller keeps it again where it is still of use.
func (r *rerunCache) take(dryRun uuid.UUID) (*rerun, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, known := r.kept[dryRun]
	if known {
		k.forget.Stop()
		delete(r.kept, dryRun)
	}
	return k.rerun, known
}

// keep keeps a rebuild for the next change, where there is room.
func (r *rerunCache) keep(dryRun uuid.UUID, b *rerun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.kept[dryRun]; taken || len(r.kept) == rerunsMost || b.bytes > rerunBytes {
		return
	}
	r.kept[dryRun] = keptRerun{b, time.AfterFunc(rerunLast, func() { r.take(dryRun) })}
}
