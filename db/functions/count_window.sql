-- count_window returns what a window contains of calls with any of the values, without the run, and p_up and p_down, which are what
-- the call itself would add: its amounts above 0, and those below 0. high adds up those above 0 of
-- executed runs and of those that may still be. low has only executed runs of these, and the amounts
-- below 0 of all. So an amount below 0 makes no room under a limit. The minute at which the window begins is only in part within
-- it. It counts where that makes the numbers lie further apart.
CREATE OR REPLACE FUNCTION count_window(p_tenant uuid, p_run uuid, p_series uuid, p_values bytea[], p_per integer, p_up numeric, p_down numeric,
                                        OUT low numeric, OUT high numeric, OUT unknown boolean)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    edge   integer := floor(extract(epoch FROM now()) / 60)::integer - p_per;
    hour   integer := (edge / 60 + 1) * 60; -- the first whole hour
    inside record;
    own    record;
BEGIN
    SELECT coalesce(sum(c.done), 0) AS done, coalesce(sum(c.done) FILTER (WHERE c.minute = edge), 0) AS at_edge,
           coalesce(sum(c.ups), 0) AS ups, coalesce(sum(c.downs), 0) AS downs, coalesce(sum(c.unknown), 0) AS unknown
      INTO inside
      FROM (SELECT m.minute, m.done, m.ups, m.downs, m.unknown FROM window_counts m
             WHERE m.tenant_id = p_tenant AND m.series = p_series AND m.value = ANY (p_values) AND m.grain = 1 AND m.minute >= edge AND m.minute < hour
            UNION ALL
            SELECT h.minute, h.done, h.ups, h.downs, h.unknown FROM window_counts h
             WHERE h.tenant_id = p_tenant AND h.series = p_series AND h.value = ANY (p_values) AND h.grain = 60 AND h.minute >= hour) AS c;
    -- An attempt of the run itself was not executed, because it is judged again.
    SELECT coalesce(e.up, 0) AS up, coalesce(e.down, 0) AS down, (e.up IS NULL)::integer AS unknown
      INTO own
      FROM window_entries e
     WHERE e.tenant_id = p_tenant AND e.run_id = p_run AND e.series = p_series AND e.value = ANY (p_values) AND e.minute >= edge AND NOT e.done;
    low := inside.done - inside.at_edge + inside.downs - coalesce(own.down, 0) + p_down;
    high := inside.done + inside.ups - coalesce(own.up, 0) + p_up;
    unknown := inside.unknown - coalesce(own.unknown, 0) > 0;
END
$$;
