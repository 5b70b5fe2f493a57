-- +goose Up

-- The people and companies that a tenant serves. Names, addresses and metadata are in the
-- clear: people search for them, policies read them, and row-level security keeps them apart.
CREATE TABLE customers (
    id          uuid NOT NULL,
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    email       text, -- lower case
    phone       text, -- E.164
    external_id text COLLATE "C",
    name        text,
    metadata    json NOT NULL DEFAULT '{}',
    tags        text[] NOT NULL DEFAULT '{}',
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
ALTER TABLE customers ENABLE ROW LEVEL SECURITY;
ALTER TABLE customers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON customers USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON customers TO agentruntime_app;

-- What names a customer: id:<reference>, email:<address> or phone:<number>. A reference is a
-- text that a caller may write as customer_id: our id, the external_id, and those of the
-- customers that were merged into this one. They share one space, so that no text names two
-- customers. An address and a number may be those of a merged customer too.
CREATE TABLE customer_identifiers (
    tenant_id   uuid NOT NULL,
    identifier  text COLLATE "C" NOT NULL,
    customer_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, identifier),
    FOREIGN KEY (tenant_id, customer_id) REFERENCES customers (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX customer_identifiers_customer ON customer_identifiers (tenant_id, customer_id);
ALTER TABLE customer_identifiers ENABLE ROW LEVEL SECURITY;
ALTER TABLE customer_identifiers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON customer_identifiers USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON customer_identifiers TO agentruntime_app;

-- What a search finds a customer by: the beginnings of these texts. LIKE could use no index
-- under row-level security, because its operator is not leakproof; comparisons are.
CREATE TABLE customer_terms (
    tenant_id   uuid NOT NULL,
    term        text COLLATE "C" NOT NULL,
    customer_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, term, customer_id),
    FOREIGN KEY (tenant_id, customer_id) REFERENCES customers (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX customer_terms_customer ON customer_terms (tenant_id, customer_id, term);
ALTER TABLE customer_terms ENABLE ROW LEVEL SECURITY;
ALTER TABLE customer_terms FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON customer_terms USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, DELETE ON customer_terms TO agentruntime_app;

CREATE TABLE customer_tags (
    tenant_id   uuid NOT NULL,
    tag         text COLLATE "C" NOT NULL,
    customer_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, tag, customer_id),
    FOREIGN KEY (tenant_id, customer_id) REFERENCES customers (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX customer_tags_customer ON customer_tags (tenant_id, customer_id);
ALTER TABLE customer_tags ENABLE ROW LEVEL SECURITY;
ALTER TABLE customer_tags FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON customer_tags USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, DELETE ON customer_tags TO agentruntime_app;

-- +goose Down
DROP TABLE customer_tags, customer_terms, customer_identifiers, customers;
