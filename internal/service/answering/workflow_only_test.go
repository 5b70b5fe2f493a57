package answering

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/kernel/agentdef"
	"agentruntime/internal/kernel/agentloop"
	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/stepmachine"
	"agentruntime/internal/maps/execution"
)

// A Map has asked something, and a signal may have answered before the message is answered. Then the reply
// is what has become of the Map. One that has failed says why, also where people are asked to look.
func TestReplyOfAMapIsWhatHasBecomeOfIt(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ended := func(status stepmachine.Status, failed *stepmachine.Error) execution.Execution {
		return execution.Execution{Status: status, Output: json.RawMessage(`"Done."`), Error: failed, FinishedAt: &now}
	}
	failed := stepmachine.NewError("NO_WAY", "blocked")
	for name, c := range map[string]struct {
		e       execution.Execution
		asked   flow.MapToolEnd
		stop    agentloop.Stop
		status  conversation.Status
		failure *stepmachine.Error
	}{
		"completed since":   {ended(stepmachine.StatusCompleted, nil), flow.MapToolEnd{Status: flow.CallAsks}, agentloop.MapCompleted, conversation.StatusCompleted, nil},
		"works again":       {execution.Execution{Status: stepmachine.StatusRunning}, flow.MapToolEnd{Status: flow.CallAsks}, agentloop.MapRunning, conversation.StatusCompleted, nil},
		"failed since":      {ended(stepmachine.StatusFailed, failed), flow.MapToolEnd{Status: flow.CallAsks}, agentloop.MapFailed, conversation.StatusEscalated, failed},
		"failed, no answer": {ended(stepmachine.StatusFailed, failed), flow.MapToolEnd{Status: stepmachine.CallFailed}, agentloop.MapFailed, conversation.StatusEscalated, failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := agentdef.Default()
			d.ExecutionMode, d.Escalation.OnFailure = agentdef.WorkflowOnly, true
			w := &work{Work: conversation.Work{Agent: conversation.Agent{Definition: &d}}}
			r, err := (&Answerer{d: Deps{Maps: &execution.Service{}}}).replyOfMap(t.Context(), w, c.e, c.asked)
			require.NoError(t, err)
			require.Equal(t, c.stop, r.Stop)
			require.Equal(t, c.status, r.Status)
			require.Equal(t, c.failure, r.Error)
		})
	}
}
