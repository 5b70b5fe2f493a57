-- +goose Up

-- Whether a tenant's calls of a provider pass: the circuit breaker between them. A provider that
-- never failed has no row. The rules are in internal/kernel/circuit, and what changes a row is in
-- db/functions: record_calls, take_probe, forget_circuit.
CREATE TABLE circuits (
    tenant_id    uuid NOT NULL REFERENCES tenants (id),
    provider     text COLLATE "C" NOT NULL, -- its slug, of the tenant's own or of the platform's
    state        text NOT NULL DEFAULT 'closed' CHECK (state IN ('closed', 'open', 'half_open')),
    since        timestamptz, -- when it opened, or closed again; null where it never opened
    failures     integer NOT NULL DEFAULT 0, -- attempts that failed since the last that succeeded
    -- The present window, with the first attempts of runs.
    window_began timestamptz NOT NULL DEFAULT now(),
    calls        integer NOT NULL DEFAULT 0,
    failed       integer NOT NULL DEFAULT 0,
    openings     integer NOT NULL DEFAULT 0, -- without a success between them: each pause is twice the one before
    probe_at     timestamptz, -- when the next probe may begin; set while it is not closed
    probe_run    uuid, -- the run whose attempt is the probe, of a half-open circuit
    -- The last failures, the newest first.
    error_kinds  text[] NOT NULL DEFAULT '{}',
    error_times  timestamptz[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, provider),
    CHECK ((state = 'closed') = (probe_at IS NULL)),
    CHECK ((state = 'half_open') = (probe_run IS NOT NULL)),
    CHECK (cardinality(error_kinds) = cardinality(error_times))
) WITH (fillfactor = 50);
ALTER TABLE circuits ENABLE ROW LEVEL SECURITY;
ALTER TABLE circuits FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON circuits USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON circuits TO agentruntime_app;

-- What is known of a provider says nothing about another one of its slug, or of another address.
-- See db/functions/forget_circuit.sql.
-- +goose StatementBegin
CREATE FUNCTION forget_circuit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM circuits c WHERE c.tenant_id = coalesce(NEW.tenant_id, OLD.tenant_id) AND c.provider = coalesce(NEW.slug, OLD.slug);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER forget_circuit AFTER INSERT OR DELETE ON providers FOR EACH ROW EXECUTE FUNCTION forget_circuit();
CREATE TRIGGER forget_circuit_of_address AFTER UPDATE ON providers
    FOR EACH ROW WHEN (OLD.base_url <> NEW.base_url) EXECUTE FUNCTION forget_circuit();
CREATE TRIGGER forget_circuit AFTER INSERT OR DELETE ON enabled_providers FOR EACH ROW EXECUTE FUNCTION forget_circuit();

-- +goose Down
DROP TRIGGER forget_circuit ON enabled_providers;
DROP TRIGGER forget_circuit_of_address ON providers;
DROP TRIGGER forget_circuit ON providers;
DROP FUNCTION forget_circuit();
DROP TABLE circuits;
