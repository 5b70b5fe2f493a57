-- +goose Up

-- The windows that the policies of a tenant ask about. A series is what one of them counts since it
-- was asked for. Where nobody asks any more, gone_at is set, and what it has counted is deleted.
CREATE TABLE policy_windows (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    series    uuid NOT NULL,
    id        bytea NOT NULL CHECK (octet_length(id) = 16), -- of governance.WindowID
    per       integer NOT NULL CHECK (per BETWEEN 1 AND 129600), -- minutes: the longest that is asked for
    filled    boolean NOT NULL DEFAULT false, -- the runs before the window was asked for are counted too
    seen_at   timestamptz, -- when the last of those runs that was looked at was sent; null: those under way come first
    seen      uuid NOT NULL, -- its id
    gone_at   timestamptz,
    PRIMARY KEY (tenant_id, series)
);
CREATE UNIQUE INDEX policy_windows_id ON policy_windows (tenant_id, id) WHERE gone_at IS NULL;
CREATE INDEX policy_windows_unfilled ON policy_windows (tenant_id, series) WHERE NOT filled AND gone_at IS NULL;
ALTER TABLE policy_windows ENABLE ROW LEVEL SECURITY;
ALTER TABLE policy_windows FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON policy_windows USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY sweep_select ON policy_windows FOR SELECT USING (app_setting('app.sweep') = 'on');
GRANT SELECT, INSERT, UPDATE, DELETE ON policy_windows TO agentruntime_app;

-- The runs that a window counts. The value is a digest under the tenant's key.
CREATE TABLE window_entries (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    run_id    uuid NOT NULL,
    series    uuid NOT NULL,
    value     bytea NOT NULL CHECK (octet_length(value) = 16),
    minute    integer NOT NULL, -- since 1970, when it was sent
    up        numeric, -- its amounts above 0 together; null where they are not known
    down      numeric, -- those below 0
    done      boolean NOT NULL, -- it was executed; otherwise it may still be
    PRIMARY KEY (tenant_id, run_id, series)
);
CREATE INDEX window_entries_minute ON window_entries (tenant_id, series, minute);
ALTER TABLE window_entries ENABLE ROW LEVEL SECURITY;
ALTER TABLE window_entries FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON window_entries USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON window_entries TO agentruntime_app;

-- The same added up by minutes and by hours, so that a window of 90 days is read in 2,200 rows.
CREATE TABLE window_counts (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    series    uuid NOT NULL,
    value     bytea NOT NULL,
    grain     integer NOT NULL CHECK (grain IN (1, 60)), -- minutes
    minute    integer NOT NULL, -- at which it begins
    done      numeric NOT NULL, -- of executed runs, what is above 0
    ups       numeric NOT NULL, -- of the others, what is above 0
    downs     numeric NOT NULL, -- of all, what is below 0
    unknown   integer NOT NULL, -- runs of which the amount is not known
    PRIMARY KEY (tenant_id, series, value, grain, minute)
) WITH (fillfactor = 70);
CREATE INDEX window_counts_minute ON window_counts (tenant_id, series, minute);
ALTER TABLE window_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE window_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON window_counts USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON window_counts TO agentruntime_app;

-- windowed: window_entries may have rows of the run. The trigger keeps them up to date, whichever
-- statement changes the state. settle_windows is in db/functions.
ALTER TABLE runs ADD COLUMN windowed boolean NOT NULL DEFAULT false;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION settle_windows() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
-- +goose StatementEnd
CREATE TRIGGER settle_windows AFTER UPDATE OF state ON runs FOR EACH ROW
    WHEN (NEW.windowed AND NEW.state <> OLD.state AND NEW.state <> 'sending') EXECUTE FUNCTION settle_windows();

-- When a run was sent that has ended and counts, so that a window is filled from the runs of its
-- period only: an old id may be claimed again, so ids do not tell. It changes only where
-- listed_state does. An index by sent_at would make each move to sending write into all indexes.
ALTER TABLE runs ADD COLUMN counted_at timestamptz
    GENERATED ALWAYS AS (CASE WHEN state IN ('executed', 'outcome_unknown') THEN sent_at END) STORED;
CREATE INDEX runs_counted ON runs (tenant_id, counted_at, id) WHERE counted_at IS NOT NULL;

-- +goose Down
DROP INDEX runs_counted;
ALTER TABLE runs DROP COLUMN counted_at;
DROP TRIGGER settle_windows ON runs;
DROP FUNCTION IF EXISTS settle_windows();
DROP FUNCTION IF EXISTS enter_windows(uuid, uuid, json, boolean);
DROP FUNCTION IF EXISTS count_windows(uuid, uuid, json);
DROP FUNCTION IF EXISTS count_window(uuid, uuid, uuid, bytea, integer, numeric, numeric);
DROP FUNCTION IF EXISTS fill_window(uuid, uuid, json);
DROP FUNCTION IF EXISTS add_to_window(uuid, uuid, bytea, integer, numeric, numeric, boolean, integer);
DROP FUNCTION IF EXISTS leave_windows(uuid, uuid);
DROP FUNCTION IF EXISTS lock_windows(text[]);
ALTER TABLE runs DROP COLUMN windowed;
DROP TABLE window_counts, window_entries, policy_windows;
