-- append_turn_stream adds events to the stream of a message, in their order, where it is
-- followed and the message is being worked on. It locks the message's row, so numbers are in the order of
-- commits: a reader that has read up to a number has missed none before it.
--
-- p_writer is the number of the writer of the text, or 0 for events that are not of its text. What an
-- older writer adds is dropped: its worker was taken for dead. Text that an older writer has left is
-- made void first. A message.reset is added only where there is text to make void, and gets its number
-- here: its text in p_bodies is the reason. An event about something, in p_abouts, is added once; '' is
-- about nothing. Text beyond p_rows rows or p_bytes bytes is dropped, and all that follows it.
CREATE OR REPLACE FUNCTION append_turn_stream(
    p_tenant uuid, p_turn uuid, p_writer integer, p_events text[], p_bodies text[], p_abouts text[], p_rows integer, p_bytes integer
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    t       turns;
    name    text;
    content text;
BEGIN
    SELECT * INTO t FROM turns o WHERE o.tenant_id = p_tenant AND o.id = p_turn AND o.streamed AND o.state = 'working' FOR UPDATE;
    IF NOT FOUND OR p_writer > 0 AND p_writer < t.stream_writer THEN
        RETURN;
    END IF;
    IF p_writer > t.stream_writer AND t.stream_open AND p_events[1] <> 'message.reset' THEN
        p_events := 'message.reset'::text || p_events;
        p_bodies := 'restart'::text || p_bodies;
        p_abouts := ''::text || p_abouts;
    END IF;
    FOR i IN 1 .. cardinality(p_events) LOOP
        name := p_events[i];
        content := p_bodies[i];
        IF name = 'message.delta' THEN
            IF t.streamed_to >= p_rows OR t.stream_bytes + octet_length(content) > p_bytes THEN
                t.stream_bytes := p_bytes;
                CONTINUE;
            END IF;
            t.stream_bytes := t.stream_bytes + octet_length(content);
            t.stream_open := true;
        ELSIF name = 'message.reset' THEN
            CONTINUE WHEN NOT t.stream_open;
            t.stream_open := false;
            t.stream_resets := t.stream_resets + 1;
            content := json_build_object('attempt', t.stream_resets + 1, 'reason', content)::text;
        ELSIF p_abouts[i] <> '' AND EXISTS (SELECT FROM turn_stream o WHERE o.tenant_id = p_tenant AND o.turn = p_turn AND o.about = p_abouts[i]) THEN
            CONTINUE;
        END IF;
        t.streamed_to := t.streamed_to + 1;
        INSERT INTO turn_stream (tenant_id, turn, seq, event, body, about) VALUES (p_tenant, p_turn, t.streamed_to, name, content, nullif(p_abouts[i], ''));
    END LOOP;
    UPDATE turns o SET streamed_to = t.streamed_to, stream_bytes = t.stream_bytes, stream_resets = t.stream_resets, stream_open = t.stream_open,
           stream_writer = greatest(t.stream_writer, p_writer)
     WHERE o.tenant_id = p_tenant AND o.id = p_turn;
END
$$;
