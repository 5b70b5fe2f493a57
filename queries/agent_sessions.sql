-- name: ListConversations :many
-- Sessions of an agent, the one with the newest message first. The id of a customer who was merged names
-- the other one.
SELECT c.id, c.session_id, c.customer, c.tainted, c.taint_sources, c.held_by, c.held_at, c.escalated_at, c.turns, c.version, c.created_at, c.updated_at, b.busy
  FROM conversations c
 CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM turns t WHERE t.tenant_id = c.tenant_id AND t.conversation = c.id AND t.finished_at IS NULL
                                       AND t.state IN ('queued', 'working')) AS busy) b
 WHERE c.tenant_id = @tenant_id AND c.agent_id = @agent_id AND c.session_id IS NOT NULL
   AND (sqlc.narg('customer')::uuid IS NULL OR c.customer = coalesce((
        SELECT i.customer_id FROM customer_identifiers i WHERE i.tenant_id = @tenant_id AND i.identifier = 'id:' || sqlc.narg('customer')::uuid::text), sqlc.narg('customer')))
   AND (sqlc.narg('held')::boolean IS NULL OR (c.held_by IS NOT NULL) = sqlc.narg('held'))
   AND (sqlc.narg('busy')::boolean IS NULL OR b.busy = sqlc.narg('busy'))
   AND (sqlc.narg('escalated')::boolean IS NULL OR (c.escalated_at IS NOT NULL) = sqlc.narg('escalated'))
   AND (sqlc.narg('before_at')::timestamptz IS NULL OR (c.updated_at, c.id) < (sqlc.narg('before_at'), sqlc.narg('before_id')::uuid))
   AND (sqlc.narg('until')::timestamptz IS NULL OR c.created_at < sqlc.narg('until'))
 ORDER BY c.updated_at DESC, c.id DESC LIMIT @most;

-- name: GetConversation :one
SELECT c.id, c.session_id, c.customer, c.tainted, c.taint_sources, c.held_by, c.held_at, c.escalated_at, c.turns, c.version, c.created_at, c.updated_at,
       EXISTS (SELECT FROM turns t WHERE t.tenant_id = c.tenant_id AND t.conversation = c.id AND t.finished_at IS NULL AND t.state IN ('queued', 'working'))::boolean AS busy
  FROM conversations c WHERE c.tenant_id = @tenant_id AND c.agent_id = @agent_id AND c.session_id = @session_id::text;

-- name: LockAgentSession :one
-- The same, until the transaction ends: nothing else changes who answers in it.
SELECT c.id, c.session_id, c.customer, c.tainted, c.taint_sources, c.held_by, c.held_at, c.escalated_at, c.turns, c.version, c.created_at, c.updated_at,
       EXISTS (SELECT FROM turns t WHERE t.tenant_id = c.tenant_id AND t.conversation = c.id AND t.finished_at IS NULL AND t.state IN ('queued', 'working'))::boolean AS busy
  FROM conversations c WHERE c.tenant_id = @tenant_id AND c.agent_id = @agent_id AND c.session_id = @session_id::text FOR UPDATE OF c;

-- name: OpenTurns :many
-- The messages of a session that have not ended, the oldest first.
SELECT id, execution_id, state FROM turns WHERE tenant_id = @tenant_id AND conversation = @conversation AND finished_at IS NULL ORDER BY id LIMIT @most;

-- name: OpenMapsOfConversation :many
-- The executions of Maps that messages of a session have started, and that go on.
SELECT m.execution_id FROM turns t JOIN map_executions m ON m.tenant_id = t.tenant_id AND m.execution_id = t.map_execution_id
 WHERE t.tenant_id = @tenant_id AND t.conversation = @conversation AND m.finished_at IS NULL
 ORDER BY m.id LIMIT @most;

-- name: HoldConversation :exec
UPDATE conversations SET held_by = sqlc.narg('held_by')::uuid, held_at = sqlc.narg('held_at')::timestamptz, escalated_at = NULL WHERE tenant_id = @tenant_id AND id = @id;

-- name: EscalateConversation :exec
UPDATE conversations SET escalated_at = coalesce(escalated_at, @now::timestamptz) WHERE tenant_id = @tenant_id AND id = @id AND session_id IS NOT NULL AND held_by IS NULL;

-- name: TakeTurnOver :exec
-- A message that a person answers from now on. news_at tells its workflow to say what came of the
-- calls that were under way.
UPDATE turns SET state = 'ended', status = 'escalated', stop_reason = 'escalated', news_at = CASE WHEN state = 'working' THEN @now::timestamptz END, updated_at = @now, finished_at = @now,
       worked_ms = worked_ms + CASE WHEN state = 'working' THEN greatest(0, extract(epoch FROM sqlc.arg('now')::timestamptz - begun_at) * 1000)::bigint ELSE 0 END
 WHERE tenant_id = @tenant_id AND id = @id AND finished_at IS NULL;

-- name: NoteTakenOver :many
-- What came of a message that a person has taken over, once.
UPDATE turns SET news_at = NULL, actions = @actions, updated_at = @now
 WHERE tenant_id = @tenant_id AND id = @id AND state = 'ended' AND stop_reason = 'escalated' AND news_at IS NOT NULL
RETURNING id;

-- name: AppendPersonEntry :exec
-- What a person has written. The caller has locked the row.
WITH more AS (
    UPDATE conversations AS c SET entries = c.entries + 1, bytes = c.bytes + octet_length(@body::text), updated_at = @now,
           writers = CASE WHEN @author::uuid = ANY (c.writers) THEN c.writers ELSE array_append(c.writers, @author::uuid) END
     WHERE c.tenant_id = @tenant_id AND c.id = @conversation
    RETURNING c.entries AS seq
)
INSERT INTO conversation_entries (tenant_id, conversation, seq, id, kind, body, author, at)
SELECT @tenant_id, @conversation, more.seq, @id, 'person', @body, @author::uuid, @now FROM more;

-- name: ListEntries :many
-- What customers, the agent and people have said in a session, the newest first.
SELECT e.seq, e.id, e.turn, e.kind, e.body, e.author, e.at FROM conversation_entries e
 WHERE e.tenant_id = @tenant_id AND e.conversation = @conversation AND e.kind IN ('customer', 'agent', 'person') AND e.seq < @before::integer
 ORDER BY e.seq DESC LIMIT @most;

-- name: UnansweredTurns :many
-- The messages of a session that nobody has replied to yet, the oldest first.
SELECT id, message, status FROM turns WHERE tenant_id = @tenant_id AND conversation = @conversation AND finished_at IS NULL AND replies = 0 ORDER BY id LIMIT @most;

-- name: RunsOfTurns :many
SELECT a.turn, a.number, a.runs FROM turn_answers a WHERE a.tenant_id = @tenant_id AND a.turn = ANY (@turns::uuid[]) AND a.runs <> '{}' ORDER BY a.turn, a.number;

-- name: FeedbackOfTurns :many
SELECT f.turn, f.actor, f.rating, f.comment, f.created_at, f.updated_at FROM turn_feedback f
 WHERE f.tenant_id = @tenant_id AND f.turn = ANY (@turns::uuid[]) ORDER BY f.turn, f.created_at, f.actor;

-- name: PutFeedback :one
-- made is false where the actor had rated the reply before.
INSERT INTO turn_feedback AS f (tenant_id, turn, actor, rating, comment, created_at, updated_at)
VALUES (@tenant_id, @turn, @actor, @rating, sqlc.narg('comment'), @now, @now)
ON CONFLICT (tenant_id, turn, actor) DO UPDATE SET rating = @rating, comment = sqlc.narg('comment'), updated_at = @now
RETURNING f.created_at, (f.xmax = 0)::boolean AS made;

-- name: SessionsOfCustomer :many
-- The sessions of a customer with all agents, those without a session_id too, in the order of their ids.
SELECT c.id, c.agent_id, c.session_id, c.customer, c.tainted, c.taint_sources, c.held_by, c.held_at, c.escalated_at, c.turns, c.version, c.created_at, c.updated_at
  FROM conversations c
 WHERE c.tenant_id = @tenant_id AND c.customer = @customer::uuid AND c.created_at < @until AND c.id > @after
 ORDER BY c.id LIMIT @most;
