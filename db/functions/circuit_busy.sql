-- circuit_busy reports whether the probe of a half-open circuit is under way: its run is at the
-- provider, and its process has said so within 6 s. That is lostAfter of
-- internal/action/run/alive.go. So a probe whose process has ended blocks the next one no longer
-- than that.
CREATE OR REPLACE FUNCTION circuit_busy(p_tenant uuid, p_run uuid) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM runs r WHERE r.tenant_id = p_tenant AND r.id = p_run AND r.state = 'sending'
                      AND r.updated_at > clock_timestamp() - interval '6 seconds');
END
$$;
