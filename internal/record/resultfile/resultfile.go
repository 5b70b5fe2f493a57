// Package resultfile keeps the files that providers answer with, in parts, sealed under the tenant's
// data key. The service that sends writes a file while it arrives, and the run domain gives it to the
// run in the transaction of the run's end. It lives as long as the result that names it. The package
// never looks into a file, and has no more than one part in memory.
package resultfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/record/quota"
)

const (
	// PartBytes is how many bytes a part has, apart from the last one.
	PartBytes = 512 << 10
	// leastBytes is what a file counts at least: rows cost too.
	leastBytes = 16 << 10
	// SweepEvery is the pause between two calls of Sweep, unnamedFor how long a file may have no run:
	// far longer than an attempt and the record of its outcome take.
	SweepEvery = 10 * time.Minute
	unnamedFor = time.Hour
	sweepMost  = 100
)

// Keys finds the data key of a tenant.
type Keys interface {
	Key(ctx context.Context, tenant uuid.UUID) (*datakey.Key, error)
}

// Deps are the collaborators; all but Now are required.
type Deps struct {
	DB     *db.Pool
	Keys   Keys
	Quotas quota.Limits
	Now    func() time.Time // nil is time.Now
}

// Store keeps files.
type Store struct {
	d Deps
	q *dbsqlc.Queries
}

// New checks the collaborators.
func New(d Deps) (*Store, error) {
	if d.DB == nil || d.Keys == nil {
		return nil, errors.New("resultfile: a database and keys are required")
	}
	d.Now = db.Clock(d.Now)
	return &Store{d: d, q: dbsqlc.New()}, nil
}

// Writer writes one file. It is for one goroutine.
type Writer struct {
	s      *Store
	key    *datakey.Key
	tenant uuid.UUID
	id     uuid.UUID
	parts  int32
	bytes  int64
}

// Begin returns a writer of a new file. whole is how many bytes it will have, -1 where that is not known. They
// count at once, so that a file for which there is no room is not written at all: the error is QUOTA_EXCEEDED.
func (s *Store) Begin(ctx context.Context, tenant uuid.UUID, whole int64) (*Writer, error) {
	key, err := s.d.Keys.Key(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("resultfile: %w", err)
	}
	w := &Writer{s: s, key: key, tenant: tenant, id: uuid.Must(uuid.NewV7())}
	b := &db.Batch{}
	db.QueueExec(b, s.q.BeginRunFile, dbsqlc.BeginRunFileParams{TenantID: tenant, ID: w.id, Bytes: max(whole, leastBytes)})
	s.d.Quotas.Queue(b, tenant, quota.ResultFiles)
	if err := s.d.DB.Send(ctx, tenant, b); err != nil {
		return nil, fmt.Errorf("resultfile: begin: %w", err)
	}
	return w, nil
}

// ID returns the id of the file.
func (w *Writer) ID() uuid.UUID { return w.id }

// Add writes the next part, of PartBytes unless it is the last one.
func (w *Writer) Add(ctx context.Context, part []byte) error {
	sealed := w.key.SealBytes(partPlace(w.tenant, w.id, w.parts), part)
	err := w.s.q.AddRunFilePart(ctx, w.s.d.DB.Tenant(w.tenant), dbsqlc.AddRunFilePartParams{TenantID: w.tenant, FileID: w.id, Part: w.parts, Content: sealed})
	if err != nil {
		return fmt.Errorf("resultfile: add a part: %w", err)
	}
	w.parts++
	w.bytes += int64(len(part))
	return nil
}

// End counts what the file has become. The error is QUOTA_EXCEEDED where the tenant has no room for it.
func (w *Writer) End(ctx context.Context) error {
	b := &db.Batch{}
	db.QueueExec(b, w.s.q.EndRunFile, dbsqlc.EndRunFileParams{TenantID: w.tenant, ID: w.id, Bytes: max(w.bytes, leastBytes)})
	w.s.d.Quotas.Queue(b, w.tenant, quota.ResultFiles)
	if err := w.s.d.DB.Send(ctx, w.tenant, b); err != nil {
		return fmt.Errorf("resultfile: end: %w", err)
	}
	return nil
}

// Drop deletes a file that is not wanted. What it leaves, the sweeper deletes.
func (w *Writer) Drop(ctx context.Context) error {
	err := w.s.q.DropRunFile(ctx, w.s.d.DB.Tenant(w.tenant), dbsqlc.DropRunFileParams{TenantID: w.tenant, ID: w.id})
	if err != nil {
		return fmt.Errorf("resultfile: drop: %w", err)
	}
	return nil
}

// QueueKeep gives the file to the run whose result names it.
func QueueKeep(b *db.Batch, tenant, file, run uuid.UUID) {
	db.QueueExec(b, dbsqlc.New().KeepRunFile, dbsqlc.KeepRunFileParams{TenantID: tenant, ID: file, RunID: run})
}

// QueueErase deletes the files of the runs.
func QueueErase(b *db.Batch, tenant uuid.UUID, runs []uuid.UUID) {
	db.QueueExec(b, dbsqlc.New().EraseRunFiles, dbsqlc.EraseRunFilesParams{TenantID: tenant, RunIds: runs})
}

// ErrGone says that the run has no such file, or no longer.
var ErrGone = errors.New("resultfile: there is no such file")

// Has reports whether the file belongs to the run.
func (s *Store) Has(ctx context.Context, tenant, run, file uuid.UUID) (bool, error) {
	has, err := s.q.HasRunFile(ctx, s.d.DB.Tenant(tenant), dbsqlc.HasRunFileParams{TenantID: tenant, ID: file, RunID: run})
	if err != nil {
		return false, fmt.Errorf("resultfile: %w", err)
	}
	return has, nil
}

// CopyTo writes the file of a run, part by part. The error is ErrGone where the run has no such file.
func (s *Store) CopyTo(ctx context.Context, tenant, run, file uuid.UUID, size int64, out io.Writer) error {
	key, err := s.d.Keys.Key(ctx, tenant)
	if err != nil {
		return fmt.Errorf("resultfile: %w", err)
	}
	for part := int32(0); int64(part)*PartBytes < size; part++ {
		rows, err := s.q.ReadRunFilePart(ctx, s.d.DB.Tenant(tenant), dbsqlc.ReadRunFilePartParams{TenantID: tenant, FileID: file, RunID: run, Part: part})
		switch {
		case err != nil:
			return fmt.Errorf("resultfile: read a part: %w", err)
		case len(rows) == 0:
			return ErrGone
		}
		content, err := key.OpenBytes(partPlace(tenant, file, part), rows[0])
		if err != nil {
			return fmt.Errorf("resultfile: part %d of file %s: %w", part, file, err)
		}
		if _, err := out.Write(content); err != nil {
			return fmt.Errorf("resultfile: write: %w", err)
		}
	}
	return nil
}

// Sweep deletes files that no result names: their attempt ended otherwise, or a crash came between.
func (s *Store) Sweep(ctx context.Context) error {
	for {
		n, err := s.q.SweepRunFiles(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), dbsqlc.SweepRunFilesParams{Before: s.d.Now().Add(-unnamedFor), Most: sweepMost})
		if err != nil {
			return fmt.Errorf("resultfile: sweep: %w", err)
		}
		if n < sweepMost {
			return nil
		}
	}
}

// partPlace binds a sealed part to its file and its number.
func partPlace(tenant, file uuid.UUID, part int32) datakey.Place {
	return datakey.Place{Tenant: tenant, Row: file, Field: datakey.RunFilePart + datakey.Field("/"+strconv.Itoa(int(part)))}
}
