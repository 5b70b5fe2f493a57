package api

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"
)

// get requests a mounted page. header lists names and values in turn.
func get(t *testing.T, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	mux := chi.NewRouter()
	mountDocs(mux)
	r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

func TestDocumentIsServedPlainAndCompressed(t *testing.T) {
	t.Parallel()
	plain := get(t, http.MethodGet, "/openapi.json")
	require.Equal(t, http.StatusOK, plain.Code)
	require.Equal(t, "application/json; charset=utf-8", plain.Header().Get("Content-Type"))
	require.Empty(t, plain.Header().Get("Content-Encoding"))
	raw := plain.Body.Bytes()
	require.True(t, json.Valid(raw))

	squeezed := get(t, http.MethodGet, "/openapi.json", "Accept-Encoding", "br, gzip;q=0.8")
	require.Equal(t, "gzip", squeezed.Header().Get("Content-Encoding"))
	z, err := gzip.NewReader(squeezed.Body)
	require.NoError(t, err)
	same, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Equal(t, raw, same)
	require.Equal(t, plain.Header().Get("ETag"), squeezed.Header().Get("ETag"))

	refused := get(t, http.MethodGet, "/openapi.json", "Accept-Encoding", "gzip; q=0")
	require.Empty(t, refused.Header().Get("Content-Encoding"))
}

func TestAssetsAreRevalidated(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/openapi.json", "/docs", "/docs/init.js", "/docs/scalar.js", mapSchemaPath} {
		first := get(t, http.MethodGet, path)
		require.Equal(t, http.StatusOK, first.Code, path)
		require.NotEmpty(t, first.Body.Bytes(), path)
		etag := first.Header().Get("ETag")
		for _, known := range []string{etag, `"other", ` + etag, "*"} {
			again := get(t, http.MethodGet, path, "If-None-Match", known)
			require.Equal(t, http.StatusNotModified, again.Code, path)
			require.Empty(t, again.Body.Bytes(), path)
		}
		require.Equal(t, http.StatusOK, get(t, http.MethodGet, path, "If-None-Match", `"other"`).Code)
		head := get(t, http.MethodHead, path, "Accept-Encoding", "gzip")
		require.Equal(t, http.StatusOK, head.Code, path)
		require.NotEmpty(t, head.Header().Get("Content-Length"), path)
		require.Empty(t, head.Body.Bytes(), path)
	}
}

func TestDocsPageLoadsFromThisHostOnly(t *testing.T) {
	t.Parallel()
	r := get(t, http.MethodGet, "/docs")
	policy := r.Header().Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'")
	require.NotRegexp(t, `https?:|\*`, policy, "no other host")
	require.NotContains(t, policy, "script-src 'self' 'unsafe")
	require.NotRegexp(t, `https?://`, r.Body.String())
	require.NotRegexp(t, `https?://`, string(docsInit))
}

// The licence file contains the hash of the script that Scalar publishes.
func TestDocsScriptHasPublishedHash(t *testing.T) {
	t.Parallel()
	z, err := gzip.NewReader(bytes.NewReader(docsScriptGzip))
	require.NoError(t, err)
	h := sha256.New()
	_, err = io.Copy(h, z)
	require.NoError(t, err)
	licence, err := os.ReadFile("docsui/LICENSE.txt")
	require.NoError(t, err)
	require.Contains(t, string(licence), hex.EncodeToString(h.Sum(nil)))
}
