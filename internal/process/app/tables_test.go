package app

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/testkit"
)

// literals are the value that each column of the old row has, by its type; old ones where types
// have an age.
var literals = map[string]string{
	"uuid": "00000000-0000-7000-8000-000000000001", "text": "x", "integer": "0", "bigint": "0", "boolean": "false", "double precision": "0", "numeric": "0",
	"timestamp with time zone": "1970-01-02Z", "bytea": `\x00`, "json": "{}", "jsonb": "{}", "xid8": "3",
	"text[]": "{}", "uuid[]": "{}", "integer[]": "{}", "bytea[]": "{}", "bigint[]": "{}",
	"timestamp with time zone[]": "{}",
}

// full is a database with one row in each table, as old as can be. Its columns need not make sense
// together.
type full struct {
	t      *testing.T
	db     testkit.DB
	admin  *pgx.Conn
	tables []string
}

// filled makes one. values are the literals of columns, by table.column or by type.
func filled(t *testing.T, values map[string]string) full {
	t.Helper()
	w := full{t: t, db: testkit.Database(t)}
	var err error
	w.admin, err = pgx.Connect(t.Context(), w.db.AdminURL)
	require.NoError(t, err)
	t.Cleanup(func() { w.admin.Close(context.WithoutCancel(t.Context())) })
	all := maps.Clone(literals)
	all["runs.state"], all["runs.erased_at"], all["audit_records.seq"] = "executed", "NULL", "0"
	maps.Copy(all, values)
	w.tables = w.list(`SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace AND relname NOT LIKE 'goose%' ORDER BY 1`)
	w.exec("SET session_replication_role = replica")
	for _, drop := range w.list(`SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) FROM pg_constraint WHERE contype = 'c' AND connamespace = 'public'::regnamespace`) {
		w.exec(drop)
	}
	for _, table := range w.tables {
		w.exec("DELETE FROM " + table)
		var names, row []string
		for _, c := range w.list(`SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`, table) {
			name, kind, _ := strings.Cut(c, " ")
			value, own := all[table+"."+name]
			if !own {
				value, own = all[kind]
			}
			require.True(t, own, "no value for %s.%s of type %s", table, name, kind)
			if value != "NULL" {
				value = "'" + value + "'"
			}
			names, row = append(names, name), append(row, value)
		}
		w.exec(fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, strings.Join(names, ", "), strings.Join(row, ", ")))
	}
	return w
}

func (w full) list(sql string, args ...any) []string {
	w.t.Helper()
	rows, err := w.admin.Query(w.t.Context(), sql, args...)
	require.NoError(w.t, err)
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(w.t, err)
	return out
}

func (w full) exec(sql string) {
	w.t.Helper()
	_, err := w.admin.Exec(w.t.Context(), sql)
	require.NoError(w.t, err, sql)
}
