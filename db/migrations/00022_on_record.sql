-- +goose Up

-- What a run says about itself: the credential as it was when the call was sent, and who
-- settled an unknown outcome. Until now a resolution overwrote why governance had decided.
ALTER TABLE runs
    ADD COLUMN credential_type  text NOT NULL DEFAULT '',
    ADD COLUMN credential_label text NOT NULL DEFAULT '',
    ADD COLUMN resolved_at      timestamptz,
    ADD COLUMN resolve_reason   text NOT NULL DEFAULT '';
-- The owner of the table is bound by row-level security too, and would see no row here.
ALTER TABLE runs NO FORCE ROW LEVEL SECURITY;
UPDATE runs SET resolved_at = finished_at, resolve_reason = reason, reason = '' WHERE resolved_by IS NOT NULL;
ALTER TABLE runs FORCE ROW LEVEL SECURITY;

-- +goose Down
ALTER TABLE runs NO FORCE ROW LEVEL SECURITY;
UPDATE runs SET reason = resolve_reason WHERE resolved_by IS NOT NULL;
ALTER TABLE runs FORCE ROW LEVEL SECURITY;
ALTER TABLE runs
    DROP COLUMN credential_type,
    DROP COLUMN credential_label,
    DROP COLUMN resolved_at,
    DROP COLUMN resolve_reason;
