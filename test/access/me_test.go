package access

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMeTellsACallerWhoTheyAre(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "selves")
	type identity struct {
		Type   string
		Tenant struct {
			ID   string
			Name *string
		}
		User   *struct{ ID, Email, Role string }
		APIKey *struct {
			ID          string
			Permissions []string
		} `json:"api_key"`
		Session *struct {
			ID      string
			Current bool
		}
	}
	me := func(h http.Header) (got identity) {
		a := w.call(t, request{method: http.MethodGet, path: "/v1/me", header: h})
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		var envelope struct{ Data identity }
		require.NoError(t, json.Unmarshal(a.Body, &envelope))
		return envelope.Data
	}
	person := me(bearer(own.token))
	require.Equal(t, own.ID, person.Tenant.ID)
	require.Equal(t, own.ownerID, person.User.ID)
	require.Equal(t, "owner", person.User.Role)
	require.Equal(t, sessionIn(own.token), person.Session.ID)
	require.True(t, person.Session.Current)
	software := me(headers("X-API-Key", own.Runtime.Key))
	require.Equal(t, "key", software.Type)
	require.Equal(t, own.RuntimeKeyID, software.APIKey.ID)
	require.NotEmpty(t, software.APIKey.Permissions)
	require.Nil(t, software.Tenant.Name)
	require.Equal(t, software, me(both(bearer(own.token), headers("X-API-Key", own.Runtime.Key))))
}

func TestPasswordChangeLogsOutEverywhereElse(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "changing")
	elsewhere := w.LogIn(own.email, own.Password)
	body := encode(t, map[string]string{"current_password": own.Password, "new_password": "another horse"})
	a := w.call(t, request{method: http.MethodPost, path: "/v1/auth/change-password", header: bearer(own.token), body: body})
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	require.Equal(t, http.StatusUnauthorized, elsewhere.Do(http.MethodGet, "/v1/me", nil).Status)
	require.Equal(t, http.StatusOK, own.User.Do(http.MethodGet, "/v1/me", nil).Status)
	again := w.call(t, request{method: http.MethodPost, path: "/v1/auth/change-password", header: bearer(own.token), body: body})
	require.Equal(t, "401 INVALID_CREDENTIALS", outcome(again.Status, code(t, again)))
	require.NotEmpty(t, w.LogIn(own.email, "another horse").Token)
}
