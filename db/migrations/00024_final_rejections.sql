-- +goose Up
-- A rejected or expired run is final under its id, and its row has the reason alone: the
-- message for the caller is made of it. The texts of before said that the id may be used
-- again.
ALTER TABLE runs NO FORCE ROW LEVEL SECURITY;
UPDATE runs SET error_message = CASE
           WHEN state = 'expired' THEN 'Nobody decided in time.'
           WHEN error_message LIKE 'An approver rejected the call: %' THEN
               regexp_replace(error_message, '^An approver rejected the call: (.*) \(Nothing was sent; the id may be used again\.\)$', '\1')
           ELSE ''
       END
 WHERE state IN ('rejected', 'expired');
ALTER TABLE runs FORCE ROW LEVEL SECURITY;

-- +goose Down
-- The texts of before are not needed: an older release shows the reason alone.
SELECT 1;
