package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

type previewBody struct {
	providerBody
	Preview bool `json:"preview"`
	reportBody
	Credentials []struct {
		ID, Label string
		Origins   []string
	}
}

// reportBody is what an import says of itself.
type reportBody struct {
	Verbs       struct{ Added, Changed, Removed []string }
	Hidden      int
	Unused      []string
	Raised      []struct{ Operation, Verb, Reason string }
	Suggestions []struct {
		Operation, Verb, Reason string
		Rule                    json.RawMessage
	}
	Rules   json.RawMessage
	Changes []struct {
		What, Verb, Operation, Before, After, Message string
		NeedsUser                                     bool `json:"needs_user"`
	}
	ChangesTotal int `json:"changes_total"`
}

// stored is the text of all rows of all tables.
func (s *site) stored(t *testing.T) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.db.AdminURL)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 1")
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	var all strings.Builder
	for _, table := range tables {
		var text *string
		// ctid tells of a row that was written again with the same values.
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT string_agg(t.ctid::text || t::text, chr(10) ORDER BY t.ctid) FROM "+table+" t").Scan(&text))
		if text != nil {
			all.WriteString(table + "\n" + *text + "\n")
		}
	}
	return all.String()
}

func (s *site) preview(t *testing.T, as, body string) (p previewBody) {
	t.Helper()
	before := s.stored(t)
	s.do(t, as, http.MethodPost, "/v1/providers?preview=true", body).into(t, http.StatusOK, &p)
	require.Equal(t, before, s.stored(t), "a preview changes nothing")
	require.True(t, p.Preview)
	return p
}

// changedShop has one verb more than the shop, one less, and two others.
func changedShop() string {
	document := strings.Replace(shopDocument, `"/orders/{id}": {`, `"/refunds": {"get": {"operationId": "listRefunds", "servers": [{"url": "https://files.shop.test"}], "responses": {"200": {"description": "ok"}}}}, "/orders/{id}": {`, 1)
	document = strings.Replace(document, `"summary": "List orders"`, `"summary": "List all orders"`, 1)
	document = strings.Replace(document, `"delete": {"operationId": "deleteOrder",`, `"patch": {"operationId": "deleteOrder",`, 1)
	return strings.Replace(document, `"post": {"operationId": "createOrder",`, `"post": {"operationId": "createOrder", "x-agent-runtime": {"risk_level": "low"},`, 1)
}

func TestPreviewSaysWhatAnImportWouldDo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	fresh := s.preview(t, "user", `{"slug":"shop","openapi":`+shopDocument+`}`)
	require.Equal(t, 3, fresh.Imported)
	require.Equal(t, []string{"create_order", "delete_order", "list_orders"}, fresh.Verbs.Added)
	require.Empty(t, fresh.Changes)
	s.do(t, "user", http.MethodGet, "/v1/providers/shop", "").refused(t, http.StatusNotFound, fault.CodeProviderNotFound)

	s.importShop(t, "shop", "")
	same := s.preview(t, "user", `{"slug":"shop","openapi":`+shopDocument+`}`)
	require.Empty(t, same.Verbs.Added)
	require.Empty(t, same.Verbs.Changed)
	require.Empty(t, same.Verbs.Removed)

	s.do(t, "user", http.MethodPost, "/v1/credentials", `{"provider":"shop","type":"bearer","label":"main","data":{"token":"secret"}}`)
	body := `{"slug":"shop","base_url":"https://new.shop.test","openapi":` + changedShop() + `}`
	p := s.preview(t, "user", body)
	require.Equal(t, "https://new.shop.test", p.BaseURL)
	require.Equal(t, []string{"list_refunds"}, p.Verbs.Added)
	require.Equal(t, []string{"create_order", "delete_order", "list_orders"}, p.Verbs.Changed)
	require.Empty(t, p.Verbs.Removed)
	told := map[string]string{}
	for _, c := range p.Changes {
		require.NotEmpty(t, c.Message)
		told[c.What+" "+c.Operation] = c.Before + " > " + c.After
		require.True(t, c.NeedsUser, c.What)
	}
	require.Equal(t, "https://api.shop.test/v1 > https://new.shop.test", told["base_url "])
	require.Equal(t, "medium > low", told["risk_level POST /orders"])
	require.Contains(t, told, "removed DELETE /orders/{}")
	require.Len(t, p.Changes, p.ChangesTotal)
	require.Len(t, p.Credentials, 1)
	require.Equal(t, "main", p.Credentials[0].Label)
	require.Equal(t, []string{"https://new.shop.test", "https://files.shop.test"}, p.Credentials[0].Origins)
	apart := s.preview(t, "user", `{"slug":"shop","openapi":`+changedShop()+`}`)
	require.Equal(t, []string{"https://files.shop.test"}, apart.Credentials[0].Origins, "a server of one operation")
	require.Empty(t, s.preview(t, "user", `{"slug":"shop","auth":{"type":"none"},"openapi":`+changedShop()+`}`).Credentials, "none is needed")

	// The import does what its preview says.
	var done providerBody
	s.do(t, "user", http.MethodPost, "/v1/providers?preview=false", body).into(t, http.StatusOK, &done)
	require.Equal(t, p.providerBody, done)
	require.Empty(t, s.preview(t, "user", body).Verbs.Changed)
}

// An import that would be refused is refused before.
func TestPreviewRefusesWhatTheImportRefuses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importShop(t, "shop", "")
	for name, tt := range map[string]struct{ as, body string }{
		"a change that needs a user":     {"manager", `{"slug":"shop","openapi":` + changedShop() + `}`},
		"a server that no call may meet": {"user", `{"slug":"shop","base_url":"http://127.0.0.1","openapi":` + shopDocument + `}`},
		"a document that is none":        {"user", `{"slug":"shop","openapi":{}}`},
		"a member that is unknown":       {"user", `{"slug":"shop","preview":true,"openapi":` + shopDocument + `}`},
		"a slug that is none":            {"user", `{"slug":"tool","openapi":` + shopDocument + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dry := s.do(t, tt.as, http.MethodPost, "/v1/providers?preview=true", tt.body)
			real := s.do(t, tt.as, http.MethodPost, "/v1/providers", tt.body)
			require.GreaterOrEqual(t, real.status, 400)
			without := func(a answer) string {
				return strings.ReplaceAll(a.body, a.header.Get("X-Request-Id"), "")
			}
			require.Equal(t, without(real), without(dry))
		})
	}
	s.do(t, "user", http.MethodPost, "/v1/providers?preview=maybe", `{"slug":"shop","openapi":`+shopDocument+`}`).refused(t, http.StatusBadRequest, fault.CodeValidation)
	s.do(t, "user", http.MethodPost, "/v1/providers?preview=true", `{"slug":"shop","openapi":`+shopDocument+`}`, "Idempotency-Key", "a b").refused(t, http.StatusBadRequest, fault.CodeInvalidIdempotencyKey)
}

func TestPreviewByAKeyShowsWhatTheKeyMayDo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importShop(t, "shop", "")
	p := s.preview(t, "manager", `{"slug":"shop","openapi":`+strings.Replace(shopDocument, `"summary": "List orders"`, `"summary": "All"`, 1)+`}`)
	require.Equal(t, []string{"list_orders"}, p.Verbs.Changed)
	require.Empty(t, p.Changes)
	require.NotNil(t, p.Changes)
	require.NotNil(t, p.Verbs.Added)
	require.NotNil(t, p.Credentials)
}
