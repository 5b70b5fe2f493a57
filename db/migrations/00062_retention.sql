-- +goose Up

-- A job deletes what nobody can use any more, of all tenants.
CREATE INDEX sessions_age ON sessions (expires_at);
CREATE POLICY sweep_select ON sessions FOR SELECT USING (app_setting('app.sweep') = 'on');
CREATE POLICY sweep_lock ON sessions FOR UPDATE USING (app_setting('app.sweep') = 'on') WITH CHECK (false);
CREATE POLICY sweep_delete ON sessions FOR DELETE USING (app_setting('app.sweep') = 'on');

CREATE INDEX login_addresses_age ON login_addresses (last_login_at);
CREATE POLICY sweep_select ON login_addresses FOR SELECT USING (app_setting('app.sweep') = 'on');
CREATE POLICY sweep_lock ON login_addresses FOR UPDATE USING (app_setting('app.sweep') = 'on') WITH CHECK (false);
CREATE POLICY sweep_delete ON login_addresses FOR DELETE USING (app_setting('app.sweep') = 'on');

CREATE INDEX kill_switches_age ON kill_switches (lifted_at) WHERE lifted_at IS NOT NULL;
CREATE POLICY sweep_select ON kill_switches FOR SELECT USING (app_setting('app.sweep') = 'on' AND lifted_at IS NOT NULL);
CREATE POLICY sweep_lock ON kill_switches FOR UPDATE USING (app_setting('app.sweep') = 'on' AND lifted_at IS NOT NULL) WITH CHECK (false);
CREATE POLICY sweep_delete ON kill_switches FOR DELETE USING (app_setting('app.sweep') = 'on' AND lifted_at IS NOT NULL);
GRANT DELETE ON kill_switches TO agentruntime_app;

-- +goose Down
REVOKE DELETE ON kill_switches FROM agentruntime_app;
DROP POLICY sweep_delete ON kill_switches;
DROP POLICY sweep_lock ON kill_switches;
DROP POLICY sweep_select ON kill_switches;
DROP INDEX kill_switches_age;
DROP POLICY sweep_delete ON login_addresses;
DROP POLICY sweep_lock ON login_addresses;
DROP POLICY sweep_select ON login_addresses;
DROP INDEX login_addresses_age;
DROP POLICY sweep_delete ON sessions;
DROP POLICY sweep_lock ON sessions;
DROP POLICY sweep_select ON sessions;
DROP INDEX sessions_age;
