-- +goose Up

-- Approvals and grants.

-- What a human is asked, or was spared: the call, masked, and why it was held or blocked.
CREATE TABLE approvals (
    id             text NOT NULL,
    tenant_id      uuid NOT NULL,
    run_id         uuid,
    execution_id   text NOT NULL,
    status         text NOT NULL CHECK ((status IN ('blocked', 'pending', 'approved', 'rejected', 'expired', 'cancelled', 'superseded'))),
    provider       text NOT NULL,
    verb           text NOT NULL,
    args           text NOT NULL, -- masked
    risk_level     text NOT NULL,
    policy_name    text NOT NULL,
    reason         text NOT NULL,
    requester      uuid, -- the key that called
    created_at     timestamptz DEFAULT now() NOT NULL,
    expires_at     timestamptz,
    -- What a human is asked, or was spared. One record per asking: a change of what it is
    -- bound to supersedes it by another.
    kind           text DEFAULT 'block' NOT NULL CHECK ((kind IN ('block', 'hold', 'dry_run', 'step', 'changes'))),
    attempt        integer DEFAULT 1 NOT NULL, -- of the run
    explanation    json DEFAULT '[]'::json NOT NULL, -- the policies that matched and why
    request        json, -- the request that would be sent, masked
    requirements   json DEFAULT '[]'::json NOT NULL, -- what approvals it needs, of which policy versions
    policy_ids     uuid[] DEFAULT '{}'::uuid[] NOT NULL, -- of requirements
    call_hash      bytea DEFAULT '\x'::bytea NOT NULL, -- SHA-256 of canonical {verb, args, dryRun} as they would be sent
    schema_hash    bytea DEFAULT '\x'::bytea NOT NULL,
    credential_id  uuid,
    edited_from    text, -- the approval whose arguments an approver edited
    edited_by      uuid,
    closed_reason  text DEFAULT '' NOT NULL, -- why it was rejected, cancelled or superseded
    decided_by     uuid, -- NULL where no user did
    decided_at     timestamptz,
    escalated_at   timestamptz,
    -- Something it hangs on has changed: its workflow has to look again.
    recheck        boolean DEFAULT false NOT NULL,
    -- When its workflow was last seen waiting.
    watched_at     timestamptz DEFAULT now() NOT NULL,
    -- An approval can be about anything that waits for people: its subject. A run is one; it
    -- keeps its own column, because lists show what became of it.
    subject_type   text DEFAULT 'run' NOT NULL,
    subject_id     text NOT NULL,
    workflow_id    text DEFAULT '' NOT NULL, -- the workflow that waits for it; '' where none does
    -- What else an approval is bound to, besides its risk level.
    operation_type text,
    idempotency    text,
    -- Whose id requester is. Most callers are keys.
    requester_kind text DEFAULT 'key' NOT NULL CHECK ((requester_kind IN ('key', 'user'))),
    form           json, -- the JSON Schema of the response that is asked for
    writers        uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    -- The same of the workflow that waits for the decision; '' where none does.
    driver         text DEFAULT '' NOT NULL CHECK ((driver IN ('', 'run', 'map', 'message', 'changes'))),
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT approvals_subject CHECK (((subject_type = 'run') = (run_id IS NOT NULL)))
);
CREATE INDEX approvals_by_execution ON approvals (tenant_id, execution_id, id DESC);
CREATE INDEX approvals_by_kind ON approvals (tenant_id, kind, id DESC);
CREATE INDEX approvals_by_provider ON approvals (tenant_id, provider, id DESC);
-- The same for approvals: who asked for them never changes.
CREATE INDEX approvals_by_requester ON approvals (tenant_id, requester, id DESC) WHERE (requester IS NOT NULL);
CREATE INDEX approvals_by_risk ON approvals (tenant_id, risk_level, id DESC);
CREATE INDEX approvals_by_status ON approvals (tenant_id, status, id DESC) WHERE (status <> 'pending');
CREATE INDEX approvals_by_subject ON approvals (tenant_id, subject_type, subject_id);
CREATE INDEX approvals_by_verb ON approvals (tenant_id, provider, verb, id DESC);
CREATE INDEX approvals_due ON approvals (expires_at) WHERE ((status = 'pending') IS TRUE);
-- A step asks once, however often its workflow repeats the question. An edit replaces the question.
CREATE UNIQUE INDEX approvals_of_step ON approvals (tenant_id, subject_type, subject_id) WHERE ((subject_type = ANY (ARRAY['map_step',
    'map_changes'])) AND (edited_from IS NULL));
CREATE INDEX approvals_pending ON approvals (tenant_id, id DESC) WHERE ((status = 'pending') IS TRUE);
CREATE INDEX approvals_recheck ON approvals (tenant_id, id) WHERE recheck;
-- What a tenant can create is counted where it is created; see internal/record/quota.
CREATE INDEX approvals_waiting ON approvals (tenant_id, kind) WHERE ((status = 'pending') IS TRUE);
CREATE INDEX approvals_watched ON approvals (watched_at) WHERE ((status = 'pending') IS TRUE);
ALTER TABLE approvals ENABLE ROW LEVEL SECURITY;
ALTER TABLE approvals FORCE ROW LEVEL SECURITY;
-- The sweeper looks after the pending ones of all tenants.
CREATE POLICY approvals_sweep ON approvals FOR SELECT USING (((app_setting('app.sweep') = 'on') AND ((status = 'pending') OR recheck)));
-- The owner of the tables is bound by row-level security too.
CREATE POLICY platform_pending ON approvals FOR SELECT TO CURRENT_USER USING ((status = 'pending'));
CREATE POLICY platform_recheck ON approvals FOR UPDATE TO CURRENT_USER USING ((status = 'pending'));
CREATE POLICY tenant ON approvals USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT ON approvals TO agentruntime_app;
GRANT UPDATE (status, args, reason, expires_at, explanation, request, requirements, closed_reason, decided_by, decided_at, escalated_at,
    recheck, watched_at, workflow_id, driver) ON approvals TO agentruntime_app;

-- What people said of an approval. A row is a proposal until the run's workflow has
-- counted it; one that was not counted decides nothing and is removed.
CREATE TABLE approval_decisions (
    id          uuid NOT NULL,
    tenant_id   uuid NOT NULL,
    approval_id text NOT NULL,
    user_id     uuid, -- NULL: a person at Temporal, who can only reject
    decision    text NOT NULL CHECK ((decision IN ('approve', 'reject'))),
    reason      text NOT NULL,
    edited_args text,
    request_id  text NOT NULL,
    source_addr text NOT NULL,
    created_at  timestamptz DEFAULT now() NOT NULL,
    counted_at  timestamptz,
    response    text, -- sealed: what the approver answered to the form
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT approval_decisions_check CHECK (((user_id IS NOT NULL) OR (decision = 'reject')))
);
-- Nobody's decision counts twice. Who has approved may still reject.
CREATE UNIQUE INDEX approval_decisions_once ON approval_decisions (tenant_id, approval_id, user_id, decision) WHERE (counted_at IS NOT NULL);
ALTER TABLE approval_decisions ENABLE ROW LEVEL SECURITY;
ALTER TABLE approval_decisions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON approval_decisions USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE ON approval_decisions TO agentruntime_app;
GRANT UPDATE (edited_args, counted_at, response) ON approval_decisions TO agentruntime_app;

-- Approvals given in advance: this verb, under these conditions, until then, so many times.
CREATE TABLE grants (
    id          uuid NOT NULL,
    tenant_id   uuid NOT NULL,
    provider    text NOT NULL,
    verb        text NOT NULL,
    conditions  json NOT NULL, -- as in policies
    key_id      uuid, -- the calls of this key only
    agent_id    text,
    customer_id text,
    reason      text NOT NULL,
    created_by  uuid NOT NULL,
    created_at  timestamptz DEFAULT now() NOT NULL,
    expires_at  timestamptz NOT NULL,
    max_uses    integer NOT NULL CHECK ((max_uses > 0)),
    uses        integer DEFAULT 0 NOT NULL,
    revoked_at  timestamptz,
    revoked_by  uuid,
    -- The Map whose calls a grant is for: a grant without one is for no calls of Maps.
    map_id      uuid,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT grants_check CHECK ((uses <= max_uses))
);
-- least() passes over the null of a grant that was not revoked.
CREATE INDEX grants_age ON grants (LEAST(expires_at, revoked_at));
CREATE INDEX grants_by_customer ON grants (tenant_id, customer_id) WHERE (customer_id IS NOT NULL);
CREATE INDEX grants_by_verb ON grants (tenant_id, provider, verb) WHERE (revoked_at IS NULL);
ALTER TABLE grants ENABLE ROW LEVEL SECURITY;
ALTER TABLE grants FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_delete ON grants FOR DELETE USING (((app_setting('app.sweep') = 'on') AND (LEAST(expires_at, revoked_at) < now())));
CREATE POLICY sweep_lock ON grants FOR UPDATE USING (((app_setting('app.sweep') = 'on') AND (LEAST(expires_at,
    revoked_at) < now()))) WITH CHECK (false);
CREATE POLICY sweep_select ON grants FOR SELECT USING (((app_setting('app.sweep') = 'on') AND (LEAST(expires_at, revoked_at) < now())));
CREATE POLICY tenant ON grants USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE ON grants TO agentruntime_app;
GRANT UPDATE (conditions, customer_id, reason, expires_at, max_uses, uses, revoked_at, revoked_by) ON grants TO agentruntime_app;

-- +goose Down
DROP TABLE grants, approval_decisions, approvals CASCADE;
