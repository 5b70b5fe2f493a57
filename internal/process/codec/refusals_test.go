package codec_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/edge/engine"
	"agentruntime/internal/process/codec"
)

func TestRefusalsAreLoggedWithABound(t *testing.T) {
	t.Parallel()
	decoder, err := engine.NewDecoder("k1", key(7))
	require.NoError(t, err)
	var log bytes.Buffer
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	h, err := codec.New([]string{uiOrigin}, codec.Deps{
		Guard: tokens{}, Decoder: decoder, Log: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now },
	})
	require.NoError(t, err)
	refused := func(status int, header, value string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/decode", strings.NewReader("{}"))
		r.Header.Set(header, value)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, status, w.Code)
	}
	refused(http.StatusForbidden, "Origin", "https://evil.example")
	require.Contains(t, log.String(), "CODEC_ORIGINS")
	for range 1000 {
		refused(http.StatusUnauthorized, "Authorization", "Bearer secret-guess")
	}
	require.Equal(t, 10, strings.Count(log.String(), "decoding refused"))
	require.Contains(t, log.String(), "not the token")
	require.NotContains(t, log.String(), "secret-guess")
	log.Reset()
	now = now.Add(time.Minute)
	refused(http.StatusUnauthorized, "Authorization", "Bearer x")
	refused(http.StatusUnauthorized, "Authorization", "Bearer x")
	require.Equal(t, 1, strings.Count(log.String(), "left_out=991"))
	require.Equal(t, 2, strings.Count(log.String(), "decoding refused"))
}
