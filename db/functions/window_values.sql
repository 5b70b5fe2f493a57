-- window_values returns the values that count together: that of the call, and those of the other
-- names of its customer. p_also is NULL where there are none.
CREATE OR REPLACE FUNCTION window_values(p_value text, p_also json) RETURNS bytea[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(SELECT decode(p_value, 'hex') UNION SELECT decode(a.value, 'hex') FROM json_array_elements_text(coalesce(p_also, '[]')) AS a (value))
$$;
