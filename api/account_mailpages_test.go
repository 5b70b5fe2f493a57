package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/tenant/account"
)

const mailedToken = "arm_0m3kq1W9c2hTnC7yJxv5b8dLrE4sPzGfUaQoXiKtYwM"

// submit posts a form as a browser does.
func submit(t *testing.T, s *Server, path string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func requirePage(t *testing.T, w *httptest.ResponseRecorder, status int) {
	t.Helper()
	require.Equal(t, status, w.Code)
	h := w.Header()
	require.Equal(t, "text/html; charset=utf-8", h.Get("Content-Type"))
	require.Equal(t, "no-store", h.Get("Cache-Control"))
	require.Equal(t, "no-referrer", h.Get("Referrer-Policy"))
	require.Equal(t, "DENY", h.Get("X-Frame-Options"))
	require.Contains(t, h.Get("Content-Security-Policy"), "default-src 'none'")
	require.Contains(t, h.Get("Content-Security-Policy"), "frame-ancestors 'none'")
	require.NotContains(t, h.Get("Content-Security-Policy"), "script")
}

var mailPaths = []string{account.PageVerify, account.PageReset, account.PageAccept}

func TestOpeningALinkOfMailDecidesNothing(t *testing.T) {
	t.Parallel()
	for _, path := range mailPaths {
		d := &door{}
		s := accountServer(t, d)
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			w := ask(t, s, method, path+"?token="+mailedToken+"&utm_source=mail", "", "", "Host", "evil.example.com")
			requirePage(t, w, http.StatusOK)
			if method == http.MethodGet {
				require.Contains(t, w.Body.String(), `name="token" value="`+mailedToken+`"`)
				require.Contains(t, w.Body.String(), `<form method="post" action="`+path[strings.LastIndexByte(path, '/')+1:]+`">`)
			}
			require.NotContains(t, w.Body.String(), "evil")
		}
		require.Nil(t, d.args, "nothing was called")
	}
}

func TestFormsOfMailPagesDecide(t *testing.T) {
	t.Parallel()
	form := url.Values{"token": {mailedToken}, "new_password": {"correct horse"}, "name": {"Ada"}}
	for path, want := range map[string][]any{
		account.PageVerify: {"verify", mailedToken},
		account.PageReset:  {"reset", mailedToken, "correct horse"},
		account.PageAccept: {account.AcceptInput{Token: mailedToken, Password: "correct horse", Name: "Ada"}},
	} {
		d := &door{}
		w := submit(t, accountServer(t, d), path, form)
		requirePage(t, w, http.StatusOK)
		require.Equal(t, want, d.args)
		require.NotContains(t, w.Body.String(), mailedToken)
		require.NotContains(t, w.Body.String(), "<form")
	}
}

func TestRefusalsOfMailPages(t *testing.T) {
	t.Parallel()
	form := url.Values{"token": {mailedToken}, "new_password": {"x"}, "name": {`"><script>alert(1)</script>`}}
	for name, tc := range map[string]struct {
		err    error
		status int
		again  bool // the form is shown again
	}{
		"weak password": {fault.New(fault.CodeWeakPassword, ""), 422, true},
		"used":          {fault.New(fault.CodeInvalidToken, ""), 401, false},
		"too old":       {fault.New(fault.CodeTokenExpired, ""), 401, false},
		"in use":        {fault.New(fault.CodeConflict, ""), 409, true},
		"a failure":     {http.ErrHandlerTimeout, 500, true},
	} {
		for _, path := range mailPaths {
			w := submit(t, accountServer(t, &door{err: tc.err}), path, form)
			requirePage(t, w, tc.status)
			require.Equal(t, tc.again, strings.Contains(w.Body.String(), "<form"), name)
			require.NotContains(t, w.Body.String(), "<script")
			require.NotContains(t, w.Body.String(), http.ErrHandlerTimeout.Error())
		}
	}
}

func TestMailPagesRefuseWhatIsNoForm(t *testing.T) {
	t.Parallel()
	d := &door{}
	s := accountServer(t, d)
	requirePage(t, ask(t, s, http.MethodPost, account.PageVerify, "", `{"token":"t"}`), http.StatusUnsupportedMediaType)
	requirePage(t, submit(t, s, account.PageVerify, url.Values{"token": {strings.Repeat("x", bodyManagement)}}), http.StatusRequestEntityTooLarge)
	require.Nil(t, d.args)
	require.Equal(t, http.StatusMethodNotAllowed, ask(t, s, http.MethodPut, account.PageVerify, "", "").Code)
}
