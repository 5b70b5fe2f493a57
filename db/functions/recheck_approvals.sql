-- recheck_approvals marks the pending approvals that depend on a changed row, in the
-- transaction of the change. The sweeper then tells their workflows to look again. A change
-- of a platform's provider marks the approvals of all tenants under the slug. A needless
-- mark costs one look. The condition of the status is that of the indexes of pending approvals.
CREATE OR REPLACE FUNCTION recheck_approvals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'policies' THEN
        UPDATE approvals a SET recheck = true
         WHERE a.tenant_id = NEW.tenant_id AND (a.status = 'pending') IS TRUE AND a.policy_ids @> ARRAY[NEW.id];
    ELSIF TG_TABLE_NAME = 'api_keys' THEN
        UPDATE approvals a SET recheck = true
         WHERE a.tenant_id = NEW.tenant_id AND (a.status = 'pending') IS TRUE AND a.requester = NEW.id;
    ELSIF TG_TABLE_NAME = 'credentials' THEN
        UPDATE approvals a SET recheck = true
         WHERE a.tenant_id = coalesce(NEW.tenant_id, OLD.tenant_id) AND (a.status = 'pending') IS TRUE
           AND a.provider = coalesce(NEW.provider, OLD.provider);
    ELSIF TG_TABLE_NAME = 'platform_providers' THEN
        UPDATE approvals a SET recheck = true
         WHERE (a.status = 'pending') IS TRUE AND a.provider = coalesce(NEW.slug, OLD.slug);
    ELSE
        UPDATE approvals a SET recheck = true
         WHERE a.tenant_id = coalesce(NEW.tenant_id, OLD.tenant_id) AND (a.status = 'pending') IS TRUE
           AND a.provider = coalesce(NEW.slug, OLD.slug);
    END IF;
    RETURN NULL;
END
$$;
