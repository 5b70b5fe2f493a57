package rig

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// Password is that of every user that the rig makes.
const Password = "correct horse battery"

// Tenant is a tenant with its owner and a key.
type Tenant struct {
	ID, Email, Password string
	OwnerID             string
	User                *Client // the owner, by JWT
	Runtime             *Client // by a key with RuntimePermissions
	RuntimeKeyID        string
}

// RuntimePermissions are those of a key that runs actions.
func RuntimePermissions() []string { return []string{"actions:run", "actions:catalog"} }

// Address returns an email address that no other test uses.
func Address() string { return "owner-" + uuid.NewString() + "@example.com" }

// NewTenant signs up, logs in and makes a runtime key. The tenant has no policy: the suites say which ones
// they are about.
func (s *Stack) NewTenant(email string) *Tenant {
	s.t.Helper()
	t := s.NewGuardedTenant(email)
	var first []struct{ ID string }
	t.User.Do(http.MethodGet, "/v1/policies", nil).Data(s.t, &first)
	for _, p := range first {
		require.Equal(s.t, http.StatusOK, t.User.Do(http.MethodDelete, "/v1/policies/"+p.ID, nil).Status)
	}
	return t
}

// NewGuardedTenant is NewTenant with the policy that every tenant begins with.
func (s *Stack) NewGuardedTenant(email string) *Tenant {
	s.t.Helper()
	c := &Client{Base: s.APIURL, HTTP: NewHTTP()}
	t := &Tenant{Email: email, Password: Password}
	a := c.Do(http.MethodPost, "/v1/auth/signup", map[string]string{"email": email, "password": t.Password, "name": "Rig"})
	require.Equal(s.t, http.StatusCreated, a.Status, "%s %v", a.Body, a.Err)
	in := s.logIn(email, t.Password)
	t.ID, t.OwnerID = in.User.TenantID, in.User.ID
	t.User = &Client{Base: s.APIURL, Token: in.Token, HTTP: NewHTTP()}
	made := t.User.NewKey(s.t, RuntimePermissions()...)
	t.RuntimeKeyID = made.ID
	t.Runtime = &Client{Base: s.APIURL, Key: made.Key, HTTP: c.HTTP}
	return t
}

// login is what the rig reads of the answer to a log-in.
type login struct {
	Token string `json:"token"`
	User  struct {
		ID       string `json:"id"`
		TenantID string `json:"tenantId"`
	} `json:"user"`
}

func (s *Stack) logIn(email, password string) (in login) {
	s.t.Helper()
	c := &Client{Base: s.APIURL, HTTP: NewHTTP()}
	c.Do(http.MethodPost, "/v1/auth/login", map[string]string{"email": email, "password": password}).Data(s.t, &in)
	return in
}

// LogIn returns a client with a fresh JWT.
func (s *Stack) LogIn(email, password string) *Client {
	s.t.Helper()
	return &Client{Base: s.APIURL, Token: s.logIn(email, password).Token, HTTP: NewHTTP()}
}

// Connect imports a provider's document and stores a credential for it.
func (t *Tenant) Connect(tb testing.TB, slug, baseURL string, document json.RawMessage, credentialType string, data any) {
	tb.Helper()
	a := t.User.Do(http.MethodPost, "/v1/providers", map[string]any{"slug": slug, "name": slug, "domain": "test", "base_url": baseURL, "openapi": document})
	require.Contains(tb, []int{http.StatusOK, http.StatusCreated}, a.Status, "%s %v", a.Body, a.Err)
	if credentialType != "" {
		a = t.User.Do(http.MethodPost, "/v1/credentials", map[string]any{"provider": slug, "type": credentialType, "label": "rig", "data": data})
		require.Equal(tb, http.StatusCreated, a.Status, "%s %v", a.Body, a.Err)
	}
}

// With returns a client of the same API and connections with another credential.
func (c *Client) With(key, token string) *Client {
	return &Client{Base: c.Base, Key: key, Token: token, HTTP: c.HTTP}
}

// Key is an API key with its secret.
type Key struct {
	ID  string `json:"id"`
	Key string `json:"key"`
}

// MakeKey asks for an API key.
func (c *Client) MakeKey(body map[string]any) Answer {
	return c.Do(http.MethodPost, "/v1/api-keys", body)
}

// NewKey makes an API key with the permissions.
func (c *Client) NewKey(tb testing.TB, permissions ...string) (made Key) {
	tb.Helper()
	c.MakeKey(map[string]any{"name": "rig", "permissions": permissions}).Data(tb, &made)
	return made
}

// Invitation is a user who was invited. Token accepts the invitation.
type Invitation struct {
	ID    string `json:"id"`
	Token string `json:"invitation_token"`
}

// Invite invites a user.
func (c *Client) Invite(email, role string) Answer {
	return c.Do(http.MethodPost, "/v1/users", map[string]string{"email": email, "role": role})
}

// Accept accepts an invitation, with Password; Joined reads the answer.
func (c *Client) Accept(token string) Answer {
	return c.With("", "").Do(http.MethodPost, "/v1/auth/accept-invitation", map[string]string{"token": token, "password": Password})
}

// Joined returns a client for the user who accepted an invitation.
func (c *Client) Joined(tb testing.TB, accepted Answer) *Client {
	tb.Helper()
	var in login
	accepted.Data(tb, &in)
	return c.With("", in.Token)
}

// NewUser invites a user, who accepts. It returns a client by JWT and the user's id.
func (c *Client) NewUser(tb testing.TB, email, role string) (user *Client, id string) {
	tb.Helper()
	var invited Invitation
	c.Invite(email, role).Data(tb, &invited)
	return c.Joined(tb, c.Accept(invited.Token)), invited.ID
}
