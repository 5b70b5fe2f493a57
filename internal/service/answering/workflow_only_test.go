package answering

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/stepmachine"
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

// The output of a Map may have megabytes. A reply is as long as one of a model at most.
func TestReplyOfAMapIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"nothing": {"", 0}, "short": {"Done.", 5}, "just as long": {strings.Repeat("a", agentloop.MaxAnswer), agentloop.MaxAnswer},
		"a byte longer":              {strings.Repeat("a", agentloop.MaxAnswer+1), agentloop.MaxAnswer},
		"megabytes":                  {strings.Repeat("a", 3<<20), agentloop.MaxAnswer},
		"cut in a sign of two bytes": {strings.Repeat("é", agentloop.MaxAnswer), agentloop.MaxAnswer - 1},
	} {
		short := shortened(c.text)
		require.Len(t, short, c.want, name)
		require.True(t, utf8.ValidString(short), name)
		require.Equal(t, len(c.text) > agentloop.MaxAnswer, strings.HasSuffix(short, more), name)
	}
}
