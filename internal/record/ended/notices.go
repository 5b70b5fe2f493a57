package ended

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

const channel = "run_finished"

// gatherFor is how long notices are gathered where API and worker share a process. There nearly
// all callers wait in the process that ends what they wait for. Only a duplicate call that waits
// elsewhere sees the delay.
const gatherFor = 25 * time.Millisecond

// most is how many notices wait for the connection that sends them, 75 bytes each. While Postgres
// is away, later ones are lost, and cost their waiters one poll.
const most = 10_000

// Config says how notices are sent.
type Config struct {
	// Gather: callers wait, and workflows run, in this process.
	Gather bool
}

// Deps are the collaborators; all are required.
type Deps struct {
	DB  *db.Pool
	Log *slog.Logger
}

// Notices are what a process tells the others and hears from them: the ids of what has ended, many
// in one notice. A notice is not part of the transaction of its change: NOTIFY takes a lock until
// its commit is on disk, so all commits of the database would wait for each other.
type Notices struct {
	cfg   Config
	d     Deps
	hears []Hear

	mu    sync.Mutex
	ended []string
	nudge chan struct{}
}

// Hear is told of something that has ended, in any process. Most of it is of no interest here, so
// it looks at the id first.
type Hear func(ctx context.Context, tenant, id uuid.UUID)

// NewNotices checks the collaborators.
func NewNotices(cfg Config, d Deps) (*Notices, error) {
	if d.DB == nil || d.Log == nil {
		return nil, errors.New("ended: database and log are required")
	}
	return &Notices{cfg: cfg, d: d, nudge: make(chan struct{}, 1)}, nil
}

// OnNotice adds one who hears. It must be called before Listen.
func (n *Notices) OnNotice(hear Hear) { n.hears = append(n.hears, hear) }

// Tell queues the end of something for the other processes.
func (n *Notices) Tell(tenant, id uuid.UUID) {
	n.mu.Lock()
	if len(n.ended) < most {
		n.ended = append(n.ended, tenant.String()+" "+id.String())
	}
	n.mu.Unlock()
	select {
	case n.nudge <- struct{}{}:
	default:
	}
}

func (n *Notices) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.ended
	n.ended = nil
	return out
}

// Announce sends the notices until ctx ends. Every process must run it: an API process ends runs
// too, by cancelling and resolving.
func (n *Notices) Announce(ctx context.Context) {
	connection := db.Connection{Dial: n.d.DB.Dial, Log: n.d.Log, Purpose: "announce ended runs"}
	// A lost notice costs a waiter one poll. A flush of every notice would cost every caller.
	prepare := func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "set synchronous_commit = off")
		return err
	}
	_ = connection.Keep(ctx, prepare, n.announce) // the error is always ctx's
}

func (n *Notices) announce(ctx context.Context, conn *pgx.Conn) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.nudge:
		}
		if n.cfg.Gather {
			if err := pause(ctx, gatherFor); err != nil {
				return err
			}
		}
		if ids := n.take(); len(ids) > 0 {
			if err := dbsqlc.New().NotifyFinished(ctx, conn, ids); err != nil {
				return err
			}
		}
	}
}

// pause waits for d; the error is ctx's.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Listen passes on the notices of other processes until ctx ends. It does not look up what it may
// have missed, because waiters poll too.
func (n *Notices) Listen(ctx context.Context) {
	listener := db.Listener{
		Connection: db.Connection{Dial: n.d.DB.Dial, Log: n.d.Log, Purpose: "hear of ended runs"},
		Channel:    channel,
		Hear:       n.hear,
	}
	_ = listener.Listen(ctx) // the error is always ctx's
}

func (n *Notices) hear(ctx context.Context, notice string) {
	tenant, id, ok := parse(notice)
	if !ok {
		return
	}
	for _, hear := range n.hears {
		hear(ctx, tenant, id)
	}
}

// parse reads "<tenant> <id>".
func parse(payload string) (tenant, id uuid.UUID, ok bool) {
	first, second, _ := strings.Cut(payload, " ")
	tenant, err := uuid.Parse(first)
	if err != nil {
		return tenant, id, false
	}
	id, err = uuid.Parse(second)
	return tenant, id, err == nil
}
