package execution_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// A task that was lost had withdrawn the question of a step, because something else had failed. Its repeat
// asks again, and may look before it sees that failure: nobody has rejected anything.
func TestQuestionThatALostTaskHasWithdrawnIsDecidedByNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.program(`{"schema_version":"1","name":"Asks","steps":[{"id":"a","type":"approval","title":"Go on?"}]}`)
	in := r.triggered("asks")
	ref := stepmachine.Ref{Path: "/steps/0", Attempt: 1}
	ask := flow.MapAsk{MapWrites: flow.MapWrites{MapRef: in}, Workflow: "map:1", Ask: stepmachine.AskApproval{
		Ref: ref, Title: "Go on?", Payload: stepmachine.Of(json.RawMessage(`{}`)), Required: 1, ExpiresAt: time.Now().Add(time.Hour),
	}}
	_, err := r.Ask(t.Context(), ask)
	require.NoError(t, err)
	_, err = r.CloseAsk(t.Context(), flow.MapAskEnd{MapRef: in, Ref: ref})
	require.NoError(t, err)

	_, err = r.Ask(t.Context(), ask)
	require.NoError(t, err)
	news, err := r.Look(t.Context(), flow.MapLook{MapWrites: flow.MapWrites{MapRef: in}, Asks: []stepmachine.Ref{ref}})
	require.NoError(t, err)
	require.Empty(t, news.Decisions)

	for expired, decision := range map[bool]stepmachine.Decision{false: stepmachine.Reject, true: stepmachine.Expired} {
		out, err := r.CloseAsk(t.Context(), flow.MapAskEnd{MapRef: in, Ref: ref, Expired: expired})
		require.NoError(t, err)
		require.Equal(t, decision, out.Decision)
	}
}

// A workflow that continues in a new history asks again. Operators then read how many have approved.
func TestAskOfAQuestionWithAVoteCountsIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.maps.program = r.program(`{"schema_version":"1","name":"Asks","steps":[{"id":"a","type":"approval","title":"Go on?","required":2}]}`)
	in := r.triggered("asks")
	ask := flow.MapAsk{MapWrites: flow.MapWrites{MapRef: in}, Workflow: "map:1", Ask: stepmachine.AskApproval{
		Ref: stepmachine.Ref{Path: "/steps/0", Attempt: 1}, Title: "Go on?", Payload: stepmachine.Of(json.RawMessage(`{}`)), Required: 2,
		ExpiresAt: time.Now().Add(time.Hour),
	}}
	first, err := r.Ask(t.Context(), ask)
	require.NoError(t, err)
	require.Contains(t, first.Details, "0 of 2 approvals are there")

	voter := uuid.New()
	r.exec(`INSERT INTO users (id, tenant_id, email, name, role, created_at, joined_at, password_hash) VALUES ($1, $2, 'v@example.com', '', 'owner', now(), now(), 'x')`, voter, r.tenant)
	r.exec(`INSERT INTO approval_decisions (id, tenant_id, approval_id, user_id, decision, reason, request_id, source_addr, counted_at)
		SELECT $1, tenant_id, id, $1, 'approve', '', '', '', now() FROM approvals WHERE tenant_id = $2`, voter, r.tenant)
	again, err := r.Ask(t.Context(), ask)
	require.NoError(t, err)
	require.Equal(t, strings.Replace(first.Details, "0 of 2", "1 of 2", 1), again.Details)
}
