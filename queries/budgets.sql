-- name: LockTenantBudgets :one
-- Budgets of a tenant are set one after the other.
SELECT t.id FROM tenants t WHERE t.id = @tenant_id FOR NO KEY UPDATE;

-- name: SetBudget :exec
-- A null @most removes the budget; see db/functions/set_budget.sql.
SELECT set_budget(@tenant_id, @subject, @measure::text, @id::uuid, sqlc.narg('most')::bigint);

-- name: ListBudgets :many
-- The budgets of a tenant, its own first, with what was used of the present month. A budget without
-- counters was not used.
SELECT b.tenant_id, b.id, b.measure, b.subject, b.most, b.since, c.used, c.reserved,
       (CASE WHEN c.full_stripes THEN 2 ELSE least(1, budget_level(c.used, b.most)) END)::integer AS level
  FROM budgets b
 CROSS JOIN LATERAL (
       SELECT coalesce(sum(x.used), 0)::bigint AS used, coalesce(sum(x.reserved), 0)::bigint AS reserved, coalesce(min(x.level) = 2, false) AS full_stripes
         FROM budget_counters x WHERE x.tenant_id = b.tenant_id AND x.budget_id = b.id AND x.month = (SELECT budget_month())) c
 WHERE b.tenant_id = @tenant_id
 ORDER BY (b.subject = b.tenant_id) DESC, b.subject, b.measure;

-- name: BudgetMonth :one
-- The present month, its end and the time, by the one clock of all processes.
SELECT m.month, budget_resets_at(m.month)::timestamptz AS resets_at, request_clock()::timestamptz AS now FROM (SELECT budget_month() AS month OFFSET 0) m;

-- name: WritesUnderWay :many
-- How many writes that are counted in each budget have not ended. Their runs are few: those that
-- have not ended at all.
SELECT charged.budget_id::uuid AS budget_id, count(*) AS writes
  FROM runs r CROSS JOIN LATERAL unnest(r.charged) AS charged (budget_id)
 WHERE r.tenant_id = @tenant_id AND r.listed_state IS NULL AND r.charged_month = (SELECT budget_month())
 GROUP BY 1;

-- name: BudgetLevel :one
-- The highest level of the tenant's budgets, and of those of the key where one is given: 0, 1 from
-- 80 % of the limit, 2 where one is used up.
SELECT coalesce(max(CASE WHEN c.full_stripes THEN 2 ELSE least(1, budget_level(c.used, b.most)) END), 0)::integer AS level
  FROM (VALUES (@tenant_id::uuid), (sqlc.narg('key_id')::uuid)) AS s (subject)
 CROSS JOIN (VALUES ('model_tokens'), ('money_micros'), ('write_calls')) AS m (measure)
 CROSS JOIN LATERAL (
       SELECT x.tenant_id, x.id, x.most FROM budgets x
        WHERE x.tenant_id = @tenant_id AND x.measure = m.measure AND x.subject = s.subject OFFSET 0) b
 CROSS JOIN LATERAL (
       SELECT coalesce(sum(x.used), 0)::bigint AS used, coalesce(min(x.level) = 2, false) AS full_stripes
         FROM budget_counters x WHERE x.tenant_id = b.tenant_id AND x.budget_id = b.id AND x.month = (SELECT budget_month()) OFFSET 0) c;

-- name: ReserveBudgets :one
-- See db/functions/reserve_budgets.sql.
SELECT reserve_budgets(@tenant_id, sqlc.narg('key_id')::uuid, @id, @tokens, @money, @seconds)::json AS taken;

-- name: SettleBudgets :one
-- See db/functions/settle_budgets.sql.
SELECT settle_budgets(@tenant_id, @id, @tokens, @money, @ended_as)::boolean AS ended;

-- name: LapsedReservations :many
-- Of all tenants, reservations whose lease is over.
SELECT tenant_id, id FROM budget_reservations WHERE state = 'open' AND until <= request_clock() ORDER BY until LIMIT @most;

-- name: BudgetsToTell :many
-- Of all tenants, budgets that may have reached a level of which the tenant was not told, after one
-- of the page before, and the level that each has reached. In the first hour of a month those of
-- the month before are among them.
SELECT d.tenant_id, d.budget_id, d.month, t.level::integer AS level, t.told::integer AS told
  FROM (SELECT DISTINCT x.tenant_id, x.budget_id, x.month FROM budget_counters x
         WHERE x.level > x.told AND x.month >= to_char((request_clock() - interval '1 hour') AT TIME ZONE 'UTC', 'YYYYMM')::integer
           AND (x.tenant_id, x.budget_id, x.month) > (@after_tenant::uuid, @after_budget::uuid, @after_month::integer)
         ORDER BY 1, 2, 3 LIMIT @most) d
 CROSS JOIN LATERAL (
       SELECT CASE WHEN min(c.level) = 2 THEN 2 ELSE least(1, budget_level(sum(c.used), sum(c.share))) END AS level, max(c.told) AS told
         FROM budget_counters c WHERE c.tenant_id = d.tenant_id AND c.budget_id = d.budget_id AND c.month = d.month) t
 ORDER BY 1, 2, 3;

-- name: TellBudget :one
-- See db/functions/tell_budget.sql.
SELECT coalesce(tell_budget(@tenant_id, @budget_id, @month), '{}')::bigint[] AS told;

-- name: GetBudget :many
SELECT * FROM budgets WHERE tenant_id = @tenant_id AND id = @id;

-- name: ForgetBudgetCounters :execrows
-- Of all tenants, at most @most counters of months before @before.
DELETE FROM budget_counters AS gone WHERE (gone.tenant_id, gone.budget_id, gone.month, gone.stripe) IN (
    SELECT old.tenant_id, old.budget_id, old.month, old.stripe FROM budget_counters AS old
     WHERE old.month < @before ORDER BY old.month LIMIT @most FOR UPDATE SKIP LOCKED
);

-- name: ForgetReservations :execrows
-- Of all tenants, at most @most reservations that have ended, and whose lease was over before @before.
DELETE FROM budget_reservations AS gone WHERE (gone.tenant_id, gone.id) IN (
    SELECT old.tenant_id, old.id FROM budget_reservations AS old
     WHERE old.state <> 'open' AND old.until < @before ORDER BY old.until LIMIT @most FOR UPDATE SKIP LOCKED
);

-- name: RequireSending :one
-- RequireRunChanged for the move to sending, which may be in the transaction of the claim. It also
-- counts a write in the budgets, where the tenant has any for writes: for the others that is one look
-- into an index.
SELECT CASE
    WHEN (SELECT r.xmin = pg_current_xact_id()::xid AND r.state = 'sending' FROM runs r WHERE r.tenant_id = @tenant_id AND r.id = @id) IS NOT TRUE THEN run_not_changed()
    WHEN @is_write::boolean AND EXISTS (SELECT FROM budgets b WHERE b.tenant_id = @tenant_id AND b.measure = 'write_calls') THEN take_write_call(@tenant_id, @id)
    ELSE false
    END::boolean AS counted;

-- name: ReturnWriteCall :one
-- Gives back what RequireSending has counted, if it has; see db/functions/return_write_call.sql.
SELECT return_write_call(@tenant_id, @id)::boolean AS given_back;
