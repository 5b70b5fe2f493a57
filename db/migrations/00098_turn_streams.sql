-- +goose Up

-- What is streamed of the reply to a message. append_turn_stream writes it.
ALTER TABLE turns
    ADD COLUMN streamed_to   integer NOT NULL DEFAULT 0, -- the number of the newest row of turn_stream
    ADD COLUMN stream_bytes  integer NOT NULL DEFAULT 0, -- of the texts in it, sealed
    ADD COLUMN stream_resets integer NOT NULL DEFAULT 0, -- how often what was streamed became void
    ADD COLUMN stream_open   boolean NOT NULL DEFAULT false, -- text was streamed since
    ADD COLUMN stream_writer integer NOT NULL DEFAULT 0; -- the newest that has streamed text

-- Which call or approval a row tells of, once: a step is made again after a crash.
ALTER TABLE turn_stream ADD COLUMN about text;

-- +goose Down
DROP FUNCTION IF EXISTS append_turn_stream(uuid, uuid, integer, text[], text[], text[], integer, integer);
ALTER TABLE turn_stream DROP COLUMN about;
ALTER TABLE turns
    DROP COLUMN stream_writer, DROP COLUMN stream_open, DROP COLUMN stream_resets, DROP COLUMN stream_bytes, DROP COLUMN streamed_to;
