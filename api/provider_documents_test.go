package api_test

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

// anyDocument is a document whose form no encoder would make.
const anyDocument = "{ \"openapi\" : \"3.1.0\",\n\t\"info\":{\"title\":\"Sh\\u006fp\",\"version\":1.50,\"x-b\":1e2,\"x-a\":9007199254740993},\n" +
	"\"servers\":[{\"url\":\"https:\\/\\/api.shop.test/v1\"}],\"paths\":{ \"/orders\":{\"get\":{\"operationId\":\"listOrders\"}}} }"

// document gets the document of the shop.
func (s *site) document(t *testing.T, as string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/providers/shop/document", http.NoBody)
	if s.keys[as] {
		r.Header.Set("X-API-Key", as)
	} else {
		r.Header.Set("Authorization", "Bearer "+as)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	return w
}

// requireBytes requires an answer of exactly these bytes.
func requireBytes(t *testing.T, want string, got *httptest.ResponseRecorder) {
	t.Helper()
	require.Equal(t, want, got.Body.String())
}

func (s *site) importDocument(t *testing.T, document string, status int) {
	t.Helper()
	a := s.do(t, "user", http.MethodPost, "/v1/providers", `{"slug":"shop","openapi": `+document+` }`)
	require.Equal(t, status, a.status, a.body)
}

func (s *site) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.db.AdminURL)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func TestDocumentIsReadBackAsItWasImported(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importDocument(t, anyDocument, http.StatusCreated)
	for _, as := range []string{"user", "manager"} {
		w := s.document(t, as)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		requireBytes(t, anyDocument, w)
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		require.Equal(t, strconv.Itoa(len(anyDocument)), w.Header().Get("Content-Length"))
		require.Equal(t, `attachment; filename="shop.json"`, w.Header().Get("Content-Disposition"))
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	}
	for as, refused := range map[string]string{"foreign": "404 PROVIDER_NOT_FOUND", "runtime": "403 INSUFFICIENT_PERMISSIONS", "agent": "403 INSUFFICIENT_PERMISSIONS"} {
		a := s.do(t, as, http.MethodGet, "/v1/providers/shop/document", "")
		require.Equal(t, refused, strconv.Itoa(a.status)+" "+a.code)
	}
}

func TestDocumentFollowsTheImport(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importDocument(t, anyDocument, http.StatusCreated)
	first := s.document(t, "user").Header().Get("ETag")
	require.NotEmpty(t, first)
	s.importShop(t, "shop", "") // another one
	second := s.document(t, "user", "If-None-Match", first)
	require.Equal(t, http.StatusOK, second.Code)
	requireBytes(t, shopDocument, second)
	tag := second.Header().Get("ETag")
	s.importShop(t, "shop", `"name":"Another name"`)
	same := s.document(t, "user", "If-None-Match", tag)
	require.Equal(t, http.StatusNotModified, same.Code, "the document is the same")
	require.Empty(t, same.Body.String())
	requireBytes(t, shopDocument, s.document(t, "user"))
	s.do(t, "user", http.MethodGet, "/v1/providers/shop/document", "", "If-Match", first).refused(t, http.StatusPreconditionFailed, fault.CodePreconditionFailed)

	s.do(t, "user", http.MethodDelete, "/v1/providers/shop", "")
	s.do(t, "user", http.MethodGet, "/v1/providers/shop/document", "").refused(t, http.StatusNotFound, fault.CodeProviderNotFound)
	require.Zero(t, s.count(t, "SELECT count(*) FROM provider_documents"))
}

func (s *site) count(t *testing.T, sql string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.db.AdminURL)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&n))
	return n
}

// A document that does not compress is kept in many parts.
func TestLargeDocumentIsReadBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	document := strings.Replace(anyDocument, `"x-b":1e2`, `"x-b":"`+incompressible(2<<20, 1)+`"`, 1)
	s.importDocument(t, document, http.StatusCreated)
	require.Greater(t, s.count(t, "SELECT count(*) FROM provider_documents"), 30)
	require.LessOrEqual(t, s.count(t, "SELECT max(length(content)) FROM provider_documents"), 64<<10)
	requireBytes(t, document, s.document(t, "user"))
	s.importDocument(t, anyDocument, http.StatusOK)
	require.Equal(t, 1, s.count(t, "SELECT count(*) FROM provider_documents"))
}

// hooked is a caller that does something else once the answer has begun.
type hooked struct {
	*httptest.ResponseRecorder
	once func()
}

// Write implements http.ResponseWriter.
func (h *hooked) Write(b []byte) (int, error) {
	if once := h.once; once != nil {
		h.once = nil
		once()
	}
	return h.ResponseRecorder.Write(b)
}

// A reader of a document that is replaced meanwhile gets no mixture of the two.
func TestDocumentThatIsReplacedWhileReadIsBrokenOff(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	large := func(seed byte) string {
		return strings.Replace(anyDocument, `"x-b":1e2`, `"x-b":"`+incompressible(1<<20, seed)+`"`, 1)
	}
	s.importDocument(t, large(1), http.StatusCreated)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/providers/shop/document", http.NoBody)
	r.Header.Set("Authorization", "Bearer user")
	w := &hooked{httptest.NewRecorder(), func() { s.importDocument(t, large(2), http.StatusOK) }}
	s.server.ServeHTTP(w, r)
	require.Less(t, w.Body.Len(), len(large(1)))
	require.True(t, strings.HasPrefix(large(1), w.Body.String()))
	require.Contains(t, s.log.String(), "a stream was broken off")
	require.Contains(t, s.log.String(), "the document was replaced")
}

// incompressible is a text of 2 n characters.
func incompressible(n int, seed byte) string {
	random := make([]byte, n)
	source := rand.NewChaCha8([32]byte{seed})
	_, _ = source.Read(random)
	return hex.EncodeToString(random)
}

func TestDocumentFromBeforeDocumentsWereKeptIsNotFound(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importShop(t, "shop", "")
	s.exec(t, "UPDATE providers SET document_size = NULL, import_settings = NULL")
	s.exec(t, "DELETE FROM provider_documents")
	a := s.do(t, "user", http.MethodGet, "/v1/providers/shop/document", "")
	a.refused(t, http.StatusNotFound, fault.CodeDocumentNotFound)
	require.Contains(t, a.body, "imported before documents were kept")
	s.importShop(t, "shop", "")
	requireBytes(t, shopDocument, s.document(t, "user"))
}
