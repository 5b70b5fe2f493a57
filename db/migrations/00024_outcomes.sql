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

-- in_doubt: the run is a write, and the answer of an attempt was lost, or was a gateway's.
-- maybe_sent is also true after the provider's own word that it failed.
ALTER TABLE runs ADD COLUMN in_doubt boolean NOT NULL DEFAULT false;
UPDATE runs SET in_doubt = true WHERE state IN ('claimed', 'sending') AND maybe_sent;
ALTER TABLE runs FORCE ROW LEVEL SECURITY;

-- +goose Down
-- The texts of before are not needed: an older release shows the reason alone.
ALTER TABLE runs DROP COLUMN in_doubt;
