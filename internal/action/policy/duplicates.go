package policy

import (
	"context"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// Bounds of the search for a policy that is the same.
const (
	comparedAtOnce  = 100
	duplicatesShown = 3
)

// duplicates finds enabled policies that say the same. One of them does nothing.
func (l *look) duplicates(ctx context.Context) error {
	if !l.p.Enabled {
		return nil
	}
	says := l.p.Says()
	arg := dbsqlc.PoliciesOfActionParams{TenantID: l.tenant, Action: string(l.p.Action), Besides: l.p.ID, N: comparedAtOnce}
	for found := 0; ; {
		page, err := l.s.q.PoliciesOfAction(ctx, l.s.db.Reading(l.tenant, db.ScanLimit), arg)
		if err != nil {
			return err
		}
		for _, row := range page {
			arg.After = row.ID
			// A document that cannot be read says nothing that another does.
			if other, err := decode(row.Document); err != nil || other.Says() != says {
				continue
			}
			l.warn(Duplicate, "The policy %q (%s) has the same matchers, look-ups, conditions and action.", row.Name, row.ID)
			if found++; found == duplicatesShown {
				return nil
			}
		}
		if len(page) < comparedAtOnce {
			return nil
		}
	}
}
