package db

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// oneShot runs each statement together with the setting that row-level security reads, in
// one round trip. The extended protocol treats all statements up to a Sync as one implicit
// transaction. So the local setting is valid for the statement, and ends with it.
type oneShot struct {
	pool    *fairPool
	setting Setting
	value   string
	// reads is set for statements that wait for their turn; see Pool.Reading.
	reads *reading
}

func queueSetting(b *pgx.Batch, s Setting, value string) {
	b.Queue("select set_config($1, $2, true)", string(s), value)
}

func (o oneShot) send(ctx context.Context, sql string, args []any) (*shot, error) {
	b, free := &pgx.Batch{}, func() {}
	if o.reads == nil {
		queueSetting(b, o.setting, o.value)
	} else {
		var err error
		if free, err = o.reads.begin(ctx); err != nil {
			return nil, err
		}
		o.reads.queueSettings(b, planEach)
	}
	conn, err := o.pool.Acquire(ctx, o.value)
	if err != nil {
		free()
		return nil, err
	}
	b.Queue(sql, args...)
	s := &shot{conn: conn, res: conn.SendBatch(ctx, b), free: free}
	if _, err := s.res.Exec(); err != nil {
		s.close()
		return nil, translate(err)
	}
	return s, nil
}

// Exec implements dbsqlc.DBTX.
func (o oneShot) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	s, err := o.send(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := s.res.Exec()
	if cerr := s.close(); err == nil {
		err = cerr
	}
	return tag, translate(err)
}

// Query implements dbsqlc.DBTX.
func (o oneShot) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	s, err := o.send(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	rows, err := s.res.Query()
	if err != nil {
		s.close()
		return nil, translate(err)
	}
	return &shotRows{Rows: rows, shot: s}, nil
}

// QueryRow implements dbsqlc.DBTX.
func (o oneShot) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	s, err := o.send(ctx, sql, args)
	if err != nil {
		return failedRow{err}
	}
	return shotRow{row: s.res.QueryRow(), shot: s}
}

// shot is one batch that was sent, with its connection.
type shot struct {
	conn   *fairConn
	res    pgx.BatchResults
	free   func() // gives the turn back
	closed bool
	err    error
}

// close reads to the end and returns the connection to the pool. The implicit transaction
// commits at the end, so its error is the transaction's.
func (s *shot) close() error {
	if !s.closed {
		s.closed = true
		s.err = s.res.Close()
		s.conn.Release()
		s.free()
	}
	return s.err
}

type shotRows struct {
	pgx.Rows
	shot *shot
}

func (r *shotRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *shotRows) Close() {
	r.Rows.Close()
	r.shot.close() // Err reports it
}

func (r *shotRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return translate(err)
	}
	return translate(r.shot.err)
}

type shotRow struct {
	row  pgx.Row
	shot *shot
}

func (r shotRow) Scan(dest ...any) error {
	err := r.row.Scan(dest...)
	if cerr := r.shot.close(); err == nil {
		err = cerr
	}
	return translate(err)
}

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }
