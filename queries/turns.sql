-- name: ClaimTurn :one
-- See db/functions/claim_turn.sql.
SELECT c.outcome::text AS outcome, coalesce(c.turn::uuid, '00000000-0000-0000-0000-000000000000'::uuid)::uuid AS turn, coalesce(c.customer::uuid, '00000000-0000-0000-0000-000000000000'::uuid)::uuid AS customer, c.conversation::uuid AS conversation
  FROM claim_turn(@tenant_id, sqlc.narg('key')::text, @call::jsonb, @message::text, @fingerprint::bytea, @metadata::json, sqlc.narg('session_id')::text, @most::integer, @reject::boolean, @now::timestamptz) AS c;

-- name: GetTurn :one
SELECT t.*, c.session_id, c.tainted, c.taint_sources, c.spoken_language FROM turns t JOIN conversations c ON c.tenant_id = t.tenant_id AND c.id = t.conversation
 WHERE t.tenant_id = @tenant_id AND t.id = @id;

-- name: TurnByName :one
SELECT t.*, c.session_id, c.tainted, c.taint_sources, c.spoken_language FROM turns t JOIN conversations c ON c.tenant_id = t.tenant_id AND c.id = t.conversation
 WHERE t.tenant_id = @tenant_id AND t.execution_id = @execution_id;

-- name: TurnOfKey :one
SELECT turn FROM turn_keys WHERE tenant_id = @tenant_id AND agent_id = @agent_id AND key = @key;

-- name: AwaitedTurn :one
-- What those who wait for a reply look at again and again.
SELECT state, replies FROM turns WHERE tenant_id = @tenant_id AND id = @id;

-- name: TurnAnswers :many
SELECT * FROM turn_answers WHERE tenant_id = @tenant_id AND turn = @turn ORDER BY number, began_at;

-- name: ListTurnAnswers :many
-- Without what was asked and answered.
SELECT number, purpose, model, tokens_in, tokens_cached, tokens_out, estimated, money_micros, finish, (error IS NOT NULL)::boolean AS failed, runs, began_at, ended_at
  FROM turn_answers WHERE tenant_id = @tenant_id AND turn = @turn ORDER BY number, began_at LIMIT @most;

-- name: EntriesBefore :many
-- The newest entries of a session after those that are summarised, the newest first, as many as have
-- @bytes.
SELECT e.seq, e.id, e.turn, e.kind, e.body, e.at
  FROM (SELECT n.*, sum(octet_length(n.body)) OVER (ORDER BY n.seq DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS above
          FROM (SELECT * FROM conversation_entries o WHERE o.tenant_id = @tenant_id AND o.conversation = @conversation AND o.seq < @before
                   AND o.seq > coalesce(sqlc.narg('after')::integer, (SELECT m.upto FROM conversation_summaries m WHERE m.tenant_id = @tenant_id AND m.conversation = @conversation), 0)
                 ORDER BY o.seq DESC LIMIT @most) n) e
 WHERE coalesce(e.above, 0) < @bytes::bigint
 ORDER BY e.seq DESC;

-- name: SummaryOf :one
SELECT upto, body FROM conversation_summaries WHERE tenant_id = @tenant_id AND conversation = @conversation;

-- name: KeepSummary :exec
INSERT INTO conversation_summaries AS m (tenant_id, conversation, upto, body, tainted, model, at)
VALUES (@tenant_id, @conversation, @upto, @body, @tainted, @model, @now)
ON CONFLICT (tenant_id, conversation) DO UPDATE SET upto = EXCLUDED.upto, body = EXCLUDED.body, tainted = EXCLUDED.tainted, model = EXCLUDED.model, at = EXCLUDED.at
 WHERE m.upto < EXCLUDED.upto;

-- name: LockConversation :one
SELECT entries, tainted, held_by FROM conversations WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: AppendEntries :exec
-- Entries after those that are there, in the order of the arrays. The caller has locked the row.
WITH more AS (
    UPDATE conversations AS c SET entries = c.entries + cardinality(@ids::uuid[]), bytes = c.bytes + @bytes::bigint, updated_at = @now,
           spoken_language = coalesce(sqlc.narg('spoken_language')::text, c.spoken_language)
     WHERE c.tenant_id = @tenant_id AND c.id = @conversation
    RETURNING c.entries - cardinality(@ids::uuid[]) AS before
)
INSERT INTO conversation_entries (tenant_id, conversation, seq, id, turn, kind, body, at)
SELECT @tenant_id, @conversation, more.before + e.n, e.id, sqlc.narg('turn'), e.kind, e.body, @now
  FROM more, (SELECT unnest(@ids::uuid[]) AS id, unnest(@kinds::text[]) AS kind, unnest(@bodies::text[]) AS body, generate_series(1, cardinality(@ids::uuid[])) AS n) AS e;

-- name: Taint :exec
-- By the sources; a session may have some already.
UPDATE conversations SET tainted = true, taint_sources = add_sources(taint_sources, @sources::text[])
 WHERE tenant_id = @tenant_id AND id = @id AND NOT (tainted AND taint_sources @> @sources::text[]);

-- name: EndTurnAnswer :many
-- An answer, once. A row is returned where this was it.
INSERT INTO turn_answers (tenant_id, turn, number, purpose, asked, answer, error, model, tokens_in, tokens_cached, tokens_out, estimated, money_micros, finish, began_at, ended_at)
VALUES (@tenant_id, @turn, @number, @purpose, @asked, sqlc.narg('answer'), sqlc.narg('error'), @model, @tokens_in, @tokens_cached, @tokens_out, @estimated, @money_micros, @finish, @began_at, @ended_at)
ON CONFLICT DO NOTHING
RETURNING number;

-- name: ReplaceTurnAsked :exec
-- What is kept of what the planner of a goal has read.
UPDATE turn_answers SET asked = @asked WHERE tenant_id = @tenant_id AND turn = @turn AND number = @number AND purpose = 'plan';

-- name: CountTurnAnswer :exec
UPDATE turns SET tokens_used = tokens_used + @tokens, usage_estimated = usage_estimated OR @estimated::boolean, money_micros = money_micros + @money, model = CASE WHEN @model::text = '' THEN model ELSE @model END, sop = CASE WHEN @sop::text = '' THEN sop ELSE @sop END, hits = coalesce(sqlc.narg('hits'), hits), memory = coalesce(sqlc.narg('memory'), memory), updated_at = @now
 WHERE tenant_id = @tenant_id AND id = @id;

-- name: NoteTurnRun :exec
-- The run of a call that an answer asks for. One that is there stays: a repeat after a crash finds its
-- run by another name.
UPDATE turn_answers SET runs = jsonb_build_object(@number::text, @run::jsonb) || runs
 WHERE tenant_id = @tenant_id AND turn = @turn AND number = @answer AND purpose IN ('reply', 'plan');

-- name: NoteTurnMap :exec
-- The execution of a Map that a message has started.
UPDATE turns SET map_execution_id = @map_execution::text WHERE tenant_id = @tenant_id AND id = @id;

-- name: ReplyTurn :many
-- The reply of a message that is being worked on: its end, or where it begins to wait.
UPDATE turns SET state = @state::text, status = @status, reply = sqlc.narg('reply'), replies = replies + 1, error = sqlc.narg('error'), stop_reason = @stop_reason,
       actions = @actions, governance = @governance, approval_id = coalesce(sqlc.narg('approval_id'), approval_id), outcome = coalesce(sqlc.narg('outcome'), outcome), updated_at = @now,
       worked_ms = worked_ms + CASE WHEN state = 'working' THEN greatest(0, extract(epoch FROM sqlc.arg('now')::timestamptz - begun_at) * 1000)::bigint ELSE 0 END,
       finished_at = CASE WHEN @state::text = 'ended' THEN sqlc.arg('now')::timestamptz END, news_at = NULL
 WHERE tenant_id = @tenant_id AND id = @id AND finished_at IS NULL AND (state = 'working' OR @state::text = 'ended')
RETURNING id;

-- name: RequireTurnReplied :one
-- Undoes the transaction where it has not changed the message, because the reply was committed before.
SELECT CASE
    WHEN EXISTS (SELECT FROM turns t WHERE t.tenant_id = @tenant_id AND t.id = @id AND t.xmin = pg_current_xact_id()::xid) THEN true
    ELSE run_not_changed()
    END::boolean AS replied;

-- name: FreeTurnKeys :exec
DELETE FROM turn_keys WHERE tenant_id = @tenant_id AND turn = @turn;

-- name: RequeueTurn :many
-- A message whose calls have been decided waits for its turn in the session again.
UPDATE turns SET state = 'queued', updated_at = @now WHERE tenant_id = @tenant_id AND id = @id AND state = 'waiting' RETURNING id;

-- name: PromoteTurn :many
SELECT p.id::uuid AS id, p.workflow_id::text AS workflow_id, p.replies::integer AS replies, p.execution_id::text AS execution_id, p.agent_id::uuid AS agent_id, p.version::integer AS version FROM promote_turn(@tenant_id, @conversation, @now) AS p;

-- name: CancelTurn :many
-- What a caller asks of a message that has not ended.
UPDATE turns SET wants_cancel = true, news_at = @now, updated_at = @now WHERE tenant_id = @tenant_id AND id = @id AND finished_at IS NULL RETURNING id;

-- name: EndUnbegunTurn :many
-- A message that nobody has begun to work on.
UPDATE turns SET state = 'ended', status = 'cancelled', stop_reason = 'cancelled', finished_at = @now, updated_at = @now
 WHERE tenant_id = @tenant_id AND id = @id AND state = 'queued' AND replies = 0 AND finished_at IS NULL
RETURNING id;

-- name: PauseTurn :exec
-- Whether a message that is worked on waits for a kill switch to be lifted.
UPDATE turns SET status = @status WHERE tenant_id = @tenant_id AND id = @id AND state = 'working' AND status = @was;

-- name: UnbegunTurns :many
-- Messages of all tenants that nobody has looked at for some time.
SELECT t.tenant_id, t.id, t.updated_at FROM turns t
 WHERE t.finished_at IS NULL AND t.state IN ('working', 'waiting') AND t.updated_at < @before AND (t.updated_at, t.id) > (@after_at::timestamptz, @after_id::uuid)
 ORDER BY t.updated_at, t.id LIMIT @most;

-- name: ListTurns :many
-- The newest first, without their texts. The id of a customer who was merged names the other one.
SELECT t.id, t.execution_id, t.kind, t.agent_id, t.version, t.state, t.status, t.replies, t.metadata, t.customer, t.customer_name, t.key_id, t.request_id, t.workflow_id,
       t.stop_reason, t.model, t.sop, t.tokens_used, t.usage_estimated, t.money_micros, t.actions, t.governance, t.approval_id, t.updated_at, t.finished_at, c.session_id
  FROM turns t JOIN conversations c ON c.tenant_id = t.tenant_id AND c.id = t.conversation
 WHERE t.tenant_id = @tenant_id
   AND (sqlc.narg('kind')::text IS NULL OR t.kind = sqlc.narg('kind'))
   AND (sqlc.narg('agent_id')::uuid IS NULL OR t.agent_id = sqlc.narg('agent_id'))
   AND (sqlc.narg('session_id')::text IS NULL OR c.session_id = sqlc.narg('session_id'))
   AND (sqlc.narg('customer')::uuid IS NULL OR t.customer = coalesce((
        SELECT i.customer_id FROM customer_identifiers i WHERE i.tenant_id = @tenant_id AND i.identifier = 'id:' || sqlc.narg('customer')::uuid::text), sqlc.narg('customer')))
   AND (sqlc.narg('key_id')::uuid IS NULL OR t.key_id = sqlc.narg('key_id'))
   AND (sqlc.narg('status')::text IS NULL OR t.status = sqlc.narg('status'))
   AND (sqlc.narg('low')::uuid IS NULL OR t.id >= sqlc.narg('low'))
   AND (sqlc.narg('high')::uuid IS NULL OR t.id < sqlc.narg('high'))
   AND (sqlc.narg('before')::uuid IS NULL OR t.id < sqlc.narg('before'))
 ORDER BY t.id DESC LIMIT @most;

-- name: OldConversations :many
-- Sessions of all tenants without a message since, and without one that is not answered. One with a Map
-- that goes on may still be asked for an answer.
SELECT c.tenant_id, c.id FROM conversations c
 WHERE c.updated_at < @before
   AND NOT EXISTS (SELECT FROM turns t WHERE t.tenant_id = c.tenant_id AND t.conversation = c.id AND t.finished_at IS NULL)
   AND 0 = (SELECT count(*) FROM turns t JOIN map_executions m ON m.tenant_id = t.tenant_id AND m.execution_id = t.map_execution_id
             WHERE t.tenant_id = c.tenant_id AND t.conversation = c.id AND m.finished_at IS NULL)
 ORDER BY c.updated_at LIMIT @most;

-- name: LockOldConversations :many
-- Those of the sessions that are still without a message since. A session that is written in now is
-- left alone.
SELECT id FROM conversations WHERE tenant_id = @tenant_id AND id = ANY (@ids::uuid[]) AND updated_at < @before ORDER BY id FOR UPDATE SKIP LOCKED;

-- name: LockConversationsOfCustomer :many
-- Sessions of a customer without a message that is not answered, and without a Map that goes on. A
-- session that is written in now is left alone.
SELECT c.id FROM conversations c
 WHERE c.tenant_id = @tenant_id AND c.customer = ANY (@customers::uuid[])
   AND NOT EXISTS (SELECT FROM turns t WHERE t.tenant_id = c.tenant_id AND t.conversation = c.id AND t.finished_at IS NULL)
   AND 0 = (SELECT count(*) FROM turns t JOIN map_executions m ON m.tenant_id = t.tenant_id AND m.execution_id = t.map_execution_id
             WHERE t.tenant_id = c.tenant_id AND t.conversation = c.id AND m.finished_at IS NULL)
 LIMIT @most FOR UPDATE OF c SKIP LOCKED;

-- name: HasConversationOfCustomer :one
SELECT EXISTS (SELECT FROM conversations c WHERE c.tenant_id = @tenant_id AND c.customer = ANY (@customers::uuid[]));

-- name: MoveConversations :exec
-- The sessions of a customer who is merged into another one, with their messages.
WITH moved AS (
    UPDATE conversations c SET customer = @customer::uuid WHERE c.tenant_id = @tenant_id AND c.customer = @merged_id::uuid RETURNING c.id
)
UPDATE turns t SET customer = @customer FROM moved m WHERE t.tenant_id = @tenant_id AND t.conversation = m.id AND t.customer = @merged_id;

-- name: DeleteConversations :execrows
-- Sessions with all their rows. The caller has locked them; a message that came before the lock keeps
-- its session.
DELETE FROM conversations c
 WHERE c.tenant_id = @tenant_id AND c.id = ANY (@ids::uuid[])
   AND NOT EXISTS (SELECT FROM turns t WHERE t.tenant_id = c.tenant_id AND t.conversation = c.id AND t.finished_at IS NULL);

-- name: CountForCaller :exec
-- What a message has used counts for the one that has led to it.
UPDATE turns SET tokens_used = tokens_used + @tokens, usage_estimated = usage_estimated OR @estimated::boolean, money_micros = money_micros + @money
 WHERE tenant_id = @tenant_id AND id = @id;

-- name: UsedByTurns :many
-- One look-up for each; see run_owners.
SELECT t.id::uuid AS id, t.tokens_used::bigint AS tokens_used, t.money_micros::bigint AS money_micros FROM unnest(@ids::uuid[]) AS n (id)
 CROSS JOIN LATERAL (SELECT o.id, o.tokens_used, o.money_micros FROM turns o WHERE o.tenant_id = @tenant_id AND o.id = n.id LIMIT 1) AS t;

-- name: MapOfSession :many
-- The last execution of a Map that another message of a session has started.
SELECT t.map_execution_id FROM turns t
 WHERE t.tenant_id = @tenant_id AND t.conversation = @conversation AND t.id < @turn AND t.map_execution_id IS NOT NULL
 ORDER BY t.id DESC LIMIT 1;

-- name: NoteTurnMemory :exec
-- What a message has read and written of its customer's memory.
UPDATE turns SET memory = @memory::text WHERE tenant_id = @tenant_id AND id = @id;
