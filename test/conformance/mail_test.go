//go:build conformance

package conformance

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// mails uses the links in mail: to verify an address, to reset a password, to change an address.
func (j *journey) mails() {
	const (
		own, other, taken = "mail@example.com", "mail-next@example.com", "mail-taken@example.com"
		verify, reset     = "/v1/auth/verify-email", "/v1/auth/reset-password"
		change            = "/v1/auth/change-email"
		next              = "another horse"
	)
	j.post(j.none, 201, "/v1/auth/signup", object{"email": own, "password": password})
	token := object{"token": j.mailed(own, "Verify your email address")}
	j.post(j.none, 200, verify, token)
	j.refused(j.none, 401, "INVALID_TOKEN", http.MethodPost, verify, token)
	j.post(j.none, 202, "/v1/auth/resend-verification", object{"email": own})
	j.post(j.none, 202, "/v1/auth/forgot-password", object{"email": own})
	forgotten := object{"token": j.mailed(own, "Reset your password"), "new_password": "short"}
	j.refused(j.none, 422, "WEAK_PASSWORD", http.MethodPost, reset, forgotten)
	forgotten["new_password"] = password
	j.post(j.none, 200, reset, forgotten)
	j.refused(j.none, 401, "INVALID_TOKEN", http.MethodPost, reset, forgotten)

	user := j.logIn(own)
	to := func(email string) object { return object{"current_password": password, "email": email} }
	j.refused(user, 401, "INVALID_CREDENTIALS", http.MethodPost, change, object{"current_password": next, "email": other})
	j.refused(user, 400, "VALIDATION_ERROR", http.MethodPost, change, to(own))
	j.post(user, 202, change, to(taken))
	token = object{"token": j.mailed(taken, "Confirm your new email address")}
	j.post(j.none, 201, "/v1/auth/signup", object{"email": taken, "password": password})
	j.refused(j.none, 409, "CONFLICT", http.MethodPost, verify, token)
	j.post(user, 202, change, to(other))
	j.post(j.none, 200, verify, object{"token": j.mailed(other, "Confirm your new email address")})
}

// mailed waits for a mail in the mailbox of the development server, and returns the token in its link.
func (j *journey) mailed(to, subject string) (token string) {
	j.t.Helper()
	direct := &rig.Client{Base: j.upstream, HTTP: rig.NewHTTP()}
	rig.Until(j.t, 30*time.Second, subject+" arrives", func() bool {
		var box struct {
			Mails []struct{ Subject, Text string }
		}
		a := direct.Do(http.MethodGet, "/dev/mailbox?to="+url.QueryEscape(to), nil)
		require.NoError(j.t, a.Err)
		require.NoError(j.t, json.Unmarshal(a.Body, &box))
		for _, m := range box.Mails {
			if m.Subject != subject {
				continue
			}
			link, err := url.Parse(regexp.MustCompile(`http\S+`).FindString(m.Text))
			require.NoError(j.t, err)
			token = link.Query().Get("token")
			return true
		}
		return false
	})
	return token
}

// verifiedOnly has the operator require verified addresses, when there are users, sessions and
// invitations without one.
func (j *journey) verifiedOnly(s *rig.Stack) {
	const own = "unverified@example.com"
	j.post(j.none, 201, "/v1/auth/signup", object{"email": own, "password": password})
	known := object{"email": own, "password": password}
	var login struct {
		RefreshToken string `json:"refresh_token"`
	}
	j.post(j.none, 200, "/v1/auth/login", known).Data(j.t, &login)
	var invited struct {
		Token string `json:"invitation_token"`
	}
	j.post(j.user, 201, "/v1/users", object{"email": "invited@example.com", "role": "member"}).Data(j.t, &invited)
	require.True(j.t, s.Parts["dev"].Terminate())
	s.Env = []string{"REQUIRE_VERIFIED_EMAIL=true"}
	s.Restart("dev")
	j.refused(j.none, 403, "EMAIL_NOT_VERIFIED", http.MethodPost, "/v1/auth/login", known)
	j.refused(j.none, 403, "EMAIL_NOT_VERIFIED", http.MethodPost, "/v1/auth/refresh", object{"refresh_token": login.RefreshToken})
	accept := object{"token": invited.Token, "password": password}
	j.refused(j.none, 403, "EMAIL_NOT_VERIFIED", http.MethodPost, "/v1/auth/accept-invitation", accept)
}
