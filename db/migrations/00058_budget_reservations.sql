-- +goose Up

-- What a model step has taken of budgets before its call, until it says how much the call has
-- used. A row whose lease is over belongs to a worker that has crashed: it is given back.
CREATE TABLE budget_reservations (
    id        uuid NOT NULL,
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    month     integer NOT NULL, -- as in budget_counters
    charged   uuid[] NOT NULL, -- the budgets
    tokens    bigint NOT NULL CHECK (tokens >= 0),
    money     bigint NOT NULL CHECK (money >= 0),
    state     text NOT NULL CHECK (state IN ('open', 'settled', 'released', 'lapsed')),
    until     timestamptz NOT NULL, -- the end of the lease
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX budget_reservations_open ON budget_reservations (until) WHERE state = 'open';
CREATE INDEX budget_reservations_ended ON budget_reservations (until) WHERE state <> 'open';
ALTER TABLE budget_reservations ENABLE ROW LEVEL SECURITY;
ALTER TABLE budget_reservations FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON budget_reservations USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY sweep_select ON budget_reservations FOR SELECT USING (app_setting('app.sweep') = 'on');
CREATE POLICY sweep_lock ON budget_reservations FOR UPDATE USING (app_setting('app.sweep') = 'on') WITH CHECK (false);
CREATE POLICY sweep_delete ON budget_reservations FOR DELETE USING (app_setting('app.sweep') = 'on');
GRANT SELECT, INSERT, UPDATE, DELETE ON budget_reservations TO agentruntime_app;

-- +goose Down
DROP FUNCTION IF EXISTS reserve_budgets(uuid, uuid, uuid, bigint, bigint, double precision);
DROP FUNCTION IF EXISTS settle_budgets(uuid, uuid, bigint, bigint, text);
DROP TABLE budget_reservations;
