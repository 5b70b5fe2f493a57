-- +goose Up

-- What a record is about, where it is not (only) a run: a policy, an approval, a
-- key, a credential, a user.
ALTER TABLE audit_records
    ADD COLUMN subject_type text NOT NULL DEFAULT '',
    ADD COLUMN subject_id   text NOT NULL DEFAULT '',
    DROP CONSTRAINT audit_records_actor_type_check,
    -- operator: somebody at Temporal, of whom no more is known. system: the service by itself.
    ADD CONSTRAINT audit_records_actor_type_check CHECK (actor_type IN ('key', 'user', 'workflow', 'operator', 'system'));

-- +goose Down
ALTER TABLE audit_records
    DROP COLUMN subject_type,
    DROP COLUMN subject_id,
    DROP CONSTRAINT audit_records_actor_type_check,
    ADD CONSTRAINT audit_records_actor_type_check CHECK (actor_type IN ('key', 'user', 'workflow'));
