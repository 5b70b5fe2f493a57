-- name: AppendTurnStream :exec
-- See db/functions/append_turn_stream.sql.
SELECT append_turn_stream(@tenant_id, @turn, @writer, @events::text[], @bodies::text[], @abouts::text[], @max_rows, @max_bytes);

-- name: TurnStreamHead :one
-- How far a message is, for those who follow it. It is read before the rows: those of a reply are
-- there when the reply is.
SELECT state, replies, streamed_to FROM turns WHERE tenant_id = @tenant_id AND id = @id;

-- name: TurnStreamAfter :many
SELECT seq, event, body FROM turn_stream WHERE tenant_id = @tenant_id AND turn = @turn AND seq > @after::integer ORDER BY seq LIMIT @most;

-- name: StreamTurn :exec
-- From now on, what is streamed of the message is written.
UPDATE turns SET streamed = true WHERE tenant_id = @tenant_id AND id = @id AND NOT streamed AND finished_at IS NULL;
