-- +goose Up

-- A process that starts before `migrate` says so. It reads the version of the schema.
GRANT SELECT ON goose_db_version TO agentruntime_app;

-- +goose Down
REVOKE SELECT ON goose_db_version FROM agentruntime_app;
