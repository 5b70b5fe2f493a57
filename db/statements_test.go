package db_test

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// statement is one generated query with the names of its parameters in their order.
type statement struct {
	name, sql string
	params    []string
}

// statements returns all queries of db/dbsqlc, read from its source.
func statements(t *testing.T) []statement {
	t.Helper()
	files, err := filepath.Glob("dbsqlc/*.sql.go")
	require.NoError(t, err)
	texts, params := map[string]string{}, map[string][]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if text, ok := literal(n); ok && strings.HasPrefix(text, "-- name: ") {
					texts[n.Names[0].Name] = text
				}
			case *ast.CallExpr: // db.Query(ctx, GetRun, arg.TenantID, arg.ID)
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) >= 2 && slices.Contains([]string{"Exec", "Query", "QueryRow"}, f.Sel.Name) {
					params[n.Args[1].(*ast.Ident).Name] = names(n.Args[2:])
				}
			}
			return true
		})
	}
	var all []statement
	for name, text := range texts {
		all = append(all, statement{name, text, params[name]})
	}
	slices.SortFunc(all, func(a, b statement) int { return strings.Compare(a.name, b.name) })
	return all
}

func literal(v *ast.ValueSpec) (string, bool) {
	if len(v.Values) != 1 {
		return "", false
	}
	l, ok := v.Values[0].(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

func names(args []ast.Expr) []string {
	var out []string
	for _, a := range args {
		switch a := a.(type) {
		case *ast.SelectorExpr:
			out = append(out, a.Sel.Name)
		case *ast.Ident:
			out = append(out, a.Name)
		}
	}
	return out
}

// session is a connection of the service's role that keeps one plan for each statement.
type session struct {
	*testing.T
	conn  *pgx.Conn
	types map[string][]string // of each statement's parameters
}

// prepare plans all statements for the tables as they are.
func prepare(t *testing.T, url string, all []statement) *session {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	s := &session{t, conn, map[string][]string{}}
	s.exec("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET session_replication_role = replica")
	s.exec("SELECT set_config('app.tenant_id', $1, false), set_config('app.key_hash', '00', false), set_config('app.sweep', 'on', false)", ofTenant)
	for _, st := range all {
		s.exec(fmt.Sprintf("PREPARE %q AS %s", st.name, st.sql))
		var types []string
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = $1", st.name).Scan(&types))
		s.types[st.name] = types
		for _, v := range []values{known, fresh} {
			_, _ = s.blocks(st, v) // the first execution makes the plan
		}
	}
	return s
}

func (s *session) exec(sql string, args ...any) {
	s.Helper()
	_, err := s.conn.Exec(s.Context(), sql, args...)
	require.NoError(s, err, sql)
}

// blocks runs the statement, undoes it, and returns how many blocks of 8 KiB it read.
func (s *session) blocks(st statement, v values) (int, error) {
	s.Helper()
	tx, err := s.conn.Begin(s.Context())
	require.NoError(s, err)
	defer func() { require.NoError(s, tx.Rollback(s.Context())) }()
	if strings.HasPrefix(st.name, "Require") { // what they require
		_, err = tx.Exec(s.Context(), "UPDATE runs SET state = 'sending', expires_at = NULL, updated_at = now() WHERE id = '"+knownID+"'; UPDATE circuits SET state = 'closed'; UPDATE approvals SET status = 'x', decided_at = now() WHERE id = 'x'; "+
			"UPDATE approval_decisions SET counted_at = now() WHERE id = '"+knownID+"'; UPDATE map_executions SET updated_at = now() WHERE id = '"+knownID+"'; UPDATE turns SET updated_at = now() WHERE id = '"+knownID+"'; "+
			"UPDATE maps SET published_version = 1, deleted_at = NULL WHERE id = '"+knownID+"'")
		require.NoError(s, err)
	}
	var args []string
	for i, typ := range s.types[st.name] {
		args = append(args, v.of(st.params[i], typ))
	}
	call := fmt.Sprintf("EXECUTE %q", st.name)
	if len(args) > 0 {
		call += "(" + strings.Join(args, ", ") + ")"
	}
	var raw []byte
	if err := tx.QueryRow(s.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+call, pgx.QueryExecModeSimpleProtocol).Scan(&raw); err != nil {
		return 0, err
	}
	var out []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`  //nolint:tagliatelle // as Postgres names it
			Read int `json:"Shared Read Blocks"` //nolint:tagliatelle // as Postgres names it
		}
	}
	require.NoError(s, json.Unmarshal(raw, &out))
	return out[0].Plan.Hit + out[0].Plan.Read, nil
}
