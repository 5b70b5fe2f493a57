-- name: WriteFact :one
-- See db/functions/write_fact.sql.
SELECT w.outcome::text AS outcome, w.fact::uuid AS fact, coalesce(w.customer::uuid, '00000000-0000-0000-0000-000000000000'::uuid)::uuid AS customer
  FROM write_fact(@tenant_id, @reference::text, @fact::jsonb, @most::integer, @now::timestamptz) AS w;

-- name: FactsInUse :many
-- What is remembered of the customer that a reference names, the newest first.
SELECT f.* FROM customer_facts f
 WHERE f.tenant_id = @tenant_id AND f.superseded_at IS NULL
   AND f.customer = (SELECT i.customer_id FROM customer_identifiers i WHERE i.tenant_id = @tenant_id AND i.identifier = 'id:' || @reference::text)
 ORDER BY f.id DESC LIMIT @most;

-- name: FactsOfTurn :many
-- The same for the customer of a message that remembers and that no model has answered yet.
SELECT f.* FROM customer_facts f
 WHERE f.tenant_id = @tenant_id AND f.superseded_at IS NULL
   AND f.customer = (SELECT i.customer_id FROM turns t JOIN customer_identifiers i ON i.tenant_id = t.tenant_id AND i.identifier = 'id:' || t.customer::text
                      WHERE t.tenant_id = @tenant_id AND t.id = @turn AND t.remembers AND t.state = 'working'
                        AND NOT EXISTS (SELECT FROM turn_answers a WHERE a.tenant_id = t.tenant_id AND a.turn = t.id AND a.purpose IN ('reply', 'plan')))
 ORDER BY f.id DESC LIMIT @most;

-- name: ListFacts :many
SELECT f.* FROM customer_facts f
 WHERE f.tenant_id = @tenant_id AND f.customer = @customer
   AND (sqlc.narg('superseded')::boolean IS NULL OR (f.superseded_at IS NOT NULL) = sqlc.narg('superseded'))
   AND (sqlc.narg('before')::uuid IS NULL OR f.id < sqlc.narg('before'))
   AND (sqlc.narg('until')::timestamptz IS NULL OR f.created_at < sqlc.narg('until'))
 ORDER BY f.id DESC LIMIT @most;

-- name: CustomerOfFacts :one
SELECT i.customer_id FROM customer_identifiers i WHERE i.tenant_id = @tenant_id AND i.identifier = 'id:' || @reference::text;

-- name: GetFact :one
SELECT f.* FROM customer_facts f
 WHERE f.tenant_id = @tenant_id AND f.id = @id
   AND f.customer = (SELECT i.customer_id FROM customer_identifiers i WHERE i.tenant_id = @tenant_id AND i.identifier = 'id:' || @reference::text);

-- name: LockFact :one
SELECT f.* FROM customer_facts f
 WHERE f.tenant_id = @tenant_id AND f.id = @id
   AND f.customer = (SELECT i.customer_id FROM customer_identifiers i WHERE i.tenant_id = @tenant_id AND i.identifier = 'id:' || @reference::text)
   FOR UPDATE OF f;

-- name: UpdateFact :exec
UPDATE customer_facts SET body = @body, digest = @digest, profile = @profile, tainted = @tainted, updated_at = @now WHERE tenant_id = @tenant_id AND customer = @customer AND id = @id;

-- name: DeleteFact :exec
DELETE FROM customer_facts WHERE tenant_id = @tenant_id AND customer = @customer AND id = @id;

-- name: NoteFactsUsed :exec
-- When models read facts last, once an hour: a message that reads the same facts again writes nothing.
UPDATE customer_facts SET used_at = @now WHERE tenant_id = @tenant_id AND customer = @customer AND id = ANY (@ids::uuid[]) AND (used_at IS NULL OR used_at < @before::timestamptz);

-- name: MoveFacts :exec
-- The facts of a customer who is merged into another one. Of a text that both have, one stays in use.
UPDATE customer_facts f SET customer = @customer,
       superseded_at = CASE WHEN EXISTS (SELECT FROM customer_facts o WHERE o.tenant_id = @tenant_id AND o.customer = @customer AND o.digest = f.digest AND o.superseded_at IS NULL)
                            THEN coalesce(f.superseded_at, @now::timestamptz) ELSE f.superseded_at END
 WHERE f.tenant_id = @tenant_id AND f.customer = @merged_id;

-- name: EraseFactsOf :execrows
-- Ids of customers are never given twice, and write_fact locks the customer, so all facts are of the one
-- who is erased: also one that was written between the request and its commit.
DELETE FROM customer_facts d WHERE d.tenant_id = @tenant_id AND (d.customer, d.id) IN (
    SELECT f.customer, f.id FROM customer_facts f WHERE f.tenant_id = @tenant_id AND f.customer = ANY (@customers::uuid[]) LIMIT @most);

-- name: SupersededFacts :many
-- Facts of all tenants that others have superseded before.
SELECT tenant_id, customer, id FROM customer_facts WHERE superseded_at < @before::timestamptz ORDER BY superseded_at LIMIT @most;

-- name: ForgetFacts :exec
DELETE FROM customer_facts WHERE tenant_id = @tenant_id AND customer = @customer AND id = ANY (@ids::uuid[]) AND superseded_at < @before::timestamptz;
