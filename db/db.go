// Package db is the way to Postgres: the pool, the tenant transaction that row-level
// security needs, and the migrations. Domain packages call it and the queries in db/dbsqlc.
// It knows no domain.
package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"agentruntime/db/dbsqlc"
)

// Config says where Postgres is.
type Config struct {
	// URL of the login role of the service, never of an owner or superuser.
	URL string
	// MaxConns is the most connections this process opens. Zero means 16.
	MaxConns int32
	// Tracer sees each query; nil means none.
	Tracer pgx.QueryTracer
}

// Pool is a connection pool whose every access names a tenant, or the secret or
// address that a caller presents before their tenant is known.
type Pool struct {
	pool  *pgxpool.Pool
	fair  *fairPool
	turns *turns
}

// Open returns a pool that connects when it is used; see AwaitReady. It returns an error
// where the URL is not valid. No error contains the URL.
func Open(ctx context.Context, cfg Config) (*Pool, error) {
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		// The parser's error repeats the URL, and with it the password.
		return nil, errors.New("db: the database URL is not valid")
	}
	pc.MaxConns = cfg.MaxConns
	if pc.MaxConns == 0 {
		pc.MaxConns = 16
	}
	pc.MinIdleConns = 2
	// A plan is made once and kept. If a table has ten rows then, the plan scans it, and
	// would still scan it when it has millions. Every access of the service has an index.
	pc.ConnConfig.RuntimeParams["enable_seqscan"] = "off"
	pc.ConnConfig.RuntimeParams["statement_timeout"] = strconv.FormatInt(statementLimit.Milliseconds(), 10)
	// A transaction that its process has forgotten would delay the events of all tenants.
	pc.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = strconv.FormatInt(idleLimit.Milliseconds(), 10)
	pc.MaxConnIdleTime = 5 * time.Minute
	pc.AfterConnect = registerUUID
	pc.ConnConfig.Tracer = cfg.Tracer
	if pc.ConnConfig.ConnectTimeout == 0 {
		pc.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("db: open: %w", err)
	}
	return &Pool{pool: pool, fair: newFairPool(pool, pc.MaxConns), turns: newTurns(pc.MaxConns)}, nil
}

// ValidURL reports whether a text is the address of a database.
func ValidURL(text string) bool {
	_, err := pgx.ParseConfig(text)
	return err == nil
}

// spill sorts more than fits into the least work_mem, so Postgres writes 300 KB to a file.
const spill = "select sum(length(x)) from (select repeat('x', 1000) as x from generate_series(1, 300) as g order by hashint4(g) offset 0) as s"

// TryWrite writes to both places that can be full: a committed row to the log of Postgres,
// and a file that is removed at once to the disk of its data. The error is the fault
// SERVICE_UNAVAILABLE where either does not take it. A row alone would fit into a page and a
// segment of the log that exist already.
func (p *Pool) TryWrite(ctx context.Context) error {
	b := &pgx.Batch{}
	b.Queue("select set_config('work_mem', '64kB', true), set_config('max_parallel_workers_per_gather', '0', true)")
	b.Queue("insert into heartbeats (name, at) values ('readyz', now()) on conflict (name) do update set at = excluded.at")
	b.Queue(spill)
	if err := p.pool.SendBatch(ctx, b).Close(); err != nil {
		return translate(fmt.Errorf("db: try to write: %w", err))
	}
	return nil
}

// How often AwaitReady asks Postgres, and after how many tries it writes to the log again.
const (
	readyPoll = 250 * time.Millisecond
	readyTell = 40 // every 10 s
)

// AwaitReady returns once Postgres answers. It waits as long as Postgres is away or starts.
// It returns an error where ctx ends, and where Postgres refuses the role or the database.
func (p *Pool) AwaitReady(ctx context.Context, log *slog.Logger) error {
	for tries := 0; ; tries++ {
		err := p.Ping(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !unreachable(err):
			return fmt.Errorf("db: ping: %w", err)
		}
		if tries%readyTell == 0 {
			log.WarnContext(ctx, "postgres does not answer, waiting for it", "error", err)
		}
		again := time.NewTimer(readyPoll)
		select {
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		case <-again.C:
		}
	}
}

// Close waits for the connections in use and closes all.
func (p *Pool) Close() { p.pool.Close() }

// Ping reports whether Postgres answers.
func (p *Pool) Ping(ctx context.Context) error { return p.pool.Ping(ctx) }

// Dial opens a connection outside the pool, for LISTEN and NOTIFY. The caller closes it.
func (p *Pool) Dial(ctx context.Context) (*pgx.Conn, error) {
	return pgx.ConnectConfig(ctx, p.pool.Config().ConnConfig.Copy())
}

// Setting is a transaction-local setting that a row-level security policy reads.
type Setting string

// The settings. SettingTenant opens the rows of a tenant. One with a secret or an address
// opens at most the rows that belong to it.
const (
	SettingTenant      Setting = "app.tenant_id"
	SettingKeyHash     Setting = "app.key_hash"        // hex of an API key's hash
	SettingLoginEmail  Setting = "app.login_email"     // lower-case address
	SettingRefreshHash Setting = "app.refresh_hash"    // hex of a refresh token's hash
	SettingInvitation  Setting = "app.invitation_hash" // hex of an invitation token's hash
	SettingMailToken   Setting = "app.mail_token"      //nolint:gosec // a name; its value is hex of the hash of a token that was mailed
	SettingRewrap      Setting = "app.rewrap"          // the id of a key-encryption key: of all tenants, what is wrapped under another
	SettingSweep       Setting = "app.sweep"           // "on": of all tenants, the runs and approvals to sweep
	SettingSeal        Setting = "app.seal"            // "on": the ids of all tenants, and the records to seal
)

// Tenant returns an executor for statements of one tenant. Each statement is a
// transaction of its own and costs one round trip.
func (p *Pool) Tenant(id uuid.UUID) dbsqlc.DBTX {
	return oneShot{pool: p.fair, setting: SettingTenant, value: id.String()}
}

// Presenting is Tenant for a call whose tenant is not known yet: row-level
// security shows the rows that match the presented value and no others.
func (p *Pool) Presenting(s Setting, value string) dbsqlc.DBTX {
	return oneShot{pool: p.fair, setting: s, value: value}
}

// InTenant runs fn in one transaction of the tenant and commits it. It rolls back where fn
// returns an error, which it returns, or panics. It costs two round trips in addition to
// fn's own.
func (p *Pool) InTenant(ctx context.Context, id uuid.UUID, fn func(tx pgx.Tx) error) error {
	conn, err := p.fair.Acquire(ctx, id.String())
	if err != nil {
		return err
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{
		BeginQuery: "begin; set local app.tenant_id = '" + id.String() + "'",
	})
	if err != nil {
		return translate(fmt.Errorf("db: begin: %w", err))
	}
	defer func() {
		// A no-op after the commit. The context may be cancelled by now, and a
		// connection with an open transaction must not go back to the pool.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = tx.Rollback(ctx) // Release discards a connection that cannot roll back
	}()
	if err := fn(tx); err != nil {
		return translate(err)
	}
	if err := tx.Commit(ctx); err != nil {
		return translate(fmt.Errorf("db: commit: %w", err))
	}
	return nil
}

// ReadAndWrite runs a transaction of the tenant in two round trips. The first one begins it and
// sends read. Then write returns the batch that the second one sends before it commits. A nil
// batch and an error undo the transaction, which takes a round trip too. It returns the error of
// the first statement that fails, or that of write.
func (p *Pool) ReadAndWrite(ctx context.Context, tenant uuid.UUID, read *Batch, write func() (*Batch, error)) (err error) {
	conn, err := p.fair.Acquire(ctx, tenant.String())
	if err != nil {
		return err
	}
	defer conn.Release()
	defer func() {
		if conn.Conn.Conn().PgConn().TxStatus() == 'I' {
			return // committed
		}
		// The context may be cancelled by now.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_, _ = conn.Exec(ctx, "rollback") // Release discards a connection that cannot roll back
	}()
	first := &pgx.Batch{}
	first.Queue("begin")
	queueSetting(first, SettingTenant, tenant.String())
	if err := read.sendBetween(ctx, conn.Conn, first, &pgx.Batch{}); err != nil {
		return err
	}
	b, err := write()
	if err != nil || b == nil {
		return err
	}
	last := &pgx.Batch{}
	last.Queue("commit")
	return b.sendBetween(ctx, conn.Conn, &pgx.Batch{}, last)
}
