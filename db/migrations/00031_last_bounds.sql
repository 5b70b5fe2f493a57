-- +goose Up

-- As 00029 for runs. Each approval was pending once, and leaves an entry in these indexes
-- until a vacuum. A change of one approval names its state too, and would read all of them.
-- With these predicates an index only serves a statement that says the same.
DROP INDEX approvals_pending, approvals_due, approvals_watched, approvals_waiting;
CREATE INDEX approvals_pending ON approvals (tenant_id, id DESC) WHERE (status = 'pending') IS TRUE;
CREATE INDEX approvals_due ON approvals (expires_at) WHERE (status = 'pending') IS TRUE;
CREATE INDEX approvals_watched ON approvals (watched_at) WHERE (status = 'pending') IS TRUE;
CREATE INDEX approvals_waiting ON approvals (tenant_id, kind) WHERE (status = 'pending') IS TRUE;

-- What a removed verb's arguments were, so that no key imports it again without a mark of a
-- secret or with an argument in another place. NULL: removed before, and not known.
ALTER TABLE removed_verbs ADD COLUMN form bytea; -- SHA-256 of schema and plan

-- Records of calls that were allowed are most of the trail, and need no index by decision.
CREATE INDEX audit_records_by_decision ON audit_records (tenant_id, decision, id) WHERE decision NOT IN ('', 'allow');

-- +goose Down
DROP INDEX audit_records_by_decision;
ALTER TABLE removed_verbs DROP COLUMN form;
DROP INDEX approvals_pending, approvals_due, approvals_watched, approvals_waiting;
CREATE INDEX approvals_pending ON approvals (tenant_id, id DESC) WHERE status = 'pending';
CREATE INDEX approvals_due ON approvals (expires_at) WHERE status = 'pending';
CREATE INDEX approvals_watched ON approvals (watched_at) WHERE status = 'pending';
CREATE INDEX approvals_waiting ON approvals (tenant_id, kind) WHERE status = 'pending';
