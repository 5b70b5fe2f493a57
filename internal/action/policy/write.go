package policy

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/idempotency"
	"agentruntime/internal/record/quota"
)

// Create stores a policy. It applies from the next run on, in every process. What is
// wrong with the draft is VALIDATION_ERROR. It also refuses with QUOTA_EXCEEDED.
func (s *Service) Create(ctx context.Context, who actor.Actor, d Draft) (Policy, []Warning, error) {
	p, err := s.check(ctx, who.TenantID, d)
	if err != nil {
		return Policy{}, nil, err
	}
	if p.ID, err = uuid.NewV7(); err != nil {
		return Policy{}, nil, fmt.Errorf("policy: make an id: %w", err)
	}
	p.Version = 1
	p.CreatedAt, p.CreatedBy = s.now(), who.String()
	p.UpdatedAt, p.UpdatedBy = p.CreatedAt, p.CreatedBy
	err = s.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if err := idempotency.Write(ctx, tx, p.ID.String()); err != nil {
			return err
		}
		if _, err := s.q.BumpPolicySet(ctx, tx, who.TenantID); err != nil {
			return fmt.Errorf("policy: take turns: %w", err)
		}
		if err := s.insert(ctx, tx, who.TenantID, p); err != nil {
			return err
		}
		for _, r := range []quota.Resource{quota.Policies, quota.PolicyBytes} {
			if err := s.quotas.Require(ctx, tx, who.TenantID, r); err != nil {
				return err
			}
		}
		if err := s.record(ctx, tx, who, p, Created, 0, false); err != nil {
			return err
		}
		if err := s.followWindows(ctx, tx, who.TenantID, p.Policy); err != nil {
			return err
		}
		return s.closeGate(ctx, tx, who.TenantID)
	})
	return s.warned(ctx, who.TenantID, p, err)
}

// instructions returns what the regular expressions of a policy count for its quota.
func instructions(p Policy) int32 { return int32(governance.Instructions(p.Conditions)) }

func (s *Service) insert(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, p Policy) error {
	doc, err := encode(p)
	if err != nil {
		return err
	}
	err = s.q.InsertPolicy(ctx, tx, dbsqlc.InsertPolicyParams{
		ID: p.ID, TenantID: tenant, Name: p.Name, Description: p.Description, Enabled: p.Enabled, Mode: string(p.Mode),
		Priority: p.Priority, Action: string(p.Action), Document: doc, Instructions: instructions(p),
		ChangedBy: p.UpdatedBy, ChangedAt: p.UpdatedAt,
	})
	if err != nil {
		return fmt.Errorf("policy: insert: %w", err)
	}
	return nil
}

// Replace puts the draft in the place of a policy; POLICY_NOT_FOUND. expect is asked about the
// version that the policy is in.
func (s *Service) Replace(ctx context.Context, who actor.Actor, id uuid.UUID, d Draft, expect fault.Expect[int32]) (Policy, []Warning, error) {
	p, err := s.check(ctx, who.TenantID, d)
	if err != nil {
		return Policy{}, nil, err
	}
	p.ID = id
	err = s.change(ctx, who, id, expect, func(tx pgx.Tx, was dbsqlc.Policy) error {
		doc, err := encode(p)
		if err != nil {
			return err
		}
		row, err := s.q.UpdatePolicy(ctx, tx, dbsqlc.UpdatePolicyParams{
			TenantID: who.TenantID, ID: id, Name: p.Name, Description: p.Description, Enabled: p.Enabled, Mode: string(p.Mode),
			Priority: p.Priority, Action: string(p.Action), Document: doc, Instructions: instructions(p),
			ChangedBy: who.String(), ChangedAt: s.now(),
		})
		if err != nil {
			return fmt.Errorf("policy: update: %w", err)
		}
		if err := s.quotas.Require(ctx, tx, who.TenantID, quota.PolicyBytes); err != nil {
			return err
		}
		if p, err = fromRow(row); err != nil {
			return err
		}
		if err := s.record(ctx, tx, who, p, Updated, 0, switches(was, p)); err != nil {
			return err
		}
		return s.followWindows(ctx, tx, who.TenantID, p.Policy)
	})
	return s.warned(ctx, who.TenantID, p, err)
}

// Delete ends a policy; its versions stay until others need their room. POLICY_NOT_FOUND. expect is asked as for Replace.
func (s *Service) Delete(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[int32]) error {
	return s.change(ctx, who, id, expect, func(tx pgx.Tx, _ dbsqlc.Policy) error {
		at := s.now()
		row, err := s.q.DeletePolicy(ctx, tx, dbsqlc.DeletePolicyParams{TenantID: who.TenantID, ID: id, ChangedAt: &at, ChangedBy: who.String()})
		if err != nil {
			return fmt.Errorf("policy: delete: %w", err)
		}
		// A document that cannot be read must not keep its policy from being deleted.
		if err := s.recordDocument(ctx, tx, who, row, Deleted, 0, false); err != nil {
			return err
		}
		return s.followWindows(ctx, tx, who.TenantID, governance.Policy{})
	})
}

// change runs fn while no other change of the tenant's policies runs, after it has checked
// that the policy exists in the version that the caller expects.
func (s *Service) change(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[int32], fn func(pgx.Tx, dbsqlc.Policy) error) error {
	return s.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if _, err := s.q.BumpPolicySet(ctx, tx, who.TenantID); err != nil {
			return fmt.Errorf("policy: take turns: %w", err)
		}
		row, err := s.q.GetPolicy(ctx, tx, dbsqlc.GetPolicyParams{TenantID: who.TenantID, ID: id})
		if err != nil {
			return readError(err)
		}
		if err := expect.Check(row.Version); err != nil {
			return err
		}
		if err := fn(tx, row); err != nil {
			return err
		}
		return s.closeGate(ctx, tx, who.TenantID)
	})
}

// switches reports whether the policy differs from what it was in enabled and mode at most.
func switches(was dbsqlc.Policy, p Policy) bool {
	before, err := fromRow(was)
	if err != nil {
		return false
	}
	before.Enabled, before.Mode = p.Enabled, p.Mode
	a, errA := encode(before)
	b, errB := encode(p)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// closeGate waits for the calls that are beginning. So no call begins under the old
// policies once the change was answered.
func (s *Service) closeGate(ctx context.Context, tx pgx.Tx, tenant uuid.UUID) error {
	if err := s.q.CloseGate(ctx, tx, tenant.String()); err != nil {
		return fmt.Errorf("policy: close the gate: %w", err)
	}
	return nil
}

// record keeps the version and says in the audit record who made it. from is the version that
// was restored, 0 where none was; switches is as for recordDocument. INSUFFICIENT_PERMISSIONS where a
// key writes a policy with look-ups: these make calls, and a key that writes policies must not lead to one.
func (s *Service) record(ctx context.Context, tx pgx.Tx, who actor.Actor, p Policy, c Change, from int32, switches bool) error {
	if who.Kind == actor.Key && len(p.Lookups) > 0 {
		return fault.New(fault.CodeInsufficientPermissions, "An API key cannot write a policy with look-ups, because they make calls. An owner or an admin does, with a JWT.")
	}
	doc, err := encode(p)
	if err != nil {
		return err
	}
	return s.recordDocument(ctx, tx, who, dbsqlc.Policy{
		ID: p.ID, Version: p.Version, Name: p.Name, Enabled: p.Enabled, Mode: string(p.Mode), Action: string(p.Action),
		Document: doc, UpdatedAt: p.UpdatedAt, UpdatedBy: p.UpdatedBy,
	}, c, from, switches)
}

const (
	// judgedFor is how long a version stays by which a call was judged, unless a person needs its room.
	judgedFor = 30 * 24 * time.Hour
	// freshFor is how long any version stays that was made. So changes come to an end that make one after
	// the other.
	freshFor = 24 * time.Hour
	// keysOfFour is the part of the bytes of versions that keys may fill: the rest is for people.
	keysOfFour = 3
)

// recordDocument is record for a document as it is stored. The oldest versions make room for it. It refuses
// with QUOTA_EXCEEDED where there is no room, because the others are fresh, or calls of late were judged by
// them. What governs can always be ended. People can also always make a policy, restore one, and change only
// enabled and mode (switches): these must not wait.
func (s *Service) recordDocument(ctx context.Context, tx pgx.Tx, who actor.Actor, row dbsqlc.Policy, c Change, from int32, switches bool) error {
	err := s.q.InsertPolicyVersion(ctx, tx, dbsqlc.InsertPolicyVersionParams{
		TenantID: who.TenantID, PolicyID: row.ID, Version: row.Version, Change: string(c), Policy: row.Document,
		ChangedBy: row.UpdatedBy, ChangedAt: row.UpdatedAt,
	})
	if err != nil {
		return fmt.Errorf("policy: keep the version: %w", err)
	}
	byKey, now := who.Kind == actor.Key, s.now()
	most := map[string]int64{string(quota.PolicyVersions): s.quotas.Most(quota.PolicyVersions), string(quota.PolicyHistory): s.quotas.Most(quota.PolicyHistory)}
	if byKey {
		most[string(quota.PolicyHistory)] = most[string(quota.PolicyHistory)] / 4 * keysOfFour
	}
	arg := dbsqlc.ForgetPolicyVersionsParams{
		TenantID: who.TenantID, PolicyID: row.ID, Versions: most[string(quota.PolicyVersions)], Bytes: most[string(quota.PolicyHistory)],
		Since: now.Add(-judgedFor), Judged: !byKey, Before: now.Add(-freshFor),
	}
	always := c == Deleted || !byKey && (c != Updated || switches)
	if always {
		arg.Judged, arg.Before = true, now.Add(time.Minute) // also what was made at this moment
	}
	over, err := s.q.ForgetPolicyVersions(ctx, tx, arg)
	if err != nil {
		return fmt.Errorf("policy: forget versions: %w", err)
	}
	if over != "" && !always {
		return fault.Newf(fault.CodeQuotaExceeded, "The policies have reached the quota %s: at most %d. Versions of the last day stay, and those by which calls of the last 30 days were judged. "+
			"An owner or an admin with a JWT can still make policies, restore, enable, disable and delete them.", over, most[over])
	}
	rec := audit.Change(who, c.action(), audit.SubjectPolicy, row.ID.String())
	details := map[string]any{"version": row.Version, "name": row.Name, "enabled": row.Enabled, "mode": row.Mode, "action": row.Action}
	if from != 0 {
		details["restored_version"] = from
	}
	return audit.Append(ctx, tx, rec.With(details))
}

// check reads a draft and checks that the users it names are the tenant's, and that its look-ups read.
func (s *Service) check(ctx context.Context, tenant uuid.UUID, d Draft) (Policy, error) {
	p, m := d.parse()
	if len(m) == 0 && p.Action == governance.ActionRequireApproval {
		more, err := s.unknownUsers(ctx, tenant, p.Approval)
		if err != nil {
			return Policy{}, err
		}
		m = more
	}
	// A policy that is off may keep what it has, so that it can be switched off.
	if len(m) == 0 && p.Enabled && len(p.Lookups) > 0 {
		more, err := s.lookupMistakes(ctx, tenant, p)
		if err != nil {
			return Policy{}, err
		}
		m = more
	}
	return p, m.err()
}

// warned fills the windows of a policy that was stored, and adds its warnings. They are advice. A failure
// to compute them must not make a change that was made look like a failed one.
func (s *Service) warned(ctx context.Context, tenant uuid.UUID, p Policy, err error) (Policy, []Warning, error) {
	if err != nil {
		return Policy{}, nil, err
	}
	if len(governance.WindowDefs([]governance.Policy{p.Policy})) > 0 {
		s.fillOwn(ctx, tenant)
	}
	warnings, err := s.warnings(ctx, tenant, p)
	if err != nil {
		return p, []Warning{}, nil //nolint:nilerr // see above
	}
	return p, warnings, nil
}
