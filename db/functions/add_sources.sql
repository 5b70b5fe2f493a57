-- add_sources returns the sources of a taint with others, each once: at most 20, the last of them "more"
-- where there are others, as internal/base/taint has it.
CREATE OR REPLACE FUNCTION add_sources(p_sources text[], p_others text[])
RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(array_agg(CASE WHEN kept.nth = 20 AND kept.of > 20 THEN 'more' ELSE kept.source END ORDER BY kept.nth), '{}') FROM (
        SELECT one.source, row_number() OVER (ORDER BY min(one.at)) AS nth, count(*) OVER () AS of
          FROM unnest(p_sources || p_others) WITH ORDINALITY AS one (source, at) GROUP BY one.source) kept
     WHERE kept.nth <= 20;
$$;
