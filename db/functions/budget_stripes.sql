-- budget_stripes returns how many stripes the counters of a budget have. Writes are counted one at
-- a time, so any stripe with room will do. Tokens and money are reserved in amounts that must fit
-- into one. A small budget has one stripe: it is used up before a lock could slow it down.
CREATE OR REPLACE FUNCTION budget_stripes(p_measure text, p_most bigint) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE p_measure WHEN 'write_calls' THEN least(16, greatest(1, p_most / 1000))::integer ELSE 1 END
$$;
