package governance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// outcome is what becomes of a call.
type outcome string

// Outcomes, as docs/use/governance.md has them.
const (
	allowed  outcome = "allow"            // runs
	notified outcome = "allow, notify"    // runs, and its audit record says so
	held     outcome = "pending_approval" // waits
	blocked  outcome = "block"
)

// decisions is the table of decisions: the result of all policies that match a call, for
// each risk level. decidedBy is the action of the policy that is named. The registry
// default is named where it is "", and where the registry blocks a high-risk call.
var decisions = []struct {
	policies          string // actions; "shadow x" and "disabled x" are what they say
	low, medium, high outcome
	decidedBy         string
}{
	{"", allowed, notified, blocked, ""},

	{"allow", allowed, allowed, blocked, "allow"},
	{"notify", notified, notified, blocked, "notify"},
	{"require_approval", held, held, held, "require_approval"},
	{"block", blocked, blocked, blocked, "block"},

	{"allow + allow", allowed, allowed, blocked, "allow"},
	{"allow + notify", notified, notified, blocked, "notify"},
	{"allow + require_approval", held, held, held, "require_approval"},
	{"allow + block", blocked, blocked, blocked, "block"},
	{"notify + notify", notified, notified, blocked, "notify"},
	{"notify + require_approval", held, held, held, "require_approval"},
	{"notify + block", blocked, blocked, blocked, "block"},
	{"require_approval + require_approval", held, held, held, "require_approval"},
	{"require_approval + block", blocked, blocked, blocked, "block"},
	{"block + block", blocked, blocked, blocked, "block"},

	{"shadow allow", allowed, notified, blocked, ""},
	{"shadow notify", allowed, notified, blocked, ""},
	{"shadow require_approval", allowed, notified, blocked, ""},
	{"shadow block", allowed, notified, blocked, ""},
	{"allow + shadow block", allowed, allowed, blocked, "allow"},
	{"notify + shadow allow", notified, notified, blocked, "notify"},
	{"require_approval + shadow allow", held, held, held, "require_approval"},
	{"require_approval + shadow block", held, held, held, "require_approval"},
	{"block + shadow allow", blocked, blocked, blocked, "block"},
	{"block + shadow require_approval", blocked, blocked, blocked, "block"},

	{"disabled allow", allowed, notified, blocked, ""},
	{"disabled notify", allowed, notified, blocked, ""},
	{"disabled require_approval", allowed, notified, blocked, ""},
	{"disabled block", allowed, notified, blocked, ""},
	{"allow + disabled block", allowed, allowed, blocked, "allow"},
	{"notify + disabled require_approval", notified, notified, blocked, "notify"},
	{"require_approval + disabled block", held, held, held, "require_approval"},
	{"block + disabled require_approval", blocked, blocked, blocked, "block"},

	{"allow + notify + require_approval", held, held, held, "require_approval"},
	{"allow + notify + require_approval + block", blocked, blocked, blocked, "block"},
}

// cell is one field of the table.
type cell struct {
	policies  string
	risk      string
	kind      string // read or write
	want      outcome
	decidedBy string
	operation string
}

func (c cell) verb() string { return slug + ":" + c.operation }

// cells are all fields, for a read and a write each, with a verb of their own.
func cells() []cell {
	var list []cell
	for i, row := range decisions {
		for risk, want := range map[string]outcome{"low": row.low, "medium": row.medium, "high": row.high} {
			for _, kind := range []string{"read", "write"} {
				by := row.decidedBy
				if risk == "high" && want == blocked && by != "block" {
					by = ""
				}
				list = append(list, cell{row.policies, risk, kind, want, by, fmt.Sprintf("%s_%s_%02d", risk, kind, i)})
			}
		}
	}
	return list
}

func TestDecisionForEachRiskAndAction(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, sharedDev().For(t))
	paths := map[string]any{}
	for _, c := range cells() {
		paths["/"+c.operation] = map[string]any{"post": operation(c.operation, c.risk, c.kind, callProperties())}
	}
	w.connect(paths)
	// Policies for the verbs of each row; only then is anything judged.
	for i, row := range decisions {
		if row.policies == "" {
			continue
		}
		for n, described := range strings.Split(row.policies, " + ") {
			manner, action, found := strings.Cut(described, " ")
			if !found {
				manner, action = "", described
			}
			p := m{
				"name": fmt.Sprintf("%s %d of row %d", action, n, i), "action": m{"type": action}, "enabled": manner != "disabled",
				"verbMatchers": []m{{"type": "verb", "value": fmt.Sprintf("%s:*_%02d", slug, i)}},
			}
			if manner == "shadow" {
				p["mode"] = "shadow"
			}
			w.policy(p)
		}
	}
	for _, c := range cells() {
		name := c.risk + " " + c.kind + " under " + c.policies
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := *w
			own.t = t
			own.checkCell(c)
		})
	}
}

// checkCell holds evaluate, the run, its provider, its approval and its audit records
// against a field of the table.
func (w *world) checkCell(c cell) {
	t, args, execution := w.t, m{"id": c.operation, "amount": 7}, id()
	e := w.evaluate(c.verb(), args)
	decision := strings.TrimSuffix(string(c.want), ", notify")
	require.Equal(t, decision, e.Decision)
	require.Equal(t, c.want == held, e.ApprovalRequired)
	require.Equal(t, c.risk, e.RiskLevel)
	if c.decidedBy == "" {
		require.Equal(t, "registry_default", e.PolicyName)
	} else {
		require.True(t, strings.HasPrefix(e.PolicyName, c.decidedBy+" "), e.PolicyName)
	}
	require.Equal(t, e.PolicyName, e.PolicyMatched)
	require.Empty(t, w.audit("execution_id="+execution), "evaluate writes nothing")

	a := w.Runtime.Run(c.verb(), args, execution)
	var want []string
	switch c.want {
	case allowed, notified:
		d := succeeded(t, a)
		require.Equal(t, "executed", d.FenceStatus)
		require.Contains(t, string(a.Body), `"governance_status":"approved"`)
		require.Len(t, w.bank.of(c.operation), 1)
		want = []string{"run.allowed", "run.executed"}
		if c.want == notified {
			want[0] = "run.notified"
		}
	case held, blocked:
		f := refused(t, a, http.StatusForbidden, "GOVERNANCE_BLOCKED").Error
		require.Equal(t, decision, f.Decision)
		require.Equal(t, execution, f.ExecutionID)
		require.Empty(t, w.bank.of(c.operation))
		want = []string{"run.blocked"}
		record := w.approval(f.ApprovalID)
		require.Equal(t, e.PolicyName, record.PolicyName)
		require.Equal(t, c.verb(), record.Verb)
		require.JSONEq(t, fmt.Sprintf(`{"id":%q,"amount":7}`, c.operation), string(record.Args))
		if c.want == blocked {
			require.Equal(t, "blocked", record.Status)
			require.Equal(t, "block", record.Kind)
			refused(t, w.approve(record.ID), http.StatusConflict, "APPROVAL_NOT_PENDING")
			require.Empty(t, w.bank.of(c.operation))
		} else {
			want = []string{"run.held"}
			require.Equal(t, "pending", record.Status)
			require.Equal(t, "hold", record.Kind)
		}
	}
	log := w.audit("execution_id=" + execution)
	require.Equal(t, want, actions(log))
	for _, r := range log {
		if r.Action == "approval.refused" {
			continue // the approval of a block cannot be approved
		}
		require.Equal(t, decision, r.Decision)
		require.Equal(t, c.verb(), r.Verb)
	}
}

func TestMatcherFindsItsVerbsOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, kind, value string
		hits, misses      []string
	}{
		{"a verb", "verb", mediumWrite, []string{mediumWrite}, []string{lowWrite, lowRead}},
		{"a glob", "verb", slug + ":low_*", []string{lowWrite, lowRead}, []string{mediumWrite}},
		{"all verbs", "verb", "*", []string{lowWrite, lowRead, mediumWrite}, nil},
		{"all verbs of a provider by glob", "verb", slug + ":*", []string{lowWrite, lowRead, mediumWrite}, nil},
		{"a provider", "provider", slug, []string{lowWrite, lowRead, mediumWrite}, nil},
		{"another provider", "provider", "ban", nil, []string{lowWrite, lowRead, mediumWrite}},
		{"a risk level", "risk_level", "LOW", []string{lowWrite, lowRead}, []string{mediumWrite}},
		{"a risk level in camel case", "riskLevel", "medium", []string{mediumWrite}, []string{lowRead}},
		{"an operation type", "operation_type", "write", []string{lowWrite, mediumWrite}, []string{lowRead}},
		{"a domain", "domain", "test", []string{lowWrite, lowRead, mediumWrite}, nil},
		{"another domain", "domain", "tes", nil, []string{lowWrite, mediumWrite}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.User.Do(http.MethodPost, "/v1/policies", m{"name": "no", "action": m{"type": "block"}, "verbMatchers": []m{{"type": c.kind, "value": c.value}}})
			require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
			for _, verb := range c.hits {
				require.Equal(t, "block", w.evaluate(verb, m{}).Decision, verb)
				refused(t, w.Runtime.Run(verb, m{"id": "x"}, ""), http.StatusForbidden, "GOVERNANCE_BLOCKED")
			}
			require.Zero(t, w.bank.effects())
			for _, verb := range c.misses {
				require.Equal(t, "allow", w.evaluate(verb, m{}).Decision, verb)
				succeeded(t, w.Runtime.Run(verb, m{"id": "x"}, ""))
			}
			require.Equal(t, len(c.misses), w.bank.effects())
		})
	}
}

func TestMatchersThatNarrowFindTheirVerbsOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		scope        m
		hits, misses []string
	}{
		{"writes of a provider", m{"verbMatchers": []m{{"provider": slug, "operation_type": "write"}}}, []string{lowWrite, mediumWrite}, []string{lowRead}},
		{
			"an intersection",
			m{"match": m{"all": []m{{"type": "provider", "value": slug}, {"riskLevel": "LOW"}}}},
			[]string{lowWrite, lowRead},
			[]string{mediumWrite},
		},
		{
			"all of a provider except some",
			m{"verbMatchers": []m{{"type": "provider", "value": slug}}, "match": m{"except": []m{{"verb": slug + ":low_*"}}}},
			[]string{mediumWrite},
			[]string{lowWrite, lowRead},
		},
		{
			"everything except reads of a provider",
			m{"match": m{"except": []m{{"provider": slug, "operation_type": "read"}}}},
			[]string{lowWrite, mediumWrite},
			[]string{lowRead},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.User.Do(http.MethodPost, "/v1/policies", with(m{"name": "no", "action": m{"type": "block"}}, c.scope))
			require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
			for _, verb := range c.hits {
				require.Equal(t, "block", w.evaluate(verb, m{}).Decision, verb)
				refused(t, w.Runtime.Run(verb, m{"id": "x"}, ""), http.StatusForbidden, "GOVERNANCE_BLOCKED")
			}
			require.Zero(t, w.bank.effects())
			for _, verb := range c.misses {
				require.Equal(t, "allow", w.evaluate(verb, m{}).Decision, verb)
				succeeded(t, w.Runtime.Run(verb, m{"id": "x"}, ""))
			}
			require.Equal(t, len(c.misses), w.bank.effects())
		})
	}
}

func TestShadowPolicyIsReportedNotApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policy(with(rule("watched", "block", lowWrite), m{"mode": "shadow"}))
	e := w.evaluate(lowWrite, m{})
	require.Equal(t, "allow", e.Decision)
	require.Equal(t, "block", e.Details.ShadowDecision)
	execution := id()
	succeeded(t, w.Runtime.Run(lowWrite, m{"id": "x"}, execution))
	log := w.audit("execution_id=" + execution)
	require.Equal(t, []string{"run.allowed", "run.executed"}, actions(log))
	var details struct {
		ShadowDecision string `json:"shadow_decision"`
	}
	require.NoError(t, json.Unmarshal(log[0].Details, &details))
	require.Equal(t, "block", details.ShadowDecision)
}
