package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// ownerless are tables without a tenant, each with its reason.
func ownerless() map[string]string {
	return map[string]string{
		"goose_db_version": "says which migrations ran; the service's role reads it to say that `migrate` did not run",
		"login_attempts":   "counts before a tenant is known; holds keyed hashes only",
		"mail_windows":     "counts before a tenant is known; has keyed hashes only",
		"heartbeats":       "shows that Postgres can write; has no data of a tenant",

		"platform_providers":    "offered to every tenant; the service's role only reads them",
		"platform_verbs":        "offered to every tenant; the service's role only reads them",
		"platform_verb_counts":  "counts of what is offered to every tenant; the service's role only reads them",
		"platform_verb_answers": "what verbs that are offered to every tenant answer; the service's role only reads them",
	}
}

// Row-level security alone, without the queries' own conditions: what the service's
// role sees in every table when it is one tenant, and when it is none.
func TestRowsOfAnotherTenantAreInvisible(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	ctx := context.Background()
	conn := w.admin(t)
	all := tables(t, conn)
	before := w.rowsOf(t, w.b)
	_, err := conn.Exec(ctx, `SET SESSION AUTHORIZATION agentruntime_app`)
	require.NoError(t, err)
	var empty []string
	for table, column := range all {
		if column == "" {
			require.Contains(t, ownerless(), table, "a table without a tenant")
			continue
		}
		if len(before[table]) == 0 {
			empty = append(empty, table)
		}
		for name, tenant := range map[string]string{"A": w.a.id, "nobody": "", "a stranger": uuid.NewString()} {
			require.Zero(t, countAs(t, conn, tenant, table, column, w.b.id), "%s as %s", table, name)
		}
		// The sealer may add rows meanwhile.
		require.GreaterOrEqual(t, countAs(t, conn, w.b.id, table, column, w.b.id), len(before[table]), "%s as B", table)
		for _, change := range []string{
			`UPDATE %[1]s SET %[2]s = %[2]s WHERE %[2]s = $1`,
			`DELETE FROM %[1]s WHERE %[2]s = $1`,
		} {
			require.Zero(t, changeAs(t, conn, w.a.id, fmt.Sprintf(change, quoted(table), quoted(column)), w.b.id), "%s: %s", table, change)
		}
	}
	require.Empty(t, empty, "these hold nothing of B, so they prove nothing")
	require.Equal(t, before, w.rowsOf(t, w.b))
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// countAs counts the rows of the tenant of, as the tenant as.
func countAs(t *testing.T, conn *pgx.Conn, as, table, column, of string) int {
	t.Helper()
	var n int
	err := inTransaction(conn, as, func(tx pgx.Tx) error {
		return tx.QueryRow(context.Background(), fmt.Sprintf(`SELECT count(*) FROM %s WHERE %s = $1`, quoted(table), quoted(column)), of).Scan(&n)
	})
	require.NoError(t, err, table)
	return n
}

// changeAs tries to change rows and returns how many it could; what the role may
// not do at all counts as none.
func changeAs(t *testing.T, conn *pgx.Conn, as, statement, of string) int64 {
	t.Helper()
	var n int64
	err := inTransaction(conn, as, func(tx pgx.Tx) error {
		tag, err := tx.Exec(context.Background(), statement, of)
		n = tag.RowsAffected()
		return err
	})
	if err != nil {
		const (
			insufficientPrivilege = "42501"
			raised                = "P0001"
		)
		require.True(t, hasState(err, insufficientPrivilege, raised), "%s: %v", statement, err)
	}
	return n
}

func hasState(err error, states ...string) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && slices.Contains(states, refused.Code)
}

// inTransaction runs fn as the tenant and rolls back.
func inTransaction(conn *pgx.Conn, tenant string, fn func(pgx.Tx) error) error {
	ctx := context.Background()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, `SELECT set_config('app.tenant_id', $1, true)`, tenant); err != nil {
		return err
	}
	return fn(tx)
}
