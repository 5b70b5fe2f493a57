-- +goose Up

-- Users, their sessions, and API keys.

-- One address is one user in the whole installation, whatever their tenant. The
-- service lower-cases addresses and takes ASCII only, so the index is enough.
CREATE TABLE users (
    id                    uuid PRIMARY KEY,
    tenant_id             uuid NOT NULL REFERENCES tenants (id),
    email                 text NOT NULL CHECK ((email = lower(email))),
    password_hash         text,
    name                  text NOT NULL,
    role                  text NOT NULL CHECK ((role IN ('owner', 'admin', 'approver', 'member'))),
    email_verified_at     timestamptz,
    created_at            timestamptz NOT NULL,
    -- A user is invited (no joined_at), active, or removed; a removed one's row stays, since
    -- records and keys refer to it.
    joined_at             timestamptz,
    removed_at            timestamptz,
    -- HMAC of the invitation's token, under a pepper that is not in the database. A new
    -- token takes its place, so the old one is void.
    invitation_hash       bytea CHECK ((length(invitation_hash) = 32)),
    invitation_expires_at timestamptz,
    -- The token of the mail is another one than that which the inviting user sees: only the mail's
    -- shows that the address belongs to the person who joins.
    invitation_mail_hash  bytea CHECK ((length(invitation_mail_hash) = 32)),
    CONSTRAINT users_invitation CHECK (((invitation_hash IS NOT NULL) = ((joined_at IS NULL) AND (removed_at IS NULL)))),
    CONSTRAINT users_invitation_expiry CHECK (((invitation_hash IS NULL) = (invitation_expires_at IS NULL))),
    CONSTRAINT users_password CHECK (((password_hash IS NOT NULL) = ((joined_at IS NOT NULL) AND (removed_at IS NULL))))
);
CREATE UNIQUE INDEX users_email ON users (email) WHERE ((joined_at IS NOT NULL) AND (removed_at IS NULL));
CREATE UNIQUE INDEX users_invitation ON users (invitation_hash) WHERE (invitation_hash IS NOT NULL);
CREATE UNIQUE INDEX users_invitation_mail ON users (invitation_mail_hash) WHERE (invitation_mail_hash IS NOT NULL);
-- Nothing names a user who never joined. Records and keys name the others.
CREATE INDEX users_removed ON users (tenant_id) WHERE (removed_at IS NOT NULL);
CREATE INDEX users_tenant ON users (tenant_id, id);
CREATE UNIQUE INDEX users_tenant_email ON users (tenant_id, email) WHERE (removed_at IS NULL);
CREATE INDEX users_withdrawn ON users (removed_at) WHERE ((removed_at IS NOT NULL) AND (joined_at IS NULL));
ALTER TABLE users ENABLE ROW LEVEL SECURITY;
ALTER TABLE users FORCE ROW LEVEL SECURITY;
CREATE POLICY invited ON users FOR SELECT USING ((invitation_hash = decode(app_setting('app.invitation_hash'), 'hex')));
CREATE POLICY invited_by_mail ON users FOR SELECT USING ((invitation_mail_hash = decode(app_setting('app.invitation_hash'), 'hex')));
CREATE POLICY presented ON users FOR SELECT USING ((email = app_setting('app.login_email')));
CREATE POLICY sweep_delete ON users FOR DELETE USING (((app_setting('app.sweep') = 'on') AND (removed_at IS NOT NULL) AND (joined_at IS NULL)));
CREATE POLICY sweep_lock ON users FOR UPDATE USING (((app_setting('app.sweep') = 'on') AND (removed_at IS NOT NULL)
    AND (joined_at IS NULL))) WITH CHECK (false);
CREATE POLICY sweep_select ON users FOR SELECT USING (((app_setting('app.sweep') = 'on') AND (removed_at IS NOT NULL) AND (joined_at IS NULL)));
CREATE POLICY tenant ON users USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE ON users TO agentruntime_app;
GRANT UPDATE (email, password_hash, name, role, email_verified_at, joined_at, removed_at, invitation_hash, invitation_expires_at,
    invitation_mail_hash) ON users TO agentruntime_app;

-- A session is one login. Its id is the sid of every token issued under it; all of
-- its refresh tokens are one family, revoked together by revoked_at.
CREATE TABLE sessions (
    id         uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    user_id    uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz
);
-- A job deletes what nobody can use any more, of all tenants.
CREATE INDEX sessions_age ON sessions (expires_at);
CREATE INDEX sessions_user ON sessions (user_id);
ALTER TABLE sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_delete ON sessions FOR DELETE USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY sweep_lock ON sessions FOR UPDATE USING ((app_setting('app.sweep') = 'on')) WITH CHECK (false);
CREATE POLICY sweep_select ON sessions FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON sessions USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON sessions TO agentruntime_app;

-- Used tokens stay until their session goes: presenting one again is what gives a
-- stolen token away.
CREATE TABLE refresh_tokens (
    token_hash bytea PRIMARY KEY CHECK ((length(token_hash) = 32)),
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    session_id uuid NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    expires_at timestamptz NOT NULL,
    used_at    timestamptz
);
CREATE INDEX refresh_tokens_session ON refresh_tokens (session_id);
ALTER TABLE refresh_tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE refresh_tokens FORCE ROW LEVEL SECURITY;
CREATE POLICY presented ON refresh_tokens FOR SELECT USING ((token_hash = decode(app_setting('app.refresh_hash'), 'hex')));
CREATE POLICY tenant ON refresh_tokens USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,UPDATE ON refresh_tokens TO agentruntime_app;

-- Failed logins per address and source. subject is a keyed hash of both: what
-- people mistype into the address field, passwords too, is not to be read here.
-- No tenant is known before a login, so the table has none and no row-level security.
CREATE TABLE login_attempts (
    subject        bytea PRIMARY KEY CHECK ((length(subject) = 32)),
    failures       integer NOT NULL,
    window_ends_at timestamptz NOT NULL
);
CREATE INDEX login_attempts_window ON login_attempts (window_ends_at);
GRANT SELECT,INSERT,DELETE,UPDATE ON login_attempts TO agentruntime_app;

-- The addresses from which a user has logged in. Attacks on the user's account do not slow
-- these down. subject is a keyed hash of the user's email address and the network address.
CREATE TABLE login_addresses (
    tenant_id     uuid NOT NULL REFERENCES tenants (id),
    user_id       uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    subject       bytea NOT NULL CHECK ((length(subject) = 32)),
    last_login_at timestamptz NOT NULL,
    PRIMARY KEY (user_id, subject)
);
CREATE INDEX login_addresses_age ON login_addresses (last_login_at);
ALTER TABLE login_addresses ENABLE ROW LEVEL SECURITY;
ALTER TABLE login_addresses FORCE ROW LEVEL SECURITY;
-- A login names an email address before its tenant is known.
CREATE POLICY presented ON login_addresses FOR SELECT USING ((EXISTS ( SELECT
   FROM users u
  WHERE ((u.id = login_addresses.user_id) AND (u.email = app_setting('app.login_email'))))));
CREATE POLICY sweep_delete ON login_addresses FOR DELETE USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY sweep_lock ON login_addresses FOR UPDATE USING ((app_setting('app.sweep') = 'on')) WITH CHECK (false);
CREATE POLICY sweep_select ON login_addresses FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON login_addresses USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON login_addresses TO agentruntime_app;

-- key_hash is an HMAC under a pepper that is not in the database. identity_mode is
-- null for Runtime keys, which take none.
CREATE TABLE api_keys (
    id                      uuid PRIMARY KEY,
    tenant_id               uuid NOT NULL REFERENCES tenants (id),
    key_hash                bytea NOT NULL CHECK ((length(key_hash) = 32)),
    preview                 text NOT NULL,
    name                    text NOT NULL,
    permissions             text[] NOT NULL,
    agent_id                text,
    identity_mode           text CHECK ((identity_mode IN ('anonymous', 'identified', 'required'))),
    allowed_origins         text[] NOT NULL,
    created_by              uuid NOT NULL REFERENCES users (id),
    created_at              timestamptz NOT NULL,
    last_used_at            timestamptz,
    revoked_at              timestamptz,
    -- A key may end by itself, and be used from some networks only. A rotation gives it another
    -- secret: the one before is valid until previous_until, and known after that, so that its
    -- user learns what happened.
    expires_at              timestamptz,
    allowed_ips             text[] DEFAULT '{}'::text[] NOT NULL, -- networks as 192.0.2.0/24; empty means everywhere
    rotated_at              timestamptz,
    previous_hash           bytea CHECK ((length(previous_hash) = 32)),
    previous_until          timestamptz,
    requests_per_minute     integer CHECK ((requests_per_minute > 0)),
    requests_per_hour       integer CHECK ((requests_per_hour > 0)),
    requests_per_day        integer CHECK ((requests_per_day > 0)),
    -- The secrets under which a tenant's server vouches for its customers, sealed. A key without one
    -- takes customers on the caller's word.
    identity_secret         text,
    identity_previous       text, -- the one before the last rotation
    identity_previous_until timestamptz,
    CONSTRAINT api_keys_previous CHECK (((previous_hash IS NULL) = (previous_until IS NULL)))
);
-- Lists with a filter read what they show and little more: each filter has an index in the
-- order of its list, by the tenant first. What a claim fixes is indexed as it is. The state
-- changes with each step, so the index by state leaves out the states of a run under way. A
-- run enters it once, when it ends or begins to wait.
CREATE INDEX api_keys_active ON api_keys (tenant_id, id DESC) WHERE (revoked_at IS NULL);
-- Revoked keys, grants that have ended and withdrawn invitations stayed for ever: a tenant could add
-- as many as it liked. A job deletes them 90 days after their end, of all tenants.
CREATE INDEX api_keys_age ON api_keys (revoked_at) WHERE (revoked_at IS NOT NULL);
CREATE UNIQUE INDEX api_keys_hash ON api_keys (key_hash);
CREATE INDEX api_keys_of_user ON api_keys (created_by);
CREATE UNIQUE INDEX api_keys_previous_hash ON api_keys (previous_hash) WHERE (previous_hash IS NOT NULL);
CREATE INDEX api_keys_revoked ON api_keys (tenant_id, id DESC) WHERE (revoked_at IS NOT NULL);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id, id);
ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE api_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY presented ON api_keys FOR SELECT USING (((key_hash = decode(app_setting('app.key_hash'), 'hex'))
    OR (previous_hash = decode(app_setting('app.key_hash'), 'hex'))));
CREATE POLICY sweep_delete ON api_keys FOR DELETE USING (((app_setting('app.sweep') = 'on') AND (revoked_at IS NOT NULL)));
CREATE POLICY sweep_lock ON api_keys FOR UPDATE USING (((app_setting('app.sweep') = 'on') AND (revoked_at IS NOT NULL))) WITH CHECK (false);
CREATE POLICY sweep_select ON api_keys FOR SELECT USING (((app_setting('app.sweep') = 'on') AND (revoked_at IS NOT NULL)));
CREATE POLICY tenant ON api_keys USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
CREATE TRIGGER recheck_approvals AFTER UPDATE OF revoked_at ON api_keys FOR EACH ROW WHEN ((new.revoked_at IS NOT NULL)) EXECUTE FUNCTION recheck_approvals();
GRANT SELECT,INSERT,DELETE,UPDATE ON api_keys TO agentruntime_app;

-- +goose Down
DROP TABLE api_keys, login_addresses, login_attempts, refresh_tokens, sessions, users CASCADE;
