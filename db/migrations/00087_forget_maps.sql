-- +goose Up

-- A deleted Map is forgotten when no execution can need a version of it any longer.
ALTER TABLE maps ADD COLUMN looked_at timestamptz; -- when the job last looked whether one can
CREATE INDEX maps_deleted ON maps (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE POLICY sweep_select ON maps FOR SELECT USING (app_setting('app.sweep') = 'on');
GRANT DELETE ON maps, map_versions TO agentruntime_app;

-- +goose Down
REVOKE DELETE ON maps, map_versions FROM agentruntime_app;
DROP POLICY sweep_select ON maps;
DROP INDEX maps_deleted;
ALTER TABLE maps DROP COLUMN looked_at;
