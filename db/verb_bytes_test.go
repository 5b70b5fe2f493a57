package db_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// beforeVerbBytes is the version of the schema in which the bytes of verbs were not counted.
const beforeVerbBytes = 27

func TestMigrationCountsTheBytesOfStoredVerbs(t *testing.T) {
	t.Parallel()
	o := newOld(t, beforeVerbBytes)
	for _, slug := range []string{"shop", "mail", "none"} {
		o.provider(slug, "https://api.shop.test")
	}
	for name, slug := range map[string]string{"a": "shop", "b": "shop", "c": "mail"} {
		o.exec(`INSERT INTO verbs (tenant_id, provider, name, domain, description, risk_level, operation_type, idempotency, schema_hash, plan_hash, search, schema, plan)
			VALUES ($1, $2, $3, 'd', '', 'low', 'read', 'none', '', '', '', '{"é":1}', '{}')`, o.tenant, slug, name)
	}
	o.migrate()
	for slug, want := range map[string]int64{"shop": 20, "mail": 10, "none": 0} {
		var got int64
		require.NoError(t, o.conn.QueryRow(t.Context(), "SELECT verb_bytes FROM providers WHERE tenant_id = $1 AND slug = $2", o.tenant, slug).Scan(&got))
		require.Equal(t, want, got, slug)
	}
	var enabled bool
	require.NoError(t, o.conn.QueryRow(t.Context(), "SELECT bool_and(tgenabled = 'O') FROM pg_trigger WHERE tgrelid = 'providers'::regclass").Scan(&enabled))
	require.True(t, enabled)
}
