package policy

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
)

// Bounds of filling windows.
const (
	// FillEvery is the pause between two looks for windows that are to be filled.
	FillEvery = 2 * time.Second
	// runsPerFill is how many runs one transaction looks at, and bytesPerFill how many bytes of sealed
	// arguments it reads. One run may have more.
	runsPerFill  = 200
	bytesPerFill = 4 << 20
	// fillsPerTenant is how many such transactions a pass makes for one tenant before the next
	// tenant has its turn.
	fillsPerTenant = 50
	// fillSoon is how long the change of a policy waits for its windows.
	fillSoon = 3 * time.Second
	// windowsAtOnce is how many windows one look reads.
	windowsAtOnce = 100
)

// Fill counts the runs that were recorded before a policy asked for a window, of all tenants. Any
// number of processes may do so at once. A window that fails keeps none behind it from its turn:
// the error has what failed.
func (s *Service) Fill(ctx context.Context) error {
	arg := dbsqlc.UnfilledWindowsParams{Most: windowsAtOnce}
	var failed failures
	left := 0
	for {
		page, err := s.q.UnfilledWindows(ctx, s.db.Presenting(db.SettingSweep, "on"), arg)
		if err != nil {
			failed.add(fmt.Errorf("policy: windows to fill: %w", err))
			return failed.err()
		}
		for _, w := range page {
			if w.TenantID != arg.AfterTenant {
				left = fillsPerTenant
			}
			arg.AfterTenant, arg.After = w.TenantID, w.Series
			took, err := s.fillWindow(ctx, w.TenantID, w.Series, left)
			failed.add(err)
			if left -= took; took == 0 && err != nil {
				left = 0 // the key or the policies of the tenant: its other windows need them too
			}
		}
		if len(page) < windowsAtOnce || ctx.Err() != nil {
			return failed.err()
		}
	}
}

// fillOwn fills the windows of one tenant for a short while, so that a tenant with few runs
// finds a new policy at work at once. What is left is for Fill.
func (s *Service) fillOwn(ctx context.Context, tenant uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fillSoon)
	defer cancel()
	unfilled, err := s.q.UnfilledWindowsOf(ctx, s.db.Tenant(tenant), tenant)
	if err != nil {
		s.log.WarnContext(ctx, "the windows of a policy are filled later", "tenant_id", tenant, "error", err)
		return
	}
	for _, series := range unfilled {
		if _, err := s.fillWindow(ctx, tenant, series, fillsPerTenant); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "a window of a policy is filled later", "tenant_id", tenant, "series", series, "error", err)
		}
	}
}

// fillWindow fills one window, in so many batches at most. took is how many it began. What is read of
// runs is read before the transaction that counts them: a run that has changed by then is seen as it is.
func (s *Service) fillWindow(ctx context.Context, tenant, series uuid.UUID, most int) (took int, err error) {
	if most <= 0 {
		return 0, nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("policy: fill window %s of tenant %s: %w", series, tenant, err)
		}
	}()
	key, err := s.keys.Key(ctx, tenant)
	if err != nil {
		return 0, err
	}
	stored, _, _, err := load(ctx, s.q, s.db.Tenant(tenant), tenant)
	if err != nil {
		return 0, err
	}
	f := filling{s: s, tenant: tenant, key: key, set: governance.Compile(0, stored), subjects: map[verb.Name]Subject{}}
	defs := governance.WindowDefs(stored)
	for more := true; more && took < most; took++ {
		rows, err := s.q.ReadWindow(ctx, s.db.Tenant(tenant), dbsqlc.ReadWindowParams{TenantID: tenant, Series: series})
		if err != nil || len(rows) == 0 {
			return took, err
		}
		at := slices.IndexFunc(defs, func(d governance.WindowDef) bool { return slices.Equal(d.ID[:], rows[0].ID) })
		if at < 0 { // the policies have changed since they were read
			return took, nil
		}
		f.window, f.ofArgs = rows[0], defs[at].OfArgs
		if more, err = f.batch(ctx); err != nil {
			return took + 1, err
		}
	}
	return took, nil
}

// failures are what failed in a pass over many windows.
type failures struct {
	first []error
	more  int
}

// failuresShown is how many failures of a pass an error has.
const failuresShown = 10

func (f *failures) add(err error) {
	switch {
	case err == nil:
	case len(f.first) < failuresShown:
		f.first = append(f.first, err)
	default:
		f.more++
	}
}

// err returns the failures as one error, nil for none.
func (f *failures) err() error {
	list := f.first
	if f.more > 0 {
		list = append(list, fmt.Errorf("policy: and %d more", f.more))
	}
	return errors.Join(list...)
}

// filling is a window that is being filled.
type filling struct {
	s        *Service
	tenant   uuid.UUID
	key      *datakey.Key
	set      *governance.Set
	subjects map[verb.Name]Subject // nil for a verb that is gone
	window   dbsqlc.ReadWindowRow
	ofArgs   bool // what the window counts is in the arguments of calls
}

// filledRun is a run as the SQL function fill_window reads it.
type filledRun struct {
	Run    uuid.UUID `json:"run"`
	Value  string    `json:"value"`
	Up     *string   `json:"up"`
	Down   *string   `json:"down"`
	Minute int64     `json:"minute"`
	Done   bool      `json:"done"`
}

// batch counts the next runs and reports whether there may be more for this process.
func (f *filling) batch(ctx context.Context) (more bool, err error) {
	runs, err := f.s.q.RunsForWindow(ctx, f.s.db.Reading(f.tenant, db.ScanLimit), dbsqlc.RunsForWindowParams{
		TenantID: f.tenant, SeenAt: f.window.SeenAt, Seen: f.window.Seen, Per: f.window.Per, OfArgs: f.ofArgs, Most: runsPerFill, MostBytes: bytesPerFill,
	})
	if err != nil {
		return false, err
	}
	found := map[uuid.UUID]filledRun{}
	ids := []uuid.UUID{}
	next := dbsqlc.WindowSeenParams{TenantID: f.tenant, Series: f.window.Series, SeenAt: f.window.SeenAt, Seen: f.window.Seen}
	for _, r := range runs {
		next.SeenAt, next.Seen = r.CountedAt, r.ID
		if !r.Counted {
			continue
		}
		use, err := f.use(ctx, r)
		switch {
		case err != nil:
			return false, fmt.Errorf("run %s: %w", r.ID, err)
		case use != nil:
			found[r.ID] = filledRun{Run: r.ID, Value: hex.EncodeToString(use.Digest), Up: db.Optional(use.Up), Down: db.Optional(use.Down), Minute: r.SentAt.Unix() / 60}
			ids = append(ids, r.ID)
		}
	}
	more = len(runs) > 0 && (runs[0].Taken > int64(len(runs)) || runs[0].Taken == runsPerFill)
	if !more && next.SeenAt == nil { // those that have ended follow
		began := time.Now().Add(-time.Duration(f.window.Per) * time.Minute).Add(-fillSlack)
		next.SeenAt, next.Seen, more = &began, uuid.Nil, true
	}
	next.Filled = !more
	err = f.s.db.InTenant(ctx, f.tenant, func(tx pgx.Tx) error {
		mine, err := f.s.q.LockWindow(ctx, tx, dbsqlc.LockWindowParams{TenantID: f.tenant, Series: f.window.Series, SeenAt: f.window.SeenAt, Seen: f.window.Seen})
		if err != nil || len(mine) == 0 { // another process is at it, or it is gone
			more = false
			return err
		}
		if err := f.add(ctx, tx, found, ids); err != nil {
			return err
		}
		return f.s.q.WindowSeen(ctx, tx, next)
	})
	return more, err
}

// fillSlack is how far the clocks of this process and of Postgres may lie apart.
const fillSlack = time.Hour

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
// risk and the operation with which it was judged.
func (f *filling) call(ctx context.Context, r dbsqlc.RunsForWindowRow) (governance.Call, error) {
	args := f.args(r)
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

// args returns the arguments of the run. Those that were erased, that do not open or that the window does
// not need are missing: then no value of them is known, and no amount.
func (f *filling) args(r dbsqlc.RunsForWindowRow) json.RawMessage {
	none := json.RawMessage("{}")
	if r.ErasedAt != nil || !f.ofArgs {
		return none
	}
	field := datakey.RunArgs
	if r.Edited {
		field = datakey.RunEditedArgs
	}
	opened, err := f.key.Open(datakey.Place{Tenant: f.tenant, Row: r.ID, Field: field}, r.Args)
	if err != nil {
		return none
	}
	return opened
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
