-- name: LockIdentifiers :exec
-- Calls that name one identifier take turns until they commit. All take their locks in one
-- order, so that no two wait for each other.
SELECT pg_advisory_xact_lock(locked.key) FROM (
    SELECT DISTINCT hashtextextended('customer:' || sqlc.arg('tenant_id')::uuid::text || ':' || asked.identifier, 0) AS key
      FROM unnest(@identifiers::text[]) AS asked (identifier) ORDER BY 1 OFFSET 0) AS locked;

-- name: FindIdentifiers :many
SELECT i.identifier, i.customer_id FROM unnest(@identifiers::text[]) AS asked (identifier) CROSS JOIN LATERAL (
    SELECT c.identifier, c.customer_id FROM customer_identifiers c WHERE c.tenant_id = @tenant_id AND c.identifier = asked.identifier) AS i;

-- name: InsertCustomer :exec
INSERT INTO customers (id, tenant_id, email, phone, external_id, name, metadata, claimed, tags, created_at, updated_at)
VALUES (@id, @tenant_id, sqlc.narg('email'), sqlc.narg('phone'), sqlc.narg('external_id'), sqlc.narg('name'), @metadata, @claimed, @tags, @created_at, @created_at);

-- name: UpdateCustomer :exec
UPDATE customers SET email = sqlc.narg('email'), phone = sqlc.narg('phone'), external_id = sqlc.narg('external_id'), name = sqlc.narg('name'),
       metadata = @metadata, claimed = @claimed, tags = @tags, updated_at = @updated_at
 WHERE tenant_id = @tenant_id AND id = @id;

-- name: InsertIdentifiers :exec
INSERT INTO customer_identifiers (tenant_id, identifier, customer_id)
SELECT @tenant_id, identifier, @customer_id FROM unnest(@identifiers::text[]) AS identifier ORDER BY identifier;

-- name: DeleteIdentifiers :exec
DELETE FROM customer_identifiers WHERE tenant_id = @tenant_id AND customer_id = @customer_id AND identifier = ANY (@identifiers::text[]);

-- name: DeleteTerms :exec
DELETE FROM customer_terms WHERE tenant_id = @tenant_id AND customer_id = @customer_id;

-- name: InsertTerms :exec
INSERT INTO customer_terms (tenant_id, term, customer_id)
SELECT @tenant_id, term, @customer_id FROM unnest(@terms::text[]) AS term;

-- name: DeleteTags :exec
DELETE FROM customer_tags WHERE tenant_id = @tenant_id AND customer_id = @customer_id;

-- name: InsertTags :exec
INSERT INTO customer_tags (tenant_id, tag, customer_id)
SELECT @tenant_id, tag, @customer_id FROM unnest(@tags::text[]) AS tag;

-- name: LockCustomer :one
SELECT * FROM customers WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: CustomerOfCall :one
-- What the call of a verb for a customer needs of the record; see db/functions.
SELECT coalesce(customer_record(@tenant_id, @reference::text), 'null')::json AS customer, customer_names(@tenant_id, @reference::text)::text[] AS names;

-- name: CustomerNames :one
SELECT customer_names(@tenant_id, @reference::text)::text[] AS names;

-- name: ListCustomers :many
SELECT * FROM customers
 WHERE tenant_id = @tenant_id AND (sqlc.narg('before')::uuid IS NULL OR id < sqlc.narg('before'))
 ORDER BY id DESC
 LIMIT @most;

-- name: ListTaggedCustomers :many
SELECT c.* FROM (
    SELECT t.customer_id FROM customer_tags t
     WHERE t.tenant_id = @tenant_id AND t.tag = @tag::text AND (sqlc.narg('before')::uuid IS NULL OR t.customer_id < sqlc.narg('before'))
     ORDER BY t.customer_id DESC
     LIMIT @most) AS tagged
 CROSS JOIN LATERAL (SELECT * FROM customers k WHERE k.tenant_id = @tenant_id AND k.id = tagged.customer_id OFFSET 0) AS c
 ORDER BY tagged.customer_id DESC;

-- name: SearchCustomers :many
-- The customers that have a term from @low to before @high, in the order of the first term that
-- each has there. With a tag, those that lack it are read and left out.
SELECT c.*, found.term FROM (
    SELECT t.term, t.customer_id FROM customer_terms t
     WHERE t.tenant_id = @tenant_id AND t.term >= @low::text AND t.term < @high::text
       AND (t.term, t.customer_id) > (@after_term::text, @after_id::uuid)
       AND NOT EXISTS (SELECT FROM customer_terms e
                        WHERE e.tenant_id = @tenant_id AND e.customer_id = t.customer_id AND e.term >= @low AND e.term < t.term)
       AND (sqlc.narg('tag')::text IS NULL OR EXISTS (
            SELECT FROM customer_tags g WHERE g.tenant_id = @tenant_id AND g.tag = sqlc.narg('tag') AND g.customer_id = t.customer_id))
     ORDER BY t.term, t.customer_id
     LIMIT @most) AS found
 CROSS JOIN LATERAL (SELECT * FROM customers k WHERE k.tenant_id = @tenant_id AND k.id = found.customer_id OFFSET 0) AS c
 ORDER BY found.term, found.customer_id;

-- name: MoveIdentifiers :exec
UPDATE customer_identifiers SET customer_id = @customer_id WHERE tenant_id = @tenant_id AND customer_id = @merged_id;

-- name: CountIdentifiers :one
-- Those of one customer at a time: a plan for several would go through all of the tenant.
SELECT count(*) FROM unnest(@customer_ids::uuid[]) AS counted (id) CROSS JOIN LATERAL (
    SELECT FROM customer_identifiers i WHERE i.tenant_id = @tenant_id AND i.customer_id = counted.id LIMIT @most::bigint) AS found;

-- name: CustomerIdentifiers :many
SELECT identifier FROM customer_identifiers WHERE tenant_id = @tenant_id AND customer_id = @customer_id ORDER BY identifier;

-- name: DeleteCustomer :exec
DELETE FROM customers WHERE tenant_id = @tenant_id AND id = @id;

-- name: CustomerByIdentifier :one
SELECT c.* FROM customer_identifiers i
  JOIN customers c ON c.tenant_id = i.tenant_id AND c.id = i.customer_id
 WHERE i.tenant_id = @tenant_id AND i.identifier = @identifier;

-- name: InsertErasure :exec
INSERT INTO customer_erasures (tenant_id, customer_id, names, requested_by, requested_at)
VALUES (@tenant_id, @customer_id, @names, @requested_by, @requested_at);

-- name: GetErasure :one
SELECT * FROM customer_erasures WHERE tenant_id = @tenant_id AND customer_id = @customer_id;

-- name: LockErasure :one
SELECT * FROM customer_erasures WHERE tenant_id = @tenant_id AND customer_id = @customer_id FOR UPDATE;

-- name: CountErased :exec
UPDATE customer_erasures SET erased = @erased WHERE tenant_id = @tenant_id AND customer_id = @customer_id;

-- name: CompleteErasure :exec
UPDATE customer_erasures SET names = '{}', completed_at = @completed_at::timestamptz WHERE tenant_id = @tenant_id AND customer_id = @customer_id;

-- name: OpenErasures :many
-- Those of all tenants after a place in their order.
SELECT tenant_id, customer_id, requested_at FROM customer_erasures
 WHERE completed_at IS NULL AND (requested_at, customer_id) > (@after_at::timestamptz, @after_id::uuid)
 ORDER BY requested_at, customer_id LIMIT @most;
