// Package killswitch sets and lifts what stops a tenant's calls at once. The API calls it. It
// decides about no call: package run reads the rows where it judges a call and where it marks one
// as sending.
package killswitch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
	"agentruntime/internal/record/idempotency"
	"agentruntime/internal/record/quota"
)

// Deps are what a Service works with; Now may be nil.
type Deps struct {
	DB     *db.Pool
	Quotas quota.Limits
	Now    func() time.Time
}

// Service sets, shows and lifts kill switches.
type Service struct {
	d Deps
	q *dbsqlc.Queries
}

// New checks the collaborators.
func New(d Deps) (*Service, error) {
	if d.DB == nil {
		return nil, errors.New("killswitch: a database is required")
	}
	d.Now = db.Clock(d.Now)
	return &Service{d: d, q: dbsqlc.New()}, nil
}

// Switch is a kill switch, set or lifted.
type Switch struct {
	governance.KillSwitch

	LiftedAt *time.Time
	LiftedBy *uuid.UUID
}

// NewSwitch is a kill switch to be set. Target is "" for the scope tenant.
type NewSwitch struct{ Scope, Target, Reason string }

// Set stores a kill switch and returns it. When it returns, every call that the switch covers has
// been marked as sending before, or is not sent while the switch is set. It refuses with
// VALIDATION_ERROR (scope, target), INVALID_VERB, VERB_NOT_FOUND, PROVIDER_NOT_FOUND and
// QUOTA_EXCEEDED.
func (s *Service) Set(ctx context.Context, who actor.Actor, in NewSwitch) (Switch, error) {
	set, err := in.checked()
	if err != nil {
		return Switch{}, err
	}
	set.ID, set.SetBy, set.SetAt = uuid.Must(uuid.NewV7()), who.ID, s.d.Now()
	var row dbsqlc.KillSwitch
	err = s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if err := idempotency.Write(ctx, tx, set.ID.String()); err != nil {
			return err
		}
		if err := s.known(ctx, tx, who.TenantID, set); err != nil {
			return err
		}
		var err error
		row, err = s.q.InsertKillSwitch(ctx, tx, dbsqlc.InsertKillSwitchParams{
			ID: set.ID, TenantID: who.TenantID, Scope: string(set.Scope), Target: set.Target, Covers: set.Covers(),
			Reason: set.Reason, SetBy: set.SetBy, SetAt: set.SetAt,
		})
		if err != nil {
			return err
		}
		if err := s.d.Quotas.Require(ctx, tx, who.TenantID, quota.Switches); err != nil {
			return err
		}
		// Lifted ones are never a reason to refuse, so those that were lifted first make room.
		if err := s.q.ForgetLiftedBeyond(ctx, tx, dbsqlc.ForgetLiftedBeyondParams{TenantID: who.TenantID, Kept: s.d.Quotas.Most(quota.LiftedSwitches)}); err != nil {
			return err
		}
		if err := s.tell(ctx, tx, who, audit.KillSwitchSet, row); err != nil {
			return err
		}
		// The last statement: the calls of the tenant wait from here to the commit.
		return s.q.CloseGate(ctx, tx, who.TenantID.String())
	})
	if err != nil {
		return Switch{}, fmt.Errorf("killswitch: set: %w", err)
	}
	return switchOf(row), nil
}

func (in NewSwitch) checked() (governance.KillSwitch, error) {
	k := governance.KillSwitch{Scope: governance.SwitchScope(in.Scope), Reason: redact.Text(in.Reason)}
	switch k.Scope {
	case governance.SwitchTenant:
		if in.Target != "" {
			return k, fault.Invalid("/target", "absent", "The scope tenant has no target: it covers all calls.")
		}
		return k, nil
	case governance.SwitchProvider, governance.SwitchAgent, governance.SwitchVerb:
	default:
		return k, fault.Invalid("/scope", "enum", near.Enum("scope", k.Scope, governance.SwitchTenant, governance.SwitchProvider, governance.SwitchVerb, governance.SwitchAgent))
	}
	if in.Target == "" {
		return k, fault.Invalid("/target", "required", "target is required: the slug of the provider, the verb, or the id of the agent.")
	}
	if k.Scope != governance.SwitchAgent {
		in.Target = verb.Canonical(in.Target)
	}
	k.Target = &in.Target
	return k, nil
}

// known refuses a target that no call can have: a misspelt one would stop nothing, and the user who
// set it would not know. The ids of agents are the callers' own words.
func (s *Service) known(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, k governance.KillSwitch) error {
	switch k.Scope {
	case governance.SwitchProvider:
		found, err := s.q.HasProvider(ctx, tx, dbsqlc.HasProviderParams{TenantID: tenant, Slug: *k.Target})
		if err == nil && (found == nil || !*found) {
			return fault.New(fault.CodeProviderNotFound, "")
		}
		return err
	case governance.SwitchVerb:
		name, err := verb.Parse(*k.Target)
		if err != nil {
			return err
		}
		_, err = s.q.GetVerbMeta(ctx, tx, dbsqlc.GetVerbMetaParams{TenantID: tenant, Provider: name.Provider, Name: name.Verb})
		if db.IsNoRows(err) {
			return fault.New(fault.CodeVerbNotFound, "")
		}
		return err
	case governance.SwitchTenant, governance.SwitchAgent:
	}
	return nil
}

// tell queues the audit record and the event of a change.
func (s *Service) tell(ctx context.Context, tx pgx.Tx, who actor.Actor, action audit.Action, row dbsqlc.KillSwitch) error {
	b := &db.Batch{}
	rec := audit.Change(who, action, audit.SubjectKillSwitch, row.ID.String())
	audit.Queue(b, rec.With(map[string]any{"scope": row.Scope, "target": row.Target, "reason": row.Reason}))
	about := event.Switch{KillSwitchID: row.ID.String(), Scope: row.Scope, Target: db.Text(row.Target), Reason: row.Reason}
	var body event.Body = event.SwitchedOff{Switch: about, SetBy: who.String()}
	if action == audit.KillSwitchLifted {
		body = event.SwitchedOn{Switch: about, LiftedBy: who.String()}
	}
	event.Queue(b, event.Event{TenantID: who.TenantID, Body: body})
	return b.SendIn(ctx, tx)
}

// Get returns the tenant's kill switch. The error is KILL_SWITCH_NOT_FOUND for any other id.
func (s *Service) Get(ctx context.Context, tenant, id uuid.UUID) (Switch, error) {
	row, err := s.q.GetKillSwitch(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetKillSwitchParams{TenantID: tenant, ID: id})
	switch {
	case db.IsNoRows(err):
		return Switch{}, fault.New(fault.CodeKillSwitchNotFound, "")
	case err != nil:
		return Switch{}, fmt.Errorf("killswitch: get: %w", err)
	}
	return switchOf(row), nil
}

// Filter narrows a list.
type Filter struct {
	// Lifted selects those that are lifted too.
	Lifted bool
	Before *uuid.UUID
	Limit  int
}

// List returns the newest first, and whether there are more.
func (s *Service) List(ctx context.Context, tenant uuid.UUID, f Filter) (page []Switch, more bool, err error) {
	rows, err := s.q.ListKillSwitches(ctx, s.d.DB.Reading(tenant, db.ListLimit), dbsqlc.ListKillSwitchesParams{
		TenantID: tenant, Lifted: f.Lifted, Before: f.Before, Most: int32(f.Limit + 1),
	})
	if err != nil {
		return nil, false, fmt.Errorf("killswitch: list: %w", err)
	}
	rows, more = db.Page(rows, f.Limit)
	page = make([]Switch, len(rows))
	for i, row := range rows {
		page[i] = switchOf(row)
	}
	return page, more, nil
}

// Lift ends a kill switch. The error is KILL_SWITCH_NOT_FOUND for an id that the tenant does not
// have, and where the switch was lifted before. expect is asked about the switch before.
func (s *Service) Lift(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[Switch]) error {
	err := s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		row, err := s.q.LockKillSwitch(ctx, tx, dbsqlc.LockKillSwitchParams{TenantID: who.TenantID, ID: id})
		switch {
		case db.IsNoRows(err):
			return fault.New(fault.CodeKillSwitchNotFound, "")
		case err != nil:
			return err
		}
		if err := expect.Check(switchOf(row)); err != nil {
			return err
		}
		lifted, err := s.q.LiftKillSwitch(ctx, tx, dbsqlc.LiftKillSwitchParams{LiftedAt: s.d.Now(), LiftedBy: who.ID, TenantID: who.TenantID, ID: id})
		switch {
		case err != nil:
			return err
		case len(lifted) == 0:
			return fault.New(fault.CodeKillSwitchNotFound, "")
		}
		return s.tell(ctx, tx, who, audit.KillSwitchLifted, lifted[0])
	})
	if err != nil {
		return fmt.Errorf("killswitch: lift: %w", err)
	}
	return nil
}

func switchOf(r dbsqlc.KillSwitch) Switch {
	return Switch{
		KillSwitch: governance.KillSwitch{
			ID: r.ID, Scope: governance.SwitchScope(r.Scope), Target: r.Target, Reason: r.Reason, SetBy: r.SetBy, SetAt: r.SetAt.UTC(),
		},
		LiftedAt: db.UTC(r.LiftedAt), LiftedBy: r.LiftedBy,
	}
}
