-- +goose Up

-- A run begins no attempt after expires_at; NULL for runs that ended or were held before. expires_in is the time
-- in seconds that the caller asked for. request_hash is the SHA-256 of what an attempt was
-- made of: request, risk and credential. A repeat of the attempt must be made of the same.
ALTER TABLE runs ADD COLUMN expires_at timestamptz, ADD COLUMN expires_in integer, ADD COLUMN request_hash bytea;
-- A run that is under way has the time of a new one from now. Those that wait for people get
-- theirs when they are released.
ALTER TABLE runs NO FORCE ROW LEVEL SECURITY;
UPDATE runs SET expires_at = now() + interval '15 minutes' WHERE state IN ('claimed', 'sending');
ALTER TABLE runs FORCE ROW LEVEL SECURITY;

-- A change of what a call is made of closes the gate; see db/functions/close_gate.sql. A note of
-- a credential's last use is no such change.
-- +goose StatementBegin
CREATE FUNCTION close_gate() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('gate:' || coalesce(NEW.tenant_id, OLD.tenant_id)::text, 0));
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER close_gate AFTER INSERT OR UPDATE OR DELETE ON providers
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION close_gate();
CREATE CONSTRAINT TRIGGER close_gate AFTER INSERT OR DELETE ON enabled_providers
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION close_gate();
CREATE CONSTRAINT TRIGGER close_gate AFTER INSERT OR DELETE ON credentials
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION close_gate();
CREATE CONSTRAINT TRIGGER close_gate_on_update AFTER UPDATE ON credentials
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.updated_at <> NEW.updated_at) EXECUTE FUNCTION close_gate();

-- +goose Down
DROP TRIGGER close_gate_on_update ON credentials;
DROP TRIGGER close_gate ON credentials;
DROP TRIGGER close_gate ON enabled_providers;
DROP TRIGGER close_gate ON providers;
DROP FUNCTION close_gate();
ALTER TABLE runs DROP COLUMN expires_at, DROP COLUMN expires_in, DROP COLUMN request_hash;
