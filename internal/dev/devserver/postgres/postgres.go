// Package postgres runs a private Postgres for development and tests, from the
// binaries that the machine has: found, initialised, started, and stopped with
// the process that started it. cmd/agentruntime-dev and tests call it; the
// product never does.
//
// The server listens on 127.0.0.1 only and has no unix socket. A login needs the
// random superuser password below its data directory. Root cannot run Postgres, so
// for root the server runs as the user postgres, or as the user nobody.
//
// What a killed tree left behind (an orphaned server, a zombie, its lock file)
// is cleared away by the next Start: the process with the directory's lock owns it.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"agentruntime/internal/dev/devserver/datadir"
	"agentruntime/internal/dev/devserver/port"
)

const (
	superuser = "agentruntime"

	// readyWait bounds crash recovery after kill -9; without it a start takes 0.2 s.
	readyWait = 60 * time.Second
	readyPoll = 10 * time.Millisecond
	// fastWait is how long a fast shutdown (checkpoint included) may take before
	// it becomes an immediate one.
	fastWait      = 10 * time.Second
	immediateWait = 5 * time.Second
	// startAttempts covers a port that was taken between choice and use, and
	// backends of a killed server that have its shared memory for a moment more.
	startAttempts = 20
	retryDelay    = 250 * time.Millisecond
	maxLogBytes   = 8 << 20
)

// Config says where the server keeps its data and listens.
type Config struct {
	// Dir has everything persistent. It is made if missing.
	Dir string
	// Port on 127.0.0.1; 0 picks a free one.
	Port int
	Log  *slog.Logger
}

// Server is a running Postgres.
type Server struct {
	port     int
	password string
	cluster  cluster
	locks    []*datadir.Lock
	process  *process
	log      *slog.Logger
	stopOnce sync.Once
	stopErr  error
}

// Start returns once the server takes connections. Without Postgres on the
// machine, with the port taken, or with the directory in use by a live process
// the error says what to do.
func Start(ctx context.Context, cfg Config) (_ *Server, err error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	s := &Server{log: cfg.Log}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("postgres: %w", err), s.release())
		}
	}()
	lock, err := datadir.Acquire(ctx, dir)
	if err != nil {
		return nil, err
	}
	s.locks = append(s.locks, lock)
	if err := s.prepare(ctx, dir); err != nil {
		return nil, err
	}
	if err := s.launch(ctx, cfg.Port); err != nil {
		return nil, err
	}
	return s, nil
}

// prepare finds binaries and account, clears the remains of a killed server away
// and makes the cluster if there is none.
func (s *Server) prepare(ctx context.Context, dir string) error {
	c, err := placeCluster(ctx, dir)
	if err != nil {
		return err
	}
	s.cluster = c
	if c.home != dir { // another copy of the data directory may point to the same cluster
		lock, err := datadir.Acquire(ctx, c.home)
		if err != nil {
			return err
		}
		s.locks = append(s.locks, lock)
	}
	if err := c.clearRemains(ctx, s.log); err != nil {
		return err
	}
	s.password, err = c.ensure(ctx, filepath.Join(dir, "password"))
	return err
}

func (s *Server) launch(ctx context.Context, wanted int) error {
	var last error
	for range startAttempts {
		addr, err := port.Resolve("postgres", net.JoinHostPort(port.Loopback, strconv.Itoa(wanted)))
		if err != nil {
			return err
		}
		if _, s.port, err = port.Split(addr); err != nil {
			return err
		}
		last = s.tryLaunch(ctx)
		var passing *passingError
		if last == nil || !errors.As(last, &passing) {
			return last
		}
		s.log.DebugContext(ctx, "postgres did not start, trying again", slog.Any("error", last))
		if err := wait(ctx, retryDelay); err != nil {
			return err
		}
	}
	return last
}

func (s *Server) tryLaunch(ctx context.Context) error {
	logFile, offset, err := openLog(s.cluster.logPath())
	if err != nil {
		return err
	}
	defer logFile.Close() // the server has its own copy
	cmd := s.cluster.command("postgres", s.cluster.serverArgs(s.port)...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr.Setpgid = true // a Ctrl-C in the terminal is for the parent, which stops us in order
	p, err := startProcess(cmd)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	s.process = p
	if err := s.awaitReady(ctx); err != nil {
		s.process = nil
		p.stop(immediateWait, syscall.SIGQUIT)
		return explain(err, s.cluster.logPath(), offset)
	}
	return nil
}

// awaitReady returns when the server takes a connection, has exited, or is late.
func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.SuperuserURL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.process.done:
			return errExited
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", errors.Join(ctx.Err(), err))
		case <-time.After(readyPoll):
		}
	}
}

// Done is closed when the server has exited, asked to or not.
func (s *Server) Done() <-chan struct{} { return s.process.done }

// Port returns the TCP port on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Stop ends the server in order: open transactions are rolled back, data is
// checkpointed. A server that does not follow is ended at once; it loses
// nothing that was committed. Calling Stop again does nothing.
func (s *Server) Stop() error {
	s.stopOnce.Do(func() {
		if !s.process.stop(fastWait, syscall.SIGINT) {
			s.log.Warn("postgres did not stop in time, ending it at once")
			s.process.stop(immediateWait, syscall.SIGQUIT)
		}
		s.stopErr = s.release()
	})
	return s.stopErr
}

func (s *Server) release() error {
	var errs []error
	for _, lock := range s.locks {
		errs = append(errs, lock.Release())
	}
	s.locks = nil
	return errors.Join(errs...)
}

func openLog(path string) (*os.File, int64, error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogBytes {
		flags |= os.O_TRUNC
	}
	file, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("open log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open log: %w", err), file.Close())
	}
	return file, info.Size(), nil
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
