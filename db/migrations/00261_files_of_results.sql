-- +goose Up

-- Answers of providers that are neither JSON nor text. A file is written while it arrives, before its run
-- has ended: until then it has no run. One that gets none is deleted after an hour.
CREATE TABLE run_files (
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    id         uuid NOT NULL,
    run_id     uuid,
    bytes      bigint NOT NULL, -- as the quota counts them; 0 while it arrives
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX run_files_of_run ON run_files (run_id, tenant_id) INCLUDE (id) WHERE run_id IS NOT NULL;
CREATE INDEX run_files_without_run ON run_files (created_at) INCLUDE (tenant_id, id) WHERE run_id IS NULL;
CREATE INDEX run_files_bytes ON run_files (tenant_id) INCLUDE (bytes);
ALTER TABLE run_files ENABLE ROW LEVEL SECURITY;
ALTER TABLE run_files FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON run_files USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY sweep_select ON run_files FOR SELECT USING (app_setting('app.sweep') = 'on' AND run_id IS NULL);
CREATE POLICY sweep_delete ON run_files FOR DELETE USING (app_setting('app.sweep') = 'on' AND run_id IS NULL);
GRANT SELECT, INSERT, UPDATE, DELETE ON run_files TO agentruntime_app;

-- The bytes of the files, in parts. Each is sealed under the tenant's data key.
CREATE TABLE run_file_parts (
    tenant_id uuid NOT NULL,
    file_id   uuid NOT NULL,
    part      integer NOT NULL, -- from 0
    content   bytea NOT NULL,
    PRIMARY KEY (tenant_id, file_id, part),
    FOREIGN KEY (tenant_id, file_id) REFERENCES run_files (tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE run_file_parts ALTER COLUMN content SET STORAGE EXTERNAL; -- it does not compress
ALTER TABLE run_file_parts ENABLE ROW LEVEL SECURITY;
ALTER TABLE run_file_parts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON run_file_parts USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, DELETE ON run_file_parts TO agentruntime_app;

-- +goose Down
DROP TABLE run_file_parts;
DROP TABLE run_files;
