package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

type overlaidBody struct {
	ruledBody
	Overlay json.RawMessage
}

func overlayOf(actions string) string {
	return `{"overlay":"1.0.0","info":{"title":"Ours","version":"1"},"actions":[` + actions + `]}`
}

// An overlay corrects the document before it is read, stays with the provider, and is weaker than
// a rule and stronger than what the document says.
func TestOverlayStaysUntilItIsReplaced(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	read := func(as, method, path, body string, status int) (p overlaidBody) {
		t.Helper()
		s.do(t, as, method, path, body).into(t, status, &p)
		return p
	}
	document := strings.Replace(shopDocument, `"operationId": "createOrder",`, `"operationId": "createOrder", "x-agent-runtime": {"risk_level": "low"},`, 1)
	overlay := overlayOf(`{"target":"$.paths['/orders'].post","update":{"x-agent-runtime":{"risk_level":"high"}}},
		{"target":"$.paths['/orders/{id}']","remove":true},{"target":"$.paths['/none']","remove":true}`)
	body := func(members, document string) string {
		return `{"slug":"shop",` + members + `"openapi":` + document + `}`
	}

	preview := read("user", http.MethodPost, "/v1/providers?preview=true", body(`"overlay":`+overlay+`,`, document), http.StatusOK)
	require.Equal(t, []string{"/overlay/actions/2"}, preview.Unused)
	s.do(t, "user", http.MethodGet, "/v1/providers/shop", "").refused(t, http.StatusNotFound, fault.CodeProviderNotFound)

	p := read("user", http.MethodPost, "/v1/providers", body(`"overlay":`+overlay+`,`, document), http.StatusCreated)
	require.Equal(t, []string{"/overlay/actions/2"}, p.Unused)
	require.Equal(t, 2, p.Imported)
	require.JSONEq(t, overlay, string(p.Overlay))
	require.Equal(t, "high", s.risk(t, "create_order"), "stronger than the document")

	// The kept one is applied again, also to what a key imports.
	more := strings.Replace(document, `"summary": "List orders"`, `"summary": "All"`, 1)
	p = read("manager", http.MethodPost, "/v1/providers", body("", more), http.StatusOK)
	require.JSONEq(t, overlay, string(p.Overlay))
	require.Equal(t, 2, p.Imported)
	require.Equal(t, "high", s.risk(t, "create_order"))
	p = read("user", http.MethodPatch, "/v1/providers/shop", `{"rules":[{"match":{"verb":"create_order"},"risk_level":"medium"}]}`, http.StatusOK)
	require.JSONEq(t, overlay, string(p.Overlay))
	require.Equal(t, "medium", s.risk(t, "create_order"), "a rule is stronger")

	p = read("user", http.MethodPatch, "/v1/providers/shop", `{"overlay":`+overlayOf(`{"target":"$.paths['/orders'].get","remove":true}`)+`}`, http.StatusOK)
	require.Equal(t, 2, p.Imported)
	require.Equal(t, "overlay", p.Changes[0].What)
	p = read("user", http.MethodPatch, "/v1/providers/shop", `{"overlay":null,"rules":[]}`, http.StatusOK)
	require.JSONEq(t, `null`, string(p.Overlay))
	require.Equal(t, 3, p.Imported)
	require.Equal(t, "low", s.risk(t, "create_order"))
}

// What an overlay says counts for later imports too, so a key sets none.
func TestKeySetsNoOverlay(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	mine := overlayOf(`{"target":"$.info","update":{"description":"d"}}`)
	a := s.do(t, "manager", http.MethodPost, "/v1/providers", `{"slug":"shop","overlay":`+mine+`,"openapi":`+shopDocument+`}`)
	a.refused(t, http.StatusForbidden, fault.CodeInsufficientPermissions)
	require.Equal(t, []string{"/overlay"}, a.paths)
	s.do(t, "user", http.MethodPost, "/v1/providers", `{"slug":"shop","overlay":`+mine+`,"openapi":`+shopDocument+`}`).into(t, http.StatusCreated, &struct{}{})
	for _, other := range []string{"null", overlayOf(`{"target":"$.info","update":{"description":"e"}}`)} {
		s.do(t, "manager", http.MethodPost, "/v1/providers", `{"slug":"shop","overlay":`+other+`,"openapi":`+shopDocument+`}`).refused(t, http.StatusForbidden, fault.CodeInsufficientPermissions)
	}
	s.do(t, "manager", http.MethodPatch, "/v1/providers/shop", `{"overlay":null}`).refused(t, http.StatusForbidden, fault.CodeInsufficientPermissions)
	same := strings.Replace(mine, `"overlay":"1.0.0",`, ` `, 1)
	same = strings.Replace(same, `"actions"`, `"overlay": "1.0.0", "actions"`, 1)
	s.do(t, "manager", http.MethodPost, "/v1/providers", `{"slug":"shop","overlay":`+same+`,"openapi":`+shopDocument+`}`).into(t, http.StatusOK, &struct{}{})
}

func TestMalformedOverlayIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for overlay, path := range map[string]string{
		`[]`:          "/overlay",
		`"1.0.0"`:     "/overlay",
		`{}`:          "/overlay/overlay",
		overlayOf(``): "/overlay/actions",
		overlayOf(`{"target":"paths","remove":true}`):                    "/overlay/actions/0/target",
		overlayOf(`{"target":"$.info","update":{}},{"target":"$.info"}`): "/overlay/actions/1",
		overlayOf(`{"target":"$.info","update":[]}`):                     "/overlay/actions/0/update",
		overlayOf(`{"target":"$","update":{"openapi":"4.0.0"}}`):         "/openapi/openapi",
		overlayOf(`{"target":"$.info","update":{},"removed":true}`):      "/overlay/actions/0/removed",
		overlayOf(`{"target":"$..[?@.a == $.b]","remove":true}`):         "/overlay/actions/0/target",
	} {
		a := s.do(t, "user", http.MethodPost, "/v1/providers", `{"slug":"shop","overlay":`+overlay+`,"openapi":`+shopDocument+`}`)
		a.refused(t, http.StatusBadRequest, fault.CodeValidation)
		require.Contains(t, a.paths, path, overlay)
	}
	s.do(t, "user", http.MethodGet, "/v1/providers/shop", "").refused(t, http.StatusNotFound, fault.CodeProviderNotFound)
}
