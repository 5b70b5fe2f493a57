-- +goose Up

-- A trigger near a quota counts up to 10,000 rows of map_executions, and one that joins a line up to
-- 1,000 of map_places. In a sub-select the settings are read once for each statement. Without, they
-- were read, and the tenant's id parsed, for each row: half the time of such a count.
ALTER POLICY tenant ON map_executions USING (tenant_id = (SELECT app_tenant())) WITH CHECK (tenant_id = app_tenant());
ALTER POLICY sweep_select ON map_executions USING ((SELECT app_setting('app.sweep')) = 'on');
ALTER POLICY tenant ON map_places USING (tenant_id = (SELECT app_tenant())) WITH CHECK (tenant_id = app_tenant());
ALTER POLICY sweep_select ON map_places USING ((SELECT app_setting('app.sweep')) = 'on');

-- +goose Down
ALTER POLICY sweep_select ON map_places USING (app_setting('app.sweep') = 'on');
ALTER POLICY tenant ON map_places USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
ALTER POLICY sweep_select ON map_executions USING (app_setting('app.sweep') = 'on');
ALTER POLICY tenant ON map_executions USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
