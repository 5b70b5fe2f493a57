-- circuit_over returns what a call of the provider must know of its circuit, as JSON, and NULL
-- where it is closed and the last call did not fail. "wait_ms" is the time until a probe may
-- begin; a second while one is under way. internal/action/circuit reads it.
CREATE OR REPLACE FUNCTION circuit_over(p_tenant uuid, p_provider text) RETURNS json LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT json_build_object('state', c.state, 'failures', c.failures, 'wait_ms', CASE
                       WHEN c.state = 'open' THEN greatest(0, ceil(extract(epoch FROM c.probe_at - clock_timestamp()) * 1000))::bigint
                       WHEN c.state = 'half_open' AND circuit_busy(p_tenant, c.probe_run) THEN 1000
                       ELSE 0 END)
              FROM circuits c
             WHERE c.tenant_id = p_tenant AND c.provider = p_provider AND (c.state <> 'closed' OR c.failures > 0));
END
$$;
