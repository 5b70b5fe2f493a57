package httpcall_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/attempt"
	"agentruntime/internal/provider/httpcall"
)

// A process was stopped between the mark in its row and the first byte. By now the call may
// have been given up by others, so nothing leaves.
func TestAttemptThatMayNoLongerBeginSendsNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		http2, reuse bool
	}{
		{"new connection", false, false},
		{"kept connection", false, true},
		{"HTTP/2, new connection", true, false},
		{"HTTP/2, kept connection", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				w.WriteHeader(http.StatusNoContent)
			}))
			server.EnableHTTP2 = c.http2
			server.StartTLS()
			t.Cleanup(server.Close)
			client := newClient(t, server.Client().Transport.(*http.Transport).Clone())
			want := int32(0)
			if c.reuse {
				require.Equal(t, attempt.Answered, client.Send(t.Context(), post(server.URL), httpcall.SendOptions{}).Phase)
				want++
			}
			for _, read := range []bool{false, true} {
				out := client.Send(t.Context(), post(server.URL), httpcall.SendOptions{Read: read, MayBegin: func() bool { return false }})
				require.Equal(t, attempt.NotSent, out.Phase)
				require.Equal(t, attempt.Ours, out.Cause)
				require.ErrorContains(t, out.Err, "stopped for too long")
			}
			out := client.Send(t.Context(), post(server.URL), httpcall.SendOptions{MayBegin: func() bool { return true }})
			require.Equal(t, 204, out.Status)
			require.Equal(t, want+1, requests.Load())
		})
	}
}

// Large answers are read a few at a time. What is given back is used again.
func TestLargeAnswersTakePlaces(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("x"), 600<<10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/small" {
			_, _ = w.Write(large[:512<<10])
			return
		}
		_, _ = w.Write(large)
	}))
	t.Cleanup(server.Close)
	client := newClient(t, nil)
	small := client.Send(t.Context(), get(server.URL+"/small"), httpcall.SendOptions{Read: true, Owner: "a"})
	require.Nil(t, small.Free)
	require.Len(t, small.Body, 512<<10)
	for range 9 { // a tenant has four places
		out := client.Send(t.Context(), get(server.URL), httpcall.SendOptions{Read: true, Owner: "a"})
		require.Equal(t, large, out.Body)
		out.Free()
	}
	cut := client.Send(t.Context(), get(server.URL), httpcall.SendOptions{Read: true, Owner: "a", MaxBytes: 550 << 10})
	require.True(t, cut.Truncated)
	require.Len(t, cut.Body, 550<<10)
	cut.Free()
}

// A text may turn out not to be UTF-8 far behind its beginning. Then it is a file.
func TestTextThatTurnsOutNotToBeUTF8IsAFile(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("a;b;c;d\n"), 250_000)
	text[700_000] = 0xfc // a letter of ISO-8859-1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/csv; charset=iso-8859-1")
		_, _ = w.Write(text)
	}))
	t.Cleanup(server.Close)
	var kept []byte
	parts := 0
	out := newClient(t, nil).Send(t.Context(), get(server.URL), httpcall.SendOptions{Read: true, Owner: "a", PartBytes: 1 << 20, Keep: func(part []byte, _ int64) error {
		kept, parts = append(kept, part...), parts+1
		return nil
	}})
	require.True(t, out.IsFile)
	require.NotNil(t, out.File)
	require.True(t, bytes.Equal(text, kept))
	require.Equal(t, 2, parts)
	out.Free()
	require.Empty(t, out.Body)
}

// A file that says that it is too large is not read.
func TestFileThatIsTooLargeByItsContentLengthIsNotKept(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/zip")
		w.Header().Set("Content-Length", strconv.Itoa(httpcall.MaxFileBytes+1))
		_, _ = w.Write(bytes.Repeat([]byte{0xff}, 600<<10)) // the rest would never come
		w.(http.Flusher).Flush()                            //nolint:forcetypeassert // of net/http
	}))
	t.Cleanup(server.Close)
	out := newClient(t, nil).Send(t.Context(), get(server.URL), httpcall.SendOptions{Read: true, Owner: "a", PartBytes: 512 << 10, Keep: func([]byte, int64) error {
		t.Error("a part is kept")
		return nil
	}})
	require.True(t, out.IsFile)
	require.True(t, out.Truncated)
	require.NoError(t, out.BodyErr)
}
