-- +goose Up

-- The language of the last message of a session that was sure, and the one in which its customer has
-- asked to be answered, as codes of ISO 639-1.
ALTER TABLE conversations
    ADD COLUMN spoken_language text,
    ADD COLUMN wished_language text;

-- +goose Down
ALTER TABLE conversations DROP COLUMN wished_language, DROP COLUMN spoken_language;
