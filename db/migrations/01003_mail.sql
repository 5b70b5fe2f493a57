-- +goose Up

-- Mail that the service sends.

-- Mail that is to be sent, and for a while what became of it. A row is written in the transaction
-- of the change that it tells of. It contains no token: the sender makes that from the row's id.
--
-- Strangers ask for mail by address, before any tenant is known. Such a row has no tenant, and
-- the sender finds the user of the address. So a request does the same whether there is one.
CREATE TABLE mails (
    id         uuid DEFAULT gen_random_uuid() PRIMARY KEY,
    tenant_id  uuid,
    user_id    uuid, -- the user whom it is about
    kind       text NOT NULL,
    address    text NOT NULL,
    data       text DEFAULT '{}' NOT NULL, -- JSON: what the text names besides
    created_at timestamptz NOT NULL,
    due_at     timestamptz NOT NULL, -- of the next attempt; while one is under way, when another may follow
    attempts   integer DEFAULT 0 NOT NULL,
    ended_at   timestamptz,
    outcome    text CHECK ((outcome IN ('sent', 'void', 'failed'))),
    error      text, -- of the last attempt
    CONSTRAINT mails_ended CHECK (((ended_at IS NULL) = (outcome IS NULL)))
);
CREATE INDEX mails_age ON mails (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX mails_due ON mails (due_at) WHERE (ended_at IS NULL);
-- The mails with links that people of a tenant have sent, for the quota of an hour.
CREATE INDEX mails_linked ON mails (tenant_id, created_at) WHERE (kind = ANY (ARRAY['invitation', 'change']));
CREATE INDEX mails_waiting ON mails (tenant_id) WHERE (ended_at IS NULL);
ALTER TABLE mails ENABLE ROW LEVEL SECURITY;
ALTER TABLE mails FORCE ROW LEVEL SECURITY;
CREATE POLICY asked ON mails FOR INSERT WITH CHECK (((tenant_id IS NULL) AND (address = app_setting('app.login_email'))));
CREATE POLICY sweep_delete ON mails FOR DELETE USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY sweep_select ON mails FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY sweep_update ON mails FOR UPDATE USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON mails USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE ON mails TO agentruntime_app;
GRANT UPDATE (due_at, attempts, ended_at, outcome, error) ON mails TO agentruntime_app;

-- The tokens of links in mail. token_hash is an HMAC under a pepper that is not in the database.
CREATE TABLE mail_tokens (
    token_hash bytea PRIMARY KEY CHECK ((length(token_hash) = 32)),
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    user_id    uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    purpose    text NOT NULL CHECK ((purpose IN ('verify', 'reset', 'change'))),
    address    text NOT NULL, -- to which it was mailed
    expires_at timestamptz NOT NULL,
    used_at    timestamptz -- also where another mail or a change made it void
);
CREATE INDEX mail_tokens_age ON mail_tokens (expires_at);
CREATE INDEX mail_tokens_user ON mail_tokens (user_id);
ALTER TABLE mail_tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE mail_tokens FORCE ROW LEVEL SECURITY;
CREATE POLICY presented ON mail_tokens FOR SELECT USING ((token_hash = decode(app_setting('app.mail_token'), 'hex')));
CREATE POLICY sweep_delete ON mail_tokens FOR DELETE USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY sweep_select ON mail_tokens FOR SELECT USING ((app_setting('app.sweep') = 'on'));
CREATE POLICY tenant ON mail_tokens USING ((tenant_id = app_tenant())) WITH CHECK ((tenant_id = app_tenant()));
GRANT SELECT,INSERT,DELETE,UPDATE ON mail_tokens TO agentruntime_app;

-- How much mail there was, per subject: a keyed hash of an address, a network or a tenant. Strangers
-- ask before any tenant is known, so the table has none and no row-level security.
CREATE TABLE mail_windows (
    subject bytea PRIMARY KEY CHECK ((length(subject) = 32)),
    mails   integer NOT NULL,
    ends_at timestamptz NOT NULL
);
CREATE INDEX mail_windows_end ON mail_windows (ends_at);
GRANT SELECT,INSERT,DELETE,UPDATE ON mail_windows TO agentruntime_app;

-- +goose Down
DROP TABLE mail_windows, mail_tokens, mails CASCADE;
