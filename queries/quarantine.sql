-- name: NamingVerbs :many
-- What may name verbs of a provider: the policies and the agents, of which the caller reads the part
-- that names verbs, and the published Maps that name some of them. A policy that is disabled names
-- them too: a change of one member enables it as it was written. @prefix is the begin of such a name in
-- a JSON text. The cost is one pass over what the tenant has.
SELECT 'policy' AS type, p.id, p.name, p.document::text AS part
  FROM policies p
 WHERE p.tenant_id = @tenant_id::uuid AND p.deleted_at IS NULL AND strpos(p.document::text, @prefix::text) > 0
UNION ALL
SELECT 'map', m.id, m.name, array_to_json(v.verbs)::text
  FROM maps m CROSS JOIN LATERAL (
       SELECT o.verbs FROM map_versions o WHERE o.tenant_id = m.tenant_id AND o.map_id = m.id AND o.version = m.published_version LIMIT 1) v
 WHERE m.tenant_id = @tenant_id::uuid AND m.deleted_at IS NULL AND v.verbs && @names::text[]
UNION ALL
SELECT 'agent', a.id, a.name, (v.definition #> '{tools,allow}')::text
  FROM agents a CROSS JOIN LATERAL (
       SELECT o.definition FROM agent_versions o WHERE o.tenant_id = a.tenant_id AND o.agent_id = a.id AND o.version = a.published_version LIMIT 1) v
 WHERE a.tenant_id = @tenant_id::uuid AND a.deleted_at IS NULL AND strpos(v.definition::text, @prefix::text) > 0;

-- name: AcceptedVerbs :many
SELECT name, risk_level, schema FROM accepted_verbs WHERE tenant_id = @tenant_id AND provider = @provider;

-- name: KeepAcceptedVerbs :exec
INSERT INTO accepted_verbs (tenant_id, provider, name, risk_level, schema, bytes)
SELECT @tenant_id, @provider, kept.name, kept.risk_level, kept.schema, octet_length(kept.schema)
  FROM (SELECT unnest(@names::text[]) AS name, unnest(@risk_levels::text[]) AS risk_level, unnest(@schemas::text[]) AS schema) kept
ON CONFLICT (tenant_id, provider, name) DO NOTHING;

-- name: ForgetAcceptedVerbs :exec
DELETE FROM accepted_verbs WHERE tenant_id = @tenant_id AND provider = @provider AND name = ANY (@names::text[]);

-- name: AcceptVerb :exec
UPDATE verbs SET quarantine = NULL WHERE tenant_id = @tenant_id AND provider = @provider AND name = @name;
