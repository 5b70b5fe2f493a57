package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/api"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/httpcall"
	"agentruntime/internal/provider/vault"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/ended"
	"agentruntime/internal/service/dispatch"
)

// governed joins policies and runs, like the composition root. The runs have no engine,
// so they can only be evaluated and listed.
func governed(t *testing.T, pool testkit.DB, shelf *catalog.Catalog, safe *vault.Vault) (*policy.Service, *run.Service, *audit.Journal) {
	t.Helper()
	sets, err := policy.NewSets(pool.Pool)
	require.NoError(t, err)
	client, err := httpcall.NewClient(egress.NewClient(egress.Config{}), time.Now)
	require.NoError(t, err)
	targets, err := dispatch.New(dispatch.Config{Timeout: time.Second},
		dispatch.Deps{DB: pool.Pool, Catalog: shelf, Vault: safe, Policies: sets, Callers: map[verb.PlanKind]dispatch.Caller{verb.KindHTTP: dispatch.HTTP(client, nil)}, Log: testkit.Quiet()})
	require.NoError(t, err)
	policies, err := policy.New(policy.Deps{DB: pool.Pool, Subjects: targets, Keys: testkit.Keys{}})
	require.NoError(t, err)
	none := struct{ run.Engine }{}
	sweeper, err := approval.NewSweeper(approval.SweeperConfig{}, approval.SweeperDeps{DB: pool.Pool, Workflows: none, Log: testkit.Quiet(), Now: time.Now})
	require.NoError(t, err)
	journal, err := audit.NewJournal(audit.JournalConfig{}, audit.JournalDeps{DB: pool.Pool, Log: testkit.Quiet()})
	require.NoError(t, err)
	notices, err := ended.NewNotices(ended.Config{}, ended.Deps{DB: pool.Pool, Log: testkit.Quiet()})
	require.NoError(t, err)
	runs, err := run.New(run.Config{}, run.Deps{DB: pool.Pool, Targets: targets, Engine: none, Approvals: sweeper, Journal: journal, Notices: notices, Keys: testkit.Keys{}, Log: testkit.Quiet()})
	require.NoError(t, err)
	return policies, runs, journal
}

var _ api.Policies = (*policy.Service)(nil)

type policyBody struct {
	ID           string
	Version      int
	Name         string
	Enabled      bool
	Mode         string
	Priority     int
	VerbMatchers []map[string]string `json:"verbMatchers"`
	Conditions   []map[string]any
	Action       map[string]string
	Approval     map[string]any
	Warnings     []map[string]string
	CreatedBy    string `json:"created_by"`
	UpdatedBy    string `json:"updated_by"`
}

const largeOrders = `{"name":"Large orders","verbMatchers":[{"type":"VERB","value":"shop:create_order"}],
	"conditions":[{"field":"args.amount","operator":"Greater","value":1e3}],"action":{"type":"BLOCK"}}`

func TestPolicyLifecycle(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importShop(t, "shop", "")
	decision := func(amount int) string {
		t.Helper()
		var e struct{ Decision string }
		s.do(t, "runtime", http.MethodPost, "/v1/runtime/governance/evaluate",
			fmt.Sprintf(`{"verb":"shop:create_order","args":{"amount":%d}}`, amount)).into(t, http.StatusOK, &e)
		return e.Decision
	}
	require.Equal(t, "allow", decision(5000))

	a := s.do(t, "user", http.MethodPost, "/v1/policies", largeOrders)
	var p policyBody
	a.into(t, http.StatusCreated, &p)
	require.Equal(t, "/v1/policies/"+p.ID, a.header.Get("Location"))
	require.Equal(t, `"1"`, a.header.Get("ETag"))
	require.Equal(t, "block", p.Action["type"])
	require.Equal(t, "enforce", p.Mode)
	require.Equal(t, "greater", p.Conditions[0]["operator"])
	require.True(t, p.Enabled)
	require.Nil(t, p.Approval)
	require.True(t, strings.HasPrefix(p.CreatedBy, "user:"))
	require.Contains(t, a.body, `"value":1e3`, "the value stays as it was written")
	require.Equal(t, "block", decision(5000))
	require.Equal(t, "allow", decision(1000))
	one := a.header.Get("Location")

	var got policyBody
	s.do(t, "manager", http.MethodGet, one, "").into(t, http.StatusOK, &got)
	require.Equal(t, p, got)

	// If-Match: a change applies to the version that the caller saw, and to no other.
	held := strings.Replace(largeOrders, `"BLOCK"}`, `"require_approval"},"approval":{"timeout":60,"approvers":[{"type":"Role","value":"OWNER"}]}`, 1)
	a = s.do(t, "manager", http.MethodPut, one, held, "If-Match", `"1"`)
	a.into(t, http.StatusOK, &p)
	require.Equal(t, `"2"`, a.header.Get("ETag"))
	require.Equal(t, 2, p.Version)
	require.Equal(t, map[string]any{
		"required": 1.0, "approvers": []any{map[string]any{"type": "role", "value": "owner"}}, "self_approval": false, "timeout": 60.0,
		"on_timeout": "reject", "reason_required": false,
	}, p.Approval)
	require.True(t, strings.HasPrefix(p.UpdatedBy, "key:"))
	require.Equal(t, "pending_approval", decision(5000))
	for _, tag := range []string{`"1"`, `"3"`, `W/"2"`} {
		s.do(t, "user", http.MethodPut, one, largeOrders, "If-Match", tag).refused(t, http.StatusPreconditionFailed, fault.CodePreconditionFailed)
		s.do(t, "user", http.MethodDelete, one, "", "If-Match", tag).refused(t, http.StatusPreconditionFailed, fault.CodePreconditionFailed)
	}
	s.do(t, "user", http.MethodPut, one, largeOrders, "If-Match", "2").refused(t, http.StatusBadRequest, fault.CodeValidation)
	s.do(t, "user", http.MethodPut, one, largeOrders, "If-Match", "*").into(t, http.StatusOK, &p)

	var versions []struct {
		Version   int
		Change    string
		Policy    policyBody
		ChangedBy string `json:"changed_by"`
	}
	a = s.do(t, "user", http.MethodGet, one+"/versions?limit=2", "")
	a.into(t, http.StatusOK, &versions)
	require.Len(t, versions, 2)
	require.Equal(t, "require_approval", versions[1].Policy.Action["type"])
	var page struct {
		Next string `json:"next_cursor"`
	}
	require.NoError(t, json.Unmarshal(a.pagination, &page))
	s.do(t, "user", http.MethodGet, one+"/versions?cursor="+page.Next, "").into(t, http.StatusOK, &versions)
	require.Len(t, versions, 1)
	require.Equal(t, "created", versions[0].Change)

	require.JSONEq(t, `{"deleted":true}`, string(s.do(t, "user", http.MethodDelete, one, "").data))
	require.Equal(t, "allow", decision(5000))
	for _, call := range [][2]string{{http.MethodGet, ""}, {http.MethodPut, largeOrders}, {http.MethodDelete, ""}} {
		s.do(t, "user", call[0], one, call[1]).refused(t, http.StatusNotFound, fault.CodePolicyNotFound)
		s.do(t, "user", call[0], "/v1/policies/none", call[1]).refused(t, http.StatusNotFound, fault.CodePolicyNotFound)
	}
	s.do(t, "user", http.MethodGet, one+"/versions", "").into(t, http.StatusOK, &versions)
	require.Equal(t, "deleted", versions[0].Change)
}

func TestPolicyOfAnotherTenantIsNotFound(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.do(t, "user", http.MethodPost, "/v1/policies", largeOrders)
	one := a.header.Get("Location")
	for _, call := range [][3]string{
		{http.MethodGet, "", ""}, {http.MethodPut, "", largeOrders}, {http.MethodDelete, "", ""}, {http.MethodGet, "/versions", ""}, {http.MethodGet, "/coverage", ""},
	} {
		s.do(t, "foreign", call[0], one+call[1], call[2]).refused(t, http.StatusNotFound, fault.CodePolicyNotFound)
		s.do(t, "runtime", call[0], one+call[1], call[2]).refused(t, http.StatusForbidden, fault.CodeInsufficientPermissions)
	}
	require.JSONEq(t, `[]`, string(s.do(t, "foreign", http.MethodGet, "/v1/policies", "").data))
	s.do(t, "user", http.MethodPut, "/v1/governance/masking", `{"paths":[{"verb":"*","path":"args.x"}]}`).into(t, http.StatusOK, &struct{}{})
	require.JSONEq(t, `{"paths":[]}`, string(s.do(t, "foreign", http.MethodGet, "/v1/governance/masking", "").data))
	require.JSONEq(t, `{"paths":[{"verb":"*","path":"args.x"}]}`, string(s.do(t, "manager", http.MethodGet, "/v1/governance/masking", "").data))
}

func TestMalformedPolicyIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	block := func(more string) string { return `{"name":"p","action":{"type":"block"}` + more + `}` }
	tests := map[string]struct{ body, path string }{
		"no name":                  {`{"action":{"type":"block"}}`, "/name"},
		"empty name":               {`{"name":"","action":{"type":"block"}}`, "/name"},
		"no action":                {`{"name":"p"}`, "/action"},
		"empty action":             {`{"name":"p","action":{}}`, "/action"},
		"action as text":           {`{"name":"p","action":"block"}`, "/action"},
		"unknown action":           {`{"name":"p","action":{"type":"deny"}}`, "/action/type"},
		"misspelt enabled":         {block(`,"enabeld":false`), "/enabeld"},
		"verb_matchers":            {block(`,"verb_matchers":[]`), "/verb_matchers"},
		"what answers only have":   {block(`,"version":1`), "/version"},
		"misspelt in a matcher":    {block(`,"verbMatchers":[{"typ":"verb","value":"*"}]`), "/verbMatchers/0/typ"},
		"unknown matcher":          {block(`,"verbMatchers":[{"type":"team","value":"*"}]`), "/verbMatchers/0/type"},
		"unknown risk":             {block(`,"verbMatchers":[{"type":"riskLevel","value":"severe"}]`), "/verbMatchers/0/value"},
		"type and a field":         {block(`,"verbMatchers":[{"type":"verb","value":"*","provider":"shop"}]`), "/verbMatchers/0"},
		"matcher of nothing":       {block(`,"verbMatchers":[{}]`), "/verbMatchers/0/type"},
		"empty field":              {block(`,"verbMatchers":[{"provider":"","operation_type":"write"}]`), "/verbMatchers/0/provider"},
		"unknown operation":        {block(`,"verbMatchers":[{"provider":"shop","operation_type":"delete"}]`), "/verbMatchers/0/operation_type"},
		"two names of one field":   {block(`,"verbMatchers":[{"risk_level":"low","riskLevel":"low"}]`), "/verbMatchers/0/riskLevel"},
		"another name of except":   {block(`,"match":{"exception":[{"verb":"shop:*"}]}`), "/match/exception"},
		"except at the top":        {block(`,"except":[{"verb":"shop:*"}]`), "/except"},
		"except as an object":      {block(`,"match":{"except":{"verb":"shop:*"}}`), "/match/except"},
		"misspelt in except":       {block(`,"match":{"except":[{"verbs":"shop:*"}]}`), "/match/except/0/verbs"},
		"bad entry of all":         {block(`,"match":{"all":[{"provider":"shop"},{"provider":"sh*"}]}`), "/match/all/1/provider"},
		"too many exceptions":      {block(`,"match":{"except":[` + strings.Repeat(`{"provider":"shop"},`, 50) + `{"provider":"shop"}]}`), "/match/except"},
		"unknown operator":         {block(`,"conditions":[{"field":"args.a","operator":"like","value":1}]`), "/conditions/0/operator"},
		"unknown field":            {block(`,"conditions":[{"field":"user.name","operator":"equals","value":1}]`), "/conditions/0/field"},
		"no value":                 {block(`,"conditions":[{"field":"args.a","operator":"greater"}]`), "/conditions/0/value"},
		"bad expression":           {block(`,"conditions":[{"field":"args.a","operator":"matches","value":"` + canary + `("}]`), "/conditions/0/value"},
		"group of nothing":         {block(`,"conditions":[{"any":[]}]`), "/conditions/0/any"},
		"two groups in one":        {block(`,"conditions":[{"any":[{"field":"args.a","operator":"exists"}],"not":{"field":"args.a","operator":"exists"}}]`), "/conditions/0"},
		"misspelt in a group":      {block(`,"conditions":[{"all":[{"not":{"field":"args.a","op":"exists"}}]}]`), "/conditions/0/all/0/not/op"},
		"bad value in a group":     {block(`,"conditions":[{"any":[{"field":"args.a","operator":"matches","value":"` + canary + `("}]}]`), "/conditions/0/any/0/value"},
		"too many groups":          {block(`,"conditions":[{"not":{"not":{"not":{"not":{"not":{"field":"args.a","operator":"exists"}}}}}}]`), "/conditions/0/not/not/not/not/not"},
		"approval for a block":     {block(`,"approval":{}`), "/approval"},
		"misspelt self_approval":   {`{"name":"p","action":{"type":"require_approval"},"approval":{"selfApproval":true}}`, "/approval/selfApproval"},
		"required 0":               {`{"name":"p","action":{"type":"require_approval"},"approval":{"required":0}}`, "/approval/required"},
		"nobody":                   {`{"name":"p","action":{"type":"require_approval"},"approval":{"approvers":[]}}`, "/approval/approvers"},
		"unknown user":             {`{"name":"p","action":{"type":"require_approval"},"approval":{"approvers":[{"type":"user","value":"` + uuid.NewString() + `"}]}}`, "/approval/approvers/0/value"},
		"timeout":                  {`{"name":"p","action":{"type":"require_approval"},"approval":{"timeout":0}}`, "/approval/timeout"},
		"priority with a fraction": {block(`,"priority":1.5`), "/priority"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := s.do(t, "user", http.MethodPost, "/v1/policies", tt.body)
			a.refused(t, http.StatusBadRequest, fault.CodeValidation)
			require.Contains(t, a.paths, tt.path)
			require.NotContains(t, a.body, canary)
			// The simulation refuses the same.
			a = s.do(t, "user", http.MethodPost, "/v1/policies/simulate", `{"policy":`+tt.body+`}`)
			a.refused(t, http.StatusBadRequest, fault.CodeValidation)
			require.Contains(t, a.paths, "/policy"+tt.path)
		})
	}
	for _, query := range []string{"enabled=yes", "mode=off", "action=deny", "limit=0", "cursor=x"} {
		s.do(t, "user", http.MethodGet, "/v1/policies?"+query, "").refused(t, http.StatusBadRequest, fault.CodeValidation)
	}
	s.do(t, "user", http.MethodGet, "/v1/policies?verb=none", "").refused(t, http.StatusBadRequest, fault.CodeInvalidVerb)
	s.do(t, "user", http.MethodGet, "/v1/policies?verb=no:verb", "").refused(t, http.StatusNotFound, fault.CodeVerbNotFound)
	s.do(t, "user", http.MethodGet, "/v1/policies/x/coverage?from=yesterday", "").refused(t, http.StatusBadRequest, fault.CodeValidation)
	for _, at := range []string{"9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "9999-01-01T00:00:00Z"} {
		for _, end := range []string{"from", "to"} {
			a := s.do(t, "user", http.MethodGet, "/v1/policies/x/coverage?"+end+"="+url.QueryEscape(at), "")
			a.refused(t, http.StatusBadRequest, fault.CodeValidation)
			require.Equal(t, []string{"query." + end}, a.paths)
			a = s.do(t, "user", http.MethodPost, "/v1/policies/simulate", `{"policy":`+block("")+`,"`+end+`":"`+at+`"}`)
			a.refused(t, http.StatusBadRequest, fault.CodeValidation)
			require.Equal(t, []string{"/" + end}, a.paths)
		}
	}
	s.do(t, "user", http.MethodPost, "/v1/policies/simulate", `{}`).refused(t, http.StatusBadRequest, fault.CodeValidation)
	s.do(t, "user", http.MethodPost, "/v1/policies/simulate", `{"policy":`+block("")+`,"sample_size":10001}`).refused(t, http.StatusBadRequest, fault.CodeValidation)
	s.do(t, "user", http.MethodPost, "/v1/policies/simulate", `{"policy":`+block(`,"id":"none"`)+`}`).refused(t, http.StatusNotFound, fault.CodePolicyNotFound)
	for _, body := range []string{`{}`, `{"paths":null}`, `{"paths":[{"verb":"*"}]}`, `{"paths":[{"verb":"*","path":"args.x","more":1}]}`, `{"path":[]}`} {
		s.do(t, "user", http.MethodPut, "/v1/governance/masking", body).refused(t, http.StatusBadRequest, fault.CodeValidation)
	}
}

func TestPolicyThatCannotMatchIsStoredWithWarning(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importShop(t, "shop", "")
	var p policyBody
	s.do(t, "user", http.MethodPost, "/v1/policies", `{"name":"p","verbMatchers":[{"type":"provider","value":"stripe"}],"action":{"type":"block"}}`).into(t, http.StatusCreated, &p)
	require.Equal(t, "unknown_provider", p.Warnings[0]["code"])
	require.Contains(t, p.Warnings[0]["message"], "stripe")
	s.do(t, "user", http.MethodPut, "/v1/policies/"+p.ID,
		`{"name":"p","verbMatchers":[{"type":"provider","value":"shop"}],"conditions":[{"field":"args.no_such","operator":"equals","value":1}],"action":{"type":"block"}}`).into(t, http.StatusOK, &p)
	require.Equal(t, "unknown_argument", p.Warnings[0]["code"])
	s.do(t, "user", http.MethodPut, "/v1/policies/"+p.ID, `{"name":"p","verbMatchers":[{"type":"provider","value":"shop"}],"action":{"type":"block"}}`).into(t, http.StatusOK, &p)
	require.Equal(t, []map[string]string{}, p.Warnings)
}

// A group is judged, answered, changed and kept in versions as it was written.
func TestPolicyWithGroups(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importShop(t, "shop", "")
	type evaluated struct {
		Decision, Reason string
		Details          struct {
			Matched []struct{ Conditions json.RawMessage }
		}
	}
	evaluate := func(args string) (e evaluated) {
		t.Helper()
		s.do(t, "runtime", http.MethodPost, "/v1/runtime/governance/evaluate", `{"verb":"shop:create_order","args":`+args+`}`).into(t, http.StatusOK, &e)
		return e
	}
	const groups = `[{"any":[{"field":"args.amount","operator":"greater","value":1000},{"not":{"field":"args.currency","operator":"in","value":["eur","usd"]}}]}]`
	body := func(conditions string) string {
		return `{"name":"Odd orders","verbMatchers":[{"type":"verb","value":"shop:create_order"}],"conditions":` + conditions + `,"action":{"type":"block"}}`
	}
	var p struct {
		ID         string
		Conditions json.RawMessage
		Warnings   []map[string]string
	}
	s.do(t, "user", http.MethodPost, "/v1/policies", body(groups)).into(t, http.StatusCreated, &p)
	require.JSONEq(t, groups, string(p.Conditions))
	for args, want := range map[string]string{
		`{"amount":5000,"currency":"eur"}`: "block",
		`{"amount":1,"currency":"xxx"}`:    "block",
		`{"amount":1,"currency":"eur"}`:    "allow",
		`{"amount":null,"currency":"eur"}`: "block", // in doubt about the amount
	} {
		require.Equal(t, want, evaluate(args).Decision, args)
	}
	e := evaluate(`{"amount":1,"currency":"xxx"}`)
	require.Contains(t, e.Reason, `(args.amount greater 1000 or not (args.currency in ["eur","usd"]))`)
	require.JSONEq(t, `[{"met":true,"any":[{"field":"args.amount","operator":"greater","value":1000,"actual":1,"met":false},
	  {"met":true,"not":{"field":"args.currency","operator":"in","value":["eur","usd"],"actual":"xxx","met":false}}]}]`,
		string(e.Details.Matched[0].Conditions))

	one := "/v1/policies/" + p.ID
	s.do(t, "user", http.MethodPatch, one, `{"conditions":[{"all":[{"field":"args.amount","operator":"greater","value":9},{"field":"args.amount","operator":"less","value":3},{"field":"args.no_such","operator":"equals","value":1}]}]}`).into(t, http.StatusOK, &p)
	codes := []string{}
	for _, w := range p.Warnings {
		codes = append(codes, w["code"])
	}
	require.Contains(t, codes, "contradiction")
	require.Contains(t, codes, "unknown_argument")
	require.Equal(t, "allow", evaluate(`{"amount":5000,"currency":"eur"}`).Decision)
	s.do(t, "user", http.MethodPost, one+"/versions/1/restore", "").into(t, http.StatusOK, &p)
	require.JSONEq(t, groups, string(p.Conditions))
	require.Equal(t, "block", evaluate(`{"amount":5000,"currency":"eur"}`).Decision)
}

// What a call is made with besides its arguments counts, also in an evaluation.
func TestPolicyOnHowACallIsMade(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importShop(t, "shop", "")
	create := func(conditions string) {
		t.Helper()
		s.do(t, "user", http.MethodPost, "/v1/policies", `{"name":"p","verbMatchers":[{"type":"verb","value":"shop:create_order"}],"conditions":[`+conditions+`],"action":{"type":"block"}}`).
			into(t, http.StatusCreated, &struct{}{})
	}
	create(`{"field":"session.id","operator":"equals","value":"s-1"}`)
	create(`{"field":"metadata.channel","operator":"equals","value":"chat"},{"field":"key.id","operator":"exists"}`)
	create(`{"field":"dry_run","operator":"equals","value":true},{"field":"verb","operator":"ends_with","value":"_order"}`)
	create(`{"field":"args.user","operator":"not_equals","value_field":"customer_id"}`)
	create(`{"field":"args.tags","operator":"length_greater","value":2},{"field":"time.hour","operator":"less","value":24,"zone":"Europe/Berlin"}`)
	for call, want := range map[string]string{
		`"args":{}`:                                            "allow",
		`"args":{},"session_id":"s-1"`:                         "block",
		`"args":{},"session_id":"s-2"`:                         "allow",
		`"args":{},"metadata":{"channel":"chat"}`:              "block",
		`"args":{},"metadata":{"channel":"mail"}`:              "allow",
		`"args":{},"dry_run":true`:                             "block",
		`"args":{},"metadata":{"dryRun":true}`:                 "block",
		`"args":{},"metadata":{"dryRun":false}`:                "allow",
		`"args":{"tags":["a","b","c"]}`:                        "block",
		`"args":{"tags":["a","b"]}`:                            "allow",
		`"args":{"user":"u1"}`:                                 "block",
		`"args":{"user":"u1"},"metadata":{"customer_id":"u2"}`: "block",
		`"args":{"user":"u1"},"metadata":{"customer_id":"u1"}`: "allow",
	} {
		var e struct{ Decision string }
		s.do(t, "runtime", http.MethodPost, "/v1/runtime/governance/evaluate", `{"verb":"shop:create_order",`+call+`}`).into(t, http.StatusOK, &e)
		require.Equal(t, want, e.Decision, call)
	}
	s.do(t, "runtime", http.MethodPost, "/v1/runtime/governance/evaluate", `{"verb":"shop:create_order","dryRun":"yes"}`).refused(t, http.StatusBadRequest, fault.CodeValidation)
}

func TestSimulationAndCoverage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importShop(t, "shop", "")
	a := s.do(t, "user", http.MethodPost, "/v1/policies/simulate", `{"policy":{"name":"p","verbMatchers":[{"type":"provider","value":"shop"}],"action":{"type":"block"}},"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00+01:00","sample_size":5}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	none := `{"count":0,"of":0,"samples":[]}`
	require.JSONEq(t, `{"period":{"from":"2026-01-01T00:00:00Z","to":"2026-01-01T23:00:00Z"},"sample":"all","runs_in_period":0,"runs_judged":0,"runs_skipped":0,"partial":false,"windows":"none","lookups":"none","lookups_in_doubt":0,
		"matched":0,"newly":{"blocked":`+none+`,"held":`+none+`,"notified":`+none+`,"allowed":`+none+`},"unchanged":0,"warnings":[]}`, string(a.data))

	var p policyBody
	s.do(t, "user", http.MethodPost, "/v1/policies", largeOrders).into(t, http.StatusCreated, &p)
	a = s.do(t, "manager", http.MethodGet, "/v1/policies/"+p.ID+"/coverage?to=0001-01-02T00:00:00Z", "")
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Contains(t, string(a.data), `"from":"0001-01-01T00:00:00Z"`)
	a = s.do(t, "manager", http.MethodGet, "/v1/policies/"+p.ID+"/coverage?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z", "")
	require.Equal(t, http.StatusOK, a.status, a.body)
	zero := `{"allow":0,"pending_approval":0,"block":0}`
	require.JSONEq(t, `{"policy_id":"`+p.ID+`","from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","runs":0,"matched":0,"decided":0,"by_decision":`+zero+`,"would_have":`+zero+`,
		"by_version":[],"by_day":[]}`, string(a.data))
}
