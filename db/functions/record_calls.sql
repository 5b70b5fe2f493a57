-- record_calls notes in the circuit of a provider what a process has seen of it since it last did,
-- the attempt of p_run included, and returns
--   counted   noted, or of no interest: an open circuit hears of its probe only
--   busy      nothing was noted: another process is noting. The caller adds it to its next
--   opened    the circuit is open from now on
--   reopened  its probe failed, so it stays open for twice as long
--   closed    its probe succeeded
-- p_kind says why the attempt failed, NULL where it succeeded. p_calls and p_failed count the
-- first attempts of runs. p_streak is how many attempts have failed since the last success, and
-- p_success whether there was one. p_rule is circuit.Rule. An opening and a closing
-- leave the audit record p_record.
--
-- It comes last in a transaction, before the counters of budgets, so that the row is locked for
-- little longer than a commit. And it waits for the row only for a probe: however many calls fail at once, none stands
-- in line.
CREATE OR REPLACE FUNCTION record_calls(
    p_tenant uuid, p_provider text, p_run uuid, p_record uuid, p_kind text, p_calls integer, p_failed integer, p_streak integer,
    p_success boolean, p_rule integer[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c       circuits;
    outcome text := 'counted';
    rule_failures CONSTANT integer := p_rule[1];
    rule_window   CONSTANT interval := make_interval(secs => p_rule[2]);
    rule_calls    CONSTANT integer := p_rule[3];
    rule_percent  CONSTANT integer := p_rule[4];
    rule_pause    CONSTANT integer := p_rule[5];
    rule_longest  CONSTANT integer := p_rule[6];
BEGIN
    SELECT * INTO c FROM circuits k WHERE k.tenant_id = p_tenant AND k.provider = p_provider;
    IF NOT FOUND THEN
        IF p_failed + p_streak = 0 THEN
            RETURN outcome;
        END IF;
        INSERT INTO circuits (tenant_id, provider)
        SELECT p_tenant, p_provider
         WHERE EXISTS (SELECT FROM providers o WHERE o.tenant_id = p_tenant AND o.slug = p_provider)
            OR EXISTS (SELECT FROM enabled_providers e WHERE e.tenant_id = p_tenant AND e.slug = p_provider)
            ON CONFLICT ON CONSTRAINT circuits_pkey DO NOTHING;
        IF NOT EXISTS (SELECT FROM circuits k WHERE k.tenant_id = p_tenant AND k.provider = p_provider) THEN
            RETURN outcome; -- the provider was deleted while the call was under way
        END IF;
    END IF;
    IF c.state = 'half_open' AND c.probe_run = p_run THEN
        SELECT * INTO c FROM circuits k WHERE k.tenant_id = p_tenant AND k.provider = p_provider FOR UPDATE;
    ELSIF c.state <> 'closed' THEN
        RETURN outcome;
    ELSE
        SELECT * INTO c FROM circuits k WHERE k.tenant_id = p_tenant AND k.provider = p_provider FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN 'busy';
        END IF;
    END IF;

    IF c.state = 'closed' THEN
        IF c.window_began <= now() - rule_window THEN
            c.window_began := now(); c.calls := 0; c.failed := 0;
        END IF;
        c.calls := c.calls + p_calls;
        c.failed := c.failed + p_failed;
        c.failures := p_streak + CASE WHEN p_success THEN 0 ELSE c.failures END;
        IF c.failures >= rule_failures OR p_failed > 0 AND c.calls >= rule_calls AND c.failed * 100 >= c.calls * rule_percent THEN
            outcome := 'opened';
        END IF;
    ELSIF c.state = 'half_open' AND c.probe_run = p_run THEN
        outcome := CASE WHEN p_kind IS NULL THEN 'closed' ELSE 'reopened' END;
        c.failures := CASE WHEN p_kind IS NULL THEN 0 ELSE c.failures + 1 END;
    ELSE
        RETURN outcome;
    END IF;

    IF outcome = 'closed' THEN
        c.state := 'closed'; c.since := now(); c.openings := 0; c.probe_at := NULL; c.probe_run := NULL;
    ELSIF outcome IN ('opened', 'reopened') THEN
        c.since := CASE outcome WHEN 'opened' THEN now() ELSE c.since END;
        c.state := 'open'; c.openings := c.openings + 1; c.probe_run := NULL;
        c.probe_at := now() + make_interval(secs => least(rule_longest, rule_pause * power(2, least(c.openings - 1, 20))));
    END IF;
    IF outcome <> 'counted' THEN
        c.window_began := now(); c.calls := 0; c.failed := 0;
    END IF;
    IF p_kind IS NOT NULL THEN
        c.error_kinds := (ARRAY[p_kind] || c.error_kinds)[1:5];
        c.error_times := (ARRAY[now()] || c.error_times)[1:5];
    END IF;
    UPDATE circuits k
       SET state = c.state, since = c.since, failures = c.failures, window_began = c.window_began, calls = c.calls, failed = c.failed,
           openings = c.openings, probe_at = c.probe_at, probe_run = c.probe_run, error_kinds = c.error_kinds, error_times = c.error_times
     WHERE k.tenant_id = p_tenant AND k.provider = p_provider;
    IF outcome IN ('opened', 'closed') THEN
        INSERT INTO audit_records (id, tenant_id, actor_type, actor_id, action, provider, subject_type, subject_id, details)
        VALUES (p_record, p_tenant, 'system', '', CASE outcome WHEN 'opened' THEN 'circuit.opened' ELSE 'circuit.closed' END, p_provider, 'provider', p_provider,
                json_build_object('state', c.state, 'failures', c.failures, 'next_probe_at', c.probe_at, 'last_error', c.error_kinds[1]));
    END IF;
    RETURN outcome;
END
$$;
