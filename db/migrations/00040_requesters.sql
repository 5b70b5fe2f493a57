-- +goose Up

-- Whose id requester is. Most callers are keys, and a process of the version before writes the
-- requester alone.
ALTER TABLE approvals ADD COLUMN requester_kind text NOT NULL DEFAULT 'key' CHECK (requester_kind IN ('key', 'user'));
ALTER TABLE approvals NO FORCE ROW LEVEL SECURITY;
ALTER TABLE users NO FORCE ROW LEVEL SECURITY;
UPDATE approvals a SET requester_kind = 'user'
  FROM users u WHERE u.tenant_id = a.tenant_id AND u.id = a.requester;
ALTER TABLE users FORCE ROW LEVEL SECURITY;
ALTER TABLE approvals FORCE ROW LEVEL SECURITY;

-- +goose Down
ALTER TABLE approvals DROP COLUMN requester_kind;
