-- name: InsertTenant :exec
INSERT INTO tenants (id, name) VALUES ($1, $2);

-- name: GetTenant :one
SELECT * FROM tenants WHERE id = $1;
