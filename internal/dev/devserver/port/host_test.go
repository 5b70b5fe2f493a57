package port_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/devserver/port"
)

func TestLocalNamesRefusesANameOfTheWeb(t *testing.T) {
	t.Parallel()
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	for _, c := range []struct {
		addr, host string
		want       int
	}{
		{"127.0.0.1:8233", "127.0.0.1:8233", http.StatusOK},
		{"127.0.0.1:8233", "localhost:8233", http.StatusOK},
		{"[::1]:8233", "[::1]:8233", http.StatusOK},
		{"127.0.0.1:8233", "evil.example:8233", http.StatusForbidden},
		{"127.0.0.1:8233", "localhost.evil.example:8233", http.StatusForbidden},
		{"127.0.0.1:8233", "evil.example", http.StatusForbidden},
		{"[::1]:8233", "evil.example:8233", http.StatusForbidden},
		{"0.0.0.0:8233", "devbox:8233", http.StatusOK},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Host = c.host
		w := httptest.NewRecorder()
		port.LocalNames(c.addr, next).ServeHTTP(w, r)
		require.Equal(t, c.want, w.Code, "%s at %s", c.host, c.addr)
	}
}
