-- +goose Up

-- Rate limits, budgets, kill switches and circuits.

-- The requests of the present windows: one row for what is counted, whatever the number of
-- windows that have passed. A row whose day is over is deleted, so an idle tenant has none.
-- Each request changes a row, and nothing that an index has changes within a minute. A page
-- that is mostly empty lets all these changes stay within it (HOT).
CREATE TABLE request_counters (
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    subject     text NOT NULL COLLATE pg_catalog."C", -- keys, people, or the id of a key with limits of its own
    at          integer NOT NULL, -- the minute of the last request that was counted, since 1970 in UTC
    minute      integer NOT NULL, -- counted in that minute
    hour        integer NOT NULL, -- in its hour
    day         integer NOT NULL, -- in its day
    -- The last window, by its number since 1970, of which the tenant was told that it is full: once
    -- for each window (limit.exceeded). -1: none.
    told_minute integer DEFAULT '-1'::integer NOT NULL,
    told_hour   integer DEFAULT '-1'::integer NOT NULL,
    told_day    integer DEFAULT '-1'::integer NOT NULL,
    PRIMARY KEY (tenant_id, subject)
) WITH (fillfactor=20);
CREATE INDEX request_counters_age ON request_counters (at);
ALTER TABLE request_counters ENABLE ROW LEVEL SECURITY;
ALTER TABLE request_counters FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_delete ON request_counters FOR DELETE USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY sweep_lock ON request_counters FOR UPDATE USING ((app_setting('app.sweep') = 'on')) WITH CHECK (false);
CREATE POLICY sweep_select ON request_counters FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON request_counters USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON request_counters TO agentruntime_app;

-- How much of a measure a tenant, or one of its keys, may use in a month of UTC. A tenant without
-- a row has no budget, and nothing is counted for it.
CREATE TABLE budgets (
    id        uuid NOT NULL,
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    measure   text NOT NULL COLLATE pg_catalog."C" CHECK ((measure IN ('model_tokens', 'money_micros', 'write_calls'))),
    subject   uuid NOT NULL, -- the tenant, or one of its keys
    most      bigint NOT NULL CHECK (((most >= 1) AND (most <= '9007199254740991'::bigint))),
    since     timestamptz NOT NULL, -- what was used before is not counted
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT budgets_tenant_id_measure_subject_key UNIQUE (tenant_id, measure, subject)
);
ALTER TABLE budgets ENABLE ROW LEVEL SECURITY;
ALTER TABLE budgets FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON budgets USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON budgets TO agentruntime_app;

-- What was used of a budget in a month. The counters of a budget are one or several rows, its
-- stripes, because a row that one run has counted in is locked until the run's commit is on disk.
-- Each stripe has a share of the limit. The shares add up to the limit, so the stripes together
-- never admit more than that. A stripe may have a share below what it has used, also a negative
-- one: the limit was lowered.
CREATE TABLE budget_counters (
    tenant_id uuid NOT NULL,
    budget_id uuid NOT NULL,
    month     integer NOT NULL, -- of UTC, as 202612
    stripe    integer NOT NULL,
    share     bigint NOT NULL,
    used      bigint DEFAULT 0 NOT NULL,
    reserved  bigint DEFAULT 0 NOT NULL,
    level     integer NOT NULL, -- 0; 1 from 80 % of the share; 2 where the stripe is full
    told      integer DEFAULT 0 NOT NULL, -- the level of the budget that the tenant was told of
    PRIMARY KEY (tenant_id, budget_id, month, stripe),
    CONSTRAINT budget_counters_tenant_id_budget_id_fkey FOREIGN KEY (tenant_id, budget_id) REFERENCES budgets(tenant_id, id) ON DELETE CASCADE
) WITH (fillfactor=50);
CREATE INDEX budget_counters_age ON budget_counters (month);
-- The stripes whose budget the tenant may have to be told of.
CREATE INDEX budget_counters_due ON budget_counters (tenant_id, budget_id, month) WHERE (level > told);
ALTER TABLE budget_counters ENABLE ROW LEVEL SECURITY;
ALTER TABLE budget_counters FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_delete ON budget_counters FOR DELETE USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY sweep_lock ON budget_counters FOR UPDATE USING ((app_setting('app.sweep') = 'on')) WITH CHECK (false);
CREATE POLICY sweep_select ON budget_counters FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON budget_counters USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON budget_counters TO agentruntime_app;

-- What a model step has taken of budgets before its call, until it says how much the call has
-- used. A row whose lease is over belongs to a worker that has crashed: it is given back.
CREATE TABLE budget_reservations (
    id        uuid NOT NULL,
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    month     integer NOT NULL, -- as in budget_counters
    charged   uuid[] NOT NULL, -- the budgets
    tokens    bigint NOT NULL CHECK ((tokens >= 0)),
    money     bigint NOT NULL CHECK ((money >= 0)),
    state     text NOT NULL CHECK ((state IN ('open', 'settled', 'released', 'lapsed'))),
    until     timestamptz NOT NULL, -- the end of the lease
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX budget_reservations_ended ON budget_reservations (until) WHERE (state <> 'open');
CREATE INDEX budget_reservations_open ON budget_reservations (until) WHERE (state = 'open');
ALTER TABLE budget_reservations ENABLE ROW LEVEL SECURITY;
ALTER TABLE budget_reservations FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_delete ON budget_reservations FOR DELETE USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY sweep_lock ON budget_reservations FOR UPDATE USING ((app_setting('app.sweep') = 'on')) WITH CHECK (false);
CREATE POLICY sweep_select ON budget_reservations FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON budget_reservations USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON budget_reservations TO agentruntime_app;

-- What a tenant has switched off: all its calls, those of a provider, of a verb or of an agent.
-- No call begins while a row that covers it is not lifted.
CREATE TABLE kill_switches (
    id        uuid NOT NULL,
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    scope     text NOT NULL CHECK ((scope IN ('tenant', 'provider', 'verb', 'agent'))),
    target    text, -- the slug, the verb's name or the agent's id; null for a tenant
    -- The scope and the target as one text: a call looks for those that cover it by this.
    covers    text NOT NULL COLLATE pg_catalog."C",
    reason    text NOT NULL,
    set_by    uuid NOT NULL,
    set_at    timestamptz NOT NULL,
    lifted_by uuid,
    lifted_at timestamptz,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT kill_switches_check CHECK (((target IS NULL) = (scope = 'tenant'))),
    CONSTRAINT kill_switches_check1 CHECK (((lifted_by IS NULL) = (lifted_at IS NULL)))
);
CREATE INDEX kill_switches_age ON kill_switches (lifted_at) WHERE (lifted_at IS NOT NULL);
CREATE INDEX kill_switches_set ON kill_switches (tenant_id, covers) WHERE (lifted_at IS NULL);
ALTER TABLE kill_switches ENABLE ROW LEVEL SECURITY;
ALTER TABLE kill_switches FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_delete ON kill_switches FOR DELETE USING (((app_setting('app.sweep') = 'on') AND (lifted_at IS NOT NULL)));
CREATE POLICY sweep_lock ON kill_switches FOR UPDATE USING (((app_setting('app.sweep') = 'on') AND (lifted_at IS NOT NULL))) WITH CHECK (false);
CREATE POLICY sweep_select ON kill_switches FOR SELECT USING (((app_setting('app.sweep') = 'on') AND (lifted_at IS NOT NULL)));
CREATE POLICY tenant ON kill_switches USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON kill_switches TO agentruntime_app;

-- Whether a tenant's calls of a provider pass: the circuit breaker between them. A provider that
-- never failed has no row. The rules are in internal/action/circuit, and what changes a row is in
-- db/functions: record_calls, take_probe, forget_circuit.
CREATE TABLE circuits (
    tenant_id    uuid NOT NULL REFERENCES tenants (id),
    provider     text NOT NULL COLLATE pg_catalog."C", -- its slug, of the tenant's own or of the platform's
    state        text DEFAULT 'closed' NOT NULL CHECK ((state IN ('closed', 'open', 'half_open'))),
    since        timestamptz, -- when it opened, or closed again; null where it never opened
    failures     integer DEFAULT 0 NOT NULL, -- attempts that failed since the last that succeeded
    -- The present window, with the first attempts of runs.
    window_began timestamptz DEFAULT now() NOT NULL,
    calls        integer DEFAULT 0 NOT NULL,
    failed       integer DEFAULT 0 NOT NULL,
    openings     integer DEFAULT 0 NOT NULL, -- without a success between them: each pause is twice the one before
    probe_at     timestamptz, -- when the next probe may begin; set while it is not closed
    probe_run    uuid, -- the run whose attempt is the probe, of a half-open circuit
    -- The last failures, the newest first.
    error_kinds  text[] DEFAULT '{}'::text[] NOT NULL,
    error_times  timestamptz[] DEFAULT '{}'::timestamptz[] NOT NULL,
    PRIMARY KEY (tenant_id, provider),
    CONSTRAINT circuits_check CHECK (((state = 'closed') = (probe_at IS NULL))),
    CONSTRAINT circuits_check1 CHECK (((state = 'half_open') = (probe_run IS NOT NULL))),
    CONSTRAINT circuits_check2 CHECK ((cardinality(error_kinds) = cardinality(error_times)))
) WITH (fillfactor=50);
ALTER TABLE circuits ENABLE ROW LEVEL SECURITY;
ALTER TABLE circuits FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON circuits USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON circuits TO agentruntime_app;

-- +goose Down
DROP TABLE circuits, kill_switches, budget_reservations, budget_counters, budgets, request_counters CASCADE;
