package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	reconnectFirst = 100 * time.Millisecond
	reconnectMost  = 5 * time.Second

	// recheckEvery is how often a listener asks whether its connection still works, and
	// checks again. A connection that died silently loses notices.
	recheckEvery = 15 * time.Second
)

// Connection is a connection outside the pool that is opened again when it is lost.
type Connection struct {
	Dial func(context.Context) (*pgx.Conn, error)
	Log  *slog.Logger
	// Purpose names the connection in the log.
	Purpose string
}

// Keep runs use on a connection that prepare made ready, until ctx ends; it returns ctx's
// error. When the connection is lost, Keep waits and dials again: 100 ms after a
// connection that worked, and twice as long after each failed try, at most 5 s.
func (c Connection) Keep(ctx context.Context, prepare, use func(context.Context, *pgx.Conn) error) error {
	wait := reconnectFirst
	for {
		err := c.once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			if err := prepare(ctx, conn); err != nil {
				return err
			}
			wait = reconnectFirst
			return use(ctx, conn)
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.Log.WarnContext(ctx, "database connection lost, dialling again",
			slog.String("purpose", c.Purpose), slog.Duration("in", wait), slog.Any("error", err))
		again := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		case <-again.C:
		}
		wait = min(2*wait, reconnectMost)
	}
}

func (c Connection) once(ctx context.Context, use func(context.Context, *pgx.Conn) error) error {
	conn, err := c.Dial(ctx)
	if err != nil {
		return fmt.Errorf("db: dial: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // nothing is under way on it
	}()
	return use(ctx, conn)
}

// Listener hears the notices of a channel, on a connection of its own.
type Listener struct {
	Connection
	// Channel is the name of the channel, an SQL identifier.
	Channel string
	// Hear gets the payload of each notice.
	Hear func(ctx context.Context, payload string)
	// Recheck looks up what a lost notice would have said: on each new connection before
	// any notice is heard, and every 15 s. An error ends the connection. nil looks up
	// nothing.
	Recheck func(context.Context) error
}

// Listen hears notices until ctx ends, and returns ctx's error.
func (l Listener) Listen(ctx context.Context) error {
	listen := func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "listen "+pgx.Identifier{l.Channel}.Sanitize())
		return err
	}
	return l.Keep(ctx, listen, func(ctx context.Context, conn *pgx.Conn) error {
		for {
			if l.Recheck != nil {
				if err := l.Recheck(ctx); err != nil {
					return err
				}
			}
			if err := l.hear(ctx, conn); err != nil {
				return err
			}
		}
	})
}

// hear takes notices until recheckEvery has passed.
func (l Listener) hear(ctx context.Context, conn *pgx.Conn) error {
	until, cancel := context.WithTimeout(ctx, recheckEvery)
	defer cancel()
	for {
		notice, err := conn.WaitForNotification(until)
		switch {
		case err == nil:
			l.Hear(ctx, notice.Payload)
		case errors.Is(until.Err(), context.DeadlineExceeded) && ctx.Err() == nil && !conn.IsClosed():
			// A connection that died silently shows it here.
			return conn.Ping(ctx)
		default:
			return err
		}
	}
}
