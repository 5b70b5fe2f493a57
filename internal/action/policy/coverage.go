package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
)

// Coverage says how often a policy matched the runs of a period. A run that was decided
// more than once counts once, as it was decided the last time that the policy matched.
type Coverage struct {
	Period Period
	Runs   int64 // of the tenant in the period, whatever matched them
	// Matched are the runs that the policy matched, Decided those of them whose decision
	// bears its name.
	Matched, Decided int64
	// ByDecision is what was decided about the matched runs.
	ByDecision map[governance.Decision]int64
	// WouldHave is what would have been decided, had shadow policies been enforced, about
	// the runs that it matched in shadow mode.
	WouldHave map[governance.Decision]int64
	ByVersion []VersionCount // in their order
	ByDay     []DayCount     // days with a match, in their order
}

// VersionCount is how often one version of a policy matched.
type VersionCount struct {
	Version          int32
	Matched, Decided int64
}

// DayCount is how often a policy matched on a day in UTC ("2026-01-31").
type DayCount struct {
	Date             string
	Matched, Decided int64
}

// Coverage counts the matches of a policy, a deleted one too; from and to are nil for
// the last week. POLICY_NOT_FOUND.
func (s *Service) Coverage(ctx context.Context, tenant, id uuid.UUID, from, to *time.Time) (Coverage, error) {
	period, err := s.periodOf(from, to, "query.")
	if err != nil {
		return Coverage{}, err
	}
	on := s.db.Reading(tenant, db.ScanLimit)
	if err := s.everWas(ctx, tenant, id); err != nil {
		return Coverage{}, err
	}
	low, high := period.bounds()
	rows, err := s.q.PolicyCoverage(ctx, on, dbsqlc.PolicyCoverageParams{TenantID: tenant, PolicyID: id, Low: low, High: high})
	if err != nil {
		return Coverage{}, fmt.Errorf("policy: coverage: %w", err)
	}
	// After the matches, so that what is counted there is here too.
	runs, err := s.q.CountRunsBetween(ctx, on, dbsqlc.CountRunsBetweenParams{TenantID: tenant, Low: low, High: high})
	if err != nil {
		return Coverage{}, fmt.Errorf("policy: coverage: %w", err)
	}
	c := Coverage{Period: period, Runs: runs, ByDecision: noDecisions(), WouldHave: noDecisions(), ByVersion: []VersionCount{}, ByDay: []DayCount{}}
	for _, r := range rows {
		c.add(r)
	}
	slices.SortFunc(c.ByVersion, func(a, b VersionCount) int { return cmp.Compare(a.Version, b.Version) })
	slices.SortFunc(c.ByDay, func(a, b DayCount) int { return cmp.Compare(a.Date, b.Date) })
	return c, nil
}

func noDecisions() map[governance.Decision]int64 {
	return map[governance.Decision]int64{governance.Allow: 0, governance.PendingApproval: 0, governance.Block: 0}
}

func (c *Coverage) add(r dbsqlc.PolicyCoverageRow) {
	switch r.Kind {
	case "total":
		c.Matched, c.Decided = r.Runs, r.Decided
	case "decision":
		c.ByDecision[governance.Decision(r.Key)] += r.Runs
	case "shadow":
		c.WouldHave[governance.Decision(r.Key)] += r.Runs
	case "version":
		if n, err := strconv.ParseInt(r.Key, 10, 32); err == nil {
			c.ByVersion = append(c.ByVersion, VersionCount{int32(n), r.Runs, r.Decided})
		}
	case "day":
		c.ByDay = append(c.ByDay, DayCount{r.Key, r.Runs, r.Decided})
	}
}
