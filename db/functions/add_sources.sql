-- add_sources returns the sources of a taint with others, each once: at most 20, as internal/kernel/taint
-- has it.
CREATE OR REPLACE FUNCTION add_sources(p_sources text[], p_others text[])
RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(array_agg(kept.source ORDER BY kept.at), '{}') FROM (
        SELECT one.source, min(one.at) AS at FROM unnest(p_sources || p_others) WITH ORDINALITY AS one (source, at)
         GROUP BY one.source ORDER BY min(one.at) LIMIT 20) kept;
$$;
