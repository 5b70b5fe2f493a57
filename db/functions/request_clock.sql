-- request_clock is the one clock of all processes for the windows of requests. It is a
-- function of its own, so that a test can put another clock in its place.
CREATE OR REPLACE FUNCTION request_clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT clock_timestamp()
$$;
