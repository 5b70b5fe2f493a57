-- +goose Up

-- count_window takes several values. It is in db/functions.
DROP FUNCTION IF EXISTS count_window(uuid, uuid, uuid, bytea, integer, numeric, numeric);

-- A number and a text that read alike are one value from now on, so digests of numbers are others.
-- Each window is filled again from the recorded runs. Until then its conditions are in doubt.
ALTER TABLE policy_windows NO FORCE ROW LEVEL SECURITY;
-- The sweeper forgets the old series, and what they have counted.
UPDATE policy_windows SET gone_at = now() WHERE gone_at IS NULL;
INSERT INTO policy_windows (tenant_id, series, id, per, filled, seen)
SELECT DISTINCT ON (tenant_id, id) tenant_id, gen_random_uuid(), id, per, false, '00000000-0000-0000-0000-000000000000'
  FROM policy_windows WHERE gone_at = now() ORDER BY tenant_id, id;
ALTER TABLE policy_windows FORCE ROW LEVEL SECURITY;

-- +goose Down
DROP FUNCTION IF EXISTS count_window(uuid, uuid, uuid, bytea[], integer, numeric, numeric);
DROP FUNCTION IF EXISTS window_values(text, json);
