-- count_window returns what a window contains without the run: low has what was executed, high also
-- what may still be, and p_mine, which is what the call itself would add. The minute at which the window
-- begins is only in part within it. It counts where that makes the numbers lie further apart.
CREATE OR REPLACE FUNCTION count_window(p_tenant uuid, p_run uuid, p_series uuid, p_value bytea, p_per integer, p_mine numeric,
                                        OUT low numeric, OUT high numeric, OUT unknown boolean)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    edge   integer := floor(extract(epoch FROM now()) / 60)::integer - p_per;
    hour   integer := (edge / 60 + 1) * 60; -- the first whole hour
    inside record;
    own    record;
BEGIN
    SELECT coalesce(sum(c.done) FILTER (WHERE c.minute > edge), 0) AS done, coalesce(sum(c.done) FILTER (WHERE c.minute = edge), 0) AS at_edge,
           coalesce(sum(c.ups), 0) AS ups, coalesce(sum(c.downs), 0) AS downs, coalesce(sum(c.unknown), 0) AS unknown
      INTO inside
      FROM (SELECT m.minute, m.done, m.ups, m.downs, m.unknown FROM window_counts m
             WHERE m.tenant_id = p_tenant AND m.series = p_series AND m.value = p_value AND m.grain = 1 AND m.minute >= edge AND m.minute < hour
            UNION ALL
            SELECT h.minute, h.done, h.ups, h.downs, h.unknown FROM window_counts h
             WHERE h.tenant_id = p_tenant AND h.series = p_series AND h.value = p_value AND h.grain = 60 AND h.minute >= hour) AS c;
    -- An attempt of the run itself was not executed, because it is judged again.
    SELECT coalesce(greatest(e.amount, 0), 0) AS up, coalesce(least(e.amount, 0), 0) AS down, (e.amount IS NULL)::integer AS unknown
      INTO own
      FROM window_entries e
     WHERE e.tenant_id = p_tenant AND e.run_id = p_run AND e.series = p_series AND e.value = p_value AND e.minute >= edge AND NOT e.done;
    low := inside.done + least(inside.at_edge, 0) + inside.downs - coalesce(own.down, 0) + least(p_mine, 0);
    high := inside.done + greatest(inside.at_edge, 0) + inside.ups - coalesce(own.up, 0) + greatest(p_mine, 0);
    unknown := inside.unknown - coalesce(own.unknown, 0) > 0;
END
$$;
