package e2e

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"agentruntime/internal/base/flow"
	"agentruntime/test/rig"
)

var record = flag.Bool("record", false, "write the histories of this run to workflows/testdata")

// stranger is a client of Temporal without our codec: it sees what an operator
// without the key sees.
func stranger(t *testing.T, s *rig.Stack) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: s.TemporalAddress, Logger: quiet{}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// quiet drops what the SDK says.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

// shapes are the ways a workflow of a run can go: what is called, and how it ends.
var shapes = map[string]struct {
	verb, mode, status, summary string
	timers                      int
}{
	"executed": {"create_thing", "", "executed", "gate:create_thing · medium", 0},
	"blocked":  {"delete_thing", "", "blocked", "gate:delete_thing · high", 0},
	"retried":  {"create_thing", modeLaterOnce, "executed", "gate:create_thing · medium", 1},
}

// TestTemporalRunShowsSummaryOnly reads everything that Temporal
// stores about runs, without the codec's key.
func TestTemporalRunShowsSummaryOnly(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, lane string) {
		t.Helper()
		_, tenant := connected(t, s)
		c := stranger(t, s)
		for shape, want := range shapes {
			id := "marker-" + ids(1)[0]
			for range 2 { // a repeat of a run that was sent starts nothing
				tenant.Runtime.Run("gate:"+want.verb, map[string]string{"id": id, "mode": want.mode}, id)
				if want.status == "blocked" {
					break
				}
			}
			e := executionOf(t, tenant.Runtime, id)
			require.Equal(t, want.status, e.Status)
			require.Regexp(t, `^run/`+id+`/[0-9a-f]{16}$`, e.WorkflowID)
			events := closedHistory(t, c, e.WorkflowID)
			timers, payloads := 0, 0
			for _, event := range events.Events {
				if event.EventType == enumspb.EVENT_TYPE_TIMER_STARTED {
					timers++
				}
				payloads += requireOnlySummary(t, event, want.summary, id, "gate-token")
			}
			require.GreaterOrEqual(t, payloads, 4, "summary, input, the steps' markers and result are payloads")
			require.Equal(t, want.timers, timers)
			requireSummary(t, c, e.WorkflowID, want.summary)
			if *record {
				recordHistory(t, s, lane+"_"+shape, events)
			}
		}
		rig.Until(t, arriveLimit, "one workflow per run is listed", func() bool {
			list, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
				Query: "AgentRuntimeTenant = '" + tenant.ID + "' AND ExecutionStatus = 'Completed'",
			})
			require.NoError(t, err)
			require.LessOrEqual(t, len(list.Executions), len(shapes))
			return len(list.Executions) == len(shapes)
		})
	})
}

// closedHistory reads the events of a workflow once it has ended.
func closedHistory(t *testing.T, c client.Client, workflowID string) *historypb.History {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), arriveLimit)
	defer cancel()
	// The row ends a moment before the workflow does. The server answers a poll for the end after 20 s
	// in any case; the client polls again.
	_, err := c.GetWorkflowHistory(ctx, workflowID, "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT).Next()
	require.NoError(t, err)
	h := &historypb.History{}
	for it := c.GetWorkflowHistory(ctx, workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		event, err := it.Next()
		require.NoError(t, err)
		h.Events = append(h.Events, event)
	}
	require.Equal(t, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, h.Events[len(h.Events)-1].EventType)
	return h
}

// requireOnlySummary checks that the event has no payload that can be read besides
// the summary, and none of the values anywhere. It returns how many payloads there are.
func requireOnlySummary(t *testing.T, event *historypb.HistoryEvent, summary string, values ...string) (payloads int) {
	t.Helper()
	event = withoutAttributes(t, event)
	raw, err := protojson.Marshal(event)
	require.NoError(t, err)
	for _, value := range values {
		search := newSearch(value)
		require.Empty(t, search.in(raw), "%s", event.EventType)
	}
	var tree any
	require.NoError(t, json.Unmarshal(raw, &tree))
	walkPayloads(tree, func(encoding, data []byte) {
		payloads++
		if string(encoding) == "binary/encrypted" {
			// Every payload has its own encoding inside: that much is known of the plain text.
			require.NotContains(t, string(data), "json/plain", "%s says that it is encrypted", event.EventType)
			for _, value := range values {
				require.Empty(t, newSearch(value).in(data))
			}
			return
		}
		if text, _ := strconv.Unquote(string(data)); !waitsFor.Match(data) && !slices.Contains(flow.Summaries(), text) {
			require.Equal(t, `"`+summary+`"`, string(data), "%s has a readable payload", event.EventType)
		}
	})
	return payloads
}

// withoutAttributes returns the event without search attributes, which are in the clear. It
// checks that they are those of the table, and that only AgentRuntimeExecution has a text of
// the caller.
func withoutAttributes(t *testing.T, event *historypb.HistoryEvent) *historypb.HistoryEvent {
	t.Helper()
	event, _ = proto.Clone(event).(*historypb.HistoryEvent)
	if began := event.GetWorkflowExecutionStartedEventAttributes(); began != nil {
		began.WorkflowId = "" // it has the execution_id, as the search attribute has
	}
	set := event.GetWorkflowExecutionStartedEventAttributes().GetSearchAttributes()
	if set == nil {
		set = event.GetUpsertWorkflowSearchAttributesEventAttributes().GetSearchAttributes()
	}
	words := map[string]string{
		"AgentRuntimeTenant": `^"[0-9a-f-]{36}"$`, "AgentRuntimeKind": `^"(action|changes|delivery|erasure|goal|map|message)"$`, "AgentRuntimeVerb": `^"gate:[a-z_]+"$`,
		"AgentRuntimeRisk": `^"(low|medium|high)"$`, "AgentRuntimeState": `^"[a-z_]+"$`, "AgentRuntimeExecution": `^"[!-~]{1,255}"$`,
		"AgentRuntimeSubject":   `^"[0-9a-f-]{36}"$`,
		"TemporalChangeVersion": `^\["`, // of the SDK: which changes of the workflow a history knows
	}
	for name, value := range set.GetIndexedFields() {
		require.Contains(t, words, name)
		require.Regexp(t, words[name], string(value.GetData()), name)
	}
	if set != nil {
		set.IndexedFields = nil
	}
	return event
}

// waitsFor is what the timer of a held run tells operators.
var waitsFor = regexp.MustCompile(`^"waits for (appr_[0-9a-f-]{36}) · decide it at /v1/approvals/appr_[0-9a-f-]{36} · the signal reject stops the call"$`)

// walkPayloads finds every payload in the JSON of a message.
func walkPayloads(v any, found func(encoding, data []byte)) {
	switch v := v.(type) {
	case map[string]any:
		if metadata, ok := v["metadata"].(map[string]any); ok && metadata["encoding"] != nil {
			found(bytesOf(metadata["encoding"]), bytesOf(v["data"]))
		}
		for _, inner := range v {
			walkPayloads(inner, found)
		}
	case []any:
		for _, inner := range v {
			walkPayloads(inner, found)
		}
	}
}

func bytesOf(v any) []byte {
	text, _ := v.(string)
	raw, _ := base64.StdEncoding.DecodeString(text)
	return raw
}

// requireSummary checks what the operator's list shows of the run.
func requireSummary(t *testing.T, c client.Client, workflowID, want string) {
	t.Helper()
	d, err := c.DescribeWorkflowExecution(t.Context(), workflowID, "")
	require.NoError(t, err)
	require.Equal(t, `"`+want+`"`, string(d.GetExecutionConfig().GetUserMetadata().GetSummary().GetData()))
	require.Empty(t, d.GetWorkflowExecutionInfo().GetMemo().GetFields())
}

// recordHistory keeps the history, encrypted as it is, with the key of a stack that
// is gone, for the replay test. Histories of earlier code stay: open workflows may have them. The
// next one of a name gets a number.
func recordHistory(t *testing.T, s *rig.Stack, name string, h *historypb.History) {
	t.Helper()
	history, err := protojson.Marshal(h)
	require.NoError(t, err)
	id, key := s.CodecKey()
	text, err := json.MarshalIndent(map[string]any{"codec_key_id": id, "codec_key": hex.EncodeToString(key), "history": json.RawMessage(history)}, "", " ")
	require.NoError(t, err)
	dir := filepath.Join(rig.Root(), "workflows", "testdata")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	file := filepath.Join(dir, name+".json")
	for n := 2; ; n++ {
		if _, err := os.Stat(file); os.IsNotExist(err) {
			break
		}
		file = filepath.Join(dir, fmt.Sprintf("%s_%d.json", name, n))
	}
	require.NoError(t, os.WriteFile(file, append(text, '\n'), 0o644))
}

// The Temporal UI is part of the development server and shows the same.
func TestTemporalUIAnswers(t *testing.T) {
	t.Parallel()
	s := stack(t, eager)
	res, err := http.Get(s.TemporalUIURL)
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
}
