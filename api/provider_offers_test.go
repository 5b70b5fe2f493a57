package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
)

// offer stores a provider of the platform, as the operator's commands do.
func (s *site) offer(t *testing.T, slug string) *catalog.Platform {
	t.Helper()
	pool, err := db.Open(t.Context(), db.Config{URL: s.db.AdminURL})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	p, err := catalog.NewPlatform(catalog.Deps{DB: pool})
	require.NoError(t, err)
	_, err = p.Import(t.Context(), catalog.Import{
		Provider: catalog.Provider{Slug: slug, Name: "CRM", Domain: "sales", BaseURL: "https://api.crm.test", AuthType: "bearer", Auth: []byte(`{"type":"bearer"}`)},
		Verbs: []verb.Definition{{
			Name: "find", Domain: "sales", Risk: verb.RiskLow, Operation: verb.Read, Idempotency: verb.IdempotencyIntrinsic,
			Schema: []byte(`{"type":"object"}`), Plan: []byte(`{"kind":"http","method":"GET","path":"/find"}`),
		}},
	}, false)
	require.NoError(t, err)
	return p
}

type shownProvider struct {
	Slug, Owner string
	Enabled     bool
}

func TestTenantChoosesProvidersOfThePlatform(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.offer(t, "crm")
	list := func(as, query string) (shown []shownProvider) {
		t.Helper()
		s.do(t, as, http.MethodGet, "/v1/providers"+query, "").into(t, http.StatusOK, &shown)
		return shown
	}
	require.Equal(t, []shownProvider{{"crm", "platform", false}}, list("user", ""))
	require.Empty(t, list("user", "?enabled=true"))
	require.Equal(t, []shownProvider{{"crm", "platform", false}}, list("manager", "?enabled=false"))
	s.do(t, "user", http.MethodGet, "/v1/providers?enabled=perhaps", "").refused(t, http.StatusBadRequest, fault.CodeValidation)
	var one shownProvider
	s.do(t, "user", http.MethodGet, "/v1/providers/crm", "").into(t, http.StatusOK, &one)
	require.Equal(t, shownProvider{"crm", "platform", false}, one)

	// Nothing of it can be called or listed yet, and each refusal says what to do.
	for path, body := range map[string]string{
		"/v1/runtime/actions/run": `{"verb":"crm:find","args":{}}`, "/v1/runtime/governance/evaluate": `{"verb":"crm:find"}`, "/v1/runtime/actions/catalog/crm:find": "",
	} {
		method, as := http.MethodPost, "calls" // who may not read the catalog is told too
		if body == "" {
			method, as = http.MethodGet, "runtime"
		}
		a := s.do(t, as, method, path, body)
		a.refused(t, http.StatusNotFound, fault.CodeVerbNotFound)
		require.Contains(t, a.body, "The platform's provider crm is not enabled. An owner or an admin enables it with POST /v1/providers/crm/enable.", path)
		require.Len(t, a.paths, 1)
	}
	s.do(t, "user", http.MethodGet, "/v1/providers/crm/verbs", "").refused(t, http.StatusConflict, fault.CodeConflict)

	type offered struct {
		Slug, Owner     string
		Enabled, Hidden bool
	}
	choose := func(as, choice string) (o offered) {
		t.Helper()
		s.do(t, as, http.MethodPost, "/v1/providers/crm/"+choice, "").into(t, http.StatusOK, &o)
		return o
	}
	for range 2 {
		require.Equal(t, offered{"crm", "platform", true, false}, choose("user", "enable"))
	}
	require.Equal(t, []shownProvider{{"crm", "platform", true}}, list("user", "?enabled=true"))
	require.Empty(t, list("foreign", "?enabled=true"))
	var page struct{ Total int }
	s.do(t, "runtime", http.MethodGet, "/v1/runtime/actions/catalog", "").into(t, http.StatusOK, &page)
	require.Equal(t, 1, page.Total)
	s.do(t, "runtime", http.MethodPost, "/v1/runtime/actions/run", `{"verb":"crm:fnd","args":{}}`).refused(t, http.StatusNotFound, fault.CodeVerbNotFound)

	// Nobody of a tenant changes it.
	for _, as := range []string{"user", "foreign", "manager"} {
		for _, body := range []string{`{"name":"Mine"}`, `{"base_url":"https://mine.test"}`} {
			s.do(t, as, http.MethodPatch, "/v1/providers/crm", body).refused(t, http.StatusForbidden, fault.CodeInsufficientPermissions)
		}
	}
	s.do(t, "user", http.MethodDelete, "/v1/providers/crm", "").refused(t, http.StatusForbidden, fault.CodeInsufficientPermissions)
	s.do(t, "user", http.MethodGet, "/v1/providers/crm/document", "").refused(t, http.StatusNotFound, fault.CodeDocumentNotFound)
	s.do(t, "foreign", http.MethodGet, "/v1/providers/crm/document", "").refused(t, http.StatusNotFound, fault.CodeDocumentNotFound)

	// A provider of the tenant's own takes its place, and the preview says so.
	mine := `{"slug":"crm","base_url":"https://mine.test","openapi":{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{}}}`
	s.do(t, "manager", http.MethodPost, "/v1/providers", mine).refused(t, http.StatusForbidden, fault.CodeInsufficientPermissions)
	var report struct {
		shownProvider

		Changes []struct{ What string }
	}
	s.do(t, "user", http.MethodPost, "/v1/providers?preview=true", mine).into(t, http.StatusOK, &report)
	require.Equal(t, shownProvider{"crm", "tenant", true}, report.shownProvider)
	s.do(t, "user", http.MethodPost, "/v1/providers", mine).into(t, http.StatusCreated, &report)
	require.Equal(t, shownProvider{"crm", "tenant", true}, report.shownProvider)
	require.Equal(t, "platform", report.Changes[0].What)
	require.Equal(t, []shownProvider{{"crm", "tenant", true}}, list("user", ""))
	require.Equal(t, offered{"crm", "platform", false, true}, choose("user", "disable"))
	s.do(t, "runtime", http.MethodPost, "/v1/runtime/actions/run", `{"verb":"crm:find","args":{}}`).refused(t, http.StatusNotFound, fault.CodeVerbNotFound)
	require.Equal(t, http.StatusOK, s.do(t, "user", http.MethodDelete, "/v1/providers/crm", "").status)
	require.Equal(t, []shownProvider{{"crm", "platform", false}}, list("user", ""))
	// A key does not bring the removed one back over the platform's.
	s.do(t, "manager", http.MethodPost, "/v1/providers", mine).refused(t, http.StatusForbidden, fault.CodeInsufficientPermissions)
	s.do(t, "user", http.MethodPost, "/v1/providers?preview=true", mine).into(t, http.StatusOK, &report)
	require.Equal(t, "platform", report.Changes[0].What)

	require.NoError(t, p.Delete(t.Context(), "crm"))
	for _, choice := range []string{"enable", "disable"} {
		s.do(t, "user", http.MethodPost, "/v1/providers/crm/"+choice, "").refused(t, http.StatusNotFound, fault.CodeProviderNotFound)
		s.do(t, "manager", http.MethodPost, "/v1/providers/crm/"+choice, "").refused(t, http.StatusForbidden, fault.CodeInsufficientPermissions)
	}
	require.Empty(t, list("user", ""))
}
