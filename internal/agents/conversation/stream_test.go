package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/ended"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// These are not asked in the tests of streams.
type (
	noAgents    struct{ Agents }
	noCustomers struct{ Customers }
	noEngine    struct{ Engine }
)

// room is a service with one message that is worked on.
type room struct {
	*Service
	t    *testing.T
	db   testkit.DB
	work Work
}

func newRoom(t *testing.T) *room {
	t.Helper()
	r := &room{t: t, db: testkit.Database(t)}
	notices, err := ended.NewNotices(ended.Config{}, ended.Deps{DB: r.db.Pool, Log: testkit.Quiet()})
	require.NoError(t, err)
	r.Service, err = New(Config{}, Deps{
		DB: r.db.Pool, Agents: noAgents{}, Customers: noCustomers{}, Engine: noEngine{}, Keys: testkit.Keys{}, Notices: notices, Log: testkit.Quiet(),
	})
	require.NoError(t, err)
	ref := flow.TurnRef{TenantID: uuid.Must(uuid.NewV7()), ID: uuid.Must(uuid.NewV7())}
	key, err := testkit.Keys{}.Key(t.Context(), ref.TenantID)
	require.NoError(t, err)
	session := uuid.Must(uuid.NewV7())
	r.exec(ref.TenantID, "INSERT INTO tenants (id, name) VALUES ($1, 'shop')", ref.TenantID)
	r.exec(ref.TenantID, "INSERT INTO conversations (tenant_id, id, agent_id, created_at, updated_at) VALUES ($1, $2, $2, now(), now())", ref.TenantID, session)
	r.exec(ref.TenantID, `INSERT INTO turns (tenant_id, id, execution_id, agent_id, version, conversation, state, status, fingerprint, message, metadata, request_id, source_addr, workflow_id, streamed, updated_at)
		VALUES ($1, $2, 'exec_1', $3, 1, $3, 'working', 'running', '', $4, '{}', '', '', '', true, now())`,
		ref.TenantID, ref.ID, session, key.Seal(datakey.Place{Tenant: ref.TenantID, Row: ref.ID, Field: datakey.TurnMessage}, []byte("Hello")))
	r.work, err = r.Followed(t.Context(), ref)
	require.NoError(t, err)
	return r
}

func (r *room) exec(tenant uuid.UUID, sql string, args ...any) {
	r.t.Helper()
	_, err := r.db.Tenant(tenant).Exec(r.t.Context(), sql, args...)
	require.NoError(r.t, err)
}

// tell streams as a writer.
func (r *room) tell(writer int, tellings ...Telling) {
	r.t.Helper()
	require.NoError(r.t, r.Stream(r.t.Context(), r.work, writer, tellings...))
}

func text(s string) Telling    { return Telling{Event: ToldDelta, Body: ToldText{Text: s}} }
func reset(why string) Telling { return Telling{Event: ToldReset, Body: why} }
func started(id string) Telling {
	return Telling{Event: ToldStarted, Body: ToldCall{CallID: id, Verb: "shop:get"}, About: "started " + id}
}

// told returns what a reader gets after a row, and whether the message has ended.
func (r *room) told(after int32) (list []string, over bool) {
	r.t.Helper()
	f, err := r.Follow(r.t.Context(), r.work.Turn, after, func() {})
	require.NoError(r.t, err)
	defer f.Close()
	for more := true; more; {
		var rows []Streamed
		var end *Turn
		rows, more, end, _, err = f.Next(context.Background())
		require.NoError(r.t, err)
		for _, row := range rows {
			var body struct {
				Text, Reason string
				Attempt      int
				CallID       string `json:"call_id"`
			}
			require.NoError(r.t, json.Unmarshal(row.Body, &body))
			said := body.Text + body.CallID
			if row.Event == ToldReset {
				said = fmt.Sprintf("reset %d %s", body.Attempt, body.Reason)
			}
			list = append(list, said)
		}
		over = end != nil
	}
	return list, over
}

// What a reader gets of writers that fail, come back, or repeat themselves.
func TestStreamOfATurnHasOneWriterAtATime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(r *room)
		want []string
	}{
		"in order":                     {func(r *room) { r.tell(1, text("a"), text("b")); r.tell(1, text("c")) }, []string{"a", "b", "c"}},
		"a reset without text":         {func(r *room) { r.tell(1, reset("retry"), text("a")) }, []string{"a"}},
		"resets are counted":           {func(r *room) { r.tell(1, text("a"), reset("retry"), text("b"), reset("tool_calls")) }, []string{"a", "reset 2 retry", "b", "reset 3 tool_calls"}},
		"the worker died":              {func(r *room) { r.tell(1, text("a")); r.tell(2, text("b")) }, []string{"a", "reset 2 restart", "b"}},
		"a newer writer says why":      {func(r *room) { r.tell(1, text("a")); r.tell(2, reset("replaced"), text("b")) }, []string{"a", "reset 2 replaced", "b"}},
		"a dead worker wakes up":       {func(r *room) { r.tell(2, text("a")); r.tell(1, text("b")) }, []string{"a"}},
		"a call is told of once":       {func(r *room) { r.tell(0, started("1")); r.tell(0, started("1"), started("2")) }, []string{"1", "2"}},
		"a call does not end the text": {func(r *room) { r.tell(3, text("a")); r.tell(0, started("1")); r.tell(3, text("b")) }, []string{"a", "1", "b"}},
		"the message ended before":     {func(r *room) { r.exec(r.work.Turn.TenantID, "UPDATE turns SET state = 'ended'"); r.tell(9, text("a")) }, nil},
		"nobody followed":              {func(r *room) { r.exec(r.work.Turn.TenantID, "UPDATE turns SET streamed = false"); r.tell(9, text("a")) }, nil},
		"text beyond the bound is not": {func(r *room) { r.tell(1, text("a"), text(strings.Repeat("b", streamBytes)), text("c"), started("1")) }, []string{"a", "1"}},
		"a later reply has no pieces":  {func(r *room) { r.tell(1, text("a")); r.exec(r.work.Turn.TenantID, "UPDATE turns SET replies = 2") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			c.do(r)
			got, _ := r.told(0)
			require.Equal(t, c.want, got)
		})
	}
}

// A reader goes on after any row, and hears of the end after all rows.
func TestStreamOfATurnIsReadFromAnyRow(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	var want []string
	for i := range 2*streamPage + 5 {
		want = append(want, strconv.Itoa(i))
		r.tell(1, text(want[i]))
	}
	for _, after := range []int{0, 1, streamPage, 2*streamPage + 4, 2*streamPage + 5, 9999} {
		got, over := r.told(int32(after))
		require.False(t, over)
		require.Equal(t, append([]string(nil), want[min(after, len(want)):]...), got)
	}
	r.exec(r.work.Turn.TenantID, "UPDATE turns SET state = 'ended', replies = 1")
	got, over := r.told(3)
	require.True(t, over)
	require.Equal(t, want[3:], got)
}

// Those who follow are woken in their process, and leave nothing behind.
func TestFollowersAreWoken(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	woken := 0
	f, err := r.Follow(t.Context(), r.work.Turn, 0, func() { woken++ })
	require.NoError(t, err)
	r.tell(1, text("a"))
	require.Equal(t, 1, woken)
	r.tell(1)
	require.Equal(t, 1, woken, "nothing was told")
	ended := r.work.Turn
	ended.Replies = 1
	r.Service.tell(ended)
	require.Equal(t, 2, woken)
	f.Close()
	r.tell(1, text("b"))
	require.Equal(t, 2, woken)
	require.Empty(t, r.followed.of)
}

// Rows of a stream are sealed, and go with their session.
func TestStreamOfATurnIsSealedAndErased(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.tell(1, text("a secret"), started("call-secret"))
	var plain, rows int
	read := func(sql string, into *int) {
		require.NoError(t, r.db.Tenant(r.work.Turn.TenantID).QueryRow(t.Context(), sql).Scan(into))
	}
	read("SELECT count(*) FROM turn_stream WHERE body NOT LIKE 's1.%'", &plain)
	read("SELECT count(*) FROM turn_stream", &rows)
	require.Zero(t, plain)
	require.Equal(t, 2, rows)
	r.exec(r.work.Turn.TenantID, "DELETE FROM conversations")
	read("SELECT count(*) FROM turn_stream", &rows)
	require.Zero(t, rows)
	_, _, _, _, err := (&Follower{s: r.Service, t: r.work.Turn}).Next(t.Context()) //nolint:dogsled // only the refusal counts
	require.True(t, fault.HasCode(err, fault.CodeExecutionNotFound), "%v", err)
}
