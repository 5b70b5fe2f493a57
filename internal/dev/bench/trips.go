package bench

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// Trips counts round trips to Postgres: a statement by itself is one, and so is a
// batch, however many statements are in it.
type Trips struct{ n atomic.Int64 }

// Count returns the trips so far.
func (t *Trips) Count() int64 { return t.n.Load() }

// TraceQueryStart implements pgx.QueryTracer.
func (t *Trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	t.n.Add(1)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (t *Trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (t *Trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	t.n.Add(1)
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (t *Trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (t *Trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
