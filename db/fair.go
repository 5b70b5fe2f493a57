package db

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"agentruntime/internal/base/fault"
	fairly "agentruntime/internal/base/turns"
)

// fairPool shares the connections out by turns. The parties are tenants, and what callers present
// before their tenant is known. A party with many statements delays its own, and those of each
// other party by one statement.
type fairPool struct {
	pool  *pgxpool.Pool
	turns *fairly.Turns
}

// waitersMost is how many statements of a process wait for a connection at most. Requests and steps
// are bounded before they come here.
const waitersMost = 1 << 16

func newFairPool(pool *pgxpool.Pool, conns int32) *fairPool {
	return &fairPool{pool: pool, turns: fairly.New(fairly.Config{
		Slots: int(conns), Share: shareOf(int(conns)), Wait: statementLimit, Each: waitersMost, Most: waitersMost,
	})}
}

// shareOf returns how many of the connections one party may have at once. The others find one of
// the rest free.
func shareOf(conns int) int { return conns - conns/4 }

// Acquire waits for the turn of the party, and for a connection.
func (f *fairPool) Acquire(ctx context.Context, party string) (*fairConn, error) {
	free, err := f.turns.Take(ctx, party)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, translate(fmt.Errorf("db: acquire: %w", ctx.Err()))
	default:
		f := fault.New(fault.CodeServiceUnavailable, "").Because(err)
		f.Retryable = true
		return nil, f
	}
	conn, err := f.pool.Acquire(ctx)
	if err != nil {
		free()
		return nil, translate(fmt.Errorf("db: acquire: %w", err))
	}
	return &fairConn{Conn: conn, free: free}, nil
}

// fairConn is a connection with the turn of its party.
type fairConn struct {
	*pgxpool.Conn

	free func()
}

// Release gives both back. It is called once.
func (c *fairConn) Release() {
	c.Conn.Release()
	c.free()
}
