package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/resultnote"
)

// errNoKey says that the tenant's data key could not be opened.
var errNoKey = errors.New("run: the tenant's key does not open")

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

// fromRow turns a row into a Run. What does not open is missing, see Run.Unreadable. The error
// is as for keyOf.
func (s *Service) fromRow(ctx context.Context, row dbsqlc.Run) (Run, error) {
	key, err := s.keyOf(ctx, row.TenantID)
	if err != nil {
		return Run{}, err
	}
	return opened(key, row), nil
}

// keyOf returns the tenant's key, nil where it does not open: the rest of a row can be read
// without it. The error is SERVICE_UNAVAILABLE where the key cannot be read now.
func (s *Service) keyOf(ctx context.Context, tenant uuid.UUID) (*datakey.Key, error) {
	key, err := s.d.Keys.Key(ctx, tenant)
	switch {
	case err == nil:
		return key, nil
	case ctx.Err() != nil, fault.HasCode(err, fault.CodeServiceUnavailable):
		return nil, fmt.Errorf("run: %w", err)
	}
	s.d.Log.ErrorContext(ctx, "the data key of a tenant does not open", "tenant_id", tenant, "error", err)
	return nil, nil //nolint:nilnil // no key is a value here
}

// The names of Run.Unreadable.
const (
	unreadableArgs   = "args"
	unreadableResult = "result"
)

// opened is fromRow with the tenant's key. Without a key nothing opens that is sealed.
func opened(key *datakey.Key, row dbsqlc.Run) Run {
	r := withoutTexts(row)
	r.key = key
	if r.ErasedAt != nil {
		if row.EditedArgs != nil {
			r.EditedArgs = json.RawMessage{}
		}
		return r
	}
	var args, edited, result error
	r.Args, args = r.open(datakey.RunArgs, &row.Args)
	r.EditedArgs, edited = r.open(datakey.RunEditedArgs, row.EditedArgs)
	r.Result, result = r.open(datakey.RunResult, row.Result)
	if words, err := r.open(datakey.RunProviderError, row.ProviderError); err == nil && words != nil {
		// Written by this package; what does not parse, or open, is not shown.
		_ = json.Unmarshal(words, &r.ProviderError)
	}
	if note, err := r.open(datakey.RunResultNote, row.ResultNote); err == nil && note != nil {
		r.Note = resultnote.Read(note)
	}
	r.openLookups(row.Lookups)
	if args != nil || edited != nil {
		r.Unreadable = append(r.Unreadable, unreadableArgs)
	}
	if edited != nil {
		// The arguments before the edit must not be taken for those that are sent.
		r.Args, r.EditedArgs = nil, json.RawMessage{}
	}
	if result != nil {
		r.Unreadable = append(r.Unreadable, unreadableResult)
	}
	return r
}

// unreadable returns the refusal of what needs a stored text of the run that does not open.
func (r Run) unreadable() *fault.Error {
	f := fault.Newf(fault.CodeExecutionUnreadable,
		"What is stored of this execution cannot be read (%s). Nothing was sent by this call. The execution can still be cancelled or resolved.", strings.Join(r.Unreadable, ", "))
	f.ExecutionID, f.Status = r.ExecutionID, r.State.Status()
	return f
}

// open reverses sealOptional.
func (r Run) open(f datakey.Field, stored *string) ([]byte, error) {
	if stored == nil {
		return nil, nil
	}
	if r.key == nil && datakey.Sealed(*stored) {
		return nil, errNoKey
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

// oneOf returns the run of a query that returns one row or none, as opened does.
func oneOf(key *datakey.Key, rows []dbsqlc.Run) (r Run, found bool) {
	if len(rows) == 0 {
		return Run{}, false
	}
	return opened(key, rows[0]), true
}
