-- +goose Up

-- Policies, and the windows that they count in.

-- A tenant's rules. document is the policy as the API shows it (verbMatchers,
-- conditions, action, approval); the columns beside it are those that lists and
-- counts ask for. A deleted policy keeps its row, so that approvals and audit records
-- that name it can still be read.
CREATE TABLE policies (
    id           uuid NOT NULL,
    tenant_id    uuid NOT NULL REFERENCES tenants (id),
    version      integer NOT NULL, -- counts its changes, from 1
    name         text NOT NULL,
    description  text NOT NULL,
    enabled      boolean NOT NULL,
    mode         text NOT NULL CHECK ((mode IN ('enforce', 'shadow'))),
    priority     integer NOT NULL,
    action       text NOT NULL CHECK ((action IN ('allow', 'notify', 'require_approval', 'block'))),
    document     json NOT NULL,
    created_by   text NOT NULL, -- "user:<id>" or "key:<id>"
    created_at   timestamptz NOT NULL,
    updated_by   text NOT NULL,
    updated_at   timestamptz NOT NULL,
    deleted_at   timestamptz,
    -- What the regular expressions of a policy take is not in the length of its text.
    instructions integer DEFAULT 0 NOT NULL,
    -- The bytes of all versions of a policy, for the quota.
    bytes        bigint DEFAULT 0 NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
ALTER TABLE policies ENABLE ROW LEVEL SECURITY;
ALTER TABLE policies FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON policies USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
CREATE TRIGGER recheck_approvals AFTER UPDATE ON policies FOR EACH ROW EXECUTE FUNCTION recheck_approvals();
GRANT SELECT,INSERT,UPDATE ON policies TO agentruntime_app;

-- Every state that a policy has been in, and who made it so. Insert-only.
CREATE TABLE policy_versions (
    tenant_id  uuid NOT NULL,
    policy_id  uuid NOT NULL,
    version    integer NOT NULL,
    change     text NOT NULL CHECK ((change IN ('created', 'updated', 'deleted', 'restored'))),
    policy     json NOT NULL, -- whole, as the API shows it
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, policy_id, version),
    CONSTRAINT policy_versions_tenant_id_policy_id_fkey FOREIGN KEY (tenant_id, policy_id) REFERENCES policies(tenant_id, id)
);
ALTER TABLE policy_versions ENABLE ROW LEVEL SECURITY;
ALTER TABLE policy_versions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON policy_versions USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE ON policy_versions TO agentruntime_app;

-- One row per tenant that has ever had a policy: version counts every change of any of
-- them and of mask_paths, in the transaction of the change. Processes keep compiled
-- policies by it, and a run is sent only under the version it was judged by.
CREATE TABLE policy_sets (
    tenant_id  uuid PRIMARY KEY REFERENCES tenants (id),
    version    bigint NOT NULL,
    mask_paths json DEFAULT '[]'::json NOT NULL -- [{verb, path}]: what is masked besides what looks secret
);
ALTER TABLE policy_sets ENABLE ROW LEVEL SECURITY;
ALTER TABLE policy_sets FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON policy_sets USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,UPDATE ON policy_sets TO agentruntime_app;

-- Which policies matched which decision about a run, for coverage. Inserted with the
-- decision; counters would put all runs of a tenant in one line.
CREATE TABLE policy_matches (
    tenant_id      uuid NOT NULL,
    policy_id      uuid NOT NULL,
    run_id         uuid NOT NULL,
    attempt        integer NOT NULL,
    policy_version integer NOT NULL,
    mode           text NOT NULL,
    action         text NOT NULL,
    decided        boolean NOT NULL, -- the policy whose name the decision reports
    decision       text NOT NULL, -- what became of the run
    shadow         text NOT NULL, -- what would have, had shadow policies been enforced
    at             timestamptz DEFAULT now() NOT NULL,
    PRIMARY KEY (tenant_id, policy_id, run_id, attempt)
);
CREATE INDEX policy_matches_by_time ON policy_matches (tenant_id, policy_id, at);
ALTER TABLE policy_matches ENABLE ROW LEVEL SECURITY;
ALTER TABLE policy_matches FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON policy_matches USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT ON policy_matches TO agentruntime_app;

-- The windows that the policies of a tenant ask about. A series is what one of them counts since it
-- was asked for. Where nobody asks any more, gone_at is set, and what it has counted is deleted.
CREATE TABLE policy_windows (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    series    uuid NOT NULL,
    id        bytea NOT NULL CHECK ((octet_length(id) = 16)), -- of governance.WindowID
    per       integer NOT NULL CHECK (((per >= 1) AND (per <= 129600))), -- minutes: the longest that is asked for
    filled    boolean DEFAULT false NOT NULL, -- the runs before the window was asked for are counted too
    seen_at   timestamptz, -- when the last of those runs that was looked at was sent; null: those under way come first
    seen      uuid NOT NULL, -- its id
    gone_at   timestamptz,
    PRIMARY KEY (tenant_id, series)
);
CREATE UNIQUE INDEX policy_windows_id ON policy_windows (tenant_id, id) WHERE (gone_at IS NULL);
CREATE INDEX policy_windows_unfilled ON policy_windows (tenant_id, series) WHERE ((NOT filled) AND (gone_at IS NULL));
ALTER TABLE policy_windows ENABLE ROW LEVEL SECURITY;
ALTER TABLE policy_windows FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_select ON policy_windows FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON policy_windows USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON policy_windows TO agentruntime_app;

-- The same added up by minutes and by hours, so that a window of 90 days is read in 2,200 rows.
CREATE TABLE window_counts (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    series    uuid NOT NULL,
    value     bytea NOT NULL,
    grain     integer NOT NULL CHECK ((grain IN (1, 60))), -- minutes
    minute    integer NOT NULL, -- at which it begins
    done      numeric NOT NULL, -- of executed runs, what is above 0
    ups       numeric NOT NULL, -- of the others, what is above 0
    downs     numeric NOT NULL, -- of all, what is below 0
    unknown   integer NOT NULL, -- runs of which the amount is not known
    PRIMARY KEY (tenant_id, series, value, grain, minute)
) WITH (fillfactor=70);
CREATE INDEX window_counts_minute ON window_counts (tenant_id, series, minute);
ALTER TABLE window_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE window_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON window_counts USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON window_counts TO agentruntime_app;

-- The runs that a window counts. The value is a digest under the tenant's key.
CREATE TABLE window_entries (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    run_id    uuid NOT NULL,
    series    uuid NOT NULL,
    value     bytea NOT NULL CHECK ((octet_length(value) = 16)),
    minute    integer NOT NULL, -- since 1970, when it was sent
    up        numeric, -- its amounts above 0 together; null where they are not known
    down      numeric, -- those below 0
    done      boolean NOT NULL, -- it was executed; otherwise it may still be
    PRIMARY KEY (tenant_id, run_id, series)
);
CREATE INDEX window_entries_minute ON window_entries (tenant_id, series, minute);
ALTER TABLE window_entries ENABLE ROW LEVEL SECURITY;
ALTER TABLE window_entries FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON window_entries USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON window_entries TO agentruntime_app;

-- +goose Down
DROP TABLE window_entries, window_counts, policy_windows, policy_matches, policy_sets, policy_versions, policies CASCADE;
