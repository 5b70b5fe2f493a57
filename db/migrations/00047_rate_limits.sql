-- +goose Up

-- How many requests a tenant may make in a minute, an hour and a day. Null: the operator's
-- default. A key may have limits of its own beside the tenant's.
ALTER TABLE tenants
    ADD COLUMN requests_per_minute integer CHECK (requests_per_minute > 0),
    ADD COLUMN requests_per_hour   integer CHECK (requests_per_hour > 0),
    ADD COLUMN requests_per_day    integer CHECK (requests_per_day > 0);
ALTER TABLE api_keys
    ADD COLUMN requests_per_minute integer CHECK (requests_per_minute > 0),
    ADD COLUMN requests_per_hour   integer CHECK (requests_per_hour > 0),
    ADD COLUMN requests_per_day    integer CHECK (requests_per_day > 0);

-- The requests of the present windows: one row for what is counted, whatever the number of
-- windows that have passed. A row whose day is over is deleted, so an idle tenant has none.
-- Each request changes a row, and nothing that an index has changes within a minute. A page
-- that is mostly empty lets all these changes stay within it (HOT).
CREATE TABLE request_counters (
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    subject     text COLLATE "C" NOT NULL, -- keys, people, or the id of a key with limits of its own
    at          integer NOT NULL, -- the minute of the last request that was counted, since 1970 in UTC
    minute      integer NOT NULL, -- counted in that minute
    hour        integer NOT NULL, -- in its hour
    day         integer NOT NULL, -- in its day
    PRIMARY KEY (tenant_id, subject)
) WITH (fillfactor = 20);
CREATE INDEX request_counters_age ON request_counters (at);
ALTER TABLE request_counters ENABLE ROW LEVEL SECURITY;
ALTER TABLE request_counters FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON request_counters USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY sweep_select ON request_counters FOR SELECT USING (app_setting('app.sweep') = 'on');
CREATE POLICY sweep_lock ON request_counters FOR UPDATE USING (app_setting('app.sweep') = 'on') WITH CHECK (false);
CREATE POLICY sweep_delete ON request_counters FOR DELETE USING (app_setting('app.sweep') = 'on');
GRANT SELECT, INSERT, UPDATE, DELETE ON request_counters TO agentruntime_app;

-- +goose Down
DROP FUNCTION IF EXISTS count_request(uuid, text, uuid, integer[], integer[], integer[]);
DROP FUNCTION IF EXISTS take_request(uuid, text, integer, integer[]);
DROP FUNCTION IF EXISTS requests_used(uuid, text, integer);
DROP FUNCTION IF EXISTS request_clock();
DROP TABLE request_counters;
ALTER TABLE api_keys DROP COLUMN requests_per_minute, DROP COLUMN requests_per_hour, DROP COLUMN requests_per_day;
ALTER TABLE tenants DROP COLUMN requests_per_minute, DROP COLUMN requests_per_hour, DROP COLUMN requests_per_day;
