package audit_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/dev/devserver/postgres"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/chain"
)

// elsewhere is an empty database in a cluster of its own, which has given out hardly
// any xids.
func elsewhere(t *testing.T) testkit.DB {
	t.Helper()
	server, err := postgres.Start(t.Context(), postgres.Config{Dir: t.TempDir(), Log: testkit.Quiet()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	require.NoError(t, server.CreateDatabase(t.Context(), "restored"))
	d := testkit.DB{AdminURL: server.SuperuserURL("restored")}
	require.NoError(t, db.Migrate(t.Context(), d.AdminURL))
	d.AppURL, err = server.LoginURL(t.Context(), "agentruntime_app", "restored")
	require.NoError(t, err)
	d.Pool, err = db.Open(t.Context(), db.Config{URL: d.AppURL})
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return d
}

// A dump of one cluster is restored in another: the chain goes on there, and so it does
// when that one's dump is restored in the first again.
func TestTheChainGoesOnInAnotherCluster(t *testing.T) {
	t.Parallel()
	a := newTrail(t, audit.Config{Batch: 3})
	tenant := a.tenant(t)
	// xids that the other cluster has not come to yet.
	_, err := a.admin(t).Exec(t.Context(), `
CREATE TEMP TABLE burnt (n int);
DO $$ BEGIN FOR n IN 1..20000 LOOP BEGIN INSERT INTO burnt VALUES (n); EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END $$`)
	require.NoError(t, err)
	for range 5 {
		a.append(t, tenant, 2)
	}
	before := a.file(t, tenant, audit.Filter{})
	a.append(t, tenant, 3) // in the dump without seals

	b := &trail{db: elsewhere(t), clock: a.clock, seed: a.seed}
	b.Trail = b.over(t, audit.Config{Batch: 3}, a.seed)
	restore(t, a, b)
	var old, newest int64
	require.NoError(t, b.admin(t).QueryRow(t.Context(),
		`SELECT min(xid::text::bigint), pg_snapshot_xmax(pg_current_snapshot())::text::bigint FROM audit_records`).Scan(&old, &newest))
	require.Greater(t, old, newest, "the restored records have xids of the future")
	b.append(t, tenant, 4)
	b.sealDue(t, tenant)
	b.valid(t, tenant, 17)
	b.append(t, tenant, 5)
	b.sealDue(t, tenant)
	b.valid(t, tenant, 22)

	after := b.file(t, tenant, audit.Filter{})
	_, err = chain.Verify(bytes.NewReader(after), b.keys(t))
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(after, before[:bytes.LastIndex(before[:len(before)-1], []byte("\n"))]), "the chain of before is the beginning of that of after")

	back := newTrail(t, audit.Config{Batch: 3})
	restore(t, b, back)
	back.append(t, tenant, 2)
	back.sealDue(t, tenant)
	back.valid(t, tenant, 24)
}

// restore copies what a dump contains of the trail, as pg_dump does.
func restore(t *testing.T, from, to *trail) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, in := from.admin(t), to.admin(t)
	for _, table := range []string{"tenants", "audit_records", "audit_seals", "audit_checkpoints", "audit_clusters"} {
		var columns string
		require.NoError(t, out.QueryRow(ctx,
			`SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped`,
			table).Scan(&columns))
		var data bytes.Buffer
		_, err := out.PgConn().CopyTo(ctx, &data, `COPY `+pgx.Identifier{table}.Sanitize()+` (`+columns+`) TO STDOUT`)
		require.NoError(t, err)
		_, err = in.PgConn().CopyFrom(ctx, &data, `COPY `+pgx.Identifier{table}.Sanitize()+` (`+columns+`) FROM STDIN`)
		require.NoError(t, err)
	}
}
