package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// stripe is the stand-in for a real third party: stripe-mock, which validates
// requests against Stripe's own document, keeps no state and does not deduplicate.
// All calls to it go through a proxy that counts them.
type stripe struct {
	base     string
	document json.RawMessage

	mu       sync.Mutex
	requests []stripeRequest
	// effects counts the writes by their description, which tests make unique.
	effects map[string]int
}

type stripeRequest struct {
	method, path, query, contentType, authorization string
	form                                            url.Values
}

func newStripe(t *testing.T) *stripe {
	t.Helper()
	s := &stripe{document: stripeDocument(t), effects: map[string]int{}}
	addr := rig.FreeAddress(t)
	p := rig.Start(t, "stripe-mock", stripeBinary(t), nil, "-http-addr", addr, "-https-addr", rig.FreeAddress(t))
	rig.Until(t, 20*time.Second, "stripe-mock listens", func() bool { return strings.Contains(p.Log(), "Listening for HTTP") })
	target, err := url.Parse("http://" + addr)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
	}
	s.base = rig.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.note(r)
		proxy.ServeHTTP(w, r)
	}))
	return s
}

// note remembers the request before the mock has it.
func (s *stripe) note(r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(raw)))
	form, _ := url.ParseQuery(string(raw))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, stripeRequest{
		r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type"), r.Header.Get("Authorization"), form,
	})
	if r.Method == http.MethodPost {
		s.effects[form.Get("description")]++
	}
}

// last is the newest request, and how many there were.
func (s *stripe) last() (r stripeRequest, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) > 0 {
		r = s.requests[len(s.requests)-1]
	}
	return r, len(s.requests)
}

var buildStripe = sync.OnceValues(func() ([]byte, error) {
	return exec.Command("make", "-C", rig.Root(), "bin/stripe-mock").CombinedOutput()
})

func stripeBinary(t *testing.T) string {
	t.Helper()
	text, err := buildStripe()
	require.NoError(t, err, "%s", text)
	return filepath.Join(rig.Root(), "bin", "stripe-mock")
}

// stripeDocument is Stripe's document, 594 operations, from inside the mock's module.
func stripeDocument(t *testing.T) json.RawMessage {
	t.Helper()
	cmd := exec.Command("go", "-C", filepath.Join(rig.Root(), "tools", "stripemock"), "list", "-m", "-f", "{{.Dir}}", "github.com/stripe/stripe-mock")
	dir, err := cmd.Output()
	require.NoError(t, err)
	doc, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "embedded", "openapi", "spec3.json"))
	require.NoError(t, err)
	return doc
}

// Bounds of an import, as promised: CPU time and resident memory of the API process. A
// busy machine stretches the time by the clock, so that one is only logged.
const (
	importTime   = 20 * time.Second
	importMemory = 600 << 20
)

// importReport is the answer to POST /v1/providers.
type importReport struct {
	Slug      string
	Imported  int
	Connected bool
	Auth      struct{ Type string }
	Degraded  []struct{ Operation, Reason string }
	Rejected  []struct{ Operation, Reason string }
}

func (s *stripe) importInto(t *testing.T, tenant *rig.Tenant) importReport {
	t.Helper()
	var report importReport
	var a rig.Answer
	var took time.Duration
	for range 10 { // imports of other tests may have all places
		started := time.Now()
		a = tenant.User.Do(http.MethodPost, "/v1/providers", map[string]any{
			"slug": "stripe", "name": "Stripe", "domain": "payments", "base_url": s.base, "openapi": s.document,
		})
		if took = time.Since(started); a.Status != http.StatusServiceUnavailable {
			break
		}
	}
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	a.Data(t, &report)
	t.Logf("import: %d verbs in %s, %d degraded, %d rejected", report.Imported, took.Round(time.Millisecond), len(report.Degraded), len(report.Rejected))
	return report
}

func (s *stripe) connect(t *testing.T, tenant *rig.Tenant) {
	t.Helper()
	a := tenant.User.Do(http.MethodPost, "/v1/credentials", map[string]any{
		"provider": "stripe", "type": "bearer", "label": "test", "data": map[string]string{"token": "sk_test_123"},
	})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	require.NotContains(t, string(a.Body), "sk_test_123")
}

// TestStripeFromImportToRepeat takes a newcomer's path: import, credential, catalog,
// evaluate, run, repeat.
func TestStripeFromImportToRepeat(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, lane string) {
		t.Helper()
		if lane == split {
			// A process of its own, which no other test makes work.
			s = s.StartAPI("api-import")
		}
		provider, tenant := newStripe(t), newTenant(s)
		report := provider.importInto(t, tenant)
		checkImport(t, report)
		if lane == split {
			api := s.Parts["api-import"]
			took, peak := api.CPUTime(t), api.PeakResident(t)
			t.Logf("import: the API process used %s of CPU and %d MB at most", took, peak>>20)
			require.Less(t, took, importTime)
			require.Less(t, peak, int64(importMemory))
		}
		require.Empty(t, catalog(t, tenant, "connected_only=true").Verbs)
		a := tenant.Runtime.Run("stripe:post_customers", map[string]any{}, "")
		require.Equal(t, http.StatusFailedDependency, a.Status, "%s", a.Body)
		require.Equal(t, "PROVIDER_NOT_CONNECTED", a.Code(t))
		provider.connect(t, tenant)
		checkCatalog(t, tenant, report.Imported)
		checkEvaluate(t, tenant)
		_, count := provider.last()
		require.Zero(t, count, "nothing has been called so far")
		runCustomer(t, provider, tenant)
		runPayment(t, provider, tenant)
		runReads(t, provider, tenant)
	})
}

func checkImport(t *testing.T, report importReport) {
	t.Helper()
	require.Equal(t, "stripe", report.Slug)
	require.Equal(t, 594, report.Imported+len(report.Rejected), "each operation is a verb or rejected")
	require.GreaterOrEqual(t, report.Imported, 590)
	for _, r := range append(report.Degraded, report.Rejected...) {
		require.NotEmpty(t, r.Operation)
		require.NotEmpty(t, r.Reason, r.Operation)
	}
}

// catalogPage is what tests read of the catalog.
type catalogPage struct {
	Verbs []struct {
		Verb, Provider, Domain, Description string
		RiskLevel                           string `json:"risk_level"`
		OperationType                       string `json:"operation_type"`
		Connected                           bool
		Schema                              map[string]any
		ToolDefinition                      *struct {
			Type     string
			Function struct {
				Name       string
				Parameters map[string]any
			}
		} `json:"tool_definition"`
	}
	Total              int
	ProvidersConnected []string `json:"providers_connected"`
	Pagination         struct {
		Limit, Offset int
		HasMore       bool `json:"has_more"`
	}
}

func catalog(t *testing.T, tenant *rig.Tenant, query string) catalogPage {
	t.Helper()
	var page catalogPage
	tenant.Runtime.Do(http.MethodGet, "/v1/runtime/actions/catalog?"+query, nil).Data(t, &page)
	return page
}

func checkCatalog(t *testing.T, tenant *rig.Tenant, imported int) {
	t.Helper()
	all := catalog(t, tenant, "provider=stripe")
	require.Len(t, all.Verbs, 100)
	require.Equal(t, imported, all.Total)
	require.Equal(t, []string{"stripe"}, all.ProvidersConnected)
	require.True(t, all.Pagination.HasMore)
	seen := map[string]bool{}
	for offset := 0; offset < all.Total; offset += 250 {
		page := catalog(t, tenant, "provider=stripe&connected_only=true&limit=250&offset="+strconv.Itoa(offset))
		for _, v := range page.Verbs {
			require.True(t, v.Connected)
			require.False(t, seen[v.Verb], "%s is listed twice", v.Verb)
			seen[v.Verb] = true
		}
		require.Equal(t, offset+250 < all.Total, page.Pagination.HasMore)
	}
	require.Len(t, seen, imported)
	high := catalog(t, tenant, "provider=stripe&risk_level=HIGH&limit=500")
	require.NotEmpty(t, high.Verbs)
	for _, v := range high.Verbs {
		require.Equal(t, "high", v.RiskLevel)
		require.Equal(t, "write", v.OperationType)
	}
	tools := catalog(t, tenant, "provider=stripe&format=tools&limit=500")
	for _, v := range tools.Verbs {
		require.NotNil(t, v.ToolDefinition)
		require.Equal(t, "function", v.ToolDefinition.Type)
		require.Regexp(t, `^stripe__[A-Za-z0-9_-]{1,56}$`, v.ToolDefinition.Function.Name)
		require.Equal(t, "object", v.ToolDefinition.Function.Parameters["type"])
	}
}

func checkEvaluate(t *testing.T, tenant *rig.Tenant) {
	t.Helper()
	for verb, want := range map[string]struct{ decision, risk, operation string }{
		"stripe:get_customers":             {"allow", "low", "read"},
		"stripe:post_customers":            {"allow", "medium", "write"},
		"stripe:delete_customers_customer": {"block", "high", "write"},
	} {
		var e struct {
			Decision      string
			RiskLevel     string `json:"risk_level"`
			OperationType string `json:"operation_type"`
		}
		tenant.Runtime.Do(http.MethodPost, "/v1/runtime/governance/evaluate", map[string]any{"verb": verb, "args": map[string]any{}}).Data(t, &e)
		require.Equal(t, want.decision, e.Decision, verb)
		require.Equal(t, want.risk, e.RiskLevel, verb)
		require.Equal(t, want.operation, e.OperationType, verb)
	}
}

func runCustomer(t *testing.T, provider *stripe, tenant *rig.Tenant) {
	t.Helper()
	_, before := provider.last()
	args := map[string]any{
		"description": "First customer", "email": "ada@example.com", "metadata": map[string]any{"order": "6735", "note": "a&b=c é"},
		"address": map[string]any{"city": "Zürich", "country": "CH"}, "expand": []string{"default_source", "subscriptions"},
	}
	first := requireRun(t, tenant.Runtime.Run("stripe:post_customers", args, "customer-1"))
	require.Equal(t, "executed", first.FenceStatus)
	var customer struct{ ID, Object string }
	require.NoError(t, json.Unmarshal(first.Result, &customer))
	require.Equal(t, "customer", customer.Object)
	for range 3 {
		again := requireRun(t, tenant.Runtime.Run("stripe:post_customers", args, "customer-1"))
		require.Equal(t, "cached", again.FenceStatus)
		require.JSONEq(t, string(first.Result), string(again.Result))
	}
	r, count := provider.last()
	require.Equal(t, before+1, count, "exactly one call")
	require.Equal(t, "/v1/customers", r.path)
	require.Equal(t, "application/x-www-form-urlencoded", r.contentType)
	require.Equal(t, "Bearer sk_test_123", r.authorization)
	require.Equal(t, "a&b=c é", r.form.Get("metadata[note]"))
	require.Equal(t, "Zürich", r.form.Get("address[city]"))
	require.Equal(t, []string{"default_source", "subscriptions"}, array(r.form, "expand"))
}

// array reads the elements of a form array, whichever of Stripe's two notations it is in.
func array(form url.Values, name string) []string {
	if list := form[name+"[]"]; len(list) > 0 {
		return list
	}
	var list []string
	for i := 0; form.Has(name + "[" + strconv.Itoa(i) + "]"); i++ {
		list = append(list, form.Get(name+"["+strconv.Itoa(i)+"]"))
	}
	return list
}

func runPayment(t *testing.T, provider *stripe, tenant *rig.Tenant) {
	t.Helper()
	done := requireRun(t, tenant.Runtime.Run("stripe:post_payment_intents", map[string]any{
		"amount": 2000, "currency": "eur", "description": "An intent", "automatic_payment_methods": map[string]any{"enabled": true},
		"metadata": map[string]any{"invoice": "in_1"}, "payment_method_types": []string{"card", "link"},
	}, "intent-1"))
	require.Equal(t, "executed", done.FenceStatus)
	r, _ := provider.last()
	require.Equal(t, "/v1/payment_intents", r.path)
	require.Equal(t, "2000", r.form.Get("amount"))
	require.Equal(t, "true", r.form.Get("automatic_payment_methods[enabled]"))
	require.Equal(t, "in_1", r.form.Get("metadata[invoice]"))
	require.Equal(t, []string{"card", "link"}, array(r.form, "payment_method_types"))
	// The mock checks the form against Stripe's document, and so do we before it.
	a := tenant.Runtime.Run("stripe:post_payment_intents", map[string]any{"amount": "much", "currency": "eur"}, "intent-2")
	require.Equal(t, http.StatusUnprocessableEntity, a.Status)
	require.Equal(t, "INVALID_ARGS", a.Code(t))
}

func runReads(t *testing.T, provider *stripe, tenant *rig.Tenant) {
	t.Helper()
	requireRun(t, tenant.Runtime.Run("stripe:get_customers_customer", map[string]any{"customer": "cus_123"}, ""))
	r, _ := provider.last()
	require.Equal(t, http.MethodGet, r.method)
	require.Equal(t, "/v1/customers/cus_123", r.path)
	requireRun(t, tenant.Runtime.Run("stripe:get_charges", map[string]any{"limit": 3, "created": map[string]any{"gte": 1700000000}}, ""))
	r, _ = provider.last()
	query, err := url.ParseQuery(r.query)
	require.NoError(t, err)
	require.Equal(t, "3", query.Get("limit"))
	require.Equal(t, "1700000000", query.Get("created[gte]"))
}

// TestRacingCallersHaveOneEffect races callers for the same ids: one effect each, one
// caller executed it, the others read it.
func TestRacingCallersHaveOneEffect(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, lane string) {
		t.Helper()
		executions, callers := 300, 40
		if lane == split {
			executions, callers = 60, 20
		}
		provider, tenant := newStripe(t), newTenant(s)
		provider.importInto(t, tenant)
		provider.connect(t, tenant)
		started := time.Now()
		answers := race(tenant, ids(executions), callers)
		took := time.Since(started)
		cached := 0
		for id, of := range answers {
			cached += requireOneEffect(t, id, of)
		}
		require.Equal(t, executions*(callers-1), cached)
		require.Len(t, provider.effects, executions)
		for id, n := range provider.effects {
			require.Equal(t, 1, n, "effects of %s", id)
		}
		t.Logf("%d ids × %d callers: %d effects, %d executed, %d cached, in %s (%.0f calls/s)", executions, callers,
			len(provider.effects), executions, cached, took.Round(time.Millisecond), float64(executions*callers)/took.Seconds())
	})
}

// atOnce is how many ids are raced for at the same time.
const atOnce = 8

// race has callers call for each id at once and returns what they were told.
func race(tenant *rig.Tenant, list []string, callers int) map[string][]rig.Answer {
	answers := make(map[string][]rig.Answer, len(list))
	for _, id := range list {
		answers[id] = make([]rig.Answer, callers)
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, id := range list {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			var one sync.WaitGroup
			for i := range callers {
				one.Go(func() {
					answers[id][i] = tenant.Runtime.Run("stripe:post_charges",
						map[string]any{"amount": 100, "currency": "eur", "source": "tok_visa", "description": id}, id)
				})
			}
			one.Wait()
		})
	}
	all.Wait()
	return answers
}

// requireOneEffect checks the answers about one id and returns how many were cached.
func requireOneEffect(t *testing.T, id string, answers []rig.Answer) (cached int) {
	t.Helper()
	executed := 0
	var result string
	for _, a := range answers {
		d := requireRun(t, a)
		require.Equal(t, id, d.ExecutionID)
		switch d.FenceStatus {
		case "executed":
			executed++
		case "cached":
			cached++
		}
		if result == "" {
			result = string(d.Result)
		}
		require.JSONEq(t, result, string(d.Result))
	}
	require.Equal(t, 1, executed, "callers that were told executed, of %s", id)
	return cached
}
