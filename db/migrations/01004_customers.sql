-- +goose Up

-- Customers of tenants, and what agents remember of them.

-- The people and companies that a tenant serves. Names, addresses and metadata are in the
-- clear: people search for them, policies read them, and row-level security keeps them apart.
CREATE TABLE customers (
    id          uuid NOT NULL,
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    email       text, -- lower case
    phone       text, -- E.164
    external_id text COLLATE pg_catalog."C",
    name        text,
    metadata    json DEFAULT '{}'::json NOT NULL,
    tags        text[] DEFAULT '{}'::text[] NOT NULL,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    -- What callers and visitors say of a customer, apart from what the tenant knows: customer.claimed of policies.
    claimed     json DEFAULT '{}'::json NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
ALTER TABLE customers ENABLE ROW LEVEL SECURITY;
ALTER TABLE customers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON customers USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON customers TO agentruntime_app;

-- What names a customer: id:<reference>, email:<address> or phone:<number>. A reference is a
-- text that a caller may write as customer_id: our id, the external_id, and those of the
-- customers that were merged into this one. They share one space, so that no text names two
-- customers. An address and a number may be those of a merged customer too.
CREATE TABLE customer_identifiers (
    tenant_id   uuid NOT NULL,
    identifier  text NOT NULL COLLATE pg_catalog."C",
    customer_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, identifier),
    CONSTRAINT customer_identifiers_tenant_id_customer_id_fkey FOREIGN KEY (tenant_id, customer_id) REFERENCES customers(tenant_id,
        id) ON DELETE CASCADE
);
CREATE INDEX customer_identifiers_customer ON customer_identifiers (tenant_id, customer_id);
ALTER TABLE customer_identifiers ENABLE ROW LEVEL SECURITY;
ALTER TABLE customer_identifiers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON customer_identifiers USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON customer_identifiers TO agentruntime_app;

CREATE TABLE customer_tags (
    tenant_id   uuid NOT NULL,
    tag         text NOT NULL COLLATE pg_catalog."C",
    customer_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, tag, customer_id),
    CONSTRAINT customer_tags_tenant_id_customer_id_fkey FOREIGN KEY (tenant_id, customer_id) REFERENCES customers(tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX customer_tags_customer ON customer_tags (tenant_id, customer_id);
ALTER TABLE customer_tags ENABLE ROW LEVEL SECURITY;
ALTER TABLE customer_tags FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON customer_tags USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE ON customer_tags TO agentruntime_app;

-- What a search finds a customer by: the beginnings of these texts. LIKE could use no index
-- under row-level security, because its operator is not leakproof; comparisons are.
CREATE TABLE customer_terms (
    tenant_id   uuid NOT NULL,
    term        text NOT NULL COLLATE pg_catalog."C",
    customer_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, term, customer_id),
    CONSTRAINT customer_terms_tenant_id_customer_id_fkey FOREIGN KEY (tenant_id, customer_id) REFERENCES customers(tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX customer_terms_customer ON customer_terms (tenant_id, customer_id, term);
ALTER TABLE customer_terms ENABLE ROW LEVEL SECURITY;
ALTER TABLE customer_terms FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON customer_terms USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE ON customer_terms TO agentruntime_app;

-- What is left to erase of a customer, and what was erased. The row names the customer only until
-- all is erased.
CREATE TABLE customer_erasures (
    tenant_id    uuid NOT NULL REFERENCES tenants (id),
    customer_id  uuid NOT NULL,
    names        text[] NOT NULL, -- the texts that named the customer; {} at the end
    requested_by text NOT NULL,
    requested_at timestamptz NOT NULL,
    completed_at timestamptz,
    erased       json DEFAULT '{}'::json NOT NULL, -- how many of each kind
    PRIMARY KEY (tenant_id, customer_id)
);
CREATE INDEX customer_erasures_open ON customer_erasures (requested_at) WHERE (completed_at IS NULL);
ALTER TABLE customer_erasures ENABLE ROW LEVEL SECURITY;
ALTER TABLE customer_erasures FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_select ON customer_erasures FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON customer_erasures USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT ON customer_erasures TO agentruntime_app;
GRANT UPDATE (names, completed_at, erased) ON customer_erasures TO agentruntime_app;

-- What is remembered of customers from one session to the next. A fact that another one supersedes is
-- kept for a while and no longer used.
CREATE TABLE customer_facts (
    tenant_id     uuid NOT NULL REFERENCES tenants (id),
    id            uuid NOT NULL, -- in the order of time
    customer      uuid NOT NULL, -- erased and merged with the record, so it is no reference
    body          text NOT NULL, -- sealed
    digest        bytea NOT NULL, -- of the text under the tenant's key: no fact is there twice
    profile       boolean NOT NULL, -- it says who the customer is, and every message reads it
    tainted       boolean NOT NULL, -- the agent had read what others than the tenant wrote
    source        text NOT NULL CHECK ((source IN ('tool', 'auto', 'api'))),
    author        text NOT NULL, -- agent:<id>, key:<id> or user:<id>
    agent_id      uuid,
    session_id    text, -- the caller's name of it
    execution_id  text, -- of the message
    supersedes    uuid,
    superseded_by uuid,
    superseded_at timestamptz,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    used_at       timestamptz, -- when a model read it last, within an hour
    PRIMARY KEY (tenant_id, customer, id)
);
CREATE UNIQUE INDEX customer_facts_digest ON customer_facts (tenant_id, customer, digest) WHERE (superseded_at IS NULL);
CREATE INDEX customer_facts_superseded ON customer_facts (superseded_at) WHERE (superseded_at IS NOT NULL);
ALTER TABLE customer_facts ENABLE ROW LEVEL SECURITY;
ALTER TABLE customer_facts FORCE ROW LEVEL SECURITY;
CREATE POLICY sweep_select ON customer_facts FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON customer_facts USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON customer_facts TO agentruntime_app;

-- +goose Down
DROP TABLE customer_facts, customer_erasures, customer_terms, customer_tags, customer_identifiers, customers CASCADE;
