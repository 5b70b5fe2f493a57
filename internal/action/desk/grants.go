package desk

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/idempotency"
	"agentruntime/internal/record/quota"
)

// Grant is an approval given in advance: for one verb, under conditions, for some callers,
// until a time, for a number of uses. It lets through what its giver alone could approve at
// that moment. It never lets a blocked call through.
type Grant struct {
	ID         uuid.UUID
	Verb       verb.Name
	Conditions []governance.Condition
	KeyID      *uuid.UUID // nil: of any key
	// AgentID is an agent of the tenant's: what callers say of themselves is not compared.
	AgentID    *string
	CustomerID *string
	// MapID is the Map whose calls it is for; nil: for no calls of Maps.
	MapID     *uuid.UUID
	Reason    string
	CreatedBy uuid.UUID
	CreatedAt time.Time
	ExpiresAt time.Time
	MaxUses   int32
	Uses      int32
	RevokedAt *time.Time
	RevokedBy *uuid.UUID
}

// Status returns "active", or why the grant is not active.
func (g Grant) Status(now time.Time) string {
	switch {
	case g.RevokedAt != nil:
		return "revoked"
	case !now.Before(g.ExpiresAt):
		return "expired"
	case g.Uses >= g.MaxUses:
		return "used_up"
	default:
		return "active"
	}
}

// GrantWarning says by which word a caller gets the grant.
type GrantWarning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Warnings name what the grant depends on that the caller writes. A grant only opens, so each of these
// loosens.
func (g Grant) Warnings() (list []GrantWarning) {
	if g.CustomerID != nil {
		list = append(list, GrantWarning{governance.LoosensByCallersWord, "customer_id is what the caller writes: each caller who names this customer gets the grant. Name the key in api_key_id, too."})
	}
	for _, w := range governance.CallersWords(governance.ActionAllow, g.Conditions) {
		list = append(list, GrantWarning{governance.LoosensByCallersWord, w.Message()})
	}
	return list
}

// Limits of a grant.
const (
	grantLongest  = 90 * 24 * time.Hour
	grantMostUses = 100_000
	// grantMostBytes bounds the conditions of a grant, as JSON: a call that could use a grant
	// reads all of its verb.
	grantMostBytes = 8 << 10
)

// NewGrant is a grant to be given.
type NewGrant struct {
	Verb       string
	Conditions []governance.Condition
	KeyID      *uuid.UUID
	AgentID    *string
	CustomerID *string
	MapID      *uuid.UUID
	Reason     string
	ExpiresAt  time.Time
	MaxUses    int32
}

// mayGrant reports whether the role can approve by default. Where a policy names other
// approvers, it decides at each use whether the grant counts.
func mayGrant(role actor.Role) bool {
	return role == actor.RoleOwner || role == actor.RoleAdmin || role == actor.RoleApprover
}

// CreateGrant stores a grant and returns it. It refuses with APPROVER_NOT_ELIGIBLE (the
// role), INVALID_VERB, VERB_NOT_FOUND, VALIDATION_ERROR (limits, conditions, the key) and
// QUOTA_EXCEEDED.
func (s *Desk) CreateGrant(ctx context.Context, who actor.Actor, in NewGrant) (Grant, error) {
	if !mayGrant(who.Role) {
		return Grant{}, fault.New(fault.CodeApproverNotEligible, "Grants are given by owners, admins and approvers.")
	}
	name, err := verb.Parse(in.Verb)
	if err != nil {
		return Grant{}, err
	}
	if err := in.check(s.d.Now()); err != nil {
		return Grant{}, err
	}
	conditions, err := json.Marshal(in.Conditions)
	if err != nil {
		return Grant{}, fmt.Errorf("desk: grant: %w", err)
	}
	if len(conditions) > grantMostBytes {
		return Grant{}, fault.Invalid("/conditions", "maxLength", "The conditions of a grant have at most 8 KiB.")
	}
	var row dbsqlc.Grant
	id := uuid.Must(uuid.NewV7())
	err = s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if err := idempotency.Write(ctx, tx, id.String()); err != nil {
			return err
		}
		if _, err := s.q.GetVerbMeta(ctx, tx, dbsqlc.GetVerbMetaParams{TenantID: who.TenantID, Provider: name.Provider, Name: name.Verb}); err != nil {
			if db.IsNoRows(err) {
				return fault.New(fault.CodeVerbNotFound, "")
			}
			return err
		}
		if err := s.checkNamed(ctx, tx, who.TenantID, in); err != nil {
			return err
		}
		var err error
		row, err = s.q.InsertGrant(ctx, tx, dbsqlc.InsertGrantParams{
			ID: id, TenantID: who.TenantID, Provider: name.Provider, Verb: name.Verb, Conditions: conditions,
			KeyID: in.KeyID, AgentID: in.AgentID, CustomerID: in.CustomerID, MapID: in.MapID, Reason: redact.Text(in.Reason), CreatedBy: who.ID,
			ExpiresAt: in.ExpiresAt, MaxUses: in.MaxUses,
		})
		if err != nil {
			return err
		}
		for _, bound := range []quota.Resource{quota.Grants, quota.EndedGrants} {
			if err := s.d.Quotas.Require(ctx, tx, who.TenantID, bound); err != nil {
				return err
			}
		}
		return audit.Append(ctx, tx, grantRecord(who, audit.GrantCreated, row))
	})
	if err != nil {
		return Grant{}, fmt.Errorf("desk: grant: %w", err)
	}
	return grantOf(row)
}

// checkNamed refuses a grant for a key that is not an active key of the tenant, and for a Map or an
// agent that the tenant does not have.
func (s *Desk) checkNamed(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, in NewGrant) error {
	if in.KeyID != nil {
		active, err := s.q.KeyActive(ctx, tx, dbsqlc.KeyActiveParams{TenantID: tenant, KeyID: *in.KeyID})
		if err != nil {
			return err
		}
		if !active {
			return fault.Invalid("/api_key_id", "reference", "api_key_id must be the id of an active API key.")
		}
	}
	if in.MapID != nil {
		known, err := s.q.KnownMaps(ctx, tx, dbsqlc.KnownMapsParams{TenantID: tenant, Ids: []uuid.UUID{*in.MapID}})
		if err != nil {
			return err
		}
		if len(known) == 0 {
			return fault.Invalid("/map_id", "reference", "map_id must be the id of a Map of yours.")
		}
	}
	if in.AgentID == nil {
		return nil
	}
	id, err := uuid.Parse(*in.AgentID)
	if err == nil {
		_, err = s.q.GetAgent(ctx, tx, dbsqlc.GetAgentParams{TenantID: tenant, ID: id})
		if err != nil && !db.IsNoRows(err) {
			return err
		}
	}
	if err != nil {
		return fault.Invalid("/agent_id", "reference", "agent_id must be the id of an agent of yours. For software that names itself in metadata.agent_id, name its key in api_key_id.")
	}
	return nil
}

func (in NewGrant) check(now time.Time) error {
	for _, bad := range []struct {
		is                  bool
		path, rule, message string
	}{
		{in.MaxUses < 1 || in.MaxUses > grantMostUses, "/max_uses", "range", fmt.Sprintf("max_uses must be from 1 to %d.", grantMostUses)},
		{!in.ExpiresAt.After(now) || in.ExpiresAt.After(now.Add(grantLongest)), "/expires_at", "range", "expires_at must be in the future, at most 90 days from now."},
	} {
		if bad.is {
			return fault.Invalid(bad.path, bad.rule, bad.message)
		}
	}
	rule := governance.Policy{Name: "grant", Mode: governance.Enforce, Action: governance.ActionAllow, Conditions: in.Conditions}
	if details := governance.CheckPolicy(rule); len(details) > 0 {
		f := fault.New(fault.CodeValidation, "")
		f.Details = details
		return f
	}
	return nil
}

func grantRecord(who actor.Actor, action audit.Action, g dbsqlc.Grant) audit.Record {
	rec := audit.Change(who, action, audit.SubjectGrant, g.ID.String())
	rec.Provider, rec.Verb = g.Provider, g.Verb
	// The texts and the conditions are recorded as the giver wrote them, like a policy's.
	rec.Details, _ = json.Marshal(map[string]any{ //nolint:errchkjson // plain values and JSON that was stored
		"conditions": json.RawMessage(g.Conditions), "expires_at": g.ExpiresAt.UTC(), "max_uses": g.MaxUses, "uses": g.Uses,
		"api_key_id": g.KeyID, "agent_id": g.AgentID, "customer_id": g.CustomerID, "map_id": g.MapID, "reason": g.Reason,
	})
	return rec
}

// GetGrant returns the tenant's grant. The error is GRANT_NOT_FOUND for any other id.
func (s *Desk) GetGrant(ctx context.Context, tenant, id uuid.UUID) (Grant, error) {
	row, err := s.q.GetGrant(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetGrantParams{TenantID: tenant, ID: id})
	switch {
	case db.IsNoRows(err):
		return Grant{}, fault.New(fault.CodeGrantNotFound, "")
	case err != nil:
		return Grant{}, fmt.Errorf("desk: grant: %w", err)
	}
	return grantOf(row)
}

// GrantFilter narrows a list of grants. A field with its zero value does not narrow it.
type GrantFilter struct {
	Provider, Verb string
	// Usable selects grants that can still be used (true) or that cannot (false); nil for
	// both.
	Usable *bool
	// CustomerNames selects the grants for a customer by these names; nil selects all.
	CustomerNames []string
	Before        *uuid.UUID
	Limit         int
}

// Grants returns the newest grants first, and whether there are more.
func (s *Desk) Grants(ctx context.Context, tenant uuid.UUID, f GrantFilter) (page []Grant, more bool, err error) {
	rows, err := s.q.ListGrants(ctx, s.d.DB.Reading(tenant, db.ListLimit), dbsqlc.ListGrantsParams{
		TenantID: tenant, Before: f.Before, Provider: db.Optional(f.Provider), Verb: db.Optional(f.Verb), Usable: f.Usable, CustomerNames: f.CustomerNames, Most: int32(f.Limit + 1),
	})
	if err != nil {
		return nil, false, fmt.Errorf("desk: grants: %w", err)
	}
	rows, more = db.Page(rows, f.Limit)
	page = []Grant{}
	for _, row := range rows {
		g, err := grantOf(row)
		if err != nil {
			return nil, false, err
		}
		page = append(page, g)
	}
	return page, more, nil
}

// GrantPatch narrows a grant. What is nil stays as it is.
type GrantPatch struct {
	ExpiresAt *time.Time
	MaxUses   *int32
	// Expect is asked about the grant before the change.
	Expect fault.Expect[Grant]
}

// check returns the grant's new end and number of uses, or why they are no narrower.
func (p GrantPatch) check(g dbsqlc.Grant, now time.Time) (expiresAt time.Time, maxUses int32, err error) {
	expiresAt, maxUses = g.ExpiresAt, g.MaxUses
	if p.ExpiresAt != nil {
		if expiresAt = *p.ExpiresAt; expiresAt.After(g.ExpiresAt) || !expiresAt.After(now) {
			return expiresAt, maxUses, fault.Invalid("/expires_at", "range", "expires_at must be in the future, and not later than it is. A longer grant is a new one.")
		}
	}
	if p.MaxUses != nil {
		if maxUses = *p.MaxUses; maxUses < 1 || maxUses > g.MaxUses {
			return expiresAt, maxUses, fault.Invalid("/max_uses", "range", fmt.Sprintf("max_uses must be from 1 to %d, which it is. A wider grant is a new one.", g.MaxUses))
		}
	}
	return expiresAt, maxUses, nil
}

// NarrowGrant lets a grant end earlier or for fewer uses, and returns it. Calls that were let
// through already keep their use. It refuses with APPROVER_NOT_ELIGIBLE (the role),
// GRANT_NOT_FOUND, VALIDATION_ERROR for what would widen the grant, and CONFLICT for a grant
// that has ended.
func (s *Desk) NarrowGrant(ctx context.Context, who actor.Actor, id uuid.UUID, p GrantPatch) (Grant, error) {
	if !mayGrant(who.Role) {
		return Grant{}, fault.New(fault.CodeApproverNotEligible, "Grants are changed by owners, admins and approvers.")
	}
	var g Grant
	err := s.changeGrant(ctx, who, id, p.Expect, func(tx pgx.Tx, old Grant, row dbsqlc.Grant) error {
		now := s.d.Now()
		if status := old.Status(now); status != "active" {
			return fault.Newf(fault.CodeConflict, "The grant is %s, and stays so.", status)
		}
		expiresAt, maxUses, err := p.check(row, now)
		if err != nil {
			return err
		}
		row, err = s.q.NarrowGrant(ctx, tx, dbsqlc.NarrowGrantParams{TenantID: who.TenantID, ID: id, ExpiresAt: expiresAt, MaxUses: maxUses})
		if err != nil {
			return err
		}
		if g, err = grantOf(row); err != nil {
			return err
		}
		rec := grantRecord(who, audit.GrantUpdated, row)
		return audit.Append(ctx, tx, rec.With(map[string]any{
			"expires_at": g.ExpiresAt, "expires_at_before": old.ExpiresAt, "max_uses": g.MaxUses, "max_uses_before": old.MaxUses, "uses": g.Uses,
		}))
	})
	if err != nil {
		return Grant{}, fmt.Errorf("desk: narrow a grant: %w", err)
	}
	return g, nil
}

// changeGrant runs change on a grant that no other transaction changes meanwhile, and waits
// for the calls that are beginning. GRANT_NOT_FOUND for an id that the tenant does not have.
func (s *Desk) changeGrant(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[Grant], change func(pgx.Tx, Grant, dbsqlc.Grant) error) error {
	return s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		row, err := s.q.LockGrant(ctx, tx, dbsqlc.LockGrantParams{TenantID: who.TenantID, ID: id})
		if db.IsNoRows(err) {
			return fault.New(fault.CodeGrantNotFound, "")
		}
		if err != nil {
			return err
		}
		old, err := grantOf(row)
		if err != nil {
			return err
		}
		if err := expect.Check(old); err != nil {
			return err
		}
		if err := change(tx, old, row); err != nil {
			return err
		}
		return s.q.CloseGate(ctx, tx, who.TenantID.String())
	})
}

// RevokeGrant ends a grant at once. A call that is not marked as sending by then no longer
// runs under it. Any owner, admin or approver may revoke; others get APPROVER_NOT_ELIGIBLE. The
// error is GRANT_NOT_FOUND for any other id, and where the grant was revoked before. expect is
// asked about the grant before.
func (s *Desk) RevokeGrant(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[Grant]) error {
	if !mayGrant(who.Role) {
		return fault.New(fault.CodeApproverNotEligible, "Grants are revoked by owners, admins and approvers.")
	}
	err := s.changeGrant(ctx, who, id, expect, func(tx pgx.Tx, _ Grant, _ dbsqlc.Grant) error {
		rows, err := s.q.RevokeGrant(ctx, tx, dbsqlc.RevokeGrantParams{RevokedBy: who.UserID(), TenantID: who.TenantID, ID: id})
		switch {
		case err != nil:
			return err
		case len(rows) == 0:
			return fault.New(fault.CodeGrantNotFound, "")
		}
		return audit.Append(ctx, tx, grantRecord(who, audit.GrantRevoked, rows[0]))
	})
	if err != nil {
		return fmt.Errorf("desk: revoke a grant: %w", err)
	}
	return nil
}

func grantOf(r dbsqlc.Grant) (Grant, error) {
	g := Grant{
		ID: r.ID, Verb: verb.Name{Provider: r.Provider, Verb: r.Verb}, KeyID: r.KeyID, AgentID: r.AgentID, CustomerID: r.CustomerID, MapID: r.MapID,
		Reason: r.Reason, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.UTC(), ExpiresAt: r.ExpiresAt.UTC(), MaxUses: r.MaxUses,
		Uses: r.Uses, RevokedAt: db.UTC(r.RevokedAt), RevokedBy: r.RevokedBy,
	}
	if err := json.Unmarshal(r.Conditions, &g.Conditions); err != nil {
		return Grant{}, fmt.Errorf("desk: conditions of a grant: %w", err)
	}
	return g, nil
}
