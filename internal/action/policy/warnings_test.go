package policy_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/base/fault"
)

func when(field string, op governance.Operator, value string) governance.Condition {
	return governance.Condition{Field: field, Operator: op, Value: json.RawMessage(value)}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	matcher := func(kind governance.MatcherType, value string) []governance.Matcher {
		return []governance.Matcher{{Type: kind, Value: value}}
	}
	refund := verbs("shop:create_refund")
	amount := func(value string) []governance.Condition {
		return []governance.Condition{when("args.amount", governance.OpGreater, value)}
	}
	two := int32(2)
	window := func(w governance.Window) policy.Draft {
		return policy.Draft{Matchers: refund, Conditions: []governance.Condition{{Not: &governance.Condition{Window: &w, Operator: governance.OpLess, Value: json.RawMessage("7")}}}, Action: "block"}
	}
	bySession := governance.Window{By: "key.id", Per: "1h", Count: true}
	unreachable := []policy.WarningCode{policy.WindowUnreachable}
	tests := map[string]struct {
		draft policy.Draft
		want  []policy.WarningCode
	}{
		"fewer calls than none": {
			policy.Draft{Matchers: refund, Conditions: []governance.Condition{{Window: &bySession, Operator: governance.OpLess, Value: json.RawMessage("0")}}, Action: "block"}, unreachable,
		},
		"a call at least": {
			policy.Draft{Matchers: refund, Conditions: []governance.Condition{{Window: &bySession, Operator: governance.OpLess, Value: json.RawMessage("1")}}, Action: "block"}, nil,
		},
		"more and fewer in one window": {
			policy.Draft{Matchers: refund, Conditions: []governance.Condition{
				{Window: &bySession, Operator: governance.OpGreater, Value: json.RawMessage("10")}, {Window: &bySession, Operator: governance.OpLess, Value: json.RawMessage("5")},
			}, Action: "block"}, []policy.WarningCode{policy.Contradiction},
		},
		"nothing odd":                  {policy.Draft{Matchers: refund, Conditions: amount("100"), Action: "block"}, nil},
		"every verb":                   {policy.Draft{Action: "block"}, nil},
		"unknown provider":             {policy.Draft{Matchers: matcher("provider", "stripe"), Action: "block"}, []policy.WarningCode{policy.UnknownProvider, policy.MatchesNoVerb}},
		"one provider of two is known": {policy.Draft{Matchers: append(matcher("provider", "stripe"), matcher("provider", "shop")...), Action: "block"}, []policy.WarningCode{policy.UnknownProvider}},
		"unknown verb":                 {policy.Draft{Matchers: verbs("shop:create_refunds"), Action: "block"}, []policy.WarningCode{policy.UnknownVerb, policy.MatchesNoVerb}},
		"glob that fits":               {policy.Draft{Matchers: verbs("shop:create_*"), Action: "block"}, nil},
		"glob over providers":          {policy.Draft{Matchers: verbs("*:create_refund"), Action: "block"}, nil},
		"glob that fits nothing":       {policy.Draft{Matchers: verbs("*:destroy_*"), Action: "block"}, []policy.WarningCode{policy.UnknownVerb, policy.MatchesNoVerb}},
		"a _ is no wildcard":           {policy.Draft{Matchers: verbs("shop:create_refun_"), Action: "block"}, []policy.WarningCode{policy.UnknownVerb, policy.MatchesNoVerb}},
		"unknown domain":               {policy.Draft{Matchers: matcher("domain", "weather"), Action: "block"}, []policy.WarningCode{policy.UnknownDomain, policy.MatchesNoVerb}},
		"known domain":                 {policy.Draft{Matchers: matcher("domain", "refunds"), Action: "block"}, nil},
		"argument of no verb":          {policy.Draft{Matchers: refund, Conditions: []governance.Condition{when("args.price", governance.OpGreater, "1")}, Action: "block"}, []policy.WarningCode{policy.UnknownArgument}},
		"argument of another verb":     {policy.Draft{Matchers: verbs("shop:list_refunds"), Conditions: []governance.Condition{when("args.reason", governance.OpEquals, `"x"`)}, Action: "block"}, []policy.WarningCode{policy.UnknownArgument}},
		"argument of one verb of many": {policy.Draft{Matchers: verbs("shop:*"), Conditions: []governance.Condition{when("args.resolution", governance.OpExists, "")}, Action: "block"}, nil},
		"argument of another type":     {policy.Draft{Matchers: refund, Conditions: []governance.Condition{when("args.amount", governance.OpEquals, `"100"`)}, Action: "block"}, []policy.WarningCode{policy.UnknownArgument}},
		"field that is no argument":    {policy.Draft{Matchers: refund, Conditions: []governance.Condition{when("agent_id", governance.OpExists, "")}, Action: "block"}, nil},
		"field that opens by a word":   {policy.Draft{Matchers: refund, Conditions: []governance.Condition{when("agent_id", governance.OpNotExists, "")}, Action: "block"}, []policy.WarningCode{policy.LoosensByCallersWord}},
		"provider and operation":       {policy.Draft{Matchers: []governance.Matcher{{Provider: "shop", Operation: "write"}}, Action: "block"}, nil},
		"fields that no verb has together": {
			policy.Draft{Matchers: append([]governance.Matcher{{Verb: "shop:list_*", Operation: "write"}}, refund...), Action: "block"},
			[]policy.WarningCode{policy.UnknownVerb},
		},
		"all and except": {policy.Draft{Match: governance.Narrowing{All: matcher("provider", "shop"), Except: verbs("shop:get_*")}, Action: "block"}, nil},
		"all that no verb of an alternative has": {
			policy.Draft{Matchers: refund, Match: governance.Narrowing{All: matcher("operation_type", "read")}, Action: "block"},
			[]policy.WarningCode{policy.MatchesNoVerb},
		},
		"all of the catalog excepted": {
			policy.Draft{Matchers: verbs("shop:*refund*"), Match: governance.Narrowing{Except: append(matcher("domain", "refunds"), verbs("*refund*")...)}, Action: "block"},
			[]policy.WarningCode{policy.NeverMatches},
		},
		"excepted as the catalog is": {
			policy.Draft{Matchers: verbs("shop:*refund"), Match: governance.Narrowing{Except: matcher("domain", "refunds")}, Action: "block"},
			[]policy.WarningCode{policy.MatchesNoVerb},
		},
		"exception of nothing": {
			policy.Draft{Match: governance.Narrowing{All: matcher("provider", "shop"), Except: verbs("shop:gett_*")}, Action: "block"},
			[]policy.WarningCode{policy.UnknownVerb},
		},
		"two providers at once": {
			policy.Draft{Match: governance.Narrowing{All: append(matcher("provider", "shop"), matcher("provider", "stripe")...)}, Action: "block"},
			[]policy.WarningCode{policy.UnknownProvider, policy.NeverMatches},
		},
		"argument of an excepted verb only": {
			policy.Draft{Matchers: verbs("shop:*refund*"), Match: governance.Narrowing{Except: refund}, Conditions: []governance.Condition{when("args.reason", governance.OpEquals, `"x"`)}, Action: "block"},
			[]policy.WarningCode{policy.UnknownArgument},
		},
		"window that counts":                    {window(governance.Window{By: "args.order_id", Per: "1h", Sum: "args.amount"}), nil},
		"window by no argument of these verbs":  {window(governance.Window{By: "args.order", Per: "1h", Count: true}), unreachable},
		"window of no argument of these verbs":  {window(governance.Window{By: "key.id", Per: "1h", Sum: "args.price"}), unreachable},
		"window of a text":                      {window(governance.Window{By: "key.id", Per: "1h", Sum: "args.reason"}), unreachable},
		"window of other verbs":                 {window(governance.Window{By: "args.order_id", Per: "1h", Count: true, Matching: governance.MatchingAny(verbs("shop:get_order")...)}), nil},
		"window of all verbs":                   {window(governance.Window{By: "key.id", Per: "1h", Count: true, Matching: governance.MatchingAny()}), nil},
		"window of no verb":                     {window(governance.Window{By: "key.id", Per: "1h", Count: true, Matching: governance.MatchingAny(verbs("shop:get_orderz")...)}), unreachable},
		"window of verbs and an exception":      {window(governance.Window{By: "key.id", Per: "1h", Count: true, Matching: &governance.Matching{Narrowing: governance.Narrowing{All: verbs("shop:*"), Except: verbs("shop:get_*")}}}), nil},
		"window of nothing but exceptions":      {window(governance.Window{By: "key.id", Per: "1h", Count: true, Matching: &governance.Matching{Narrowing: governance.Narrowing{All: verbs("shop:get_order"), Except: verbs("shop:get_*")}}}), unreachable},
		"window of other verbs without the by":  {window(governance.Window{By: "args.order_id", Per: "1h", Count: true, Matching: governance.MatchingAny(verbs("shop:list_orders")...)}), unreachable},
		"window of other verbs without the sum": {window(governance.Window{By: "args.order_id", Per: "1h", Sum: "args.amount", Matching: governance.MatchingAny(verbs("shop:get_order")...)}), unreachable},
		"window by an argument of the others":   {window(governance.Window{By: "args.resolution", Per: "1h", Count: true, Matching: governance.MatchingAny(verbs("shop:*")...)}), unreachable},
		"contradiction":                         {policy.Draft{Matchers: refund, Conditions: append(amount("100"), when("args.amount", governance.OpLess, "50")), Action: "block"}, []policy.WarningCode{policy.Contradiction}},
		"allow of high risk only":               {policy.Draft{Matchers: refund, Action: "allow"}, []policy.WarningCode{policy.HighRiskStaysClosed}},
		"notify of high risk only":              {policy.Draft{Matchers: matcher("risk_level", "HIGH"), Action: "notify"}, []policy.WarningCode{policy.HighRiskStaysClosed}},
		"allow of high risk among others":       {policy.Draft{Matchers: verbs("shop:*refund*"), Action: "allow"}, nil},
		"nobody to approve":                     {policy.Draft{Matchers: refund, Action: "require_approval"}, []policy.WarningCode{policy.TooFewApprovers}},
		"two of nobody":                         {policy.Draft{Matchers: refund, Action: "require_approval", Approval: &policy.ApprovalDraft{Required: &two}}, []policy.WarningCode{policy.TooFewApprovers}},
		"everything at once": {
			policy.Draft{Matchers: append(verbs("shop:none"), matcher("provider", "x")...), Conditions: append(amount("100"), when("args.amount", governance.OpLess, "50")), Action: "require_approval"},
			[]policy.WarningCode{policy.Contradiction, policy.TooFewApprovers, policy.UnknownProvider, policy.UnknownVerb, policy.MatchesNoVerb},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.draft.Name = name
			p, warnings, err := b.Create(t.Context(), by(b.ours), tt.draft)
			require.NoError(t, err)
			require.Equal(t, tt.want, codes(warnings), "%v", warnings)
			_, again, err := b.Get(t.Context(), b.ours, p.ID)
			require.NoError(t, err)
			require.Equal(t, warnings, again)
		})
	}
}

// Two policies that say the same: one of them does nothing. The cases come one after the other, since
// each would be a duplicate of another's.
//
//nolint:tparallel,paralleltest // see above
func TestSamePolicyTwiceIsWarnedOf(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	draft := func(change func(*policy.Draft)) policy.Draft {
		d := policy.Draft{
			Name: "one", Matchers: append(verbs("shop:create_refund"), verbs("shop:list_*")...), Action: "require_approval",
			Match:      governance.Narrowing{Except: []governance.Matcher{{Provider: "shop", Operation: "read"}}},
			Conditions: []governance.Condition{when("args.amount", governance.OpGreater, "100"), when("agent_id", governance.OpExists, "")},
		}
		change(&d)
		return d
	}
	first := b.create(t, draft(func(*policy.Draft) {}))
	required, no := int32(2), false
	for name, c := range map[string]struct {
		change func(*policy.Draft)
		same   bool
	}{
		"the same": {func(*policy.Draft) {}, true},
		"written otherwise": {func(d *policy.Draft) {
			d.Name, d.Description, d.Priority, d.Mode = "other", "text", 3, "shadow"
			d.Matchers = []governance.Matcher{{Verb: "shop:list_*"}, {Type: "Verb", Value: "shop:create_refund"}, {Verb: "shop:list_*"}}
			d.Conditions = []governance.Condition{when("agent_id", "EXISTS", "1"), when("args.amount", governance.OpGreater, "1e2")}
		}, true},
		"another action":     {func(d *policy.Draft) { d.Action = "block" }, false},
		"another matcher":    {func(d *policy.Draft) { d.Matchers = verbs("shop:create_refund") }, false},
		"another exception":  {func(d *policy.Draft) { d.Match.Except[0].Operation = "write" }, false},
		"another value":      {func(d *policy.Draft) { d.Conditions[0].Value = json.RawMessage("101") }, false},
		"other approvers":    {func(d *policy.Draft) { d.Approval = &policy.ApprovalDraft{Required: &required} }, false},
		"switched off":       {func(d *policy.Draft) { d.Enabled = &no }, false},
		"a group of the two": {func(d *policy.Draft) { d.Conditions = []governance.Condition{{Any: d.Conditions}} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, warnings, err := b.Create(t.Context(), by(b.ours), draft(c.change))
			require.NoError(t, err)
			require.Equal(t, c.same, slices.Contains(codes(warnings), policy.Duplicate), "%v", warnings)
			if c.same {
				require.Contains(t, warnings[len(warnings)-1].Message, first.ID.String())
			}
			require.NoError(t, b.Delete(t.Context(), by(b.ours), p.ID, nil))
		})
	}
	_, warnings, err := b.Get(t.Context(), b.ours, first.ID)
	require.NoError(t, err)
	require.NotContains(t, codes(warnings), policy.Duplicate, "it is not its own duplicate")
	b.create(t, draft(func(d *policy.Draft) { d.Name = "two" }))
	_, warnings, err = b.Create(t.Context(), by(b.them), draft(func(*policy.Draft) {}))
	require.NoError(t, err)
	require.NotContains(t, codes(warnings), policy.Duplicate, "those of other tenants do not count")
}

func codes(warnings []policy.Warning) (list []policy.WarningCode) {
	for _, w := range warnings {
		list = append(list, w.Code)
	}
	return list
}

// A policy is told of as things stand, not as they stood when it was written.
func TestWarningsFollowTheCatalog(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := policy.Draft{Name: "Other shop", Matchers: verbs("other:create_refund"), Conditions: []governance.Condition{when("args.amount", governance.OpExists, "")}, Action: "block"}
	p, warnings, err := b.Create(t.Context(), by(b.ours), d)
	require.NoError(t, err)
	require.Equal(t, []policy.WarningCode{policy.UnknownVerb, policy.MatchesNoVerb}, codes(warnings))
	b.importShop(t, "other")
	_, warnings, err = b.Get(t.Context(), b.ours, p.ID)
	require.NoError(t, err)
	require.Empty(t, warnings)
}

func TestApproversAreUsersOfTheTenant(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	user := func(tenant uuid.UUID, role, state string) string {
		id := uuid.New()
		values := map[string]string{
			"active":  `'hash', now(), NULL, NULL, NULL`,
			"removed": `NULL, now(), now(), NULL, NULL`,
			"invited": `NULL, NULL, NULL, sha256($1::uuid::text::bytea), now()`,
		}[state]
		b.exec(t, `INSERT INTO users (id, tenant_id, email, name, role, created_at, password_hash, joined_at, removed_at, invitation_hash, invitation_expires_at)
			VALUES ($1, $2, $3, 'n', $4, now(), `+values+`)`, id, tenant, id.String()+"@example.com", role)
		return id.String()
	}
	approver, member := user(b.ours, "approver", "active"), user(b.ours, "member", "active")
	invited, removed, theirs := user(b.ours, "admin", "invited"), user(b.ours, "admin", "removed"), user(b.them, "owner", "active")
	draft := func(required int32, users ...string) policy.Draft {
		a := &policy.ApprovalDraft{Required: &required}
		for _, u := range users {
			a.Approvers = append(a.Approvers, governance.Approver{Type: governance.ApproverUser, Value: u})
		}
		return policy.Draft{Name: "p", Action: "require_approval", Approval: a}
	}
	tests := map[string]struct {
		draft policy.Draft
		code  []policy.WarningCode
		path  string
	}{
		"by role":             {draft(1), nil, ""},
		"two of one by role":  {draft(2), []policy.WarningCode{policy.TooFewApprovers}, ""},
		"named":               {draft(2, approver, member), nil, ""},
		"one named twice":     {draft(2, approver, approver), []policy.WarningCode{policy.TooFewApprovers}, ""},
		"invited, not active": {draft(1, invited), []policy.WarningCode{policy.TooFewApprovers}, ""},
		"removed":             {draft(1, approver, removed), nil, "/approval/approvers/1/value"},
		"another tenant's":    {draft(1, theirs), nil, "/approval/approvers/0/value"},
		"unknown":             {draft(1, uuid.NewString()), nil, "/approval/approvers/0/value"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, warnings, err := b.Create(t.Context(), by(b.ours), tt.draft)
			if tt.path != "" {
				require.True(t, fault.HasCode(err, fault.CodeValidation), "%v", err)
				require.Equal(t, tt.path, fault.As(err).Details[0].Path)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.code, codes(warnings), "%v", warnings)
		})
	}
}

func TestDraftsAreChecked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	long := make([]byte, 2001)
	for i := range long {
		long[i] = 'x'
	}
	tests := map[string]struct {
		draft policy.Draft
		path  string
	}{
		"no name":              {policy.Draft{Action: "block"}, "/name"},
		"action":               {policy.Draft{Name: "p", Action: "deny"}, "/action/type"},
		"mode":                 {policy.Draft{Name: "p", Action: "block", Mode: "off"}, "/mode"},
		"priority":             {policy.Draft{Name: "p", Action: "block", Priority: 1_000_001}, "/priority"},
		"description":          {policy.Draft{Name: "p", Action: "block", Description: string(long)}, "/description"},
		"approval for a block": {policy.Draft{Name: "p", Action: "block", Approval: &policy.ApprovalDraft{}}, "/approval"},
		"nobody approves":      {policy.Draft{Name: "p", Action: "require_approval", Approval: &policy.ApprovalDraft{Approvers: []governance.Approver{}}}, "/approval/approvers"},
		"operator":             {policy.Draft{Name: "p", Action: "block", Conditions: []governance.Condition{when("args.a", "like", "1")}}, "/conditions/0/operator"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := b.Create(t.Context(), by(b.ours), tt.draft)
			require.True(t, fault.HasCode(err, fault.CodeValidation), "%v", err)
			require.Equal(t, tt.path, fault.As(err).Details[0].Path)
		})
	}
	p := b.create(t, policy.Draft{Name: "p", Action: "BLOCK", Mode: "Shadow", Matchers: []governance.Matcher{{Type: "riskLevel", Value: "HIGH"}}, Conditions: []governance.Condition{when("args.a", "EXISTS", "1")}})
	require.Equal(t, governance.ActionBlock, p.Action)
	require.Equal(t, governance.Shadow, p.Mode)
	require.Equal(t, []governance.Matcher{{Type: governance.MatchRisk, Value: "high"}}, p.Matchers)
	require.Equal(t, governance.OpExists, p.Conditions[0].Operator)
	require.True(t, p.Enabled)
	require.Zero(t, p.Priority)
	require.WithinDuration(t, b.now, p.CreatedAt, time.Second)
}
