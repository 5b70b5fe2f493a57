// Package oracle judges what the service promises, one function per promise. The suites
// that drive a running service collect the evidence: what the database says and what
// the provider received. The package reads the database and never calls the service.
package oracle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/provider/vault"
)

// Facts is what the database says of a tenant at one moment.
type Facts struct {
	Runs      []Run
	Approvals []Approval
	Decisions []Decision
	Records   []Record
	Grants    []Grant
}

// Run is a row of runs. Verb is <provider>:<name>.
type Run struct {
	ID          uuid.UUID
	ExecutionID string
	WorkflowID  string
	Driver      string
	State       string
	Verb        string
	Args        string
	EditedArgs  *string
	DryRun      bool
	Held        bool
	ApprovalID  *string
	GrantID     *uuid.UUID
	SentAt      *time.Time
}

// Sends returns the arguments that go to the provider: the edited ones, if any.
func (r Run) Sends() string {
	if r.EditedArgs != nil {
		return *r.EditedArgs
	}
	return r.Args
}

// Approval is a row of approvals.
type Approval struct {
	ID           string
	RunID        uuid.UUID
	Status       string
	Requirements json.RawMessage
	EditedBy     *uuid.UUID
	Editors      []uuid.UUID
	EscalatedAt  *time.Time
	ExpiresAt    *time.Time
	Recheck      bool
	ClosedReason string
}

// Decision is a row of approval_decisions.
type Decision struct {
	ApprovalID string
	UserID     *uuid.UUID
	Decision   string
	CountedAt  *time.Time
}

// Record is an audit record of a run, an approval or a grant.
type Record struct {
	Action      string
	SubjectID   string
	ExecutionID string
	Details     json.RawMessage
}

// Grant is a row of grants.
type Grant struct {
	ID        uuid.UUID
	Verb      string
	MaxUses   int
	Uses      int
	ExpiresAt time.Time
}

// Database is where the facts are.
type Database struct {
	// URL is of a role that row-level security does not bind.
	URL string
	// VaultKeys open the keys of tenants, under which arguments are sealed.
	VaultKeys string
}

// Read reads the facts of a tenant in one snapshot.
func Read(ctx context.Context, d Database, tenantID string) (f Facts, err error) {
	if f, err = read(ctx, d.URL, tenantID); err != nil || len(f.Runs) == 0 {
		return f, err
	}
	return f, f.open(ctx, d, tenantID)
}

// open opens the sealed arguments of the runs.
func (f *Facts) open(ctx context.Context, d Database, tenantID string) error {
	tenant, err := uuid.Parse(tenantID)
	if err != nil {
		return err
	}
	key, err := tenantKey(ctx, d, tenant)
	if err != nil {
		return err
	}
	for i := range f.Runs {
		r := &f.Runs[i]
		open := func(field datakey.Field, text *string) {
			raw, failed := key.Open(datakey.Place{Tenant: tenant, Row: r.ID, Field: field}, *text)
			*text, err = string(raw), errors.Join(err, failed)
		}
		open(datakey.RunArgs, &r.Args)
		if r.EditedArgs != nil {
			open(datakey.RunEditedArgs, r.EditedArgs)
		}
	}
	return err
}

func tenantKey(ctx context.Context, d Database, tenant uuid.UUID) (*datakey.Key, error) {
	kms, err := vault.NewLocalKMS(d.VaultKeys)
	if err != nil {
		return nil, err
	}
	pool, err := db.Open(ctx, db.Config{URL: d.URL, MaxConns: 2})
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	v, err := vault.Open(vault.Deps{DB: pool, KMS: kms, CheckURL: egress.Config{}.CheckURL})
	if err != nil {
		return nil, err
	}
	return v.Key(ctx, tenant)
}

func read(ctx context.Context, databaseURL, tenantID string) (f Facts, err error) {
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return f, err
	}
	defer conn.Close(ctx)
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return f, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // it only reads
	read := func(next func() error) {
		if err == nil {
			err = next()
		}
	}
	read(func() (err error) {
		f.Runs, err = rows[Run](ctx, tx, tenantID, `SELECT id, execution_id, workflow_id, driver, state, provider || ':' || verb, args, edited_args,
			dry_run, held, approval_id, grant_id, sent_at FROM runs WHERE tenant_id = $1 ORDER BY id`)
		return err
	})
	read(func() (err error) {
		f.Approvals, err = rows[Approval](ctx, tx, tenantID, `SELECT id, run_id, status, requirements, edited_by, writers AS editors, escalated_at, expires_at, recheck,
			closed_reason FROM approvals WHERE tenant_id = $1 ORDER BY id`)
		return err
	})
	read(func() (err error) {
		f.Decisions, err = rows[Decision](ctx, tx, tenantID, `SELECT approval_id, user_id, decision, counted_at
			FROM approval_decisions WHERE tenant_id = $1 ORDER BY id`)
		return err
	})
	read(func() (err error) {
		f.Records, err = rows[Record](ctx, tx, tenantID, `SELECT action, subject_id, execution_id, coalesce(details, '{}') FROM audit_records
			WHERE tenant_id = $1 AND (action LIKE 'run.%' OR action LIKE 'approval.%' OR action LIKE 'grant.%') ORDER BY id`)
		return err
	})
	read(func() (err error) {
		f.Grants, err = rows[Grant](ctx, tx, tenantID, `SELECT id, provider || ':' || verb, max_uses, uses, expires_at
			FROM grants WHERE tenant_id = $1`)
		return err
	})
	return f, err
}

func rows[T any](ctx context.Context, tx pgx.Tx, tenantID, query string) ([]T, error) {
	found, err := tx.Query(ctx, query, tenantID)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowToStructByPos[T])
}

// Of returns the facts of one execution.
func (f Facts) Of(executionID string) (of Facts) {
	runs, approvals := map[uuid.UUID]bool{}, map[string]bool{}
	for _, r := range f.Runs {
		if r.ExecutionID == executionID {
			of.Runs = append(of.Runs, r)
			runs[r.ID] = true
		}
	}
	for _, a := range f.Approvals {
		if runs[a.RunID] {
			of.Approvals = append(of.Approvals, a)
			approvals[a.ID] = true
		}
	}
	for _, d := range f.Decisions {
		if approvals[d.ApprovalID] {
			of.Decisions = append(of.Decisions, d)
		}
	}
	for _, r := range f.Records {
		if r.ExecutionID == executionID || approvals[r.SubjectID] {
			of.Records = append(of.Records, r)
		}
	}
	of.Grants = f.Grants
	return of
}

// ByExecution returns the facts of every execution that has a run: what Of returns for each,
// in one pass and without the grants.
func (f Facts) ByExecution() map[string]Facts {
	all, ofRun, ofApproval := map[string]Facts{}, map[uuid.UUID]string{}, map[string]string{}
	add := func(id string, change func(*Facts)) {
		if id == "" {
			return
		}
		of := all[id]
		change(&of)
		all[id] = of
	}
	for _, r := range f.Runs {
		ofRun[r.ID] = r.ExecutionID
		add(r.ExecutionID, func(of *Facts) { of.Runs = append(of.Runs, r) })
	}
	for _, a := range f.Approvals {
		ofApproval[a.ID] = ofRun[a.RunID]
		add(ofRun[a.RunID], func(of *Facts) { of.Approvals = append(of.Approvals, a) })
	}
	for _, d := range f.Decisions {
		add(ofApproval[d.ApprovalID], func(of *Facts) { of.Decisions = append(of.Decisions, d) })
	}
	for _, r := range f.Records {
		id := r.ExecutionID
		if of, about := ofApproval[r.SubjectID]; about {
			id = of
		}
		if _, ran := all[id]; ran {
			add(id, func(of *Facts) { of.Records = append(of.Records, r) })
		}
	}
	return all
}

// records lists the audit records that which selects.
func (f Facts) records(which func(Record) bool) (list []Record) {
	for _, r := range f.Records {
		if which(r) {
			list = append(list, r)
		}
	}
	return list
}

// Effect is one call that the provider carried out. ExecutionID is "" where the
// provider cannot tell it; verb and arguments then name the call.
type Effect struct {
	ExecutionID string
	Verb        string
	Args        string // JSON
	// Read marks a call that changes nothing: a dry run carries it out too.
	Read bool
}

// Canonical writes a JSON value in one way; numbers keep their digits.
func Canonical(raw []byte) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return string(raw)
	}
	out, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was JSON a moment ago
	}
	return string(out)
}

// findings gathers what a promise's function reports.
type findings []string

func (f *findings) report(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }
