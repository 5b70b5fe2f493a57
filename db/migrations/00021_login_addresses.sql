-- +goose Up

-- The addresses from which a user has logged in. Attacks on the user's account do not slow
-- these down. subject is a keyed hash of the user's email address and the network address.
CREATE TABLE login_addresses (
    tenant_id     uuid NOT NULL REFERENCES tenants (id),
    user_id       uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    subject       bytea NOT NULL CHECK (length(subject) = 32),
    last_login_at timestamptz NOT NULL,
    PRIMARY KEY (user_id, subject)
);
ALTER TABLE login_addresses ENABLE ROW LEVEL SECURITY;
ALTER TABLE login_addresses FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON login_addresses USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
-- A login names an email address before its tenant is known.
CREATE POLICY presented ON login_addresses FOR SELECT
    USING (EXISTS (SELECT FROM users u WHERE u.id = user_id AND u.email = app_setting('app.login_email')));
GRANT SELECT, INSERT, UPDATE, DELETE ON login_addresses TO agentruntime_app;

-- +goose Down
DROP TABLE login_addresses;
