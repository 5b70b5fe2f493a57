package policy

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/datakey"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/governance"
	"agentruntime/internal/kernel/verb"
)

// Bounds of filling windows.
const (
	// FillEvery is the pause between two looks for windows that are to be filled.
	FillEvery = 2 * time.Second
	// runsPerFill is how many runs one transaction looks at.
	runsPerFill = 200
	// fillSoon is how long the change of a policy waits for its windows.
	fillSoon = 3 * time.Second
	// windowsAtOnce is how many windows one look reads.
	windowsAtOnce = 100
)

// Fill counts the runs that were recorded before a policy asked for a window, of all tenants. Any
// number of processes may do so at once.
func (s *Service) Fill(ctx context.Context) error {
	arg := dbsqlc.UnfilledWindowsParams{Most: windowsAtOnce}
	for {
		page, err := s.q.UnfilledWindows(ctx, s.db.Presenting(db.SettingSweep, "on"), arg)
		if err != nil {
			return fmt.Errorf("policy: windows to fill: %w", err)
		}
		for _, w := range page {
			if err := s.fillWindow(ctx, w.TenantID, w.Series); err != nil {
				return err
			}
			arg.AfterTenant, arg.After = w.TenantID, w.Series
		}
		if len(page) < windowsAtOnce {
			return nil
		}
	}
}

// fillOwn fills the windows of one tenant for a short while, so that a tenant with few runs
// finds a new policy at work at once. What is left is for Fill.
func (s *Service) fillOwn(ctx context.Context, tenant uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fillSoon)
	defer cancel()
	unfilled, err := s.q.UnfilledWindowsOf(ctx, s.db.Tenant(tenant), tenant)
	for _, series := range unfilled {
		if err == nil {
			err = s.fillWindow(ctx, tenant, series)
		}
	}
}

// fillWindow fills one window, batch by batch. What is read of runs is read before the transaction
// that counts them: a run that has changed by then is seen as it is.
func (s *Service) fillWindow(ctx context.Context, tenant, series uuid.UUID) error {
	key, err := s.keys.Key(ctx, tenant)
	if err != nil {
		return fmt.Errorf("policy: fill a window: %w", err)
	}
	stored, _, _, err := load(ctx, s.q, s.db.Tenant(tenant), tenant)
	if err != nil {
		return err
	}
	f := filling{s: s, tenant: tenant, key: key, set: governance.Compile(0, stored), subjects: map[verb.Name]Subject{}}
	for more := true; more; {
		rows, err := s.q.ReadWindow(ctx, s.db.Tenant(tenant), dbsqlc.ReadWindowParams{TenantID: tenant, Series: series})
		if err != nil || len(rows) == 0 {
			return err //nolint:wrapcheck // the job is named
		}
		f.window = rows[0]
		if more, err = f.batch(ctx); err != nil {
			return fmt.Errorf("policy: fill a window: %w", err)
		}
	}
	return nil
}

// filling is a window that is being filled.
type filling struct {
	s        *Service
	tenant   uuid.UUID
	key      *datakey.Key
	set      *governance.Set
	subjects map[verb.Name]Subject // nil for a verb that is gone
	window   dbsqlc.ReadWindowRow
}

// filledRun is a run as the SQL function fill_window reads it.
type filledRun struct {
	Run    uuid.UUID `json:"run"`
	Value  string    `json:"value"`
	Amount *string   `json:"amount"`
	Minute int64     `json:"minute"`
	Done   bool      `json:"done"`
}

// batch counts the next runs and reports whether there may be more.
func (f *filling) batch(ctx context.Context) (more bool, err error) {
	runs, err := f.s.q.RunsForWindow(ctx, f.s.db.Reading(f.tenant, db.ScanLimit), dbsqlc.RunsForWindowParams{
		TenantID: f.tenant, After: f.window.Seen, Per: f.window.Per, Most: runsPerFill,
	})
	if err != nil {
		return false, err
	}
	found := map[uuid.UUID]filledRun{}
	ids := []uuid.UUID{}
	seen := f.window.Seen
	for _, r := range runs {
		seen = r.ID
		if !r.Counted {
			continue
		}
		use, err := f.use(ctx, r)
		switch {
		case err != nil:
			return false, err
		case use != nil:
			found[r.ID] = filledRun{Run: r.ID, Value: hex.EncodeToString(use.Digest), Amount: db.Optional(use.Amount), Minute: r.SentAt.Unix() / 60}
			ids = append(ids, r.ID)
		}
	}
	more = len(runs) == runsPerFill
	err = f.s.db.InTenant(ctx, f.tenant, func(tx pgx.Tx) error {
		mine, err := f.s.q.LockWindow(ctx, tx, dbsqlc.LockWindowParams{TenantID: f.tenant, Series: f.window.Series, Seen: f.window.Seen})
		if err != nil || len(mine) == 0 { // another process is at it, or it is gone
			more = more && err == nil && len(ids) > 0
			return err
		}
		if err := f.add(ctx, tx, found, ids); err != nil {
			return err
		}
		return f.s.q.WindowSeen(ctx, tx, dbsqlc.WindowSeenParams{TenantID: f.tenant, Series: f.window.Series, Seen: seen, Filled: !more})
	})
	return more, err
}

// add counts the runs as they are now.
func (f *filling) add(ctx context.Context, tx pgx.Tx, found map[uuid.UUID]filledRun, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	now, err := f.s.q.MarkWindowed(ctx, tx, dbsqlc.MarkWindowedParams{TenantID: f.tenant, Ids: ids})
	if err != nil {
		return err
	}
	list := make([]filledRun, 0, len(now))
	for _, r := range now {
		one := found[r.ID]
		one.Done = r.State == string(flow.StateExecuted)
		list = append(list, one)
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	return f.s.q.FillWindow(ctx, tx, dbsqlc.FillWindowParams{TenantID: f.tenant, Series: f.window.Series, Runs: raw})
}

// use returns what the window counts of the run; nil where it does not count it.
func (f *filling) use(ctx context.Context, r dbsqlc.RunsForWindowRow) (*governance.WindowUse, error) {
	call, err := f.call(ctx, r)
	if err != nil {
		return nil, err
	}
	uses := f.set.Records(call, func(id governance.WindowID) bool { return string(id[:]) == string(f.window.ID) })
	if len(uses) == 0 {
		return nil, nil //nolint:nilnil // see above
	}
	digestWindows(f.key, uses)
	return &uses[0], nil
}

// call returns the recorded call by its verb as it is today. That of a verb which is gone has the
// risk and the operation with which it was judged. Arguments that were erased are missing.
func (f *filling) call(ctx context.Context, r dbsqlc.RunsForWindowRow) (governance.Call, error) {
	args := json.RawMessage("{}")
	if r.ErasedAt == nil {
		field := datakey.RunArgs
		if r.Edited {
			field = datakey.RunEditedArgs
		}
		opened, err := f.key.Open(datakey.Place{Tenant: f.tenant, Row: r.ID, Field: field}, r.Args)
		if err != nil {
			return governance.Call{}, fmt.Errorf("run %s: %w", r.ID, err)
		}
		args = opened
	}
	about := governance.Made{
		Own: r.Origin == string(actor.Agent) || r.Origin == string(actor.Map), AgentID: idText(r.AgentID), CustomerID: idText(r.CustomerID),
		SessionID: r.SessionID, KeyID: idText(r.KeyID), DryRun: r.DryRun, Metadata: r.Metadata, Now: r.CreatedAt,
	}.Context()
	name := verb.Name{Provider: r.Provider, Verb: r.Verb}
	subject, err := f.subject(ctx, name)
	switch {
	case err != nil:
		return governance.Call{}, err
	case subject == nil:
		return governance.Call{Verb: name, Risk: verb.Risk(r.RiskLevel), Operation: verb.Operation(r.OperationType), Args: args, Context: about}, nil
	}
	return subject.Call(args, about), nil
}

// subject returns a verb as it is now, nil where it is gone.
func (f *filling) subject(ctx context.Context, name verb.Name) (Subject, error) {
	if known, ok := f.subjects[name]; ok {
		return known, nil
	}
	subject, err := f.s.subjects.Subject(ctx, f.tenant, name)
	switch {
	case fault.HasCode(err, fault.CodeVerbNotFound):
		subject = nil
	case err != nil:
		return nil, err
	}
	if len(f.subjects) >= subjectsKept {
		clear(f.subjects)
	}
	f.subjects[name] = subject
	return subject, nil
}

func idText(id *uuid.UUID) *string {
	if id == nil {
		return nil
	}
	text := id.String()
	return &text
}

// TrimEvery is the pause between two passes of Trim, and trimMost how many rows one statement
// deletes. trimSlack is how much longer than the window something is kept.
const (
	TrimEvery = 10 * time.Minute
	trimMost  = 1000
	trimSlack = 2 * time.Hour
)

// Trim deletes what windows no longer reach, of all tenants, and all of windows that no policy asks
// for any more.
func (s *Service) Trim(ctx context.Context) error {
	arg := dbsqlc.WindowsToTrimParams{Most: windowsAtOnce}
	for {
		page, err := s.q.WindowsToTrim(ctx, s.db.Presenting(db.SettingSweep, "on"), arg)
		if err != nil {
			return fmt.Errorf("policy: windows to trim: %w", err)
		}
		for _, w := range page {
			if err := s.trim(ctx, w); err != nil {
				return err
			}
			arg.AfterTenant, arg.After = w.TenantID, w.Series
		}
		if len(page) < windowsAtOnce {
			return nil
		}
	}
}

func (s *Service) trim(ctx context.Context, w dbsqlc.WindowsToTrimRow) error {
	before := int32(s.now().Add(-trimSlack).Unix()/60) - w.Per
	if w.Gone {
		before = 1<<31 - 1
	}
	on := s.db.Tenant(w.TenantID)
	for {
		n, err := s.q.TrimWindowEntries(ctx, on, dbsqlc.TrimWindowEntriesParams{TenantID: w.TenantID, Series: w.Series, Before: before, Most: trimMost})
		if err != nil {
			return fmt.Errorf("policy: trim a window: %w", err)
		}
		m, err := s.q.TrimWindowCounts(ctx, on, dbsqlc.TrimWindowCountsParams{TenantID: w.TenantID, Series: w.Series, Before: before, Most: trimMost})
		if err != nil {
			return fmt.Errorf("policy: trim a window: %w", err)
		}
		if n < trimMost && m < trimMost {
			break
		}
	}
	if !w.Gone {
		return nil
	}
	return s.q.DeleteWindow(ctx, on, dbsqlc.DeleteWindowParams{TenantID: w.TenantID, Series: w.Series}) //nolint:wrapcheck // the job is named
}
