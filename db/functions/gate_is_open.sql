-- gate_is_open says whether a call may be sent now, by what may have changed since it was judged. Its key is
-- not revoked, and its time is not over. The policies, the provider and the credential are those that it was
-- judged by: a null time was not read, and a null credential has none. No kill switch of p_covers is set, and
-- the circuit of its provider is closed. A probe passes that one here, and TakeProbe decides.
--
-- It sees what has committed where EnterGate is the statement before. MarkSending asks it for a run that is
-- claimed, and RequireSendingAhead for one that is claimed with the mark.
-- OFFSET 0 keeps each EXISTS a look-up: without it, a plan for small tables reads all rows of the tenant into
-- a hash table.
CREATE OR REPLACE FUNCTION gate_is_open(
    p_tenant uuid, p_provider text, p_key uuid, p_expires_at timestamptz, p_policy_version bigint, p_provider_at timestamptz,
    p_credential uuid, p_credential_at timestamptz, p_covers text[], p_probe boolean
) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (p_key IS NULL OR EXISTS (
            SELECT FROM api_keys k WHERE k.tenant_id = p_tenant AND k.id = p_key AND k.revoked_at IS NULL OFFSET 0))
       AND (p_expires_at IS NULL OR p_expires_at > now())
       AND coalesce((SELECT p.version FROM policy_sets p WHERE p.tenant_id = p_tenant), 0) = p_policy_version
       AND (p_provider_at IS NULL OR coalesce(
                (SELECT own.updated_at FROM providers own WHERE own.tenant_id = p_tenant AND own.slug = p_provider),
                (SELECT ours.updated_at FROM enabled_providers e JOIN platform_providers ours ON ours.slug = e.slug
                  WHERE e.tenant_id = p_tenant AND e.slug = p_provider)) = p_provider_at)
       AND (p_credential_at IS NULL OR EXISTS (
            SELECT FROM credentials c WHERE c.tenant_id = p_tenant AND c.id = p_credential AND c.updated_at = p_credential_at OFFSET 0))
       AND NOT EXISTS (
            SELECT FROM kill_switches k WHERE k.tenant_id = p_tenant AND k.lifted_at IS NULL AND k.covers = ANY (p_covers) OFFSET 0)
       AND (p_probe OR NOT EXISTS (
            SELECT FROM circuits c WHERE c.tenant_id = p_tenant AND c.provider = p_provider AND c.state <> 'closed' OFFSET 0));
END
$$;
