//go:build conformance

package conformance

import (
	"net/http"

	"github.com/google/uuid"

	"agentruntime/test/rig"
)

// users invites, changes and removes, and joins by invitations.
func (j *journey) users() {
	j.approver, j.second, j.member = j.join("approver"), j.join("approver"), j.join("member")
	type invited struct {
		ID    string `json:"id"`
		Token string `json:"invitation_token"`
	}
	invite := func(email string) (in invited) {
		j.post(j.user, 201, "/v1/users", object{"email": email, "role": "member", "name": "Grace"}).Data(j.t, &in)
		return in
	}
	accept := func(status int, token, password string) {
		j.t.Helper()
		j.post(j.none, status, "/v1/auth/accept-invitation", object{"token": token, "password": password})
	}
	grace := invite("grace@example.com")
	j.post(j.user, 409, "/v1/users", object{"email": "grace@example.com", "role": "member"})
	first := grace.Token
	j.post(j.user, 200, "/v1/users/"+grace.ID+"/invite", nil).Data(j.t, &grace)
	accept(401, first, password)
	accept(422, grace.Token, "short")
	accept(200, grace.Token, password)
	j.post(j.user, 409, "/v1/users/"+grace.ID+"/invite", nil)
	j.post(j.user, 404, "/v1/users/"+nobodys+"/invite", nil)

	j.get(j.user, 200, "/v1/users?limit=1")
	j.get(j.user, 400, "/v1/users?limit=0")
	j.get(j.user, 200, "/v1/users/"+grace.ID)
	j.get(j.user, 404, "/v1/users/"+nobodys)
	j.call(j.user, 200, http.MethodPatch, "/v1/users/"+grace.ID, object{"role": "admin"})
	j.call(j.user, 404, http.MethodPatch, "/v1/users/"+nobodys, object{"role": "admin"})
	var me struct{ User struct{ ID string } }
	j.post(j.none, 200, "/v1/auth/login", object{"email": email, "password": password}).Data(j.t, &me)
	j.call(j.user, 409, http.MethodPatch, "/v1/users/"+me.User.ID, object{"role": "member"})
	j.call(j.user, 409, http.MethodDelete, "/v1/users/"+me.User.ID, nil)
	j.call(j.user, 200, http.MethodDelete, "/v1/users/"+grace.ID, nil)
	j.call(j.user, 404, http.MethodDelete, "/v1/users/"+grace.ID, nil)
	j.get(j.user, 200, "/v1/users?status=removed")

	j.post(j.none, 201, "/v1/auth/signup", object{"email": "elsewhere@example.com", "password": password})
	taken := invite("elsewhere@example.com").Token
	for range 10 { // a tenant's invitations may tell so often that an address is taken
		accept(409, taken, password)
	}
	accept(429, taken, password)
}

// join makes a further user of a role.
func (j *journey) join(role string) *rig.Client {
	j.t.Helper()
	var in struct {
		Token string `json:"invitation_token"`
	}
	j.post(j.user, 201, "/v1/users", object{"email": uuid.NewString() + "@example.com", "role": role}).Data(j.t, &in)
	var login struct{ Token string }
	j.post(j.none, 200, "/v1/auth/accept-invitation", object{"token": in.Token, "password": password}).Data(j.t, &login)
	c := j.client()
	c.Token = login.Token
	return c
}
