-- +goose Up

-- One address is one user in the whole installation, whatever his tenant. The
-- service lower-cases addresses and takes ASCII only, so the index is enough.
CREATE TABLE users (
    id                uuid PRIMARY KEY,
    tenant_id         uuid NOT NULL REFERENCES tenants (id),
    email             text NOT NULL CHECK (email = lower(email)),
    password_hash     text NOT NULL,
    name              text NOT NULL,
    role              text NOT NULL CHECK (role IN ('owner')),
    email_verified_at timestamptz,
    created_at        timestamptz NOT NULL
);
CREATE UNIQUE INDEX users_email ON users (email);
CREATE INDEX users_tenant ON users (tenant_id);
ALTER TABLE users ENABLE ROW LEVEL SECURITY;
ALTER TABLE users FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON users USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY presented ON users FOR SELECT USING (email = app_setting('app.login_email'));
GRANT SELECT, INSERT ON users TO agentruntime_app;

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
CREATE INDEX sessions_user ON sessions (tenant_id, user_id);
ALTER TABLE sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON sessions USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON sessions TO agentruntime_app;

-- Used tokens stay until their session goes: presenting one again is what gives a
-- stolen token away.
CREATE TABLE refresh_tokens (
    token_hash bytea PRIMARY KEY CHECK (length(token_hash) = 32),
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    session_id uuid NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    expires_at timestamptz NOT NULL,
    used_at    timestamptz
);
CREATE INDEX refresh_tokens_session ON refresh_tokens (session_id);
ALTER TABLE refresh_tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE refresh_tokens FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON refresh_tokens USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY presented ON refresh_tokens FOR SELECT
    USING (token_hash = decode(app_setting('app.refresh_hash'), 'hex'));
GRANT SELECT, INSERT, UPDATE ON refresh_tokens TO agentruntime_app;

-- Failed logins per address and source. subject is a keyed hash of both: what
-- people mistype into the address field, passwords too, is not to be read here.
-- No tenant is known before a login, so the table has none and no row-level security.
CREATE TABLE login_attempts (
    subject        bytea PRIMARY KEY CHECK (length(subject) = 32),
    failures       integer NOT NULL,
    window_ends_at timestamptz NOT NULL
);
CREATE INDEX login_attempts_window ON login_attempts (window_ends_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON login_attempts TO agentruntime_app;

-- key_hash is an HMAC under a pepper that is not in the database. identity_mode is
-- null for Runtime keys, which take none.
CREATE TABLE api_keys (
    id              uuid PRIMARY KEY,
    tenant_id       uuid NOT NULL REFERENCES tenants (id),
    key_hash        bytea NOT NULL CHECK (length(key_hash) = 32),
    preview         text NOT NULL,
    name            text NOT NULL,
    permissions     text[] NOT NULL,
    agent_id        text,
    identity_mode   text CHECK (identity_mode IN ('anonymous', 'identified', 'required')),
    allowed_origins text[] NOT NULL,
    created_by      uuid NOT NULL REFERENCES users (id),
    created_at      timestamptz NOT NULL,
    last_used_at    timestamptz,
    revoked_at      timestamptz
);
CREATE UNIQUE INDEX api_keys_hash ON api_keys (key_hash);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id, id);
ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE api_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON api_keys USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY presented ON api_keys FOR SELECT
    USING (key_hash = decode(app_setting('app.key_hash'), 'hex'));
GRANT SELECT, INSERT, UPDATE ON api_keys TO agentruntime_app;

-- +goose Down
DROP TABLE api_keys;
DROP TABLE login_attempts;
DROP TABLE refresh_tokens;
DROP TABLE sessions;
DROP TABLE users;
