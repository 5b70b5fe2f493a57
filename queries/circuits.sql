-- name: CircuitOver :one
-- What a call of the provider must know of its circuit; see db/functions/circuit_over.sql.
SELECT coalesce(circuit_over(@tenant_id, @provider::text), 'null')::json AS circuit;

-- name: TakeProbe :one
-- See db/functions/take_probe.sql.
SELECT take_probe(@tenant_id, @provider::text, @run_id) AS taken;

-- name: RecordCalls :one
-- See db/functions/record_calls.sql.
SELECT record_calls(@tenant_id, @provider::text, @run_id, @record_id, sqlc.narg('kind')::text, @calls::integer, @failed::integer,
                    @streak::integer, @success::boolean, @rule::integer[]) AS outcome;
