-- +goose Up

-- A grant can be narrowed: to end earlier, or to fewer uses.
GRANT UPDATE (expires_at, max_uses) ON grants TO agentruntime_app;

-- A policy can return to an earlier version, also after it was deleted.
ALTER TABLE policy_versions DROP CONSTRAINT policy_versions_change_check;
ALTER TABLE policy_versions ADD CONSTRAINT policy_versions_change_check CHECK (change IN ('created', 'updated', 'deleted', 'restored'));

-- +goose Down
ALTER TABLE policy_versions DROP CONSTRAINT policy_versions_change_check;
UPDATE policy_versions SET change = 'updated' WHERE change = 'restored';
ALTER TABLE policy_versions ADD CONSTRAINT policy_versions_change_check CHECK (change IN ('created', 'updated', 'deleted'));
REVOKE UPDATE (expires_at, max_uses) ON grants FROM agentruntime_app;
