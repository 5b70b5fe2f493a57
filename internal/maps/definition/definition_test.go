package definition_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/maps/definition"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/record/quota"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// shelf is a tenant with the service that keeps its Maps.
type shelf struct {
	*definition.Service
	t   *testing.T
	db  testkit.DB
	who actor.Actor
}

func newShelf(t *testing.T, quotas map[string]int64) *shelf {
	t.Helper()
	limits, err := quota.New(quotas)
	require.NoError(t, err)
	s := &shelf{t: t, db: testkit.Database(t)}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s.Service, err = definition.New(definition.Deps{DB: s.db.Pool, Quotas: limits, Now: func() time.Time { return at }})
	require.NoError(t, err)
	s.who = s.tenant()
	return s
}

// tenant adds a tenant and returns a user of it.
func (s *shelf) tenant() actor.Actor {
	s.t.Helper()
	id := uuid.Must(uuid.NewV7())
	_, err := s.db.Tenant(id).Exec(s.t.Context(), "INSERT INTO tenants (id, name) VALUES ($1, 'shop')", id)
	require.NoError(s.t, err)
	return actor.Actor{Kind: actor.User, TenantID: id, ID: uuid.Must(uuid.NewV7()), Role: actor.RoleOwner, RequestID: "req", SourceAddr: "192.0.2.1"}
}

// draft returns a definition of that name with these steps.
func draft(t *testing.T, name string, steps ...string) definition.Draft {
	t.Helper()
	source := json.RawMessage(fmt.Sprintf(`{"schema_version":"1","name":%q,"steps":[%s]}`, name, strings.Join(steps, ",")))
	d, faults := mapdef.Read(source)
	require.Empty(t, faults)
	return definition.Draft{Definition: d, Source: source}
}

const modelStep = `{"id":"ask","type":"summarize","input":"x"}`

// starting is a step that starts a Map: the published version where version is 0.
func starting(id uuid.UUID, version int32) string {
	step := fmt.Sprintf(`{"id":"s%s_%d","type":"map","map_id":%q`, strings.ReplaceAll(id.String(), "-", ""), version, id)
	if version > 0 {
		step += fmt.Sprintf(`,"version":%d`, version)
	}
	return step + "}"
}

// create stores and publishes a Map.
func (s *shelf) create(name string, steps ...string) uuid.UUID {
	s.t.Helper()
	rec, err := s.Create(s.t.Context(), s.who, draft(s.t, name, steps...), true)
	require.NoError(s.t, err)
	return rec.ID
}

// refused checks that an error is INVALID_MAP with the one rule.
func refused(t *testing.T, err error, rule string) {
	t.Helper()
	f := fault.As(err)
	require.NotNil(t, f, "%v", err)
	require.Equal(t, fault.CodeInvalidMap, f.Code)
	require.Len(t, f.Details, 1)
	require.Equal(t, rule, f.Details[0].Rule)
}

func (s *shelf) typeOf(id uuid.UUID) mapdef.MapType {
	s.t.Helper()
	rec, err := s.Get(s.t.Context(), s.who.TenantID, id)
	require.NoError(s.t, err)
	v, err := s.Published(s.t.Context(), s.who.TenantID, id)
	require.NoError(s.t, err)
	require.Equal(s.t, rec.MapType, v.MapType, "a read and a trigger see one type")
	list, _, err := s.List(s.t.Context(), s.who.TenantID, definition.Filter{Limit: 100})
	require.NoError(s.t, err)
	for _, m := range list {
		if m.ID == id {
			require.Equal(s.t, rec.MapType, m.MapType, "and so does a list")
		}
	}
	return rec.MapType
}

func TestMapTypeFollowsTheMapsThatAreStarted(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	leaf := s.create("leaf")
	middle := s.create("middle", starting(leaf, 0))
	top := s.create("top", starting(middle, 0))
	pinned := s.create("pinned", starting(leaf, 1))
	for _, id := range []uuid.UUID{leaf, middle, top, pinned} {
		require.Equal(t, mapdef.NonCognitive, s.typeOf(id))
	}
	_, err := s.Replace(t.Context(), s.who, leaf, draft(t, "leaf", modelStep), false, nil)
	require.NoError(t, err)
	rec, err := s.Get(t.Context(), s.who.TenantID, leaf)
	require.NoError(t, err)
	require.Equal(t, mapdef.Cognitive, rec.MapType, "the newest version of the Map itself")
	require.Equal(t, mapdef.NonCognitive, s.typeOf(top), "a draft changes nothing for others")

	_, err = s.Publish(t.Context(), s.who, leaf, 2, draft(t, "leaf", modelStep))
	require.NoError(t, err)
	for _, id := range []uuid.UUID{leaf, middle, top} {
		require.Equal(t, mapdef.Cognitive, s.typeOf(id))
	}
	require.Equal(t, mapdef.NonCognitive, s.typeOf(pinned), "its version is another one")

	_, err = s.Publish(t.Context(), s.who, leaf, 1, draft(t, "leaf"))
	require.NoError(t, err)
	require.Equal(t, mapdef.NonCognitive, s.typeOf(top))
}

func TestMapThatStartsItselfIsRefused(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	a := s.create("a")
	b := s.create("b", starting(a, 0))
	c := s.create("c", starting(b, 0))
	for name, step := range map[string]string{"itself": starting(a, 0), "an earlier version": starting(a, 1), "through one": starting(b, 0), "through two, pinned": starting(c, 1)} {
		_, err := s.Replace(t.Context(), s.who, a, draft(t, "a", step), false, nil)
		refused(t, err, "map_cycle")
		require.Equal(t, "/steps/0/map_id", fault.As(err).Details[0].Path, name)
	}
}

// Two publications that make a cycle together are made at once: one of them is refused.
func TestMapsThatWouldStartEachOtherAreNotPublishedAtOnce(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	for range 20 {
		a, b := s.create("a"), s.create("b")
		var wg sync.WaitGroup
		errs := make([]error, 2)
		begin := make(chan struct{})
		for i, pair := range [][2]uuid.UUID{{a, b}, {b, a}} {
			d := draft(t, "x", starting(pair[1], 0))
			_, err := s.Replace(t.Context(), s.who, pair[0], d, false, nil)
			require.NoError(t, err, "as drafts they run nothing")
			wg.Go(func() {
				<-begin
				_, errs[i] = s.Publish(t.Context(), s.who, pair[0], 2, d)
			})
		}
		close(begin)
		wg.Wait()
		require.NotEqual(t, errs[0] == nil, errs[1] == nil, "%v %v", errs[0], errs[1])
		for _, err := range errs {
			if err != nil {
				refused(t, err, "map_cycle")
			}
		}
	}
}

func TestMapsNestAtMostFiveDeep(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	chain := []uuid.UUID{s.create("1")}
	for i := 2; i <= mapdef.MaxMapDepth; i++ {
		chain = append(chain, s.create(strconv.Itoa(i), starting(chain[len(chain)-1], 0)))
	}
	_, err := s.Create(t.Context(), s.who, draft(t, "6", starting(chain[len(chain)-1], 0)), false)
	refused(t, err, "map_depth")

	// From below: the innermost would begin to start another.
	other := s.create("other")
	_, err = s.Replace(t.Context(), s.who, chain[0], draft(t, "1", starting(other, 0)), true, nil)
	refused(t, err, "map_depth")
	require.Contains(t, fault.As(err).Details[0].Message, chain[len(chain)-1].String(), "the Map that would lead too deep is named")
	_, err = s.Replace(t.Context(), s.who, chain[0], draft(t, "1", starting(other, 0)), false, nil)
	require.NoError(t, err, "a draft can be stored: it runs nothing")
}

func TestStartedMapMustExistAndBePublished(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	unpublished, err := s.Create(t.Context(), s.who, draft(t, "draft"), false)
	require.NoError(t, err)
	gone := s.create("gone")
	require.NoError(t, s.Delete(t.Context(), s.who, gone, nil))
	foreign := s.tenant()
	theirs, err := s.Create(t.Context(), foreign, draft(t, "theirs"), true)
	require.NoError(t, err)
	for name, step := range map[string]string{
		"no such Map": starting(uuid.New(), 0), "deleted": starting(gone, 0), "another tenant's": starting(theirs.ID, 0), "no such version": starting(unpublished.ID, 2),
	} {
		_, err := s.Create(t.Context(), s.who, draft(t, "x", step), false)
		refused(t, err, "unknown_map")
		require.NotEmpty(t, name)
	}
	d := draft(t, "x", starting(unpublished.ID, 0))
	found, err := s.Check(t.Context(), s.who.TenantID, uuid.Nil, d.Definition)
	require.NoError(t, err)
	require.Empty(t, found.Errors)
	require.Equal(t, "map_not_published", found.Warnings[0].Rule)
	_, err = s.Create(t.Context(), s.who, d, false)
	require.NoError(t, err)
	_, err = s.Create(t.Context(), s.who, d, true)
	refused(t, err, "map_not_published")
	require.NotZero(t, s.create("pinned", starting(unpublished.ID, 1)), "a version that is named need not be published")
}

func TestPublishedIsWhatTriggersRun(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	tenant := s.who.TenantID
	rec, err := s.Create(t.Context(), s.who, draft(t, "one"), false)
	require.NoError(t, err)
	require.Nil(t, rec.Published)
	_, err = s.Published(t.Context(), tenant, rec.ID)
	require.True(t, fault.HasCode(err, fault.CodeConflict), "%v", err)
	_, err = s.Published(t.Context(), s.tenant().TenantID, rec.ID)
	require.True(t, fault.HasCode(err, fault.CodeMapNotFound), "another tenant's: %v", err)

	rec, err = s.Publish(t.Context(), s.who, rec.ID, 1, draft(t, "one"))
	require.NoError(t, err)
	revision := rec.Revision
	rec, err = s.Publish(t.Context(), s.who, rec.ID, 1, draft(t, "one"))
	require.NoError(t, err)
	require.Equal(t, revision, rec.Revision, "nothing changed")
	v, err := s.Published(t.Context(), tenant, rec.ID)
	require.NoError(t, err)
	require.Equal(t, int32(1), v.Number)
	require.Equal(t, "one", v.Definition.Name)
	require.Equal(t, s.who.String(), v.PublishedBy)

	_, err = s.Replace(t.Context(), s.who, rec.ID, draft(t, "two"), false, nil)
	require.NoError(t, err)
	v, err = s.Published(t.Context(), tenant, rec.ID)
	require.NoError(t, err)
	require.Equal(t, int32(1), v.Number, "until the next one is published")

	require.NoError(t, s.Delete(t.Context(), s.who, rec.ID, nil))
	_, err = s.Published(t.Context(), tenant, rec.ID)
	require.True(t, fault.HasCode(err, fault.CodeMapNotFound), "%v", err)
	_, err = s.Get(t.Context(), tenant, rec.ID)
	require.True(t, fault.HasCode(err, fault.CodeMapNotFound), "%v", err)
	other, err := definition.New(definition.Deps{DB: s.db.Pool}) // nothing in memory
	require.NoError(t, err)
	for _, service := range []*definition.Service{s.Service, other} {
		old, err := service.ByVersion(t.Context(), tenant, rec.ID, 2)
		require.NoError(t, err, "executions go on with their version")
		require.Equal(t, "two", old.Definition.Name)
		_, err = service.ByVersion(t.Context(), tenant, rec.ID, 3)
		require.True(t, fault.HasCode(err, fault.CodeMapNotFound), "%v", err)
	}
}

func TestMapThatIsStartedIsNotDeleted(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	leaf := s.create("leaf")
	top := s.create("top", starting(leaf, 1))
	err := s.Delete(t.Context(), s.who, leaf, nil)
	require.True(t, fault.HasCode(err, fault.CodeConflict), "%v", err)
	require.Contains(t, fault.As(err).Message, top.String())
	_, err = s.Replace(t.Context(), s.who, top, draft(t, "top"), true, nil)
	require.NoError(t, err)
	require.NoError(t, s.Delete(t.Context(), s.who, leaf, nil))
}

func TestSameDefinitionAddsNoVersion(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	id := s.create("a")
	for range 2 {
		rec, err := s.Replace(t.Context(), s.who, id, draft(t, "b"), false, nil)
		require.NoError(t, err)
		require.Equal(t, int32(2), rec.Newest)
		require.Equal(t, int32(2), rec.Revision-1, "created and published, then changed once")
	}
	rec, err := s.Replace(t.Context(), s.who, id, draft(t, "b"), true, nil)
	require.NoError(t, err)
	require.Equal(t, int32(2), *rec.Published)
	stale := func(int32) error { return fault.New(fault.CodePreconditionFailed, "") }
	_, err = s.Replace(t.Context(), s.who, id, draft(t, "c"), false, stale)
	require.True(t, fault.HasCode(err, fault.CodePreconditionFailed))
	require.True(t, fault.HasCode(s.Delete(t.Context(), s.who, id, stale), fault.CodePreconditionFailed))
}

func TestMapQuotas(t *testing.T) {
	t.Parallel()
	t.Run("Maps", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t, map[string]int64{"maps": 1})
		id := s.create("a")
		_, err := s.Create(t.Context(), s.who, draft(t, "b"), false)
		require.True(t, fault.HasCode(err, fault.CodeQuotaExceeded), "%v", err)
		require.NoError(t, s.Delete(t.Context(), s.who, id, nil))
		s.create("b")
	})
	t.Run("versions", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t, map[string]int64{"map_versions": 2})
		id := s.create("a")
		_, err := s.Replace(t.Context(), s.who, id, draft(t, "b"), false, nil)
		require.NoError(t, err)
		_, err = s.Replace(t.Context(), s.who, id, draft(t, "c"), false, nil)
		require.True(t, fault.HasCode(err, fault.CodeQuotaExceeded), "%v", err)
		rec, err := s.Get(t.Context(), s.who.TenantID, id)
		require.NoError(t, err)
		require.Equal(t, "b", rec.Name)
	})
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		size := int64(len(draft(t, "a").Source))
		s := newShelf(t, map[string]int64{"map_bytes": 2 * size})
		id := s.create("a")
		_, err := s.Replace(t.Context(), s.who, id, draft(t, "b"), false, nil)
		require.NoError(t, err)
		require.NoError(t, s.Delete(t.Context(), s.who, id, nil))
		_, err = s.Create(t.Context(), s.who, draft(t, "c"), false)
		require.True(t, fault.HasCode(err, fault.CodeQuotaExceeded), "deleted ones count: %v", err)
	})
}

func TestMapsAreListedByNameAndPublication(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	refund := s.create("Refund an order")
	draftOnly, err := s.Create(t.Context(), s.who, draft(t, "50% refund_x"), false)
	require.NoError(t, err)
	s.create("Greet")
	yes, no := true, false
	for name, c := range map[string]struct {
		filter definition.Filter
		want   []uuid.UUID
	}{
		"a part, in any case": {definition.Filter{Search: "REFUND"}, []uuid.UUID{draftOnly.ID, refund}},
		"no pattern":          {definition.Filter{Search: "%r"}, nil},
		"literally":           {definition.Filter{Search: "d_x"}, []uuid.UUID{draftOnly.ID}},
		"published":           {definition.Filter{Search: "refund", Published: &yes}, []uuid.UUID{refund}},
		"not published":       {definition.Filter{Published: &no}, []uuid.UUID{draftOnly.ID}},
	} {
		c.filter.Limit = 10
		page, more, err := s.List(t.Context(), s.who.TenantID, c.filter)
		require.NoError(t, err)
		require.False(t, more)
		var got []uuid.UUID
		for _, m := range page {
			got = append(got, m.ID)
		}
		require.Equal(t, c.want, got, name)
	}
	page, more, err := s.List(t.Context(), s.who.TenantID, definition.Filter{Limit: 2})
	require.NoError(t, err)
	require.True(t, more)
	page, more, err = s.List(t.Context(), s.who.TenantID, definition.Filter{Limit: 2, Before: &page[1].ID})
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, refund, page[0].ID)
	page, _, err = s.List(t.Context(), s.tenant().TenantID, definition.Filter{Limit: 2})
	require.NoError(t, err)
	require.Empty(t, page, "another tenant sees nothing")
}
