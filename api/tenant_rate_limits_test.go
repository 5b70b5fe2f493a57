package api_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/rate"
	"agentruntime/internal/tenant/account"
)

// found is what a request of the key or the user finds: a minute of which used of ten are used.
func found(name string, used int64) rate.State {
	var s rate.State
	for i, length := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		s.Windows = append(s.Windows, rate.Window{
			Name: name + []string{"minute", "hour", "day"}[i], Limit: []int64{10, 100, 1000}[i], Used: used, Length: length, Left: length / 2,
		})
	}
	return s
}

// rateHeaders returns the headers of the rate limits, joined.
func rateHeaders(h http.Header) string {
	var out []string
	for _, name := range []string{"RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
		out = append(out, h.Get(name))
	}
	return strings.Join(out, " | ")
}

func TestEveryResponseSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.limited("runtime", found("", 3), nil)
	s.limited("user", found("people-", 4), nil)
	const (
		keys   = `"minute";q=10;w=60, "hour";q=100;w=3600, "day";q=1000;w=86400 | "minute";r=7;t=30 | 10 | 7 | 30`
		people = `"people-minute";q=10;w=60, "people-hour";q=100;w=3600, "people-day";q=1000;w=86400 | "people-minute";r=6;t=30 | 10 | 6 | 30`
	)
	for _, tc := range []struct {
		as, method, path string
		status           int
		want             string
	}{
		{"runtime", "GET", "/v1/runtime/actions/catalog", 200, keys},
		{"runtime", "GET", "/v1/runtime/actions/catalog?limit=0", 400, keys},
		{"runtime", "GET", "/v1/providers", 403, keys},
		{"runtime", "PUT", "/v1/rate-limits", 403, keys},
		{"user", "GET", "/v1/policies", 200, people},
		{"user", "GET", "/v1/policies/none", 404, people},
		{"user", "GET", "/v1/audit/export?format=ndjson", 200, people},
		{"nobody", "GET", "/v1/policies", 401, `"address";q=1000;w=60 | "address";r=999;`},
		{"nobody", "GET", "/v1/nothing", 404, `"address";q=1000;w=60 | "address";r=998;`},
		{"nobody", "PATCH", "/v1/policies", 405, `"address";q=1000;w=60 | "address";r=997;`},
		{"nobody", "POST", "/v1/auth/login", 400, `"address";q=1000;w=60 | "address";r=996;`},
		{"nobody", "GET", "/openapi.json", 200, `"address";q=1000;w=60 | "address";r=995;`},
		{"nobody", "GET", "/healthz", 200, `"address";q=1000;w=60 | "address";r=995;`},
		{"nobody", "OPTIONS", "/v1/policies", 204, `"address";q=1000;w=60 | "address";r=995;`},
	} {
		r := httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, http.NoBody)
		r.Header.Set("Access-Control-Request-Method", "GET")
		if tc.as == "runtime" {
			r.Header.Set("X-API-Key", tc.as)
		} else {
			r.Header.Set("Authorization", "Bearer "+tc.as)
		}
		w := httptest.NewRecorder()
		s.server.ServeHTTP(w, r)
		require.Equal(t, tc.status, w.Code, "%s %s: %s", tc.method, tc.path, w.Body)
		require.True(t, strings.HasPrefix(rateHeaders(w.Result().Header), tc.want), "%s %s: %s", tc.method, tc.path, rateHeaders(w.Result().Header))
	}
}

func TestFullWindowIs429BeforeThePermission(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	refused := fault.New(fault.CodeRateLimited, "")
	refused.RetryAfter = 30 * time.Second
	full := found("", 10)
	full.Refused = true
	s.limited("runtime", full, refused)
	for _, path := range []string{"/v1/runtime/actions/catalog", "/v1/providers", "/v1/rate-limits"} {
		a := s.do(t, "runtime", "GET", path, "")
		a.refused(t, 429, fault.CodeRateLimited)
		require.Equal(t, "30", a.header.Get("Retry-After"))
		require.True(t, strings.HasSuffix(rateHeaders(a.header), `| "minute";r=0;t=30 | 10 | 0 | 30`), rateHeaders(a.header))
	}
	s.do(t, "user", "GET", "/v1/policies", "").into(t, 200, new([]any))
}

func TestAddressWithoutCredentialIsRefusedBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.limited("user", found("people-", 4), nil)
	for range 1000 {
		s.do(t, "user", "GET", "/v1/policies?limit=1", "").into(t, 200, new([]any))
		s.do(t, "nobody", "GET", "/v1/nothing", "").refused(t, 404, fault.CodeNotFound)
	}
	for _, as := range []string{"nobody", "user"} {
		a := s.do(t, as, "GET", "/v1/policies", "")
		a.refused(t, 429, fault.CodeRateLimited)
		require.Equal(t, a.header.Get("X-RateLimit-Reset"), a.header.Get("Retry-After"))
		require.Contains(t, rateHeaders(a.header), `"address";q=1000;w=60 | "address";r=0;`)
	}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/healthz", http.NoBody)
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	require.Equal(t, 200, w.Code)
}

// The pages that links in mail open count for the caller's address too, and are refused with it.
func TestMailPagesCountForTheAddress(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ask := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.server.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody))
		return w
	}
	left := 1000
	for _, path := range []string{account.PageVerify, account.PageReset, account.PageAccept} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			left--
			require.Equal(t, strconv.Itoa(left), ask(method, path).Header().Get("X-RateLimit-Remaining"), "%s %s", method, path)
		}
	}
	for range left {
		s.do(t, "nobody", "GET", "/v1/nothing", "").refused(t, 404, fault.CodeNotFound)
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		require.Equal(t, http.StatusTooManyRequests, ask(method, account.PageReset).Code, method)
	}
}

func TestRateLimitRecord(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	own := found("", 3)
	own.Windows = append(own.Windows, rate.Window{Name: rate.KeyHour, Limit: 50, Used: 2, Length: time.Hour, Left: time.Minute})
	s.limited("runtime", own, nil)
	s.limited("agent", found("", 9), nil)
	s.limited("user", found("people-", 4), nil)
	const tenant = `"tenant":{"requests_per_minute":600,"requests_per_hour":20000,"requests_per_day":200000},`
	const health = `"health":{"budget_state":"ok","circuit_state":"closed"}}`
	for as, want := range map[string]string{
		"agent":   `{` + tenant + `"current":{"minute":9,"hour":9,"day":9},` + health,
		"runtime": `{` + tenant + `"current":{"minute":3,"hour":3,"day":3},"key":{"minute":null,"hour":{"limit":50,"current":2},"day":null},` + health,
		"user":    `{` + tenant + `"current":{"minute":0,"hour":0,"day":0},"people":{"current":{"minute":4,"hour":4,"day":4}},` + health,
	} {
		require.JSONEq(t, want, string(s.do(t, as, "GET", "/v1/rate-limits", "").data), as)
	}
	for body, path := range map[string]string{
		`{}`: "/requests_per_minute",
		`{"requests_per_minute":0,"requests_per_hour":1,"requests_per_day":1}`:            "/requests_per_minute",
		`{"requests_per_minute":1,"requests_per_hour":2147483647,"requests_per_day":1}`:   "/requests_per_hour",
		`{"requests_per_minute":1,"requests_per_hour":1,"requests_per_day":null}`:         "/requests_per_day",
		`{"requests_per_minute":1,"requests_per_hour":1,"requests_per_day":1,"people":1}`: "/people",
		`{"requests_per_minute":1.5,"requests_per_hour":1,"requests_per_day":1}`:          "/requests_per_minute",
		`{"requests_per_minute":"1","requests_per_hour":1,"requests_per_day":1}`:          "/requests_per_minute",
	} {
		a := s.do(t, "user", "PUT", "/v1/rate-limits", body)
		a.refused(t, 400, fault.CodeValidation)
		require.Contains(t, a.paths, path, body)
	}
	a := s.do(t, "user", "PUT", "/v1/rate-limits", `{"requests_per_minute":6001,"requests_per_hour":1,"requests_per_day":1}`)
	a.refused(t, 403, fault.CodePlanRequired)
	require.Equal(t, []string{"/requests_per_minute"}, a.paths)
	var record struct {
		Tenant struct {
			Hour int `json:"requests_per_hour"`
		}
	}
	s.do(t, "user", "PUT", "/v1/rate-limits", `{"requests_per_minute":1,"requests_per_hour":2,"requests_per_day":3}`).into(t, 200, &record)
	require.Equal(t, 2, record.Tenant.Hour)
}
