package execution

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// To rebuild a change costs as much as the dry run had steps. So a process goes on, for the next
// change, where the one before has stopped. Another process begins again.
const (
	rebuildsMost  = 4
	rebuildsBytes = 16 << 20 // of texts, for each
	// rebuildsLast is how long a rebuild is kept that nothing goes on with.
	rebuildsLast = 10 * time.Minute
)

// rebuilds are the dry runs that this process has run once more. One hand has each at a time.
type rebuilds struct {
	mu   sync.Mutex
	kept map[uuid.UUID]keptRebuild
}

type keptRebuild struct {
	*rebuilding

	forget *time.Timer
}

func newRebuilds() *rebuilds { return &rebuilds{kept: map[uuid.UUID]keptRebuild{}} }

// take returns the rebuild of a dry run. The caller keeps it again where it is still of use.
func (r *rebuilds) take(dryRun uuid.UUID) (*rebuilding, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, known := r.kept[dryRun]
	if known {
		k.forget.Stop()
		delete(r.kept, dryRun)
	}
	return k.rebuilding, known
}

// keep keeps a rebuild for the next change, where there is room.
func (r *rebuilds) keep(dryRun uuid.UUID, b *rebuilding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.kept[dryRun]; taken || len(r.kept) == rebuildsMost || b.bytes > rebuildsBytes {
		return
	}
	r.kept[dryRun] = keptRebuild{b, time.AfterFunc(rebuildsLast, func() { r.take(dryRun) })}
}
