package policy

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/verb"
)

// Get returns a policy with its warnings as of now; POLICY_NOT_FOUND.
func (s *Service) Get(ctx context.Context, tenant, id uuid.UUID) (Policy, []Warning, error) {
	row, err := s.q.GetPolicy(ctx, s.db.Tenant(tenant), dbsqlc.GetPolicyParams{TenantID: tenant, ID: id})
	if err != nil {
		return Policy{}, nil, readError(err)
	}
	p, err := fromRow(row)
	if err != nil {
		return Policy{}, nil, err
	}
	warnings, err := s.warnings(ctx, tenant, p)
	return p, warnings, err
}

// Filter selects policies for a list; zero fields select all.
type Filter struct {
	Enabled *bool
	Mode    string // read without regard to case
	Action  string // read without regard to case
	// Verb selects the policies whose matchers fit the verb, whatever their conditions.
	Verb   *verb.Name
	Before uuid.UUID
	Limit  int
}

func (f Filter) params(tenant uuid.UUID) (dbsqlc.ListPoliciesParams, error) {
	arg := dbsqlc.ListPoliciesParams{TenantID: tenant, Enabled: f.Enabled, N: int32(f.Limit) + 1}
	if f.Before != uuid.Nil {
		arg.Before = &f.Before
	}
	if f.Mode != "" {
		mode := strings.ToLower(f.Mode)
		if mode != string(governance.Enforce) && mode != string(governance.Shadow) {
			return arg, fault.Invalid("query.mode", "enum", near.Enum("mode", governance.Mode(mode), governance.Enforce, governance.Shadow))
		}
		arg.Mode = &mode
	}
	if f.Action != "" {
		action := strings.ToLower(f.Action)
		switch governance.Action(action) {
		case governance.ActionAllow, governance.ActionNotify, governance.ActionRequireApproval, governance.ActionBlock:
		default:
			return arg, fault.Invalid("query.action", "enum", near.Enum("action", governance.Action(action), governance.ActionAllow, governance.ActionNotify, governance.ActionRequireApproval, governance.ActionBlock))
		}
		arg.Action = &action
	}
	return arg, nil
}

// List returns policies, the newest first, and whether there are more after the last.
// VERB_NOT_FOUND where the filter names a verb that the tenant does not have.
func (s *Service) List(ctx context.Context, tenant uuid.UUID, f Filter) (page []Policy, more bool, err error) {
	arg, err := f.params(tenant)
	if err != nil {
		return nil, false, err
	}
	if f.Verb != nil {
		page, err = s.about(ctx, tenant, arg, f)
	} else {
		page, err = s.page(ctx, tenant, arg)
	}
	if err != nil {
		return nil, false, err
	}
	page, more = db.Page(page, f.Limit)
	return page, more, nil
}

func (s *Service) page(ctx context.Context, tenant uuid.UUID, arg dbsqlc.ListPoliciesParams) ([]Policy, error) {
	rows, err := s.q.ListPolicies(ctx, s.db.Reading(tenant, db.ListLimit), arg)
	if err != nil {
		return nil, fmt.Errorf("policy: list: %w", err)
	}
	page := make([]Policy, 0, len(rows))
	for _, row := range rows {
		p, err := fromRow(row)
		if err != nil {
			return nil, err
		}
		page = append(page, p)
	}
	return page, nil
}

// readAtOnce is how many policies a list by verb has in memory, besides those that it found.
const readAtOnce = 100

// about returns the policies whose matchers fit the verb of the filter, up to one more than
// its page.
func (s *Service) about(ctx context.Context, tenant uuid.UUID, arg dbsqlc.ListPoliciesParams, f Filter) ([]Policy, error) {
	subject, err := s.subjects.Subject(ctx, tenant, *f.Verb)
	if err != nil {
		return nil, err
	}
	call := subject.Call(nil, governance.Context{})
	kept := []Policy{}
	arg.N = readAtOnce
	for {
		some, err := s.page(ctx, tenant, arg)
		if err != nil {
			return nil, err
		}
		for _, p := range some {
			if p.Covers(call) {
				kept = append(kept, p)
			}
			arg.Before = &p.ID
		}
		if len(some) < readAtOnce || len(kept) > f.Limit {
			return kept, nil
		}
	}
}

// Versions returns the states that a policy has been in, the newest first, below
// version before where that is not 0, and whether there are more. Those of a deleted
// policy too; POLICY_NOT_FOUND where there never was one.
func (s *Service) Versions(ctx context.Context, tenant, id uuid.UUID, before int32, limit int) (page []Version, more bool, err error) {
	arg := dbsqlc.ListPolicyVersionsParams{TenantID: tenant, PolicyID: id, N: int32(limit) + 1}
	if before != 0 {
		arg.Before = &before
	}
	rows, err := s.q.ListPolicyVersions(ctx, s.db.Reading(tenant, db.ListLimit), arg)
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("policy: list versions: %w", err)
	case len(rows) == 0:
		if err := s.everWas(ctx, tenant, id); err != nil {
			return nil, false, err
		}
	}
	rows, more = db.Page(rows, limit)
	page = make([]Version, len(rows))
	for i, r := range rows {
		p, err := decode(r.Policy)
		if err != nil {
			return nil, false, err
		}
		p.ID, p.Version = r.PolicyID, r.Version
		page[i] = Version{Version: r.Version, Change: Change(r.Change), Policy: p, ChangedAt: r.ChangedAt.UTC(), ChangedBy: r.ChangedBy}
	}
	return page, more, nil
}

// everWas is POLICY_NOT_FOUND where the tenant never had the policy.
func (s *Service) everWas(ctx context.Context, tenant, id uuid.UUID) error {
	known, err := s.q.PolicyEverWas(ctx, s.db.Tenant(tenant), dbsqlc.PolicyEverWasParams{TenantID: tenant, ID: id})
	switch {
	case err != nil:
		return fmt.Errorf("policy: read: %w", err)
	case !known:
		return notFound()
	}
	return nil
}
