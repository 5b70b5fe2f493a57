package idempotency_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/idempotency"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// shelf is a database with a tenant, and a clock.
type shelf struct {
	testkit.DB
	keys *idempotency.Keys
	who  actor.Actor
	at   time.Time
}

func newShelf(t *testing.T, most int64) *shelf {
	t.Helper()
	s := &shelf{DB: testkit.Database(t), at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	var err error
	s.keys, err = idempotency.New(idempotency.Config{Pepper: []byte("pepper"), Most: most}, idempotency.Deps{DB: s.Pool, Now: func() time.Time { return s.at }})
	require.NoError(t, err)
	s.who = s.join(t)
	return s
}

func (s *shelf) join(t *testing.T) actor.Actor {
	t.Helper()
	tenant := uuid.New()
	require.NoError(t, dbsqlc.New().InsertTenant(t.Context(), s.Tenant(tenant), dbsqlc.InsertTenantParams{ID: tenant, Name: "t"}))
	return actor.Actor{Kind: actor.User, TenantID: tenant, ID: uuid.New()}
}

func call(who actor.Actor, key, body string) idempotency.Call {
	return idempotency.Call{Who: who, Endpoint: "POST /v1/things", Key: key, Body: []byte(body)}
}

// create makes a thing with the id under the call's key, and returns the error of the
// transaction.
func (s *shelf) create(t *testing.T, c idempotency.Call, id string) error {
	t.Helper()
	found, creation, err := s.keys.Find(t.Context(), c)
	require.NoError(t, err)
	require.Empty(t, found)
	return s.InTenant(t.Context(), c.Who.TenantID, func(tx pgx.Tx) error {
		return idempotency.Write(idempotency.With(t.Context(), creation), tx, id)
	})
}

func (s *shelf) find(t *testing.T, c idempotency.Call) string {
	t.Helper()
	id, _, err := s.keys.Find(t.Context(), c)
	if f := fault.As(err); f != nil {
		return string(f.Code)
	}
	require.NoError(t, err)
	return id
}

func TestKeyNamesWhatItHasCreated(t *testing.T) {
	t.Parallel()
	s := newShelf(t, 10)
	c := call(s.who, "k", "body")
	require.NoError(t, s.create(t, c, "one"))
	require.Equal(t, "one", s.find(t, c))
	require.Equal(t, "IDEMPOTENCY_KEY_REUSED", s.find(t, call(s.who, "k", "other body")))
	require.Empty(t, s.find(t, call(s.who, "other", "body")))
	elsewhere, software := c, c
	elsewhere.Endpoint = "POST /v1/others"
	software.Who.Kind = actor.Key
	for name, other := range map[string]idempotency.Call{"another endpoint": elsewhere, "a key": software, "another tenant": call(s.join(t), "k", "body")} {
		require.Empty(t, s.find(t, other), name)
		require.NoError(t, s.create(t, other, "two"), name)
	}
	colleague := c
	colleague.Who.ID = uuid.New()
	require.Equal(t, "one", s.find(t, colleague))
}

func TestKeyIsFreeAfterADay(t *testing.T) {
	t.Parallel()
	s := newShelf(t, 10)
	c := call(s.who, "k", "body")
	require.NoError(t, s.create(t, c, "one"))
	s.at = s.at.Add(idempotency.Kept - 1000)
	require.Equal(t, "one", s.find(t, c))
	s.at = s.at.Add(1000)
	require.NoError(t, s.create(t, call(s.who, "k", "other"), "two"))
	require.Equal(t, "two", s.find(t, call(s.who, "k", "other")))
}

func TestCallWithoutAKeyIsNotRemembered(t *testing.T) {
	t.Parallel()
	b := &db.Batch{}
	idempotency.Queue(t.Context(), b, "one")
	require.Zero(t, b.Len())
	require.NoError(t, idempotency.Write(t.Context(), nil, "one"))
}

// What is undone is not remembered.
func TestFailedCreationLeavesItsKeyFree(t *testing.T) {
	t.Parallel()
	s := newShelf(t, 10)
	c := call(s.who, "k", "body")
	_, creation, err := s.keys.Find(t.Context(), c)
	require.NoError(t, err)
	err = s.InTenant(t.Context(), s.who.TenantID, func(tx pgx.Tx) error {
		require.NoError(t, idempotency.Write(idempotency.With(t.Context(), creation), tx, "one"))
		return fault.New(fault.CodeConflict, "")
	})
	require.Equal(t, fault.CodeConflict, fault.As(err).Code)
	require.Empty(t, s.find(t, c))
}

func TestConcurrentCreationsMakeOne(t *testing.T) {
	t.Parallel()
	s := newShelf(t, 100)
	c := call(s.who, "k", "body")
	var made, taken atomic.Int64
	var group sync.WaitGroup
	start := make(chan struct{})
	_, creation, err := s.keys.Find(t.Context(), c)
	require.NoError(t, err)
	for i := range 8 {
		group.Go(func() {
			<-start
			b := &db.Batch{}
			idempotency.Queue(idempotency.With(context.Background(), creation), b, strconv.Itoa(i))
			switch err := s.Send(context.Background(), s.who.TenantID, b); {
			case err == nil:
				made.Add(1)
			case idempotency.Taken(err):
				taken.Add(1)
			}
		})
	}
	close(start)
	group.Wait()
	require.EqualValues(t, 1, made.Load())
	require.EqualValues(t, 7, taken.Load())
	require.NotEmpty(t, s.find(t, c))
}

func TestKeysOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	s := newShelf(t, 2)
	first := call(s.who, "1", "")
	require.NoError(t, s.create(t, first, "one"))
	require.NoError(t, s.create(t, call(s.who, "2", ""), "two"))
	require.Equal(t, "QUOTA_EXCEEDED", s.find(t, call(s.who, "3", "")))
	require.Equal(t, "one", s.find(t, first), "a repeat creates nothing")
	require.NoError(t, s.create(t, call(s.join(t), "3", ""), "other"))
	s.at = s.at.Add(idempotency.Kept)
	require.NoError(t, s.create(t, call(s.who, "3", ""), "three"))
}

func TestOldKeysOfAllTenantsAreForgotten(t *testing.T) {
	t.Parallel()
	s := newShelf(t, 10)
	old, other := call(s.who, "k", ""), call(s.join(t), "k", "")
	require.NoError(t, s.create(t, old, "one"))
	require.NoError(t, s.create(t, other, "two"))
	s.at = s.at.Add(time.Hour)
	require.NoError(t, s.create(t, call(s.who, "young", ""), "three"))
	require.NoError(t, idempotency.Forget(t.Context(), s.Pool, s.at.Add(idempotency.Kept-time.Hour)))
	conn, err := pgx.Connect(t.Context(), s.AdminURL)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	var left string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT string_agg(resource_id, ',') FROM idempotency_keys").Scan(&left))
	require.Equal(t, "three", left)
}

func TestKeysAndBodiesAreStoredAsKeyedHashes(t *testing.T) {
	t.Parallel()
	s := newShelf(t, 10)
	require.NoError(t, s.create(t, call(s.who, "my-key", `{"data":"sk_live_secret"}`), "one"))
	row := func() (text string) {
		conn, err := pgx.Connect(t.Context(), s.AdminURL)
		require.NoError(t, err)
		defer conn.Close(context.Background())
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT convert_from(key_hash || body_hash, 'LATIN1') || idempotency_keys::text FROM idempotency_keys").Scan(&text))
		return text
	}()
	require.NotContains(t, row, "my-key")
	require.NotContains(t, row, "sk_live_secret")
	peppered, err := idempotency.New(idempotency.Config{Pepper: []byte("another"), Most: 1}, idempotency.Deps{DB: s.Pool, Now: func() time.Time { return s.at }})
	require.NoError(t, err)
	_, _, err = peppered.Find(t.Context(), call(s.who, "my-key", `{"data":"sk_live_secret"}`))
	require.Equal(t, fault.CodeQuotaExceeded, fault.As(err).Code, "under another pepper it is another key")
}
