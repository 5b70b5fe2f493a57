-- +goose Up

-- How much of a measure a tenant, or one of its keys, may use in a month of UTC. A tenant without
-- a row has no budget, and nothing is counted for it.
CREATE TABLE budgets (
    id        uuid NOT NULL,
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    measure   text COLLATE "C" NOT NULL CHECK (measure IN ('model_tokens', 'money_micros', 'write_calls')),
    subject   uuid NOT NULL, -- the tenant, or one of its keys
    most      bigint NOT NULL CHECK (most BETWEEN 1 AND 9007199254740991),
    since     timestamptz NOT NULL, -- what was used before is not counted
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, measure, subject)
);
ALTER TABLE budgets ENABLE ROW LEVEL SECURITY;
ALTER TABLE budgets FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON budgets USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON budgets TO agentruntime_app;

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
    used      bigint NOT NULL DEFAULT 0,
    reserved  bigint NOT NULL DEFAULT 0,
    level     integer NOT NULL, -- 0; 1 from 80 % of the share; 2 where the stripe is full
    told      integer NOT NULL DEFAULT 0, -- the level of the budget that the tenant was told of
    PRIMARY KEY (tenant_id, budget_id, month, stripe),
    FOREIGN KEY (tenant_id, budget_id) REFERENCES budgets (tenant_id, id) ON DELETE CASCADE
) WITH (fillfactor = 50);
-- The stripes whose budget the tenant may have to be told of.
CREATE INDEX budget_counters_due ON budget_counters (tenant_id, budget_id, month) WHERE level > told;
CREATE INDEX budget_counters_age ON budget_counters (month);
ALTER TABLE budget_counters ENABLE ROW LEVEL SECURITY;
ALTER TABLE budget_counters FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON budget_counters USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY sweep_select ON budget_counters FOR SELECT USING (app_setting('app.sweep') = 'on');
CREATE POLICY sweep_lock ON budget_counters FOR UPDATE USING (app_setting('app.sweep') = 'on') WITH CHECK (false);
CREATE POLICY sweep_delete ON budget_counters FOR DELETE USING (app_setting('app.sweep') = 'on');
GRANT SELECT, INSERT, UPDATE, DELETE ON budget_counters TO agentruntime_app;

-- The budgets in which the write of a run is counted, and in which month. Null where it is not
-- counted: there is no budget, or what was counted is given back.
ALTER TABLE runs ADD COLUMN charged uuid[], ADD COLUMN charged_month integer;

-- +goose Down
ALTER TABLE runs DROP COLUMN charged, DROP COLUMN charged_month;
DROP FUNCTION IF EXISTS begin_budget_month(uuid, uuid, integer);
DROP FUNCTION IF EXISTS set_budget(uuid, uuid, text, uuid, bigint);
DROP FUNCTION IF EXISTS spend_budget(uuid, uuid, integer);
DROP FUNCTION IF EXISTS take_write_call(uuid, uuid);
DROP FUNCTION IF EXISTS return_write_call(uuid, uuid);
DROP FUNCTION IF EXISTS tell_budget(uuid, uuid, integer);
DROP TABLE budget_counters;
DROP TABLE budgets;
