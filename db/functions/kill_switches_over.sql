-- kill_switches_over returns the kill switches that are set and may cover a call of the verb, as
-- JSON, and NULL where there is none. Those of agents are all among them: the reader,
-- governance.StoppedBy, knows for which agent the call is. A quota bounds their number.
CREATE OR REPLACE FUNCTION kill_switches_over(p_tenant uuid, p_provider text, p_verb text)
RETURNS json LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT json_agg(json_build_object('id', k.id, 'scope', k.scope, 'target', k.target, 'reason', k.reason,
                                              'set_by', k.set_by, 'set_at', k.set_at) ORDER BY k.id)
              FROM kill_switches k
             WHERE k.tenant_id = p_tenant AND k.lifted_at IS NULL
               AND (k.scope = 'agent' OR k.covers IN ('tenant', 'provider:' || p_provider, 'verb:' || p_provider || ':' || p_verb)));
END
$$;
