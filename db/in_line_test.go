package db_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// The sweeper looks for executions of Maps without a workflow. What it reads does not depend on how
// many wait in line for a place of their key.
func TestSweepOfMapsReadsNothingOfThoseInLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := statements(t)
	st := all[slices.IndexFunc(all, func(s statement) bool { return s.name == "UnbegunMaps" })]
	s := prepare(t, w.AppURL, []statement{st})
	blocks := func() int {
		given := map[string]string{"Before": "'2099-01-01Z'", "AfterAt": "'2000-01-01Z'", "AfterID": "'" + ofTenant + "'", "Most": "200"}
		var args []string
		for _, name := range st.params {
			args = append(args, given[name])
		}
		call := fmt.Sprintf("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE %q(%s)", st.name, strings.Join(args, ", "))
		var raw []byte
		require.NoError(t, s.conn.QueryRow(t.Context(), call, pgx.QueryExecModeSimpleProtocol).Scan(&raw))
		var out []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`  //nolint:tagliatelle // as Postgres names it
				Read int `json:"Shared Read Blocks"` //nolint:tagliatelle // as Postgres names it
				Rows int `json:"Actual Rows"`        //nolint:tagliatelle // as Postgres names it
			}
		}
		require.NoError(t, json.Unmarshal(raw, &out))
		require.Equal(t, 1, out[0].Plan.Rows, "the one that does not wait in line")
		return out[0].Plan.Hit + out[0].Plan.Read
	}
	add := func(n int, waiting, place string) {
		w.exec(`WITH e AS (
			INSERT INTO map_executions (id, tenant_id, execution_id, map_id, version, map_type, dry_run, fingerprint, payload, metadata, origin, request_id, source_addr, workflow_id, updated_at, waiting_for)
			SELECT gen_random_uuid(), $1::uuid, gen_random_uuid()::text, $1::uuid, 1, 'x', false, '', '', '{}', 'key', '', '', '', now(), $3::json FROM generate_series(1, $2::integer)
			RETURNING tenant_id, id, map_id)
			INSERT INTO map_places (tenant_id, execution, map_id, key, state, most) SELECT e.tenant_id, e.id, e.map_id, 'k', $4, 1 FROM e WHERE $4 <> ''`, ofTenant, n, waiting, place)
	}
	add(1, "null", "")
	few := blocks()
	add(3000, `{"for":"concurrency","step":""}`, "queued")
	require.LessOrEqual(t, blocks(), few+5)
}
