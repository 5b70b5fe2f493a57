package audit

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

// Note is a call that changed nothing, so that its record is not part of a change: a repeat
// or a refusal. Calls with the same action, About, actor, network and Details are alike.
type Note struct {
	By     actor.Actor
	Record Record
	// About names what alike calls have in common: a run, a verb or an approval.
	About string
	// Details of the record, as for Record.With; the journal adds the count. They contain no
	// argument.
	Details map[string]any
}

// JournalConfig has the times and bounds of a journal. Zero fields take their default.
type JournalConfig struct {
	// Every is how often records are written, and so the most that a crash loses; 500 ms.
	Every time.Duration
	// Gather is the time for which calls like one that was recorded are counted; a minute.
	Gather time.Duration
	// Patience is how long a call waits where the journal is full; 10 s.
	Patience time.Duration
	// Records and Bytes bound what waits to be written, of all tenants: 10,000 and 16 MiB.
	// A tenant may have a tenth of each.
	Records, Bytes int
	// Counted is how many calls of a tenant, and ten times as many of all tenants, are
	// remembered to count those like them; 2,000. Above it, each call has its own record.
	Counted int
}

// tenantShare is the part of the bounds that one tenant may have: 1 / tenantShare.
const tenantShare = 10

// floorRecords is what a tenant may add although all tenants together are at the bound. So
// other tenants cannot make its calls wait.
const floorRecords = 8

func (c *JournalConfig) setDefaults() {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&c.Every, 500*time.Millisecond)
	set(&c.Gather, time.Minute)
	set(&c.Patience, 10*time.Second)
	for n, value := range map[*int]int{&c.Records: 10_000, &c.Bytes: 16 << 20, &c.Counted: 2000} {
		if *n == 0 {
			*n = value
		}
	}
}

// JournalDeps are the collaborators; Now may be nil.
type JournalDeps struct {
	DB  *db.Pool
	Log *slog.Logger
	Now func() time.Time
}

// Journal records calls that changed nothing. The first of several that are alike is a
// record, written within a second. Those of the minute after it are one record with their
// count. Callers do not wait for Postgres, except where the journal is full. A crash loses
// what was not written. Any number of callers may use it at once.
type Journal struct {
	cfg JournalConfig
	d   JournalDeps

	mu sync.Mutex
	// pending are the records to write by tenant; order has the tenants that have some.
	pending map[uuid.UUID]*backlog
	order   []uuid.UUID
	records int
	bytes   int
	// kept are the calls whose like are counted; due has them in the order of their end.
	kept     map[likeness]*gathering
	keptEach map[uuid.UUID]int
	due      []*gathering
	// space is closed when records were written.
	space chan struct{}
	wake  chan struct{}
	// writing is locked by who writes.
	writing sync.Mutex
	// lost counts the records whose content Postgres refused.
	lost atomic.Int64
}

// backlog is what waits to be written of one tenant.
type backlog struct {
	records []Record
	bytes   int
}

// likeness is what calls have in common that are counted together.
type likeness struct {
	tenant                              uuid.UUID
	action                              Action
	about, actorID, network, particular string
}

// gathering counts the calls like one that was recorded.
type gathering struct {
	like  likeness
	note  Note
	began time.Time
	count int
	// first and last are the times of the calls that were counted since began.
	first, last time.Time
}

// NewJournal checks what it is given.
func NewJournal(cfg JournalConfig, d JournalDeps) (*Journal, error) {
	if d.DB == nil || d.Log == nil {
		return nil, errors.New("audit: the journal requires database and log")
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	cfg.setDefaults()
	return &Journal{
		cfg: cfg, d: d, pending: map[uuid.UUID]*backlog{}, kept: map[likeness]*gathering{}, keptEach: map[uuid.UUID]int{},
		space: make(chan struct{}), wake: make(chan struct{}, 1),
	}, nil
}

// Add takes a call into the journal. Where the tenant's share or the journal is full, it
// waits for space. The error is SERVICE_UNAVAILABLE after Patience, and otherwise ctx's
// cause: then the call is not recorded, and must not be answered with what it asked for.
func (j *Journal) Add(ctx context.Context, n Note) error {
	now := j.d.Now()
	n.Record.TenantID = n.By.TenantID
	r := n.written(1, now, now)
	like := n.likeness(r)
	for patience := (<-chan time.Time)(nil); ; {
		space, added := j.add(like, n, r, now)
		if added {
			return nil
		}
		if patience == nil {
			t := time.NewTimer(j.cfg.Patience)
			defer t.Stop()
			patience = t.C
		}
		select {
		case <-space:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-patience:
			f := fault.New(fault.CodeServiceUnavailable, "The call cannot be recorded now. Repeat it.")
			f.Retryable = true
			return f
		}
	}
}

// add counts the call, or queues its record. It returns false where there is no space, with
// the channel that tells of some.
func (j *Journal) add(like likeness, n Note, r Record, now time.Time) (space <-chan struct{}, added bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if g, alike := j.kept[like]; alike {
		if g.count++; g.count == 1 {
			g.first = now
		}
		g.last, g.note.By.RequestID = now, n.By.RequestID
		return nil, true
	}
	if !j.fits(r) {
		j.hurry()
		return j.space, false
	}
	j.queue(r)
	if j.keptEach[r.TenantID] < j.cfg.Counted && len(j.kept) < j.cfg.Counted*tenantShare {
		g := &gathering{like: like, note: n, began: now}
		j.kept[like] = g
		j.keptEach[r.TenantID]++
		j.due = append(j.due, g)
	}
	return nil, true
}

// fits reports whether a record may wait to be written.
func (j *Journal) fits(r Record) bool {
	mine := j.pending[r.TenantID]
	if mine == nil || len(mine.records) < floorRecords {
		return true
	}
	n := size(r)
	return len(mine.records) < j.cfg.Records/tenantShare && mine.bytes+n <= j.cfg.Bytes/tenantShare &&
		j.records < j.cfg.Records && j.bytes+n <= j.cfg.Bytes
}

func (j *Journal) queue(r Record) {
	mine := j.pending[r.TenantID]
	if mine == nil {
		mine = &backlog{}
		j.pending[r.TenantID] = mine
		j.order = append(j.order, r.TenantID)
	}
	mine.records = append(mine.records, r)
	mine.bytes += size(r)
	j.records++
	j.bytes += size(r)
	if j.records%writtenAtOnce == 0 {
		j.hurry()
	}
}

// hurry has the records written before their time.
func (j *Journal) hurry() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// likeness returns what the call has in common with others.
func (n Note) likeness(r Record) likeness {
	particular := Record{}.With(n.Details).Details // in the order of their names
	return likeness{
		tenant: n.By.TenantID, action: r.Action, about: n.About, actorID: string(n.By.Kind) + r.ActorID, network: n.By.Network(), particular: string(particular),
	}
}

// written returns the record of so many calls.
func (n Note) written(count int, first, last time.Time) Record {
	r := n.Record
	r.ID = uuid.Must(uuid.NewV7())
	r.ActorType, r.ActorID, r.RequestID, r.SourceAddr = n.By.Kind, n.By.IDText(), n.By.RequestID, n.By.SourceAddr
	details := map[string]any{"count": count}
	if count > 1 {
		details["first_at"], details["last_at"] = first.UTC(), last.UTC()
	}
	maps.Copy(details, n.Details)
	return r.With(details)
}

// recordOverhead is about what a record takes besides its texts, in bytes.
const recordOverhead = 512

func size(r Record) int {
	n := recordOverhead + len(r.ActorID) + len(r.Provider) + len(r.Verb) + len(r.SubjectID) + len(r.ExecutionID) + len(r.RequestID) + len(r.SourceAddr) + len(r.Details)
	if r.SessionID != nil {
		n += len(*r.SessionID)
	}
	return n
}
