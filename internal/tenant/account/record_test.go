package account

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

// entry is what a record says, apart from when.
type entry struct {
	Actor, Action, Subject, RequestID, Source, Details string
}

// trail reads the records of all tenants, those that are new at each call.
type trail struct {
	h    *house
	seen int
}

func (tr *trail) next(t *testing.T) []entry {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), tr.h.db.AdminURL)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), `SELECT actor_type || ' ' || actor_id, action, subject_type || ' ' || subject_id, request_id, source_addr,
		coalesce(details::text, '') FROM audit_records ORDER BY id OFFSET $1`, tr.seen)
	require.NoError(t, err)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
	require.NoError(t, err)
	tr.seen += len(out)
	return out
}

func TestEachChangeLeavesOneRecord(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	tr := &trail{h: h}
	by := func(user uuid.UUID) actor.Actor {
		who := actor.Actor{Kind: actor.System, RequestID: "req-1", SourceAddr: home.String()}
		if user != uuid.Nil {
			tenant := one[uuid.UUID](t, h, "select id from tenants")
			who = asUser(who, tenant, user)
		}
		return who
	}
	nobody := uuid.Nil
	logIn := func(password string) (Login, error) {
		return h.LogIn(t.Context(), by(nobody), LoginInput{Email: "ada@example.com", Password: password})
	}
	want := func(actor, action, subject, details string) []entry {
		return []entry{{Actor: actor, Action: action, Subject: subject, RequestID: "req-1", Source: "192.0.2.1", Details: details}}
	}

	up, err := h.SignUp(t.Context(), by(nobody), SignupInput{Email: "ada@example.com", Password: password})
	require.NoError(t, err)
	ada := "user " + up.UserID.String()
	tenant := one[uuid.UUID](t, h, "select id from tenants")
	made := tr.next(t)
	require.Len(t, made, 2)
	require.Equal(t, "policy.created", made[0].Action, "a tenant begins with a policy")
	require.Equal(t, want(ada, "tenant.created", "tenant "+tenant.String(), ""), made[1:])
	_, err = h.SignUp(t.Context(), by(nobody), SignupInput{Email: "ada@example.com", Password: password})
	require.NoError(t, err)
	require.Empty(t, tr.next(t), "nothing has changed")

	_, err = logIn("wrong horse")
	requireCode(t, fault.CodeInvalidCredentials, err)
	require.Equal(t, want("system ", "user.login_failed", ada, ""), tr.next(t))
	_, err = h.LogIn(t.Context(), by(nobody), LoginInput{Email: "nobody@example.com", Password: password})
	requireCode(t, fault.CodeInvalidCredentials, err)
	require.Empty(t, tr.next(t), "of whom would it be")
	me, err := logIn(password)
	require.NoError(t, err)
	require.Equal(t, want(ada, "user.logged_in", ada, ""), tr.next(t))

	_, err = h.Refresh(t.Context(), by(nobody), me.RefreshToken)
	require.NoError(t, err)
	require.Empty(t, tr.next(t))
	_, err = h.Refresh(t.Context(), by(nobody), me.RefreshToken)
	requireCode(t, fault.CodeInvalidToken, err)
	require.Equal(t, want("system ", "user.session_revoked", ada, ""), tr.next(t))
	me, err = logIn(password)
	require.NoError(t, err)
	tr.next(t)

	mine := by(up.UserID)
	key, err := h.CreateKey(t.Context(), mine, KeyInput{Name: "k"})
	require.NoError(t, err)
	require.Equal(t, want(ada, "api_key.created", "api_key "+key.ID.String(), `{"agent_id":null,"expires_at":null,"identity_verification":false,"limits":{},"name":"k","permissions":["agents:message"]}`), tr.next(t))
	_, err = h.ChangeKey(t.Context(), mine, key.ID.String(), KeyChange{AllowedIPs: []string{"10.0.0.1"}})
	require.NoError(t, err)
	require.Equal(t, want(ada, "api_key.updated", "api_key "+key.ID.String(), `{"allowed_ips":["10.0.0.1/32"]}`), tr.next(t))
	_, err = h.ChangeKey(t.Context(), mine, key.ID.String(), KeyChange{Name: new("k")})
	require.NoError(t, err)
	require.Empty(t, tr.next(t), "nothing has changed")
	rotated, err := h.RotateKey(t.Context(), mine, key.ID.String(), 0)
	require.NoError(t, err)
	require.Equal(t, want(ada, "api_key.rotated", "api_key "+key.ID.String(), `{"previous_until":"2026-01-02T03:04:05Z"}`), tr.next(t))
	require.NoError(t, h.RevokeKey(t.Context(), mine, key.ID.String(), nil))
	require.Equal(t, want(ada, "api_key.revoked", "api_key "+key.ID.String(), ""), tr.next(t))
	requireCode(t, fault.CodeAPIKeyNotFound, h.RevokeKey(t.Context(), mine, key.ID.String(), nil))
	require.Empty(t, tr.next(t))

	in, err := h.Invite(t.Context(), mine, InviteInput{Email: "bob@example.com", Role: "member"})
	require.NoError(t, err)
	bob := "user " + in.ID.String()
	require.Equal(t, want(ada, "user.invited", bob, `{"role":"member"}`), tr.next(t))
	_, err = h.Invite(t.Context(), mine, InviteInput{Email: "bob@example.com", Role: "member"})
	requireCode(t, fault.CodeConflict, err)
	require.Empty(t, tr.next(t))
	in, err = h.InviteAgain(t.Context(), mine, in.ID.String())
	require.NoError(t, err)
	require.Equal(t, want(ada, "user.invited", bob, `{"again":true,"role":"member"}`), tr.next(t))
	_, err = h.AcceptInvitation(t.Context(), by(nobody), AcceptInput{Token: "ari_x", Password: password})
	requireCode(t, fault.CodeInvalidToken, err)
	require.Empty(t, tr.next(t))
	joined, err := h.AcceptInvitation(t.Context(), by(nobody), AcceptInput{Token: in.Token, Password: password})
	require.NoError(t, err)
	require.Equal(t, want(bob, "user.joined", bob, ""), tr.next(t))

	role, name := "approver", "Bob"
	_, err = h.ChangeUser(t.Context(), mine, in.ID.String(), UserChange{Role: &role})
	require.NoError(t, err)
	require.Equal(t, want(ada, "user.role_changed", bob, `{"from":"member","to":"approver"}`), tr.next(t))
	_, err = h.ChangeUser(t.Context(), mine, in.ID.String(), UserChange{Role: &role})
	require.NoError(t, err)
	require.Empty(t, tr.next(t), "nothing has changed")
	_, err = h.ChangeUser(t.Context(), mine, in.ID.String(), UserChange{Name: &name})
	require.NoError(t, err)
	require.Equal(t, want(ada, "user.renamed", bob, ""), tr.next(t))
	require.NoError(t, h.RemoveUser(t.Context(), mine, in.ID.String(), nil))
	require.Equal(t, want(ada, "user.removed", bob, `{"role":"approver","status":"active"}`), tr.next(t))

	claims, err := h.tokens.Verify(me.Token)
	require.NoError(t, err)
	_, err = logIn(password)
	require.NoError(t, err)
	tr.next(t)
	require.NoError(t, h.EndOtherSessions(t.Context(), mine, claims.SessionID))
	require.Equal(t, want(ada, "user.sessions_ended", ada, `{"sessions":1}`), tr.next(t))
	require.NoError(t, h.ChangePassword(t.Context(), mine, claims.SessionID, NewPassword{Current: password, New: "another horse"}))
	require.Equal(t, want(ada, "user.password_changed", ada, `{"sessions":0}`), tr.next(t))
	require.NoError(t, h.LogOut(t.Context(), mine, claims.SessionID))
	require.Equal(t, want(ada, "user.logged_out", ada, ""), tr.next(t))
	require.NoError(t, h.LogOut(t.Context(), mine, claims.SessionID))
	require.Empty(t, tr.next(t))

	all, err := json.Marshal((&trail{h: h}).next(t))
	require.NoError(t, err)
	for _, secret := range []string{password, "wrong horse", "another horse", key.Secret, rotated.Secret, in.Token, me.Token, me.RefreshToken, joined.RefreshToken, "example.com"} {
		require.NotContains(t, string(all), secret)
	}
}

// The record and the change are one: where one cannot be written, neither is.
func TestNoChangeWithoutItsRecord(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	me := h.join(t, "ada@example.com")
	bob := h.add(t, me, "bob@example.com", "member")
	key, err := h.CreateKey(t.Context(), as(me), KeyInput{Name: "k"})
	require.NoError(t, err)
	waits := h.invite(t, me, "waits@example.com", "member")
	admin, err := pgx.Connect(t.Context(), h.db.AdminURL)
	require.NoError(t, err)
	defer admin.Close(context.Background())
	_, err = admin.Exec(t.Context(), "ALTER TABLE audit_records ADD CONSTRAINT no_room CHECK (false) NOT VALID")
	require.NoError(t, err)
	state := func() string {
		return one[string](t, h, `select (select jsonb_agg(to_jsonb(u) order by id) from users u)::text || (select jsonb_agg(to_jsonb(k) order by id) from api_keys k)::text
			|| (select jsonb_agg(to_jsonb(s) order by id) from sessions s)::text || (select jsonb_agg(to_jsonb(n) order by id) from tenants n)::text`)
	}
	before := state()
	claims, err := h.tokens.Verify(me.Token)
	require.NoError(t, err)
	for name, change := range map[string]func() error{
		"sign up": func() error {
			_, err := h.SignUp(t.Context(), from(home), SignupInput{Email: "new@example.com", Password: password})
			return err
		},
		"log in":      func() error { _, err := h.logIn(t, "ada@example.com", password); return err },
		"log out":     func() error { return h.LogOut(t.Context(), as(me), claims.SessionID) },
		"end session": func() error { return h.EndSession(t.Context(), as(me), claims.SessionID) },
		"change password": func() error {
			return h.ChangePassword(t.Context(), as(me), claims.SessionID, NewPassword{Current: password, New: "another horse"})
		},
		"create key": func() error {
			_, err := h.CreateKey(t.Context(), as(me), KeyInput{Name: "k"})
			return err
		},
		"change key": func() error {
			_, err := h.ChangeKey(t.Context(), as(me), key.ID.String(), KeyChange{Name: new("x")})
			return err
		},
		"rotate key": func() error {
			_, err := h.RotateKey(t.Context(), as(me), key.ID.String(), 0)
			return err
		},
		"revoke key": func() error { return h.RevokeKey(t.Context(), as(me), key.ID.String(), nil) },
		"invite": func() error {
			_, err := h.Invite(t.Context(), as(me), InviteInput{Email: "x@example.com", Role: "member"})
			return err
		},
		"join":   func() error { _, err := h.accept(t, waits.Token); return err },
		"change": func() error { return h.setRole(t.Context(), me, bob.UserID, "admin") },
		"remove": func() error { return h.remove(t.Context(), me, bob.UserID) },
	} {
		require.ErrorContains(t, change(), "no_room", name)
		require.Equal(t, before, state(), name)
	}
}
