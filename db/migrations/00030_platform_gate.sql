-- +goose Up

-- A change of a platform's provider closes the gate of all tenants; see
-- db/functions/close_gate.sql. Its verbs change only with it.
CREATE CONSTRAINT TRIGGER close_gate AFTER INSERT OR UPDATE OR DELETE ON platform_providers
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION close_gate();

-- +goose Down
DROP TRIGGER close_gate ON platform_providers;
