package e2e

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// sessionReplies are the answers of the scripted model in the sessions that people take over.
var sessionReplies = []string{
	`{"purpose":"reply","contains":["the plum","the person said plum","Are we done"],"text":"The person has sent the plum."}`,
	`{"purpose":"reply","turn":0,"contains":["slow plum"],"text":"Too late.","delay_ms":60000}`,
	`{"purpose":"reply","contains":["deliver the pear","Another pear","pending_approval"],"text":"A person looks at it."}`,
	`{"purpose":"reply","contains":["deliver the pear","Another pear"],` + toolCalls(toolCall("1", "gate__create_thing", `{"id":"another"}`)) + `}`,
	`{"purpose":"reply","turn":0,"contains":["Compare the lychee"],` + toolCalls(toolCall("1", "gate__get_thing", `{"id":"read"}`)) + `}`,
	`{"purpose":"reply","turn":1,"contains":["Compare the lychee"],` + toolCalls(toolCall("2", "gate__create_thing", `{"id":"lychee","mode":"hold"}`)) + `}`,
	`{"purpose":"reply","contains":["Another lychee","pending_approval"],"text":"A person looks at it."}`,
	`{"purpose":"reply","contains":["Another lychee"],` + toolCalls(toolCall("1", "gate__create_thing", `{"id":"another"}`)) + `}`,
	`{"purpose":"reply","contains":["deliver the pear","This came of it","executed","Are we done"],"text":"The pear was delivered."}`,
	`{"purpose":"reply","contains":["deliver the pear","Are we done"],"text":"I do not know yet."}`,
	`{"purpose":"reply","contains":["deliver the pear"],` + toolCalls(toolCall("1", "gate__create_thing", `{"id":"pear","mode":"hold"}`)) + `}`,
	`{"purpose":"reply","contains":["See the date","People have decided"],"text":"The date is gone."}`,
	`{"purpose":"reply","contains":["See the date","pending_approval"],"text":"A person looks at the date."}`,
	`{"purpose":"reply","contains":["See the date"],` + toolCalls(toolCall("1", "gate__delete_thing", `{"id":"date"}`)) + `}`,
}

type agentSession struct {
	SessionID   string  `json:"session_id"`
	CustomerID  *string `json:"customer_id"`
	Status      string
	HeldBy      *string `json:"held_by"`
	EscalatedAt *string `json:"escalated_at"`
	Turns       int
	Version     int
}

type utterance struct {
	From, Text  string
	By          *string
	ExecutionID *string `json:"execution_id"`
	Answered    bool
	ToolCalls   []struct {
		Verb        string
		ExecutionID string `json:"execution_id"`
	} `json:"tool_calls"`
	Feedback []struct{ By, Rating, Comment string }
}

// sessionsOf returns the path of the sessions of the agent whose messages go to the path.
func sessionsOf(messages string) string { return messages[:len(messages)-len("message")] + "sessions" }

func standing(t *testing.T, a rig.Answer) (s agentSession) {
	t.Helper()
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	a.Data(t, &s)
	return s
}

// transcript returns what was said, the oldest first.
func transcript(t *testing.T, c *rig.Client, session string) (list []utterance) {
	t.Helper()
	a := c.Do(http.MethodGet, session+"/messages", nil)
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	a.Data(t, &list)
	slices.Reverse(list)
	return list
}

func eventCount(t *testing.T, c *rig.Client, typ string) (n int) {
	t.Helper()
	var list []struct{ ID string }
	c.Do(http.MethodGet, "/v1/events?type="+typ, nil).Data(t, &list)
	return len(list)
}

// Sessions are listed with their standing, and what was said in them with the runs of calls. Feedback
// is one of each caller. A deleted session is forgotten.
func TestSessionsAreListedRatedAndDeleted(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	_, tenant := connected(t, s)
	path, key := agentOf(t, tenant, nil)
	sessions := sessionsOf(path)
	body := write("Make the kiwi", "s/1")
	body["customer_id"] = "kiwi-eater"
	first := saidOf(t, key.Do(http.MethodPost, path, body), http.StatusOK)
	saidOf(t, key.Do(http.MethodPost, path, write("And now?", "s/1")), http.StatusOK)
	saidOf(t, key.Do(http.MethodPost, path, write("Hello", "s2")), http.StatusOK)
	saidOf(t, key.Do(http.MethodPost, path, write("Hello", "")), http.StatusOK)

	var list []agentSession
	tenant.User.Do(http.MethodGet, sessions, nil).Data(t, &list)
	require.Len(t, list, 2)
	require.Equal(t, "s2", list[0].SessionID)
	require.Equal(t, agentSession{SessionID: "s/1", CustomerID: list[1].CustomerID, Status: "open", Turns: 2, Version: 1}, list[1])
	require.NotNil(t, list[1].CustomerID)
	tenant.User.Do(http.MethodGet, sessions+"?customer_id="+*list[1].CustomerID+"&status=open&escalated=false", nil).Data(t, &list)
	require.Len(t, list, 1)
	tenant.User.Do(http.MethodGet, sessions+"?status=busy", nil).Data(t, &list)
	require.Empty(t, list)

	one := sessions + "/s%2F1"
	said := transcript(t, tenant.User, one)
	require.Len(t, said, 4)
	require.Equal(t, "customer", said[0].From)
	require.Equal(t, "Make the kiwi", said[0].Text)
	require.Len(t, said[0].ToolCalls, 2)
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodGet, "/v1/executions/"+said[0].ToolCalls[1].ExecutionID, nil).Status)
	require.Equal(t, "Here is the kiwi.", said[1].Text)
	require.Equal(t, first.ExecutionID, *said[1].ExecutionID)

	rate := "/v1/executions/" + first.ExecutionID + "/feedback"
	for _, rating := range []string{"up", "DOWN"} {
		require.Equal(t, http.StatusOK, key.Do(http.MethodPut, rate, map[string]any{"rating": rating, "comment": "because " + rating}).Status)
	}
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPut, rate, map[string]any{"rating": "up"}).Status)
	said = transcript(t, tenant.User, one)
	require.Len(t, said[1].Feedback, 2)
	require.Equal(t, "down", said[1].Feedback[0].Rating)
	require.Equal(t, "because DOWN", said[1].Feedback[0].Comment)
	require.Contains(t, string(tenant.User.Do(http.MethodGet, "/v1/executions/"+first.ExecutionID, nil).Body), "because DOWN")
	require.Eventually(t, func() bool { return eventCount(t, tenant.User, "feedback.given") == 3 }, time.Minute, 50*time.Millisecond)
	// Another key does not see the message.
	require.Equal(t, http.StatusNotFound, tenant.Runtime.Do(http.MethodPut, rate, map[string]any{"rating": "up"}).Status)

	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, one, nil).Status)
	require.Equal(t, http.StatusNotFound, tenant.User.Do(http.MethodGet, one, nil).Status)
	require.Equal(t, http.StatusNotFound, tenant.User.Do(http.MethodGet, "/v1/executions/"+first.ExecutionID, nil).Status)
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodGet, "/v1/executions/"+said[0].ToolCalls[1].ExecutionID, nil).Status)
	body = write("And now?", "s/1")
	body["customer_id"] = "another"
	require.Equal(t, "Good day.", *saidOf(t, key.Do(http.MethodPost, path, body), http.StatusOK).Message)
}

// A person takes over while the agent answers. The agent's reply never comes, and what was said is read
// by the agent after the hand-back.
func TestPersonTakesOverWhileTheAgentAnswers(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		_, tenant := connected(t, s)
		path, key := agentOf(t, tenant, nil)
		one := sessionsOf(path) + "/s1"
		waiting := make(chan rig.Answer, 2)
		go func() { waiting <- key.Do(http.MethodPost, path, write("A slow plum", "s1")) }()
		require.Eventually(t, func() bool {
			a := tenant.User.Do(http.MethodGet, one, nil)
			return a.Status == http.StatusOK && standing(t, a).Status == "busy"
		}, time.Minute, 20*time.Millisecond)
		go func() { waiting <- key.Do(http.MethodPost, path, write("And the plum?", "s1")) }()
		require.Eventually(t, func() bool {
			said := transcript(t, tenant.User, one)
			return len(said) == 2 && !said[0].Answered && !said[1].Answered
		}, time.Minute, 20*time.Millisecond)
		// A session in which a message is answered is not deleted.
		require.Equal(t, http.StatusConflict, tenant.User.Do(http.MethodDelete, one, nil).Status)

		held := standing(t, tenant.User.Do(http.MethodPost, one+"/takeover", nil))
		require.Equal(t, "held", held.Status)
		for range 2 {
			answer := saidOf(t, <-waiting, http.StatusOK)
			require.Equal(t, "escalated", answer.Status)
			require.Contains(t, *answer.Message, "A person has taken over")
		}
		again := saidOf(t, key.Do(http.MethodPost, path, write("Hello, plum?", "s1")), http.StatusOK)
		require.Equal(t, "escalated", again.Status)
		require.NotNil(t, again.Message)
		reply := tenant.User.Do(http.MethodPost, one+"/reply", map[string]any{"message": "the person said plum"}, "Idempotency-Key: r1")
		require.Equal(t, http.StatusOK, reply.Status, "%s", reply.Body)
		require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, one+"/reply", map[string]any{"message": "the person said plum"}, "Idempotency-Key: r1").Status)

		said := transcript(t, tenant.User, one)
		var who []string
		for _, h := range said {
			who = append(who, h.From)
		}
		require.Equal(t, []string{"customer", "customer", "customer", "person"}, who)
		require.Equal(t, "the person said plum", said[3].Text)
		require.Equal(t, *held.HeldBy, *said[3].By)

		back := standing(t, tenant.User.Do(http.MethodPost, one+"/handback", nil))
		require.Equal(t, "open", back.Status)
		require.Equal(t, http.StatusConflict, tenant.User.Do(http.MethodPost, one+"/handback", nil).Status)
		require.Equal(t, http.StatusConflict, tenant.User.Do(http.MethodPost, one+"/reply", map[string]any{"message": "more"}).Status)
		done := saidOf(t, key.Do(http.MethodPost, path, write("Are we done?", "s1")), http.StatusOK)
		require.Equal(t, "The person has sent the plum.", *done.Message)
		require.Len(t, transcript(t, tenant.User, one), 6, "no reply of the agent came later")
		require.Eventually(t, func() bool {
			return eventCount(t, tenant.User, "session.taken_over") == 1 && eventCount(t, tenant.User, "session.message") == 2 && eventCount(t, tenant.User, "session.handed_back") == 1
		}, time.Minute, 50*time.Millisecond)
	})
}

// A person takes over a message that is read as a stream, and one whose agent has asked another one. The
// stream ends with the whole truth, and what was asked for ends too.
func TestTakeOverEndsStreamsAndWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		_, tenant := connected(t, s)
		path, key := agentOf(t, tenant, nil)
		f := readReply(t, key, path, write("A slow plum", "s1"))
		standing(t, tenant.User.Do(http.MethodPost, sessionsOf(path)+"/s1/takeover", nil))
		end := completed(t, f.rest())
		require.Equal(t, "escalated", end.Status)
		require.Contains(t, *end.Message, "A person has taken over")

		path, key, asked := asker(t, tenant, nil)
		f = readReply(t, key, path, write("Ask and think", "s1"))
		f.until("tool.started")
		standing(t, tenant.User.Do(http.MethodPost, sessionsOf(path)+"/s1/takeover", nil))
		all := f.rest()
		require.Equal(t, "escalated", completed(t, all).Status)
		var below []said
		require.Eventually(t, func() bool {
			tenant.User.Do(http.MethodGet, "/v1/executions?kind=message&agent_id="+asked, nil).Data(t, &below)
			return len(below) == 1 && below[0].Status == "cancelled"
		}, 2*time.Minute, 50*time.Millisecond, "%v", below)
		standing(t, tenant.User.Do(http.MethodPost, sessionsOf(path)+"/s1/handback", nil))
		require.Equal(t, "completed", saidOf(t, key.Do(http.MethodPost, path, write("And now?", "s1")), http.StatusOK).Status)
	})
}

// A call that was sent when a person took over goes on to its end. The agent knows of it after the
// hand-back.
func TestCallUnderWayAtATakeOverIsKnownLater(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	g, tenant := connected(t, s)
	holdTainted(t, tenant)
	path, key := agentOf(t, tenant, nil)
	one := sessionsOf(path) + "/s1"
	saidOf(t, key.Do(http.MethodPost, path, write("Please deliver the pear", "s1"), "Prefer: wait=0"), http.StatusAccepted)
	require.Equal(t, "pear", g.awaitArrival(t))
	standing(t, tenant.User.Do(http.MethodPost, one+"/takeover", nil))
	g.open()
	standing(t, tenant.User.Do(http.MethodPost, one+"/handback", nil))
	var last string
	require.Eventually(t, func() bool {
		last = *saidOf(t, key.Do(http.MethodPost, path, write("Are we done?", "s1")), http.StatusOK).Message
		return last == "The pear was delivered."
	}, time.Minute, 200*time.Millisecond, "%s", last)
	require.Len(t, g.of("pear"), 1)
	tainted := saidOf(t, key.Do(http.MethodPost, path, write("Another pear", "s1")), http.StatusOK)
	require.Equal(t, "pending_approval", tainted.Status)
	require.Empty(t, g.of("another"))
}

// What the agent has read before a person takes over taints the session after the hand-back.
func TestSessionIsTaintedByWhatWasReadBeforeATakeOver(t *testing.T) {
	t.Parallel()
	g, tenant := connected(t, stack(t, eager))
	path, key := agentOf(t, tenant, nil)
	one := sessionsOf(path) + "/s1"
	saidOf(t, key.Do(http.MethodPost, path, write("Compare the lychee", "s1"), "Prefer: wait=0"), http.StatusAccepted)
	require.Equal(t, "lychee", g.awaitArrival(t))
	holdTainted(t, tenant)
	standing(t, tenant.User.Do(http.MethodPost, one+"/takeover", nil))
	standing(t, tenant.User.Do(http.MethodPost, one+"/handback", nil))
	tainted := saidOf(t, key.Do(http.MethodPost, path, write("Another lychee", "s1")), http.StatusOK)
	require.Equal(t, "pending_approval", tainted.Status)
	require.Empty(t, g.of("another"))
	g.open()
}

// A call that waits for approval stays with the take-over. Its agent replies after the hand-back and
// not before.
func TestDecidedCallWaitsForTheHandBack(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	g, tenant := connected(t, s)
	held(t, tenant, "gate:delete_thing")
	path, key := agentOf(t, tenant, nil)
	one := sessionsOf(path) + "/s1"
	waits := saidOf(t, key.Do(http.MethodPost, path, write("See the date", "s1")), http.StatusOK)
	require.Equal(t, "pending_approval", waits.Status)
	standing(t, tenant.User.Do(http.MethodPost, one+"/takeover", nil))
	require.Equal(t, http.StatusOK, tenant.User.Decide(*waits.ApprovalID, "approve", map[string]any{}).Status)
	require.Eventually(t, func() bool { return len(g.of("date")) == 1 }, time.Minute, 20*time.Millisecond)
	require.Equal(t, "pending_approval", saidOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+waits.ExecutionID, nil), http.StatusOK).Status)
	require.Equal(t, http.StatusConflict, tenant.User.Do(http.MethodDelete, one, nil).Status)
	standing(t, tenant.User.Do(http.MethodPost, one+"/handback", nil))
	require.Eventually(t, func() bool {
		e := saidOf(t, tenant.User.Do(http.MethodGet, "/v1/executions/"+waits.ExecutionID, nil), http.StatusOK)
		return e.Status == "completed" && *e.Reply == "The date is gone."
	}, time.Minute, 50*time.Millisecond)
}

// Of two people one takes over. The other one can neither take over nor reply, and can hand back. An
// escalated session can be taken over.
func TestOnlyOnePersonTakesOver(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	_, tenant := connected(t, s)
	path, key := agentOf(t, tenant, nil)
	one := sessionsOf(path) + "/s1"
	saidOf(t, key.Do(http.MethodPost, path, write("I want to ask a person", "s1")), http.StatusOK)
	var list []agentSession
	tenant.User.Do(http.MethodGet, sessionsOf(path)+"?escalated=true", nil).Data(t, &list)
	require.Len(t, list, 1)
	require.NotNil(t, list[0].EscalatedAt)

	approver, _ := tenant.User.NewUser(t, rig.Address(), "approver")
	people := []*rig.Client{tenant.User, approver}
	answers := make([]int, len(people))
	var wg sync.WaitGroup
	for i, person := range people {
		wg.Go(func() { answers[i] = person.Do(http.MethodPost, one+"/takeover", nil).Status })
	}
	wg.Wait()
	require.ElementsMatch(t, []int{http.StatusOK, http.StatusConflict}, answers)
	winner, loser := people[slices.Index(answers, http.StatusOK)], people[slices.Index(answers, http.StatusConflict)]
	require.Equal(t, http.StatusOK, winner.Do(http.MethodPost, one+"/takeover", nil).Status, "again")
	require.Equal(t, http.StatusConflict, loser.Do(http.MethodPost, one+"/reply", map[string]any{"message": "Hello"}).Status)
	require.Equal(t, http.StatusConflict, tenant.User.Do(http.MethodDelete, one, nil).Status)
	require.Equal(t, http.StatusOK, loser.Do(http.MethodPost, one+"/handback", nil).Status)
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodDelete, one, nil).Status)
}

// Whatever the order in which a hand-back and messages arrive, each message is answered once: by the
// agent, or with word that a person has taken over.
func TestMessagesDuringAHandBackAreAnsweredOnce(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	_, tenant := connected(t, s)
	path, key := agentOf(t, tenant, nil)
	one := sessionsOf(path) + "/s1"
	saidOf(t, key.Do(http.MethodPost, path, write("Hello", "s1")), http.StatusOK)
	standing(t, tenant.User.Do(http.MethodPost, one+"/takeover", nil))
	answers := make([]said, 6)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { key.Do(http.MethodPost, path, write("Hello", "s1")).Data(t, &answers[i]) })
	}
	wg.Go(func() { tenant.User.Do(http.MethodPost, one+"/handback", nil) })
	wg.Wait()
	byAgent := 0
	for _, a := range answers {
		require.Contains(t, []string{"completed", "escalated"}, a.Status)
		require.NotNil(t, a.Message)
		if a.Status == "completed" {
			byAgent++
		}
	}
	// The first message and its reply, the six others, and the replies to those that came after.
	require.Len(t, transcript(t, tenant.User, one), 8+byAgent)
	require.Equal(t, "completed", saidOf(t, key.Do(http.MethodPost, path, write("Hello", "s1")), http.StatusOK).Status)
}
