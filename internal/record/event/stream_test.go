package event_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/event"
)

// hear runs the parts that wake streams, until the test ends.
func (w *world) hear(parts ...func(context.Context)) {
	for _, part := range parts {
		go part(w.t.Context())
	}
}

// take waits for so many events of a stream.
func (w *world) take(st *event.Stream, n int) (found []string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for len(found) < n {
		page, more, err := st.Next(ctx)
		require.NoError(w.t, err, "found %v", found)
		found = append(found, names(w.t, page)...)
		if !more && len(found) < n {
			st.Wait(ctx, time.Minute)
		}
	}
	return found
}

func TestStreamIsWokenByANoticeAndByTheLook(t *testing.T) {
	t.Parallel()
	for name, wakes := range map[string]func(w *world, tenant uuid.UUID){
		"notice": func(w *world, tenant uuid.UUID) {
			w.hear(w.Listen)
			w.eventually(func() bool {
				return w.number("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen%'") == 1
			})
			w.settle()
			w.admin("SELECT pg_notify('events', $1)", tenant.String())
		},
		"look": func(w *world, _ uuid.UUID) { w.hear(w.Poll) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, tenant := newWorld(t, nil), uuid.New()
			w.emit(tenant, "before", event.About{})
			w.settle()
			st, err := w.Stream(t.Context(), tenant, event.Filter{}, nil)
			require.NoError(t, err)
			defer st.Close()
			page, _, err := st.Next(t.Context())
			require.NoError(t, err)
			require.Empty(t, page)
			w.emit(tenant, "after", event.About{})
			wakes(w, tenant)
			require.False(t, st.Wait(t.Context(), time.Minute))
			require.Equal(t, []string{"after"}, w.take(st, 1))
		})
	}
}

func TestStreamContinuesAfterAPlace(t *testing.T) {
	t.Parallel()
	w, tenant := newWorld(t, nil), uuid.New()
	for i := range 250 { // three pages
		w.emit(tenant, strconv.Itoa(i), event.About{})
	}
	w.settle()
	all, _, err := w.After(t.Context(), tenant, event.Filter{}, event.Place{}, 500)
	require.NoError(t, err)
	st, err := w.Stream(t.Context(), tenant, event.Filter{}, &all[9].Place)
	require.NoError(t, err)
	defer st.Close()
	require.Equal(t, names(t, all[10:]), w.take(st, 240))
	require.Equal(t, all[249].Place, st.Place())
}

func TestStreamThatFindsLittleMovesOn(t *testing.T) {
	t.Parallel()
	w, tenant := newWorld(t, nil), uuid.New()
	st, err := w.Stream(t.Context(), tenant, event.Filter{Type: "custom.*"}, nil)
	require.NoError(t, err)
	defer st.Close()
	w.emit(tenant, "of another type", event.About{})
	all, _, err := w.After(t.Context(), tenant, event.Filter{}, event.Place{}, 1)
	w.eventually(func() bool {
		all, _, err = w.After(t.Context(), tenant, event.Filter{}, event.Place{}, 1)
		require.NoError(t, err)
		require.NoError(t, w.Look(t.Context()))
		page, _, err := st.Next(t.Context())
		require.NoError(t, err)
		require.Empty(t, page)
		return len(all) == 1 && st.Place().String() > all[0].String()
	})
}

func TestTenantWithTooManyStreamsIsRefused(t *testing.T) {
	t.Parallel()
	w, tenant := newWorld(t, map[string]int64{"streams": 2}), uuid.New()
	var open []*event.Stream
	for range 2 {
		st, err := w.Stream(t.Context(), tenant, event.Filter{}, nil)
		require.NoError(t, err)
		open = append(open, st)
	}
	_, err := w.Stream(t.Context(), tenant, event.Filter{}, nil)
	require.True(t, fault.HasCode(err, fault.CodeQuotaExceeded))
	other, err := w.Stream(t.Context(), uuid.New(), event.Filter{}, nil)
	require.NoError(t, err)
	other.Close()
	open[0].Close()
	open[0].Close() // once more changes nothing
	again, err := w.Stream(t.Context(), tenant, event.Filter{}, nil)
	require.NoError(t, err)
	again.Close()
	open[1].Close()
}

// Tenants that fill the process together give their places to those who have fewer.
func TestStreamsAreSharedAmongTenants(t *testing.T) {
	t.Parallel()
	const places, each = 1000, 50
	w := newWorld(t, nil)
	join := func(tenant uuid.UUID) (*event.Stream, error) {
		return w.Stream(t.Context(), tenant, event.Filter{}, &event.Place{})
	}
	var wide []*event.Stream
	for range places / each {
		tenant := uuid.New()
		for range each {
			st, err := join(tenant)
			require.NoError(t, err)
			defer st.Close()
			wide = append(wide, st)
		}
	}
	late, has := uuid.New(), 0
	for {
		st, err := join(late)
		if err != nil {
			require.True(t, fault.HasCode(err, fault.CodeServiceUnavailable), err)
			break
		}
		defer st.Close()
		has++
	}
	require.Equal(t, places/(places/each+1), has, "the late tenant has as many as the others, or one less")
	ended := 0
	for _, st := range wide {
		if st.Wait(t.Context(), 0) {
			ended++
		}
	}
	require.Equal(t, has, ended, "each place was another's")
}

func TestStreamsEndWithTheProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	st, err := w.Stream(t.Context(), uuid.New(), event.Filter{}, nil)
	require.NoError(t, err)
	defer st.Close()
	w.EndStreams()
	require.True(t, st.Wait(t.Context(), time.Minute))
	_, err = w.Stream(t.Context(), uuid.New(), event.Filter{}, nil)
	require.True(t, fault.HasCode(err, fault.CodeServiceUnavailable))
}

func TestProcessWithoutStreamsAsksNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	pool, reads := testkit.Watched(t, w.db)
	events, err := event.New(event.Deps{DB: pool, Keys: keys{w.key}, Log: testkit.Quiet()})
	require.NoError(t, err)
	require.NoError(t, events.Look(t.Context()))
	require.Empty(t, reads.Last())
}
