package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/record/audit"
)

// useGrant looks for a standing approval of the call and takes one use of it. A grant
// replaces the approval of its giver: it lets through what the giver alone could approve
// now. It never lets through a blocked run, or one that was held before.
func (s *Service) useGrant(ctx context.Context, p *prepared) (used bool, err error) {
	r := p.run
	if r.GrantID != nil {
		// The use was taken before a crash, or before a change of the policies or the verb.
		return s.stillGranted(ctx, p)
	}
	if r.Held || !p.verdict.ApprovalRequired() {
		return false, nil
	}
	about := r.about()
	grants, err := dbsqlc.New().UsableGrants(ctx, s.d.DB.Tenant(r.TenantID), dbsqlc.UsableGrantsParams{
		TenantID: r.TenantID, Provider: r.Verb.Provider, Verb: r.Verb.Verb, KeyID: r.KeyID, AgentID: about.OwnAgentID,
		MapID: r.mapID(), ParentID: r.ParentID, CustomerNames: append([]string{}, p.target.CustomerNames()...),
	})
	if err != nil {
		return false, fmt.Errorf("run: grants: %w", err)
	}
	for _, g := range grants {
		if !p.grantFits(g) {
			continue
		}
		if _, stops := p.target.Circuit().Stops(); stops {
			return true, nil // the call is not sent now, so it takes no use; see atCircuit
		}
		taken, err := s.takeGrant(ctx, p, g)
		if err != nil || taken {
			return taken, err
		}
	}
	return false, nil
}

// grantFits reports whether the grant covers the call: it is for the call's key, our agent, its
// customer and its Map, its conditions are true, and its giver alone could approve the call.
func (p *prepared) grantFits(g dbsqlc.UsableGrantsRow) bool {
	about := p.run.about()
	switch {
	case g.KeyID != nil && !sameID(g.KeyID, p.run.KeyID), !fits(g.AgentID, about.OwnAgentID), !sameID(g.MapID, p.run.mapID()),
		g.CustomerID != nil && !slices.Contains(p.target.CustomerNames(), *g.CustomerID):
		return false
	}
	var list []governance.Condition
	if json.Unmarshal(g.Conditions, &list) != nil {
		return false
	}
	// One who has asked for the call, or has written a text of it, does not release it alone.
	giver := []governance.Voter{governance.NewVoter(g.CreatedBy, actor.Role(g.Role), p.run.UserID, g.Writers)}
	if _, enough := governance.Count(p.verdict.Requirements, giver, false); !enough {
		return false
	}
	return p.target.Meets(list, p.run.Effective(), about)
}

// fits reports whether a grant for wanted is for actual. A grant that names none is for all.
func fits(wanted, actual *string) bool { return wanted == nil || actual != nil && *wanted == *actual }

// takeGrant counts the use and names the grant in the run's row, in one transaction.
func (s *Service) takeGrant(ctx context.Context, p *prepared, g dbsqlc.UsableGrantsRow) (taken bool, err error) {
	r := p.run
	err = s.d.DB.InTenant(ctx, r.TenantID, func(tx pgx.Tx) error {
		q := dbsqlc.New()
		n, err := q.UseGrant(ctx, tx, dbsqlc.UseGrantParams{TenantID: r.TenantID, ID: g.ID})
		if err != nil || n == 0 {
			return err
		}
		rows, err := q.LetThrough(ctx, tx, dbsqlc.LetThroughParams{GrantID: &g.ID, TenantID: r.TenantID, ID: r.ID, Attempt: r.Attempt})
		switch {
		case err != nil:
			return err
		case len(rows) == 0:
			return db.ErrNotChanged
		}
		taken = true
		p.run.GrantID = &g.ID
		rec := p.record(audit.GrantUsed)
		rec.SubjectType, rec.SubjectID = audit.SubjectGrant, g.ID.String()
		rec.Details = mustJSON(map[string]any{"grant_id": g.ID, "use": g.Uses + 1, "of": g.MaxUses})
		return audit.Append(ctx, tx, rec)
	})
	switch {
	case db.IsNotChanged(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("run: use a grant: %w", err)
	}
	return taken, nil
}

// dropGrant removes the grant from a run that no longer needs one, so that the end of the
// grant does not stop the run.
func (s *Service) dropGrant(ctx context.Context, p *prepared) error {
	r := p.run
	if r.GrantID == nil {
		return nil
	}
	_, err := s.q.LetThrough(ctx, s.d.DB.Tenant(r.TenantID), dbsqlc.LetThroughParams{TenantID: r.TenantID, ID: r.ID, Attempt: r.Attempt})
	if err != nil {
		return fmt.Errorf("run: drop a grant: %w", err)
	}
	p.run.GrantID = nil
	return nil
}

// stillGranted reports whether the grant that the run has taken a use of is still valid, and
// covers the call as it is judged now.
func (s *Service) stillGranted(ctx context.Context, p *prepared) (bool, error) {
	grants, err := s.q.TakenGrant(ctx, s.d.DB.Tenant(p.run.TenantID),
		dbsqlc.TakenGrantParams{TenantID: p.run.TenantID, ID: *p.run.GrantID, ParentID: p.run.ParentID})
	if err != nil {
		return false, fmt.Errorf("run: the grant: %w", err)
	}
	return len(grants) == 1 && p.grantFits(dbsqlc.UsableGrantsRow(grants[0])), nil
}
