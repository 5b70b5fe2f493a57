-- +goose Up

-- A user is invited (no joined_at), active, or removed; a removed one's row stays, since
-- records and keys refer to it.
ALTER TABLE users
    DROP CONSTRAINT users_role_check,
    ADD CONSTRAINT users_role_check CHECK (role IN ('owner', 'admin', 'approver', 'member')),
    ALTER COLUMN password_hash DROP NOT NULL,
    ADD COLUMN joined_at             timestamptz,
    ADD COLUMN removed_at            timestamptz,
    -- HMAC of the invitation's token, under a pepper that is not in the database. A new
    -- token takes its place, so the old one is void.
    ADD COLUMN invitation_hash       bytea CHECK (length(invitation_hash) = 32),
    ADD COLUMN invitation_expires_at timestamptz;
-- The owner of the table is bound by row-level security too, and would see no row here.
ALTER TABLE users NO FORCE ROW LEVEL SECURITY;
UPDATE users SET joined_at = created_at;
ALTER TABLE users FORCE ROW LEVEL SECURITY;
ALTER TABLE users
    ADD CONSTRAINT users_password CHECK ((password_hash IS NOT NULL) = (joined_at IS NOT NULL AND removed_at IS NULL)),
    ADD CONSTRAINT users_invitation CHECK ((invitation_hash IS NOT NULL) = (joined_at IS NULL AND removed_at IS NULL)),
    ADD CONSTRAINT users_invitation_expiry CHECK ((invitation_hash IS NULL) = (invitation_expires_at IS NULL));

-- One address is one active user in the whole installation. Invitations are not held to
-- that, or inviting would tell whether an address is in use elsewhere; a tenant has
-- each address once.
DROP INDEX users_email;
CREATE UNIQUE INDEX users_email ON users (email) WHERE joined_at IS NOT NULL AND removed_at IS NULL;
CREATE UNIQUE INDEX users_tenant_email ON users (tenant_id, email) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX users_invitation ON users (invitation_hash) WHERE invitation_hash IS NOT NULL;
DROP INDEX users_tenant;
CREATE INDEX users_tenant ON users (tenant_id, id);
CREATE POLICY invited ON users FOR SELECT USING (invitation_hash = decode(app_setting('app.invitation_hash'), 'hex'));
GRANT UPDATE (name, role, password_hash, joined_at, removed_at, invitation_hash, invitation_expires_at) ON users TO agentruntime_app;

-- +goose Down
-- Refuses where there are users that the old schema cannot hold: to promote or to forget
-- them is not a migration's to decide.
REVOKE UPDATE (name, role, password_hash, joined_at, removed_at, invitation_hash, invitation_expires_at) ON users FROM agentruntime_app;
DROP POLICY invited ON users;
DROP INDEX users_tenant;
CREATE INDEX users_tenant ON users (tenant_id);
DROP INDEX users_invitation;
DROP INDEX users_tenant_email;
DROP INDEX users_email;
CREATE UNIQUE INDEX users_email ON users (email);
ALTER TABLE users
    DROP CONSTRAINT users_password,
    DROP CONSTRAINT users_invitation,
    DROP CONSTRAINT users_invitation_expiry,
    DROP COLUMN joined_at,
    DROP COLUMN removed_at,
    DROP COLUMN invitation_hash,
    DROP COLUMN invitation_expires_at,
    ALTER COLUMN password_hash SET NOT NULL,
    DROP CONSTRAINT users_role_check,
    ADD CONSTRAINT users_role_check CHECK (role IN ('owner'));
