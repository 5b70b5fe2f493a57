package event_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/event"
)

func TestEventThatIsSentTwiceIsThereOnce(t *testing.T) {
	t.Parallel()
	w, tenant := newWorld(t, nil), uuid.New()
	sent := event.Sent{ID: "one", Type: "custom.a", Correlate: "c", Data: json.RawMessage(`{ "n": 1, "password": "secret" }`)}
	var racers sync.WaitGroup
	found := make([]event.Stored, 8)
	for i := range found {
		racers.Go(func() {
			var err error
			found[i], _, err = w.Send(t.Context(), sender(tenant), sent)
			require.NoError(t, err)
		})
	}
	racers.Wait()
	for _, e := range found {
		require.Equal(t, found[0], e)
	}
	require.Equal(t, 1, w.number("SELECT count(*) FROM events"))
	require.NotContains(t, string(found[0].Body), "secret")
	for _, read := range []string{"one", event.PublicID(found[0].ID)} {
		e, err := w.Get(t.Context(), tenant, read)
		require.NoError(t, err)
		require.Equal(t, found[0], e)
		_, err = w.Get(t.Context(), uuid.New(), read)
		require.True(t, fault.HasCode(err, fault.CodeEventNotFound))
	}
	for name, other := range map[string]event.Sent{
		"type":      {ID: "one", Type: "custom.b", Correlate: "c", Data: sent.Data},
		"data":      {ID: "one", Type: "custom.a", Correlate: "c", Data: json.RawMessage(`{"n":2}`)},
		"correlate": {ID: "one", Type: "custom.a", Data: sent.Data},
	} {
		_, _, err := w.Send(t.Context(), sender(tenant), other)
		require.True(t, fault.HasCode(err, fault.CodeIdempotencyKeyReused), name)
	}
	_, fresh, err := w.Send(t.Context(), sender(uuid.New()), sent)
	require.NoError(t, err)
	require.True(t, fresh, "another tenant's id")
}

func TestTenantThatSendsTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	w, tenant := newWorld(t, map[string]int64{"custom_events": 3}), uuid.New()
	send := func(id int) error {
		_, _, err := w.Send(t.Context(), sender(tenant), event.Sent{ID: strconv.Itoa(id), Type: "custom.a", Data: json.RawMessage(`{}`)})
		return err
	}
	for id := range 3 {
		require.NoError(t, send(id))
	}
	require.True(t, fault.HasCode(send(3), fault.CodeQuotaExceeded))
	require.NoError(t, send(2), "a repeat adds nothing")
	require.Equal(t, 3, w.number("SELECT count(*) FROM events"))
	w.admin(`UPDATE events SET id = (lpad(to_hex((extract(epoch FROM now() - interval '61 minutes') * 1000)::bigint), 12, '0') || substr(replace(id::text, '-', ''), 13))::uuid`)
	require.NoError(t, send(3), "an hour later")
}

// Bodies are JSON and no part of a page: what HTML would escape is as long as it was sent.
func TestLargestCustomEventFits(t *testing.T) {
	t.Parallel()
	w, tenant := newWorld(t, nil), uuid.New()
	for name, text := range map[string]string{
		"NUL": strings.Repeat(`\u0000`, (event.MostData-8)/6), "HTML": strings.Repeat("<", event.MostData-8), "separators": strings.Repeat("\u2028", (event.MostData-8)/3),
	} {
		sent := event.Sent{ID: name, Type: "custom.a", Data: json.RawMessage(`{"x":"` + text + `"}`)}
		require.LessOrEqual(t, len(sent.Data), event.MostData)
		e, fresh, err := w.Send(t.Context(), sender(tenant), sent)
		require.NoError(t, err)
		require.True(t, fresh)
		require.LessOrEqual(t, len(e.Body), event.MostBytes, name)
		again, fresh, err := w.Send(t.Context(), sender(tenant), sent)
		require.NoError(t, err, name)
		require.False(t, fresh)
		require.Equal(t, e, again)
	}
}

// A mask may be longer than the secret that it hides.
func TestCustomEventThatIsTooLongOnceMaskedIsRefused(t *testing.T) {
	t.Parallel()
	w, tenant := newWorld(t, nil), uuid.New()
	data := json.RawMessage(`{"passwords":["` + strings.Repeat(`a","`, event.MostData/8) + `a"]}`)
	require.LessOrEqual(t, len(data), event.MostData)
	_, _, err := w.Send(t.Context(), sender(tenant), event.Sent{ID: "masked", Type: "custom.a", Data: data})
	require.True(t, fault.HasCode(err, fault.CodeValidation), "%v", err)
	require.Zero(t, w.number("SELECT count(*) FROM events"))
}

// Nobody is there to refuse what a step of a Map emits.
func TestLongCustomEventOfTheServiceIsTruncated(t *testing.T) {
	t.Parallel()
	w, tenant := newWorld(t, nil), uuid.New()
	b := &db.Batch{}
	event.QueueCustom(b, event.Event{TenantID: tenant, Body: event.NewCustom("custom.a", "long", "map:1", json.RawMessage(`{"x":"`+strings.Repeat("x", 100_000)+`"}`))})
	require.NoError(t, w.db.Send(t.Context(), tenant, b))
	e, err := w.Get(t.Context(), tenant, "long")
	require.NoError(t, err)
	var body struct {
		Truncated bool
		Data      json.RawMessage
	}
	require.NoError(t, json.Unmarshal(e.Body, &body))
	require.True(t, body.Truncated)
	require.JSONEq(t, "{}", string(body.Data))
}

// The id that a step of a Map gives is one that senders may not use, and that readers find.
func TestEventIsFoundByTheReservedIDOfItsStep(t *testing.T) {
	t.Parallel()
	w, tenant := newWorld(t, nil), uuid.New()
	id := "evt_" + uuid.NewString()
	require.True(t, event.Reserved(id))
	b := &db.Batch{}
	event.QueueCustom(b, event.Event{TenantID: tenant, Body: event.NewCustom("custom.a", id, "map:1", json.RawMessage(`{"x":1}`))})
	require.NoError(t, w.db.Send(t.Context(), tenant, b))
	e, err := w.Get(t.Context(), tenant, id)
	require.NoError(t, err)
	again, err := w.Get(t.Context(), tenant, event.PublicID(e.ID))
	require.NoError(t, err)
	require.Equal(t, e, again)
	_, err = w.Get(t.Context(), uuid.New(), id)
	require.True(t, fault.HasCode(err, fault.CodeEventNotFound), "%v", err)
}
