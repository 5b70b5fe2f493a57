package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
)

// Every change acts on the call after it in each process, whichever made it and
// whatever they have in memory.
func TestAChangeActsInEveryProcess(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := b.process(t)
	p := b.create(t, block("Switch", "shop:list_*"))
	for i := range 6 {
		on := i%2 == 0
		d := block("Switch", "shop:list_*")
		d.Enabled = &on
		_, _, err := b.Replace(t.Context(), by(b.ours), p.ID, d, nil)
		require.NoError(t, err)
		want := governance.Allow
		if on {
			want = governance.Block
		}
		var wg sync.WaitGroup
		for range 8 { // they load one set together
			wg.Go(func() {
				for _, process := range []policy.Subjects{b.dispatch, other} {
					s, err := process.Subject(context.Background(), b.ours, verb.Name{Provider: "shop", Verb: "list_orders"})
					if err != nil {
						t.Error(err)
						return
					}
					judge, _ := s.(interface {
						Judge(context.Context, json.RawMessage, governance.Context) (governance.Verdict, error)
						PolicyVersion() int64
					})
					if v, _ := judge.Judge(t.Context(), json.RawMessage(`{}`), governance.Context{}); v.Decision != want {
						got := v.Decision
						t.Errorf("change %d: %s", i, got)
					}
					if v := judge.PolicyVersion(); v != int64(i+2) {
						t.Errorf("change %d: version %d", i, v)
					}
				}
			})
		}
		wg.Wait()
	}
}

func TestWithoutPoliciesTheRegistryDecides(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	target := b.target(t, b.dispatch, "shop:create_refund")
	require.Zero(t, target.PolicyVersion())
	v, err := target.Judge(t.Context(), json.RawMessage(`{}`), governance.Context{})
	require.NoError(t, err)
	require.Equal(t, governance.Block, v.Decision)
	b.create(t, policy.Draft{Name: "Ask", Matchers: verbs("shop:create_refund"), Action: "require_approval"})
	target = b.target(t, b.dispatch, "shop:create_refund")
	require.EqualValues(t, 1, target.PolicyVersion())
	v, err = target.Judge(t.Context(), json.RawMessage(`{}`), governance.Context{})
	require.NoError(t, err)
	require.Equal(t, governance.PendingApproval, v.Decision)
	require.Equal(t, "Ask", v.PolicyName)
}

// No policies can be read, no call is judged.
func TestWithoutTheDatabaseNothingIsJudged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sets, err := policy.NewSets(b.db.Pool)
	require.NoError(t, err)
	b.create(t, block("x", "*"))
	set, err := sets.Load(t.Context(), b.ours, 1)
	require.NoError(t, err)
	b.db.Close()
	list := verb.Name{Provider: "shop", Verb: "list_orders"}
	masked := b.dispatch.Mask(t.Context(), b.ours, list, run.Texts{Args: json.RawMessage(`{"limit":1}`), Metadata: json.RawMessage(`{"m":1}`), Result: json.RawMessage(`{"r":1}`)})
	require.Equal(t, run.Texts{Args: json.RawMessage(`{"limit":0}`), Metadata: json.RawMessage(`{"m":0}`), Result: json.RawMessage(`{"r":0}`)}, masked,
		"nobody knows what may be shown")
	require.JSONEq(t, `{"m":0}`, string(b.dispatch.MaskMetadata(t.Context(), b.ours)(list, json.RawMessage(`{"m":1}`))))
	_, err = b.dispatch.Target(t.Context(), b.ours, verb.Name{Provider: "shop", Verb: "list_orders"}, run.Account{}, nil)
	require.Error(t, err)
	_, err = sets.Load(t.Context(), b.ours, 2)
	require.Error(t, err)
	again, err := sets.Load(t.Context(), b.ours, 1)
	require.NoError(t, err)
	require.Same(t, set, again, "what is in memory needs no database")
	none, err := sets.Load(t.Context(), b.them, 0)
	require.NoError(t, err)
	require.Nil(t, none)
}

func TestATenantHas2000Policies(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const most = 2000 // the default quota
	b.create(t, block("First", "shop:list_*"))
	b.exec(t, `INSERT INTO policies (id, tenant_id, version, name, description, enabled, mode, priority, action, document, created_by, created_at, updated_by, updated_at)
		SELECT gen_random_uuid(), tenant_id, 1, 'Copy ' || n, '', true, 'enforce', 0, 'notify', json_build_object('name', 'Copy ' || n, 'enabled', true, 'mode', 'enforce',
			'action', 'notify', 'verbMatchers', json_build_array(json_build_object('type', 'verb', 'value', 'shop:v' || n)), 'conditions', '[]'::json), 'user:x', now(), 'user:x', now()
		FROM policies, generate_series(1, $1) n`, most-2)
	last := b.create(t, block("Last", "*:get_order"))
	_, _, err := b.Create(t.Context(), by(b.ours), block("Too many", "*"))
	require.True(t, fault.HasCode(err, fault.CodeQuotaExceeded))
	require.EqualValues(t, 2, b.version(t, b.ours))
	require.Equal(t, "First", b.decide(t, "shop:list_orders").PolicyName)
	require.Equal(t, "Last", b.decide(t, "shop:get_order").PolicyName)

	seen := map[uuid.UUID]bool{}
	f := policy.Filter{Limit: 300}
	for more := true; more; {
		var page []policy.Policy
		page, more, err = b.List(t.Context(), b.ours, f)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), 300)
		for _, p := range page {
			require.False(t, seen[p.ID], "twice in the pages")
			seen[p.ID], f.Before = true, p.ID
		}
	}
	require.Len(t, seen, most)

	require.NoError(t, b.Delete(t.Context(), by(b.ours), last.ID, nil))
	b.create(t, block("In its place", "*"))
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	off := false
	b.create(t, policy.Draft{Name: "off", Enabled: &off, Action: "allow", Matchers: verbs("shop:list_orders")})
	b.create(t, policy.Draft{Name: "shadow", Mode: "shadow", Action: "block", Conditions: []governance.Condition{when("args.limit", governance.OpGreater, "7")}})
	b.create(t, policy.Draft{Name: "high", Action: "require_approval", Matchers: []governance.Matcher{{Type: "risk_level", Value: "high"}}})
	b.create(t, policy.Draft{Name: "refunds", Action: "notify", Matchers: []governance.Matcher{{Type: "domain", Value: "refunds"}}})
	name := func(s string) *verb.Name {
		n, err := verb.Parse(s)
		require.NoError(t, err)
		return &n
	}
	tests := map[string]struct {
		filter policy.Filter
		want   []string
		more   bool
	}{
		"all":               {policy.Filter{}, []string{"refunds", "high", "shadow", "off"}, false},
		"a page":            {policy.Filter{Limit: 3}, []string{"refunds", "high", "shadow"}, true},
		"disabled":          {policy.Filter{Enabled: &off}, []string{"off"}, false},
		"mode":              {policy.Filter{Mode: "SHADOW"}, []string{"shadow"}, false},
		"action":            {policy.Filter{Action: "Notify"}, []string{"refunds"}, false},
		"low-risk verb":     {policy.Filter{Verb: name("shop:list_orders")}, []string{"shadow", "off"}, false},
		"high-risk verb":    {policy.Filter{Verb: name("shop:create_refund")}, []string{"refunds", "high", "shadow"}, false},
		"page of a verb":    {policy.Filter{Verb: name("shop:create_refund"), Limit: 1}, []string{"refunds"}, true},
		"verb and a filter": {policy.Filter{Verb: name("shop:create_refund"), Action: "block"}, []string{"shadow"}, false},
	}
	for title, tt := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			if tt.filter.Limit == 0 {
				tt.filter.Limit = 100
			}
			page, more, err := b.List(t.Context(), b.ours, tt.filter)
			require.NoError(t, err)
			got := []string{}
			for _, p := range page {
				got = append(got, p.Name)
			}
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.more, more)
		})
	}
	_, _, err := b.List(t.Context(), b.ours, policy.Filter{Limit: 1, Verb: name("shop:none")})
	require.True(t, fault.HasCode(err, fault.CodeVerbNotFound))
	for _, f := range []policy.Filter{{Mode: "off"}, {Action: "deny"}} {
		_, _, err = b.List(t.Context(), b.ours, f)
		require.True(t, fault.HasCode(err, fault.CodeValidation))
	}
}

func TestMasking(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	paths, err := b.Masking(t.Context(), b.ours)
	require.NoError(t, err)
	require.Empty(t, paths)
	mask := func(name, args string) string {
		return string(b.target(t, b.dispatch, name).Mask(json.RawMessage(args)))
	}
	const args = `{"amount":5,"note":"n","items":[{"note":"m","n":1}],"a.b":true}`
	require.JSONEq(t, args, mask("shop:create_order", args))

	set := []policy.MaskPath{{Verb: "shop:create_*", Path: "args.amount"}, {Verb: "*", Path: "args.items.note"}, {Verb: "shop:create_order", Path: `args.a\.b`}}
	got, err := b.SetMasking(t.Context(), by(b.ours), set, nil)
	require.NoError(t, err)
	require.Equal(t, set, got)
	got, err = b.Masking(t.Context(), b.ours)
	require.NoError(t, err)
	require.Equal(t, set, got)
	require.JSONEq(t, `{"amount":0,"note":"n","items":[{"note":"[masked]","n":1}],"a.b":false}`, mask("shop:create_order", args))
	require.JSONEq(t, `{"amount":5,"note":"n","items":[{"note":"[masked]","n":1}],"a.b":true}`, mask("shop:list_orders", args), "other verbs")

	// Runs of verbs that are gone are shown too.
	gone := func() string {
		texts := run.Texts{Args: json.RawMessage(`{"items":[{"note":"m"}],"token":"t","n":1}`)}
		return string(b.dispatch.Mask(t.Context(), b.ours, verb.Name{Provider: "gone", Verb: "verb"}, texts).Args)
	}
	require.JSONEq(t, `{"items":[{"note":"[masked]"}],"token":"[masked]","n":1}`, gone())

	// A policy later on leaves them as they are, and they count as a change.
	b.create(t, block("x", "shop:get_order"))
	require.EqualValues(t, 2, b.version(t, b.ours))
	require.Contains(t, mask("shop:create_order", args), `"amount":0`)
	theirs, err := b.Masking(t.Context(), b.them)
	require.NoError(t, err)
	require.Empty(t, theirs)

	b.exec(t, `UPDATE policy_sets SET mask_paths = '{"broken":1}', version = version + 1`)
	require.JSONEq(t, `{"amount":0,"note":"[masked]","items":[{"note":"[masked]","n":0}],"a.b":false}`, mask("shop:list_orders", args),
		"what cannot be read masks everything")
	require.JSONEq(t, `{"items":[{"note":"[masked]"}],"token":"[masked]","n":0}`, gone())

	var records []string
	rows, err := b.admin.Query(t.Context(), `SELECT action FROM audit_records WHERE subject_type = 'masking'`)
	require.NoError(t, err)
	for rows.Next() {
		var s string
		require.NoError(t, rows.Scan(&s))
		records = append(records, s)
	}
	require.Equal(t, []string{"masking.updated"}, records)
}

// What others than the caller see of a run's metadata and result.
func TestMaskingOfMetadataAndResults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.SetMasking(t.Context(), by(b.ours), []policy.MaskPath{
		{Verb: "*", Path: "metadata.patient.*"}, {Verb: "shop:get_*", Path: "result.order.note"}, {Verb: "*", Path: "args.n"},
	}, nil)
	require.NoError(t, err)
	texts := run.Texts{
		Args:     json.RawMessage(`{"n":1}`),
		Metadata: json.RawMessage(`{"patient":{"name":"x"},"api_key":"y","note":"z","n":1}`),
		Result:   json.RawMessage(`{"order":{"note":"x"},"secret":"y","card":"4111 1111 1111 1111","patient":{"name":"z"},"n":1}`),
	}
	const metadata = `{"patient":{"name":"[masked]"},"api_key":"[masked]","note":"z","n":1}`
	for _, name := range []string{"shop:get_order", "gone:get_order"} {
		of, err := verb.Parse(name)
		require.NoError(t, err)
		note := "x"
		if of.Provider == "shop" {
			note = "[masked]"
		}
		shown := b.dispatch.Mask(t.Context(), b.ours, of, texts)
		require.JSONEq(t, `{"n":0}`, string(shown.Args))
		require.JSONEq(t, metadata, string(shown.Metadata))
		require.JSONEq(t, `{"order":{"note":"`+note+`"},"secret":"[masked]","card":"***1111","patient":{"name":"z"},"n":1}`, string(shown.Result))
		require.JSONEq(t, metadata, string(b.dispatch.MaskMetadata(t.Context(), b.ours)(of, texts.Metadata)))
		require.Equal(t, run.Texts{}, b.dispatch.Mask(t.Context(), b.ours, of, run.Texts{}))
	}
}

func TestMaskingRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	many := make([]policy.MaskPath, 101)
	for i := range many {
		many[i] = policy.MaskPath{Verb: "*", Path: fmt.Sprintf("args.a%d", i)}
	}
	_, err := b.SetMasking(t.Context(), by(b.ours), many[:100], nil)
	require.NoError(t, err)
	tests := map[string]struct {
		paths []policy.MaskPath
		path  string
	}{
		"too many":     {many, "/paths"},
		"no verb":      {[]policy.MaskPath{{Path: "args.a"}}, "/paths/0/verb"},
		"no glob":      {[]policy.MaskPath{{Verb: "Shop Create", Path: "args.a"}}, "/paths/0/verb"},
		"no path":      {[]policy.MaskPath{{Verb: "*"}}, "/paths/0/path"},
		"args alone":   {[]policy.MaskPath{{Verb: "*", Path: "args"}}, "/paths/0/path"},
		"no args":      {[]policy.MaskPath{{Verb: "*", Path: "card.note"}}, "/paths/0/path"},
		"empty name":   {[]policy.MaskPath{{Verb: "*", Path: "args.a..b"}}, "/paths/0/path"},
		"ends in dot":  {[]policy.MaskPath{{Verb: "*", Path: "args.a."}}, "/paths/0/path"},
		"lone escape":  {[]policy.MaskPath{{Verb: "*", Path: `args.a\`}}, "/paths/0/path"},
		"wrong escape": {[]policy.MaskPath{{Verb: "*", Path: `args.a\n`}}, "/paths/0/path"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := b.SetMasking(t.Context(), by(b.ours), tt.paths, nil)
			require.True(t, fault.HasCode(err, fault.CodeValidation), "%v", err)
			require.Equal(t, tt.path, fault.As(err).Details[0].Path)
		})
	}
}
