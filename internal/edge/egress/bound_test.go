package egress_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/edge/egress"
)

var errTooLong = errors.New("too long")

func TestBoundedAnswerEndsAtItsBound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size  int
		whole bool
	}{
		"nothing": {0, true}, "less": {99, true}, "exactly": {100, true}, "one more": {101, false}, "much more": {1 << 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.(http.Flusher).Flush() // in chunks: the end is apart from the last byte
				_, _ = io.WriteString(w, strings.Repeat("x", c.size))
			}))
			defer srv.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
			require.NoError(t, err)
			resp, err := egress.Bounded(egress.NewUnguarded(), 100, errTooLong).Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			require.Len(t, got, min(c.size, 100))
			if c.whole {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, errTooLong)
			}
		})
	}
}

// A kept connection that its server drops fails the request: the transport must not send it again, because
// an answer of a model costs money.
func TestBoundedRequestIsSentOnce(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if hits.Add(1) == 1 {
			return // the connection is kept
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}))
	defer srv.Close()
	client := egress.Bounded(egress.NewUnguarded(), 100, errTooLong)
	send := func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, strings.NewReader("ask"))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "k") // the transport takes such a request for one that may be repeated
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.Body.Close()
	}
	require.NoError(t, send())
	require.Error(t, send())
	require.EqualValues(t, 2, hits.Load())
}

// What the operator has listed is reached wherever it is, and nothing else is by its redirect.
func TestUnguardedClientReachesPrivateAddressesAndFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/", http.StatusFound))
	defer srv.Close()
	client := egress.NewUnguarded()
	require.Nil(t, client.Transport.(*http.Transport).Proxy)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusFound, resp.StatusCode)
}
