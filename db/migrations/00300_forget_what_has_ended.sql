-- +goose Up

-- Revoked keys, grants that have ended and withdrawn invitations stayed for ever: a tenant could add
-- as many as it liked. A job deletes them 90 days after their end, of all tenants.
CREATE INDEX api_keys_age ON api_keys (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE POLICY sweep_select ON api_keys FOR SELECT USING (app_setting('app.sweep') = 'on' AND revoked_at IS NOT NULL);
CREATE POLICY sweep_lock ON api_keys FOR UPDATE USING (app_setting('app.sweep') = 'on' AND revoked_at IS NOT NULL) WITH CHECK (false);
CREATE POLICY sweep_delete ON api_keys FOR DELETE USING (app_setting('app.sweep') = 'on' AND revoked_at IS NOT NULL);
GRANT DELETE ON api_keys TO agentruntime_app;

-- Nothing names a user who never joined. Records and keys name the others.
CREATE INDEX users_removed ON users (tenant_id) WHERE removed_at IS NOT NULL;
CREATE INDEX users_withdrawn ON users (removed_at) WHERE removed_at IS NOT NULL AND joined_at IS NULL;
CREATE POLICY sweep_select ON users FOR SELECT USING (app_setting('app.sweep') = 'on' AND removed_at IS NOT NULL AND joined_at IS NULL);
CREATE POLICY sweep_lock ON users FOR UPDATE USING (app_setting('app.sweep') = 'on' AND removed_at IS NOT NULL AND joined_at IS NULL) WITH CHECK (false);
CREATE POLICY sweep_delete ON users FOR DELETE USING (app_setting('app.sweep') = 'on' AND removed_at IS NOT NULL AND joined_at IS NULL);
GRANT DELETE ON users TO agentruntime_app;

-- The deletion of a user looks for their rows without the tenant. An id of a user is of one tenant only.
DROP INDEX sessions_user, mail_tokens_user;
CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX mail_tokens_user ON mail_tokens (user_id);
CREATE INDEX api_keys_of_user ON api_keys (created_by);

-- least() passes over the null of a grant that was not revoked.
CREATE INDEX grants_age ON grants (least(expires_at, revoked_at));
CREATE POLICY sweep_select ON grants FOR SELECT USING (app_setting('app.sweep') = 'on' AND least(expires_at, revoked_at) < now());
CREATE POLICY sweep_lock ON grants FOR UPDATE USING (app_setting('app.sweep') = 'on' AND least(expires_at, revoked_at) < now()) WITH CHECK (false);
CREATE POLICY sweep_delete ON grants FOR DELETE USING (app_setting('app.sweep') = 'on' AND least(expires_at, revoked_at) < now());
GRANT DELETE ON grants TO agentruntime_app;

-- +goose Down
REVOKE DELETE ON grants FROM agentruntime_app;
DROP POLICY sweep_delete ON grants;
DROP POLICY sweep_lock ON grants;
DROP POLICY sweep_select ON grants;
DROP INDEX grants_age;
DROP INDEX api_keys_of_user, sessions_user, mail_tokens_user;
CREATE INDEX mail_tokens_user ON mail_tokens (tenant_id, user_id);
CREATE INDEX sessions_user ON sessions (tenant_id, user_id);
REVOKE DELETE ON users FROM agentruntime_app;
DROP POLICY sweep_delete ON users;
DROP POLICY sweep_lock ON users;
DROP POLICY sweep_select ON users;
DROP INDEX users_withdrawn;
DROP INDEX users_removed;
REVOKE DELETE ON api_keys FROM agentruntime_app;
DROP POLICY sweep_delete ON api_keys;
DROP POLICY sweep_lock ON api_keys;
DROP POLICY sweep_select ON api_keys;
DROP INDEX api_keys_age;
