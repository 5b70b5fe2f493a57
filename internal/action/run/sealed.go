package run

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/datakey"
)

// The arguments and the result of a run are sealed in its row under the tenant's data key. The
// claim writes the arguments before anything has read the verb's schema. So all runs are
// sealed, not only those of verbs that mark something as sensitive.

// Keys finds the data key of a tenant. It caches keys, so nearly every call is free.
type Keys interface {
	Key(ctx context.Context, tenant uuid.UUID) (*datakey.Key, error)
}

// seal returns a text as the field of the run's row stores it.
func (r Run) seal(f datakey.Field, text []byte) string {
	return r.key.Seal(datakey.Place{Tenant: r.TenantID, Row: r.ID, Field: f}, text)
}

// sealOptional is seal for a column that may be null: nil stays nil.
func (r Run) sealOptional(f datakey.Field, text []byte) *string {
	if text == nil {
		return nil
	}
	stored := r.seal(f, text)
	return &stored
}

// fromRow turns a row into a Run. The error says that the tenant's key cannot be read, or that
// the row does not open under it.
func (s *Service) fromRow(ctx context.Context, row dbsqlc.Run) (Run, error) {
	key, err := s.d.Keys.Key(ctx, row.TenantID)
	if err != nil {
		return Run{}, fmt.Errorf("run: %w", err)
	}
	return opened(key, row)
}

// opened is fromRow with the tenant's key.
func opened(key *datakey.Key, row dbsqlc.Run) (Run, error) {
	r := withoutTexts(row)
	r.key = key
	var err error
	if r.Args, err = r.open(datakey.RunArgs, &row.Args); err != nil {
		return Run{}, err
	}
	if r.EditedArgs, err = r.open(datakey.RunEditedArgs, row.EditedArgs); err != nil {
		return Run{}, err
	}
	r.Result, err = r.open(datakey.RunResult, row.Result)
	return r, err
}

// open reverses sealOptional.
func (r Run) open(f datakey.Field, stored *string) ([]byte, error) {
	if stored == nil {
		return nil, nil
	}
	text, err := r.key.Open(datakey.Place{Tenant: r.TenantID, Row: r.ID, Field: f}, *stored)
	if err != nil {
		return nil, fmt.Errorf("run: %s of run %s: %w", f, r.ID, err)
	}
	return text, nil
}

// glance reads a run without its sealed texts, so it also reads one that does not open.
func (s *Service) glance(ctx context.Context, tenant, id uuid.UUID) (Run, error) {
	row, err := s.q.GetRun(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetRunParams{TenantID: tenant, ID: id})
	if err != nil {
		return Run{}, fmt.Errorf("run: glance: %w", err)
	}
	return withoutTexts(row), nil
}

// oneOf returns the run of a query that returns one row or none. The error is as for fromRow.
// Without a key the run has no sealed texts.
func oneOf(key *datakey.Key, rows []dbsqlc.Run) (r Run, found bool, err error) {
	if len(rows) == 0 {
		return Run{}, false, nil
	}
	if key == nil {
		return withoutTexts(rows[0]), true, nil
	}
	r, err = opened(key, rows[0])
	return r, err == nil, err
}
