package api

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/tenant/account"
	"agentruntime/internal/tenant/auth"
)

func someoneElse() account.User {
	expires := someday.Add(time.Hour)
	return account.User{
		ID: someKey, Email: "b@example.com", Role: actor.RoleMember, Status: account.UserInvited, CreatedAt: someday, InvitationExpiresAt: &expires,
	}
}

func (d *door) Invite(_ context.Context, who actor.Actor, in account.InviteInput) (account.Invited, error) {
	d.args = []any{who.TenantID, who.ID, in}
	return account.Invited{User: someoneElse(), Token: "ari_x"}, d.err
}

func (d *door) InviteAgain(_ context.Context, who actor.Actor, id string) (account.Invited, error) {
	d.args = []any{who.TenantID, who.ID, id}
	return account.Invited{User: someoneElse(), Token: "ari_y"}, d.err
}

func (d *door) User(_ context.Context, tenant uuid.UUID, id string) (account.User, error) {
	d.args = []any{tenant, id}
	return someoneElse(), d.err
}

func (d *door) ListUsers(_ context.Context, tenant uuid.UUID, f account.UserFilter) ([]account.User, bool, error) {
	d.args = []any{tenant, f}
	if f.Status == "removed" {
		return nil, false, d.err
	}
	return []account.User{someoneElse()}, true, d.err
}

func (d *door) ChangeUser(_ context.Context, who actor.Actor, id string, c account.UserChange) (account.User, error) {
	d.args = []any{who.TenantID, who.ID, id, c}
	u := someoneElse()
	u.Status, u.JoinedAt, u.InvitationExpiresAt, u.RemovedAt = account.UserRemoved, &someday, nil, &someday
	return u, d.err
}

func (d *door) RemoveUser(_ context.Context, who actor.Actor, id string, _ fault.Expect[account.User]) error {
	d.args = []any{who.TenantID, who.ID, id}
	return d.err
}

func TestUserAnswers(t *testing.T) {
	t.Parallel()
	const (
		id      = `"id":"01900000-0000-7000-8000-000000000003","email":"b@example.com","name":"","role":"member",`
		invited = id + `"status":"invited","created_at":"2026-01-02T03:04:05.678Z","joined_at":null,"invitation_expires_at":"2026-01-02T04:04:05.678Z","removed_at":null,"email_verified_at":null`
		removed = id + `"status":"removed","created_at":"2026-01-02T03:04:05.678Z","joined_at":"2026-01-02T03:04:05.678Z","invitation_expires_at":null,"removed_at":"2026-01-02T03:04:05.678Z","email_verified_at":null`
	)
	member := "member"
	for name, tc := range map[string]struct {
		method, path, body string
		status             int
		want               string
		args               []any
	}{
		"invite": {
			http.MethodPost, "/v1/users", `{"email":"b@example.com","role":"member","name":"n"}`, 201,
			`{"success":true,"data":{` + invited + `,"invitation_token":"ari_x"}}`,
			[]any{someTenant, someUser, account.InviteInput{Email: "b@example.com", Name: "n", Role: "member"}},
		},
		"invite without fields": {
			http.MethodPost, "/v1/users", `{}`, 400,
			`{"success":false,"error":{"code":"VALIDATION_ERROR","message":"The request is not valid.","requestId":"req-1","details":[{"path":"/email","rule":"required","message":"email is required."},{"path":"/role","rule":"required","message":"role is required."}]}}`,
			nil,
		},
		"invite again": {
			http.MethodPost, "/v1/users/x%2Fy/invite", "", 200, `{"success":true,"data":{` + invited + `,"invitation_token":"ari_y"}}`,
			[]any{someTenant, someUser, "x/y"},
		},
		"get": {http.MethodGet, "/v1/users/x", "", 200, `{"success":true,"data":{` + invited + `}}`, []any{someTenant, "x"}},
		"list": {
			http.MethodGet, "/v1/users?limit=1&status=all", "", 200,
			`{"success":true,"data":[{` + invited + `}],"pagination":{"limit":1,"has_more":true,"next_cursor":"KW0FjVSJAZAAAAAAcACAAAAAAAAAAw"}}`,
			[]any{someTenant, account.UserFilter{Status: "all", Limit: 1}},
		},
		"next page": {
			http.MethodGet, "/v1/users?cursor=QIDPKLk0AZAAAAAAcACAAAAAAAAAAw&status=removed", "", 200,
			`{"success":true,"data":[],"pagination":{"limit":100,"has_more":false,"next_cursor":null}}`,
			[]any{someTenant, account.UserFilter{Status: "removed", Before: &someKey, Limit: 100}},
		},
		"next page of another list": {
			http.MethodGet, "/v1/users?cursor=KW0FjVSJAZAAAAAAcACAAAAAAAAAAw&status=removed", "", 400,
			`{"success":false,"error":{"code":"VALIDATION_ERROR","message":"cursor is from an answer with other filters. Keep the filters, or begin without a cursor.","requestId":"req-1","details":[{"path":"query.cursor","rule":"filters","message":"cursor is from an answer with other filters. Keep the filters, or begin without a cursor."}]}}`,
			nil,
		},
		"change": {
			http.MethodPatch, "/v1/users/x", `{"role":"member"}`, 200, `{"success":true,"data":{` + removed + `}}`,
			[]any{someTenant, someUser, "x", account.UserChange{Role: &member}},
		},
		"remove": {http.MethodDelete, "/v1/users/x", "", 200, `{"success":true,"data":{"deleted":true}}`, []any{someTenant, someUser, "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &door{}
			w := ask(t, accountServer(t, d), tc.method, tc.path, "jwt", tc.body)
			require.Equal(t, tc.want, w.Body.String())
			require.Equal(t, tc.status, w.Code)
			require.Equal(t, tc.args, d.args)
			if tc.status == http.StatusCreated {
				require.Equal(t, "/v1/users/"+someKey.String(), w.Header().Get("Location"))
			}
		})
	}
}

func TestAcceptInvitation(t *testing.T) {
	t.Parallel()
	d := &door{}
	w := ask(t, accountServer(t, d), http.MethodPost, "/v1/auth/accept-invitation", "", `{"token":"t","password":"p","name":"n"}`)
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"token":"jwt"`)
	in, is := d.args[0].(account.AcceptInput)
	require.True(t, is)
	require.Equal(t, account.AcceptInput{Token: "t", Password: "p", Name: "n"}, in)
	require.Equal(t, "192.0.2.7", d.who.SourceAddr)

	w = ask(t, accountServer(t, &door{}), http.MethodPost, "/v1/auth/accept-invitation", "", `{}`)
	require.Equal(t, http.StatusBadRequest, w.Code)
}

// roleDoor is a door whose caller is a user with one role.
type roleDoor struct {
	*door

	role actor.Role
}

func (d roleDoor) Token(context.Context, string) (auth.Principal, error) {
	return auth.Principal{Kind: actor.User, TenantID: someTenant, UserID: someUser, Role: d.role}, nil
}

func TestRefusalNamesTheMissingRole(t *testing.T) {
	t.Parallel()
	for role, want := range map[string]int{"owner": 200, "admin": 200, "approver": 403, "member": 403, "": 403, "OWNER": 403, "root": 403} {
		s := accountServer(t, &door{})
		s.gate.auth = roleDoor{&door{}, actor.Role(role)}
		w := ask(t, s, http.MethodDelete, "/v1/users/x", "jwt", "")
		require.Equal(t, want, w.Code, role)
		if want == http.StatusForbidden {
			require.Contains(t, w.Body.String(), string(fault.CodeInsufficientPermissions))
			require.Contains(t, w.Body.String(), "This takes the role owner or admin.")
		}
	}
}

func TestDomainReceivesTheActor(t *testing.T) {
	t.Parallel()
	d := &door{}
	s := accountServer(t, d)
	ask(t, s, http.MethodPost, "/v1/auth/login", "", `{"email":"e","password":"p"}`)
	require.Equal(t, actor.Actor{Kind: actor.System, RequestID: "req-1", SourceAddr: "192.0.2.7"}, d.who, "before the login")
	ask(t, s, http.MethodPost, "/v1/auth/logout", "jwt", "")
	require.Equal(t, actor.Actor{
		Kind: actor.User, TenantID: someTenant, ID: someUser, Role: actor.RoleOwner, RequestID: "req-1", SourceAddr: "192.0.2.7",
	}, d.who)
}
