-- +goose Up

-- What is kept beside the result of a run: headers of the provider's answer, and why an answer became no
-- result. Sealed; at most 10 KiB before it was sealed.
ALTER TABLE runs ADD COLUMN result_note text;

-- +goose Down
ALTER TABLE runs DROP COLUMN result_note;
