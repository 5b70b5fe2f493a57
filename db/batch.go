package db

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"agentruntime/db/dbsqlc"
)

// Batch gathers statements for one transaction in one round trip. Queue and QueueExec
// add to it, Pool.Send and Batch.SendIn send it. The compiler checks parameters and
// results, because both pass through the generated method.
type Batch struct {
	queued pgx.Batch
	// statements has one entry for each statement, in the order of the statements.
	statements []statement
}

// statement is a generated method with its parameters. It is called twice: to queue its
// statement, and to read the result.
type statement interface {
	call(ctx context.Context, tx dbsqlc.DBTX) error
}

// Len returns how many statements were queued.
func (b *Batch) Len() int { return len(b.statements) }

// An Answer is what a queued statement returned. It is empty until the batch was sent.
type Answer[R any] struct{ Value R }

type query[P, R any] struct {
	Answer[R]

	method func(context.Context, dbsqlc.DBTX, P) (R, error)
	params P
}

func (q *query[P, R]) call(ctx context.Context, tx dbsqlc.DBTX) (err error) {
	q.Value, err = q.method(ctx, tx, q.params)
	return err
}

type command[P any] struct {
	method func(context.Context, dbsqlc.DBTX, P) error
	params P
}

func (c *command[P]) call(ctx context.Context, tx dbsqlc.DBTX) error {
	return c.method(ctx, tx, c.params)
}

// Queue adds the statement of a generated method that returns something.
func Queue[P, R any](b *Batch, method func(context.Context, dbsqlc.DBTX, P) (R, error), params P) *Answer[R] {
	q := &query[P, R]{method: method, params: params}
	b.add(q)
	return &q.Answer
}

// QueueOptional is Queue for a method that returns one row. The answer is nil where
// there is no row, and the batch does not fail.
func QueueOptional[P, R any](b *Batch, method func(context.Context, dbsqlc.DBTX, P) (R, error), params P) *Answer[*R] {
	return Queue(b, func(ctx context.Context, tx dbsqlc.DBTX, params P) (*R, error) {
		row, err := method(ctx, tx, params)
		if IsNoRows(err) {
			return nil, nil
		}
		return &row, err
	}, params)
}

// QueueExec adds the statement of a generated method that returns only an error.
func QueueExec[P any](b *Batch, method func(context.Context, dbsqlc.DBTX, P) error, params P) {
	b.add(&command[P]{method: method, params: params})
}

// add lets the method queue its statement now. Its result is read once the batch was sent.
//
//nolint:contextcheck,nolintlint // queueing sends nothing; the first name works at the callers, unseen by the second
func (b *Batch) add(s statement) {
	before := b.queued.Len()
	// Nothing is sent, so there is nothing that could fail.
	_ = s.call(context.Background(), (*recorder)(b))
	if b.queued.Len() != before+1 {
		panic("db: a generated method must send exactly one statement")
	}
	b.statements = append(b.statements, s)
}

// Send runs the batch in a transaction of the tenant, in one round trip. It returns the
// error of the first statement that fails, which undoes all. A method that returns one row
// fails where there is none; see IsNoRows. Where Postgres cannot be reached, the error is
// the fault SERVICE_UNAVAILABLE.
func (p *Pool) Send(ctx context.Context, tenant uuid.UUID, b *Batch) error {
	return p.SendPresenting(ctx, SettingTenant, tenant.String(), b)
}

// SendPresenting is Send under a setting other than the tenant's; see Presenting.
func (p *Pool) SendPresenting(ctx context.Context, s Setting, value string, b *Batch) error {
	return p.send(ctx, value, b, func(all *pgx.Batch) { queueSetting(all, s, value) })
}

// send runs the batch behind one statement with settings, in the turn of the party.
func (p *Pool) send(ctx context.Context, party string, b *Batch, settings func(*pgx.Batch)) (err error) {
	conn, err := p.fair.Acquire(ctx, party)
	if err != nil {
		return err
	}
	defer conn.Release()
	all := &pgx.Batch{}
	settings(all)
	all.QueuedQueries = append(all.QueuedQueries, b.queued.QueuedQueries...)
	res := conn.SendBatch(ctx, all)
	defer closeResults(res, &err)
	if _, err := res.Exec(); err != nil {
		return translate(fmt.Errorf("db: setting: %w", err))
	}
	return b.readAll(ctx, res)
}

// SendIn runs the batch in one round trip of a transaction that is open already. It returns
// the error of the first statement that fails.
func (b *Batch) SendIn(ctx context.Context, tx pgx.Tx) (err error) {
	res := tx.SendBatch(ctx, &b.queued)
	defer closeResults(res, &err)
	return b.readAll(ctx, res)
}

// sendBetween sends the batch between statements without results, in one round trip.
func (b *Batch) sendBetween(ctx context.Context, conn *pgxpool.Conn, before, after *pgx.Batch) (err error) {
	all := &pgx.Batch{QueuedQueries: slices.Concat(before.QueuedQueries, b.queued.QueuedQueries, after.QueuedQueries)}
	res := conn.SendBatch(ctx, all)
	defer closeResults(res, &err)
	for range before.Len() {
		if _, err := res.Exec(); err != nil {
			return translate(fmt.Errorf("db: begin: %w", err))
		}
	}
	if err := b.readAll(ctx, res); err != nil {
		return err
	}
	for range after.Len() {
		if _, err := res.Exec(); err != nil {
			return translate(fmt.Errorf("db: commit: %w", err))
		}
	}
	return nil
}

func (b *Batch) readAll(ctx context.Context, res pgx.BatchResults) error {
	results := &answered{res}
	for _, s := range b.statements {
		if err := s.call(ctx, results); err != nil {
			return translate(err)
		}
	}
	return nil
}

func closeResults(res pgx.BatchResults, err *error) {
	if cerr := res.Close(); *err == nil && cerr != nil {
		*err = translate(fmt.Errorf("db: batch: %w", cerr))
	}
}

// recorder queues what a generated method would send, and returns nothing.
type recorder Batch

// Exec implements dbsqlc.DBTX.
func (r *recorder) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	r.queued.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// errQueued stops a generated method once its statement is queued.
var errQueued = errors.New("db: queued")

// Query implements dbsqlc.DBTX.
func (r *recorder) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	r.queued.Queue(sql, args...)
	return nil, errQueued
}

// QueryRow implements dbsqlc.DBTX.
func (r *recorder) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	r.queued.Queue(sql, args...)
	return queuedRow{}
}

type queuedRow struct{}

// Scan implements pgx.Row.
func (queuedRow) Scan(...any) error { return errQueued }

// answered returns to a generated method the next result of a batch that was sent.
type answered struct{ res pgx.BatchResults }

// Exec implements dbsqlc.DBTX.
func (a *answered) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return a.res.Exec()
}

// Query implements dbsqlc.DBTX.
func (a *answered) Query(context.Context, string, ...any) (pgx.Rows, error) { return a.res.Query() }

// QueryRow implements dbsqlc.DBTX.
func (a *answered) QueryRow(context.Context, string, ...any) pgx.Row { return a.res.QueryRow() }
