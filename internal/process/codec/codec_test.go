package codec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/edge/engine"
	"agentruntime/internal/process/codec"
)

const uiOrigin = "https://temporal.example.com"

// tokens is a guard that knows one token.
type tokens struct{}

func (tokens) Verify(_ context.Context, token string) error {
	if token == "good" {
		return nil
	}
	return errors.New("not the token")
}

func key(fill byte) []byte { return bytes.Repeat([]byte{fill}, 32) }

func endpoint(t *testing.T) http.Handler {
	t.Helper()
	decoder, err := engine.NewDecoder("k1", key(7))
	require.NoError(t, err)
	h, err := codec.New([]string{uiOrigin}, codec.Deps{Guard: tokens{}, Decoder: decoder, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return h
}

// ask sends a request; header lists names and values in turn.
func ask(t *testing.T, method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	endpoint(t).ServeHTTP(w, r)
	return w
}

// sealed returns a value as Temporal stores it, under the key that is filled so.
func sealed(t *testing.T, id string, fill byte, value any) *commonpb.Payload {
	t.Helper()
	dc, err := engine.Converter(id, key(fill))
	require.NoError(t, err)
	p, err := dc.ToPayload(value)
	require.NoError(t, err)
	return p
}

func body(t *testing.T, payloads ...*commonpb.Payload) string {
	t.Helper()
	raw, err := protojson.Marshal(&commonpb.Payloads{Payloads: payloads})
	require.NoError(t, err)
	return string(raw)
}

func TestDecodeShowsWhatTheKeyOpens(t *testing.T) {
	t.Parallel()
	foreign, plain := sealed(t, "k2", 8, flow.RunResult{State: "failed"}), sealed(t, "k1", 7, flow.CallSummary)
	broken := sealed(t, "k1", 7, flow.RunResult{})
	broken.Data[len(broken.Data)-1] ^= 1
	w := ask(t, http.MethodPost, "/decode?preserveStorageRefs=true", body(t, sealed(t, "k1", 7, flow.RunResult{State: "executed"}), foreign, plain, broken),
		"Authorization", "Bearer good", "Origin", uiOrigin, "X-Namespace", "default")
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, uiOrigin, w.Header().Get("Access-Control-Allow-Origin"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	var out commonpb.Payloads
	require.NoError(t, protojson.Unmarshal(w.Body.Bytes(), &out))
	require.Len(t, out.Payloads, 4)
	require.JSONEq(t, `{"state":"executed"}`, string(out.Payloads[0].Data))
	for i, same := range []*commonpb.Payload{foreign, plain, broken} {
		require.Equal(t, same.Data, out.Payloads[i+1].Data, "what does not open stays as it is")
	}
}

func TestDecodeWithoutAGoodTokenIsRefused(t *testing.T) {
	t.Parallel()
	text := body(t, sealed(t, "k1", 7, flow.RunResult{State: "executed"}))
	for name, header := range map[string][]string{
		"none": nil, "another": {"Authorization", "Bearer bad"}, "basic": {"Authorization", "Basic good"}, "bare": {"Authorization", "good"},
		"two": {"Authorization", "Bearer good", "Authorization", "Bearer good"}, "of the id token only": {"Authorization-Extras", "good"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := ask(t, http.MethodPost, "/decode", text, header...)
			require.Equal(t, http.StatusUnauthorized, w.Code)
			require.NotContains(t, w.Body.String(), "executed")
			require.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
		})
	}
}

// A page of another origin reads nothing, whatever its user's browser sends along.
func TestDecodeForAnotherOriginIsRefused(t *testing.T) {
	t.Parallel()
	text := body(t, sealed(t, "k1", 7, flow.RunResult{State: "executed"}))
	for _, origin := range []string{"https://evil.example.com", "https://temporal.example.com.evil.com", "http://temporal.example.com", "null", uiOrigin + "/"} {
		w := ask(t, http.MethodPost, "/decode", text, "Authorization", "Bearer good", "Origin", origin)
		require.Equal(t, http.StatusForbidden, w.Code, origin)
		require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
		require.Equal(t, http.StatusForbidden, ask(t, http.MethodOptions, "/decode", "", "Origin", origin).Code)
	}
}

func TestPreflightAllowsWhatTheUISends(t *testing.T) {
	t.Parallel()
	w := ask(t, http.MethodOptions, "/decode", "", "Origin", uiOrigin, "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "authorization,content-type,x-namespace")
	require.Equal(t, http.StatusNoContent, w.Code)
	require.Equal(t, uiOrigin, w.Header().Get("Access-Control-Allow-Origin"))
	require.Equal(t, "POST", w.Header().Get("Access-Control-Allow-Methods"))
	for _, name := range []string{"Content-Type", "X-Namespace", "Authorization"} {
		require.Contains(t, w.Header().Get("Access-Control-Allow-Headers"), name)
	}
	require.Contains(t, w.Header().Values("Vary"), "Origin")
}

func TestDecodeOfABadBodyIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"nothing":       {"", http.StatusBadRequest},
		"not JSON":      {"<xml>", http.StatusBadRequest},
		"another JSON":  {`{"payload":[]}`, http.StatusBadRequest},
		"a number":      {`{"payloads":[1]}`, http.StatusBadRequest},
		"more than 1 M": {`{"payloads":[` + strings.Repeat(" ", 1<<20) + `]}`, http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := ask(t, http.MethodPost, "/decode", c.body, "Authorization", "Bearer good")
			require.Equal(t, c.status, w.Code)
			var out struct{ Error string }
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
			require.NotEmpty(t, out.Error)
		})
	}
}

// With an endpoint that encodes, its users could send signals that only the service makes.
func TestThereIsNothingButDecode(t *testing.T) {
	t.Parallel()
	require.Equal(t, http.StatusNotFound, ask(t, http.MethodPost, "/encode", body(t), "Authorization", "Bearer good").Code)
	require.Equal(t, http.StatusMethodNotAllowed, ask(t, http.MethodGet, "/decode", "", "Authorization", "Bearer good").Code)
	require.Equal(t, http.StatusOK, ask(t, http.MethodGet, "/readyz", "").Code)
}

func TestEndpointWithoutAGuardIsRefused(t *testing.T) {
	t.Parallel()
	_, err := codec.New([]string{uiOrigin}, codec.Deps{Log: slog.New(slog.DiscardHandler)})
	require.Error(t, err)
	_, err = codec.New(nil, codec.Deps{Guard: tokens{}, Log: slog.New(slog.DiscardHandler)})
	require.Error(t, err)
}
