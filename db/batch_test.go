package db_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/dev/testkit"
)

func TestBatchReturnsWhatEachMethodReturns(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	q, id := dbsqlc.New(), uuid.New()
	b := &db.Batch{}
	db.QueueExec(b, q.InsertTenant, dbsqlc.InsertTenantParams{ID: id, Name: "first"})
	got := db.Queue(b, q.GetTenant, id)
	approvals := db.Queue(b, q.CountApprovals, id)
	require.Empty(t, got.Value.Name, "nothing is sent before Send")
	require.NoError(t, d.Send(t.Context(), id, b))
	require.Equal(t, "first", got.Value.Name)
	require.Empty(t, approvals.Value)
	require.NotNil(t, approvals.Value)
}

func TestBatchReturnsNilForAnOptionalRowThatIsMissing(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	q, id := dbsqlc.New(), uuid.New()
	b := &db.Batch{}
	before := db.QueueOptional(b, q.GetTenant, id)
	db.QueueExec(b, q.InsertTenant, dbsqlc.InsertTenantParams{ID: id, Name: "first"})
	after := db.QueueOptional(b, q.GetTenant, id)
	require.NoError(t, d.Send(t.Context(), id, b))
	require.Nil(t, before.Value)
	require.Equal(t, "first", after.Value.Name)
}

func TestBatchThatFailsUndoesAll(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	q, id := dbsqlc.New(), uuid.New()
	b := &db.Batch{}
	for _, name := range []string{"first", "again"} {
		db.QueueExec(b, q.InsertTenant, dbsqlc.InsertTenantParams{ID: id, Name: name})
	}
	require.True(t, db.IsUnique(d.Send(t.Context(), id, b), "tenants_pkey"))
	_, err := q.GetTenant(t.Context(), d.Tenant(id), id)
	require.True(t, db.IsNoRows(err))

	none := &db.Batch{}
	db.Queue(none, q.GetTenant, id)
	require.True(t, db.IsNoRows(d.Send(t.Context(), id, none)), "one row was asked for")
}

func TestBatchIsPartOfAnOpenTransaction(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	q, id := dbsqlc.New(), uuid.New()
	require.ErrorIs(t, d.InTenant(t.Context(), id, func(tx pgx.Tx) error {
		b := &db.Batch{}
		db.QueueExec(b, q.InsertTenant, dbsqlc.InsertTenantParams{ID: id, Name: "first"})
		got := db.Queue(b, q.GetTenant, id)
		require.NoError(t, b.SendIn(t.Context(), tx))
		require.Equal(t, "first", got.Value.Name)
		return pgx.ErrTxClosed // undo it
	}), pgx.ErrTxClosed)
	_, err := q.GetTenant(t.Context(), d.Tenant(id), id)
	require.True(t, db.IsNoRows(err))
}

func TestReadAndWriteIsOneTransaction(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t)
	q := dbsqlc.New()
	insert := func(id uuid.UUID, names ...string) *db.Batch {
		b := &db.Batch{}
		for _, name := range names {
			db.QueueExec(b, q.InsertTenant, dbsqlc.InsertTenantParams{ID: id, Name: name})
		}
		return b
	}
	var none *db.Batch
	exists := func(id uuid.UUID) bool {
		_, err := q.GetTenant(t.Context(), d.Tenant(id), id)
		return err == nil
	}
	for name, tt := range map[string]struct {
		write func(id uuid.UUID) (*db.Batch, error)
		fails bool
		stays bool
	}{
		"written":         {func(uuid.UUID) (*db.Batch, error) { return &db.Batch{}, nil }, false, true},
		"nothing written": {func(uuid.UUID) (*db.Batch, error) { return none, nil }, false, false},
		"refused":         {func(uuid.UUID) (*db.Batch, error) { return nil, pgx.ErrTxClosed }, true, false},
		"fails":           {func(id uuid.UUID) (*db.Batch, error) { return insert(id, "again"), nil }, true, false},
	} {
		id := uuid.New()
		read := insert(id, "first")
		got := db.Queue(read, q.GetTenant, id)
		err := d.ReadAndWrite(t.Context(), id, read, func() (*db.Batch, error) {
			require.Equal(t, "first", got.Value.Name, name)
			require.False(t, exists(id), name)
			return tt.write(id)
		})
		require.Equal(t, tt.fails, err != nil, "%s: %v", name, err)
		require.Equal(t, tt.stays, exists(id), name)
	}
	id := uuid.New()
	read := insert(id, "first", "again")
	err := d.ReadAndWrite(t.Context(), id, read, func() (*db.Batch, error) { t.Fatal("the read has failed"); return none, nil })
	require.True(t, db.IsUnique(err, "tenants_pkey"))
	require.False(t, exists(id))
}
