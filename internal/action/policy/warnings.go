package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
)

// Warning says what is odd about a policy that is valid all the same. It is advice as
// of the moment: the catalog and the users change.
type Warning struct {
	Code    WarningCode `json:"code"`
	Message string      `json:"message"`
}

// WarningCode is the stable name of a warning.
type WarningCode string

// Warnings.
const (
	UnknownProvider WarningCode = "unknown_provider"
	UnknownVerb     WarningCode = "unknown_verb"
	UnknownDomain   WarningCode = "unknown_domain"
	MatchesNoVerb   WarningCode = "matches_no_verb"
	NeverMatches    WarningCode = "never_matches"
	Duplicate       WarningCode = "duplicate"
	UnknownArgument WarningCode = "unknown_argument"
	Contradiction   WarningCode = "contradiction"
	// HighRiskStaysClosed: only require_approval opens a high-risk verb.
	HighRiskStaysClosed WarningCode = "high_risk_stays_closed"
	TooFewApprovers     WarningCode = "too_few_approvers"
	// LoosensByCallersWord: a caller who writes another word gets past the policy, or is let through by it.
	LoosensByCallersWord WarningCode = governance.LoosensByCallersWord
	// Of look-ups: each leaves the policy in doubt, or does nothing.
	LookupUnknownVerb  WarningCode = "lookup_unknown_verb"
	LookupNotRead      WarningCode = "lookup_not_read"
	LookupNotConnected WarningCode = "lookup_not_connected"
	LookupsInDoubt     WarningCode = "lookups_in_doubt" // of a simulation
	LookupUnused       WarningCode = "lookup_unused"
	LookupArgsMisfit   WarningCode = "lookup_args_misfit"
	// LookupUnlistedField: the document does not say that the answer has what a condition asks of it.
	LookupUnlistedField WarningCode = "lookup_unlisted_field"
	// WindowUnreachable: a window stays empty, or leaves its condition in doubt.
	WindowUnreachable WarningCode = "window_unreachable"
)

// Bounds of the work that warnings may take.
const (
	// maxSchemas is how many schemas conditions are checked against. A policy about more verbs
	// gets no warning about its arguments.
	maxSchemas    = 500
	schemasAtOnce = 50
	// warningsLimit is how long a tenant's catalog is looked through.
	warningsLimit = 5 * time.Second
)

// warnings looks at a policy against the tenant as it stands now. What takes too long
// to find out is left out.
func (s *Service) warnings(ctx context.Context, tenant uuid.UUID, p Policy) ([]Warning, error) {
	ctx, cancel := context.WithTimeout(ctx, warningsLimit)
	defer cancel()
	l := look{s: s, tenant: tenant, p: p, reach: reachOf(p.Policy), list: []Warning{}}
	for _, c := range governance.Contradictions(p.Conditions) {
		l.warn(Contradiction, "%s.", strings.ToUpper(c[:1])+c[1:])
	}
	for _, w := range governance.CallersWords(p.Action, p.Conditions) {
		l.warn(LoosensByCallersWord, "%s", w.Message())
	}
	for _, step := range []func(context.Context) error{l.approvers, l.unknownNames, l.lookups, l.verbs, l.windows, l.duplicates} {
		err := step(ctx)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("policy: look for warnings: %w", err)
		}
	}
	return l.list, nil
}

// look is a policy that is being looked at.
type look struct {
	s      *Service
	tenant uuid.UUID
	p      Policy
	reach  reach
	list   []Warning
}

func (l *look) warn(code WarningCode, format string, args ...any) {
	l.list = append(l.list, Warning{Code: code, Message: fmt.Sprintf(format, args...)})
}

// verbs looks at the verbs that the policy means: whether there are any, whether it can
// do anything about them, and whether they have the arguments that it asks for.
func (l *look) verbs(ctx context.Context) error {
	if why := l.p.NeverFits(); why != "" {
		l.warn(NeverMatches, "The matchers can never fit a verb: %s.", why)
		return nil
	}
	n, err := l.count(ctx, l.reach)
	if err != nil {
		return err
	}
	if n.Verbs == 0 {
		l.warn(MatchesNoVerb, "The policy matches no verb of the catalog as it is today.")
		return nil
	}
	if opens := l.p.Action == governance.ActionAllow || l.p.Action == governance.ActionNotify; opens && n.Open == 0 {
		l.warn(HighRiskStaysClosed,
			"The policy matches high-risk verbs only, which %s does not open: they stay blocked until a policy requires approval.", l.p.Action)
	}
	if n.Verbs > maxSchemas {
		return nil
	}
	return l.arguments(ctx)
}

// count counts the verbs that matchers fit.
func (l *look) count(ctx context.Context, r reach) (dbsqlc.CountMatchedVerbsRow, error) {
	return l.s.q.CountMatchedVerbs(ctx, l.s.db.Reading(l.tenant, db.ScanLimit), dbsqlc.CountMatchedVerbsParams{
		TenantID: l.tenant, Kinds: r.kinds, Patterns: r.patterns, Providers: r.providers,
		Risks: r.risks, Operations: r.operations, Domains: r.domains, Anywhere: r.anywhere, Within: r.within,
	})
}

// arguments finds conditions on arguments that no verb of the policy's has.
func (l *look) arguments(ctx context.Context) error {
	asked := map[string]question{}
	for place, c := range governance.Leaves(l.p.Conditions) {
		switch {
		case c.Window != nil:
			asked[place] = func(f *governance.Fields) string { return f.MisfitOfWindow(c, c.Window.Matching == nil) }
		case strings.HasPrefix(c.Field, string(PartArgs)+"."):
			asked[place] = func(f *governance.Fields) string { return f.Misfit(c) }
		}
	}
	misfits, err := l.fit(ctx, l.reach, asked)
	if err != nil {
		return err
	}
	for place, c := range governance.Leaves(l.p.Conditions) {
		switch why, odd := misfits[place]; {
		case !odd:
		case c.Window != nil:
			l.warn(WindowUnreachable, "The window of condition %s fits no verb that the policy matches: %s.", place, why)
		default:
			l.warn(UnknownArgument, "Condition %s on %s fits no verb that the policy matches: %s.", place, c.Field, why)
		}
	}
	return nil
}

// windows finds windows with matchers of their own that count no call.
func (l *look) windows(ctx context.Context) error {
	for place, c := range governance.Leaves(l.p.Conditions) {
		if c.CountsBelowZero() {
			l.warn(WindowUnreachable, "Condition %s is never true: a window contains no fewer calls than 0.", place)
		}
		if c.Window == nil || c.Window.Matching == nil {
			continue
		}
		counted := reachOf(governance.Policy{Matchers: c.Window.Matching.Any, Match: c.Window.Matching.Narrowing})
		n, err := l.count(ctx, counted)
		if err != nil {
			return err
		}
		if n.Verbs == 0 {
			l.warn(WindowUnreachable, "The window of condition %s stays empty: its matching fits no verb of the catalog as it is today.", place)
		}
		if n.Verbs > maxSchemas {
			continue
		}
		misfits, err := l.fit(ctx, counted, map[string]question{place: func(f *governance.Fields) string { return f.MisfitOfWindow(c, true) }})
		if err != nil {
			return err
		}
		if why := misfits[place]; why != "" {
			l.warn(WindowUnreachable, "The window of condition %s fits no verb that it counts: %s.", place, why)
		}
	}
	return nil
}

// question says why something does not fit calls of a schema, "" where it does.
type question func(*governance.Fields) (misfit string)

// fit asks about the schemas of all verbs that matchers fit. It returns, of those questions that none
// of them fits, why the last one does not.
func (l *look) fit(ctx context.Context, r reach, asked map[string]question) (misfits map[string]string, err error) {
	misfits = map[string]string{}
	for place := range asked {
		misfits[place] = ""
	}
	arg := dbsqlc.MatchedSchemasParams{
		TenantID: l.tenant, Kinds: r.kinds, Patterns: r.patterns, Providers: r.providers, Risks: r.risks,
		Operations: r.operations, Domains: r.domains, Anywhere: r.anywhere, Within: r.within, N: schemasAtOnce,
	}
	for len(misfits) > 0 {
		page, err := l.s.q.MatchedSchemas(ctx, l.s.db.Reading(l.tenant, db.ScanLimit), arg)
		if err != nil {
			return nil, err
		}
		for _, v := range page {
			if len(misfits) == 0 {
				break
			}
			fields := governance.NewFields([]byte(v.Schema))
			for place := range misfits {
				if misfits[place] = asked[place](fields); misfits[place] == "" {
					delete(misfits, place)
				}
			}
			arg.AfterProvider, arg.AfterName = v.Provider, v.Name
		}
		if len(page) < schemasAtOnce {
			break
		}
	}
	return misfits, nil
}

// approvers counts who may give the approvals that the policy asks for.
func (l *look) approvers(ctx context.Context) error {
	if l.p.Action != governance.ActionRequireApproval {
		return nil
	}
	users, roles := usersAndRoles(l.p.Approval)
	n, err := l.s.q.CountEligible(ctx, l.s.db.Reading(l.tenant, db.ScanLimit), dbsqlc.CountEligibleParams{TenantID: l.tenant, Ids: users, Roles: roles})
	if err != nil {
		return err
	}
	if n < int64(l.p.Approval.Required) {
		l.warn(TooFewApprovers, "Approvals required: %d. Active users who may give one: %d.", l.p.Approval.Required, n)
	}
	return nil
}

// usersAndRoles splits the approvers of a rule.
func usersAndRoles(r governance.ApprovalRule) (users []uuid.UUID, roles []string) {
	users, roles = []uuid.UUID{}, []string{}
	for _, a := range r.Approvers {
		if a.Type == governance.ApproverRole {
			roles = append(roles, a.Value)
		} else if id, err := uuid.Parse(a.Value); err == nil {
			users = append(users, id)
		}
	}
	return users, roles
}

// unknownUsers finds the approvers that are no users of the tenant: nobody could ever
// give what they shall give.
func (s *Service) unknownUsers(ctx context.Context, tenant uuid.UUID, r governance.ApprovalRule) (mistakes, error) {
	users, _ := usersAndRoles(r)
	if len(users) == 0 {
		return nil, nil
	}
	known, err := s.q.TenantUsers(ctx, s.db.Reading(tenant, db.ScanLimit), dbsqlc.TenantUsersParams{TenantID: tenant, Ids: users})
	if err != nil {
		return nil, fmt.Errorf("policy: read users: %w", err)
	}
	var m mistakes
	for i, a := range r.Approvers {
		if id, err := uuid.Parse(a.Value); a.Type == governance.ApproverUser && (err != nil || !slices.Contains(known, id)) {
			m.add(fmt.Sprintf("/approval/approvers/%d/value", i), "unknown", "must be a user of the tenant")
		}
	}
	return m, nil
}
