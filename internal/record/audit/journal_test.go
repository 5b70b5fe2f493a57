package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/audit"
)

// diary is a journal over a real database, with a clock of its own.
type diary struct {
	*audit.Journal
	t    *testing.T
	db   testkit.DB
	log  *bytes.Buffer
	past atomic.Int64 // what the clock has passed, in nanoseconds
}

func newDiary(t *testing.T, cfg audit.JournalConfig) *diary {
	t.Helper()
	d := &diary{t: t, db: testkit.Database(t), log: &bytes.Buffer{}}
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var err error
	d.Journal, err = audit.NewJournal(cfg, audit.JournalDeps{DB: d.db.Pool, Log: slog.New(slog.NewTextHandler(d.log, nil)), Now: func() time.Time {
		return began.Add(time.Duration(d.past.Load()))
	}})
	require.NoError(t, err)
	return d
}

func (d *diary) pass(by time.Duration) { d.past.Add(int64(by)) }

// repeat is a call with an id that has a run.
func repeat(tenant uuid.UUID, id string, change ...func(*audit.Note)) audit.Note {
	n := audit.Note{
		By: actor.Actor{Kind: actor.Key, TenantID: tenant, ID: tenant, RequestID: "req-" + id, SourceAddr: "192.0.2.1"}, About: id,
		Record:  audit.Record{Action: audit.RunRepeated, Provider: "shop", Verb: "pay", ExecutionID: id},
		Details: map[string]any{"args_match": true},
	}
	for _, c := range change {
		c(&n)
	}
	return n
}

func (d *diary) add(notes ...audit.Note) {
	d.t.Helper()
	for _, n := range notes {
		require.NoError(d.t, d.Add(d.t.Context(), n))
	}
}

// rows reads records as a superuser, in their order.
func (d *diary) rows(sql string) []string {
	d.t.Helper()
	conn, err := pgx.Connect(d.t.Context(), d.db.AdminURL)
	require.NoError(d.t, err)
	defer conn.Close(context.Background())
	rows, err := conn.Query(d.t.Context(), sql)
	require.NoError(d.t, err)
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(d.t, err)
	return out
}

const counted = `SELECT execution_id || ' ' || request_id || ' ' || (details->>'count') FROM audit_records ORDER BY id`

func TestJournalFirstIsARecordAndItsLikeAreCounted(t *testing.T) {
	t.Parallel()
	d, tenant := newDiary(t, audit.JournalConfig{}), uuid.New()
	d.add(repeat(tenant, "a"), repeat(tenant, "b"))
	for i := range 3 {
		d.pass(time.Second)
		d.add(repeat(tenant, "a", func(n *audit.Note) { n.By.RequestID = fmt.Sprint("again-", i) }))
	}
	require.NoError(t, d.Flush(t.Context()))
	require.Equal(t, []string{"a req-a 1", "b req-b 1", "a again-2 3"}, d.rows(counted))
	require.Equal(t, []string{"2026-01-02T03:04:06Z 2026-01-02T03:04:08Z"},
		d.rows(`SELECT (details->>'first_at') || ' ' || (details->>'last_at') FROM audit_records WHERE details->>'count' = '3'`))
	require.NoError(t, d.Flush(t.Context()))
	require.Len(t, d.rows(counted), 3, "nothing new")
	d.add(repeat(tenant, "b"))
	require.NoError(t, d.Flush(t.Context()))
	require.Len(t, d.rows(counted), 4, "b was forgotten, so this is a first one")
}

func TestJournalOneRecordAMinute(t *testing.T) {
	t.Parallel()
	d, tenant := newDiary(t, audit.JournalConfig{Every: time.Millisecond}), uuid.New()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { d.Run(ctx); close(ended) }()
	has := func(want ...string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Join(d.rows(counted), ",") == strings.Join(want, ",") }, 30*time.Second, time.Millisecond)
	}
	d.add(repeat(tenant, "a"))
	has("a req-a 1")
	d.add(repeat(tenant, "a"), repeat(tenant, "a"))
	d.pass(time.Minute)
	has("a req-a 1", "a req-a 2")
	d.add(repeat(tenant, "a"))
	d.pass(time.Minute)
	has("a req-a 1", "a req-a 2", "a req-a 1")
	d.add(repeat(tenant, "a"))
	stop()
	<-ended
	has("a req-a 1", "a req-a 2", "a req-a 1", "a req-a 1")
}

func TestJournalTellsCallsApart(t *testing.T) {
	t.Parallel()
	d, tenant := newDiary(t, audit.JournalConfig{}), uuid.New()
	d.add(repeat(tenant, "a"), repeat(uuid.New(), "a"),
		repeat(tenant, "a", func(n *audit.Note) { n.By.ID = uuid.New() }),
		repeat(tenant, "a", func(n *audit.Note) { n.By.SourceAddr = "192.0.2.2" }),
		repeat(tenant, "a", func(n *audit.Note) { n.By.SourceAddr = "2001:db8::1" }),
		repeat(tenant, "a", func(n *audit.Note) { n.Record.Action = audit.RunRefused }),
		repeat(tenant, "a", func(n *audit.Note) { n.Details = map[string]any{"args_match": false} }),
		repeat(tenant, "a", func(n *audit.Note) { n.By.SourceAddr = "2001:db8::2" }), // of the same /64
	)
	require.NoError(t, d.Flush(t.Context()))
	require.Len(t, d.rows(counted), 8)
	require.Equal(t, []string{"2001:db8::1 1", "2001:db8::1 1"}, d.rows(`SELECT source_addr || ' ' || (details->>'count') FROM audit_records WHERE source_addr LIKE '2001%'`))
}

func TestJournalWritesEachTenantsRecordsAsThatTenant(t *testing.T) {
	t.Parallel()
	d := newDiary(t, audit.JournalConfig{})
	var want []string
	for i := range 20 {
		tenant := uuid.New()
		for k := range i*20 + 1 { // more of some than of one transaction
			d.add(repeat(tenant, strconv.Itoa(k)))
		}
		want = append(want, fmt.Sprint(tenant, " ", i*20+1))
	}
	require.NoError(t, d.Flush(t.Context()))
	require.ElementsMatch(t, want, d.rows(`SELECT tenant_id || ' ' || count(*) FROM audit_records GROUP BY tenant_id`))
}

func TestJournalFullForOneTenantMakesOnlyThatOneWait(t *testing.T) {
	t.Parallel()
	d, flood, other := newDiary(t, audit.JournalConfig{Records: 200, Patience: time.Millisecond}), uuid.New(), uuid.New()
	for i := range 20 {
		d.add(repeat(flood, strconv.Itoa(i)))
	}
	err := d.Add(t.Context(), repeat(flood, "more"))
	require.True(t, fault.HasCode(err, fault.CodeServiceUnavailable), "%v", err)
	d.add(repeat(flood, "3")) // counted: it takes no space
	d.add(repeat(other, "a"))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, d.Add(cancelled, repeat(flood, "more")))
	require.NoError(t, d.Flush(t.Context()))
	d.add(repeat(flood, "more"))
	require.NoError(t, d.Flush(t.Context()))
	require.Len(t, d.rows(counted), 23)
}

func TestJournalFullForAllLeavesEachTenantSome(t *testing.T) {
	t.Parallel()
	d := newDiary(t, audit.JournalConfig{Records: 100, Patience: time.Millisecond})
	for range 20 {
		tenant := uuid.New()
		for i := range 8 {
			d.add(repeat(tenant, strconv.Itoa(i)))
		}
		require.Error(t, errorOf(d.Add(t.Context(), repeat(tenant, "8")), d.Add(t.Context(), repeat(tenant, "9")), d.Add(t.Context(), repeat(tenant, "10"))))
	}
}

func errorOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestJournalBoundsBytes(t *testing.T) {
	t.Parallel()
	d, tenant := newDiary(t, audit.JournalConfig{Bytes: 200_000, Patience: time.Millisecond}), uuid.New()
	n := 0
	for ; n < 1000; n++ {
		if d.Add(t.Context(), repeat(tenant, fmt.Sprint(strings.Repeat("x", 200), n))) != nil {
			break
		}
	}
	require.Less(t, n, 30, "a tenth of the bytes, at 1 KB each")
	require.Greater(t, n, 15)
}

func TestJournalWithoutRoomToCountWritesEach(t *testing.T) {
	t.Parallel()
	d, tenant := newDiary(t, audit.JournalConfig{Counted: 1}), uuid.New()
	d.add(repeat(tenant, "a"), repeat(tenant, "b"), repeat(tenant, "b"), repeat(tenant, "a"))
	require.NoError(t, d.Flush(t.Context()))
	require.Equal(t, []string{"a req-a 1", "b req-b 1", "b req-b 1", "a req-a 1"}, d.rows(counted))
}

// A call that waits for space goes on once there is some, and no record is lost.
func TestJournalWaitingCallsGoOn(t *testing.T) {
	t.Parallel()
	d, tenant := newDiary(t, audit.JournalConfig{Records: 200, Every: time.Hour}), uuid.New()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { d.Run(ctx); close(ended) }()
	for i := range 300 {
		d.add(repeat(tenant, strconv.Itoa(i)))
	}
	stop()
	<-ended
	require.Len(t, d.rows(counted), 300)
}

func TestJournalDropsWhatPostgresRefusesAndWritesTheOthers(t *testing.T) {
	t.Parallel()
	d, tenant, other := newDiary(t, audit.JournalConfig{}), uuid.New(), uuid.New()
	refused := func(n *audit.Note) { n.Record.Verb = "canary\x00" }
	d.add(repeat(tenant, "a"), repeat(tenant, "b", refused), repeat(tenant, "c"), repeat(other, "d"), repeat(other, "e", refused))
	require.NoError(t, d.Flush(t.Context()), "nothing is left to try again")
	require.Equal(t, []string{"a req-a 1", "c req-c 1", "d req-d 1"}, d.rows(counted))
	require.Contains(t, d.log.String(), "sqlstate=22021")
	require.Contains(t, d.log.String(), "lost_so_far=2")
	require.NotContains(t, d.log.String(), "canary")
	d.add(repeat(tenant, "f"))
	require.NoError(t, d.Flush(t.Context()))
	require.Equal(t, []string{"a req-a 1", "c req-c 1", "d req-d 1", "f req-f 1"}, d.rows(counted))
}
