package conversation

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/agents/goalloop"
	"agentruntime/internal/models/model"
)

// What the facts of a goal no longer keep is gone from the rows of the answers too, and all else stays.
func TestShortenedFactsReplaceThoseThatAreStored(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ref := d.turn(d.tenant, nil, Working, d.now)
	end := func(w Work, id string) Work {
		t.Helper()
		a := Answer{
			Purpose: model.Plan, BeganAt: d.now, Response: model.Response{Text: "the answer before " + id, Finish: model.Stopped}, Frame: &Frame{Part: len(w.Answers)},
			Facts: []goalloop.Fact{{ID: id, Verb: "shop:get", Args: json.RawMessage(`{}`), Status: "executed", Result: json.RawMessage(`"long"`)}},
		}
		stored, err := d.EndAnswer(t.Context(), w, a, nil, func(*db.Batch, bool) {})
		require.NoError(t, err)
		require.True(t, stored)
		w, over, err := d.Load(t.Context(), ref)
		require.NoError(t, err)
		require.False(t, over)
		return w
	}
	w, _, err := d.Load(t.Context(), ref)
	require.NoError(t, err)
	w = end(end(w, "f1"), "f2")
	before := w.Answers[0]
	w.Answers[0].Facts[0].Result, w.Answers[0].Facts[0].Bytes, w.Shortened = nil, 6, []int{0}
	w = end(w, "f3")
	require.Nil(t, w.Answers[0].Facts[0].Result)
	require.Equal(t, 6, w.Answers[0].Facts[0].Bytes)
	require.JSONEq(t, `"long"`, string(w.Answers[1].Facts[0].Result))
	require.Equal(t, before, w.Answers[0])
}

// What a message below has used counts for the ones above it, and so does that it is an estimate.
func TestEstimateOfAMessageBelowShowsInTheTotalsAbove(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ref := d.turn(d.tenant, nil, Working, d.now)
	b := &db.Batch{}
	d.QueueUsed(b, d.tenant, agentloop.Chain{Turns: []agentloop.Caller{{ID: ref.ID}}}, model.Usage{In: 5, Out: 2, Estimate: true}, 0)
	require.NoError(t, d.db.Send(t.Context(), d.tenant, b))
	w, _, err := d.Load(t.Context(), ref)
	require.NoError(t, err)
	require.True(t, w.Turn.Estimated)
	require.EqualValues(t, 7, w.Turn.Tokens)
}
