-- +goose Up

-- Agents and Maps act too, and what they change is recorded with its change.
ALTER TABLE audit_records
    DROP CONSTRAINT audit_records_actor_type_check,
    ADD CONSTRAINT audit_records_actor_type_check
        CHECK (actor_type IN ('key', 'user', 'agent', 'map', 'workflow', 'system', 'operator'));

-- +goose Down
-- Refuses where there are records of agents or Maps: the old schema has no place for them.
ALTER TABLE audit_records
    DROP CONSTRAINT audit_records_actor_type_check,
    ADD CONSTRAINT audit_records_actor_type_check CHECK (actor_type IN ('key', 'user', 'workflow', 'operator', 'system'));
