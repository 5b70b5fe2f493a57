package agentdef_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/base/fault"
)

func read(t *testing.T, source string) *agentdef.Definition {
	t.Helper()
	d, err := agentdef.Read([]byte(source))
	require.NoError(t, err)
	return d
}

func TestReadGivesWhatIsLeftOutItsDefault(t *testing.T) {
	t.Parallel()
	want := &agentdef.Definition{
		Name:          "a",
		ExecutionMode: agentdef.Conversational,
		Models:        agentdef.Models{Worker: &agentdef.Model{Provider: "builtin", Model: "rules", Timeout: agentdef.Duration(time.Minute)}},
		Tools:         agentdef.Tools{Allow: []string{"tool:*"}, Deny: []string{}, MaxPerTurn: 20, Parallel: 4},
		Limits:        agentdef.Limits{MaxTurns: 10, StepAttempts: 3, GoalSteps: 20, WallClock: agentdef.Duration(10 * time.Minute)},
		SOPs:          []agentdef.SOP{}, Maps: []uuid.UUID{}, Concurrency: agentdef.Enqueue, Language: agentdef.Follow,
		Memory: agentdef.Memory{WindowMessages: 40, Summarize: true, Customer: agentdef.MemoryTools}, Escalation: agentdef.Escalation{OnRequest: true},
	}
	require.Equal(t, want, read(t, `{"name":"a"}`))
	require.Equal(t, want, read(t, `{"name":"a","executionMode":"CONVERSATIONAL","concurrency":"Enqueue","language":"Follow","sops":null,"maps":null,"models":{"worker":null},"tools":{"allow":null}}`))

	d := read(t, `{"name":"a","limits":{"max_turns":3},"tools":{"allow":["shop:*"]},"memory":{"summarize":false},"escalation":{"on_limit":true},
		"sops":[{"slug":"s","title":"t","when":"w","action":"a"}]}`)
	require.Equal(t, 3, d.Limits.MaxTurns)
	require.Equal(t, 20, d.Limits.GoalSteps, "the other limits")
	require.Equal(t, 20, d.Tools.MaxPerTurn)
	require.Equal(t, 40, d.Memory.WindowMessages)
	require.Equal(t, agentdef.MemoryAuto, read(t, `{"name":"a","memory":{"customer":"AUTO"}}`).Memory.Customer)
	require.True(t, d.Escalation.OnRequest)
	require.True(t, d.SOPs[0].Enabled, "an SOP is enabled unless it says otherwise")
	require.False(t, read(t, `{"name":"a","sops":[{"slug":"s","title":"t","when":"w","action":"a","enabled":false}]}`).SOPs[0].Enabled)
}

func TestReadNamesAllFaults(t *testing.T) {
	t.Parallel()
	sop := func(more string) string {
		return `"sops":[{"slug":"s","title":"t","when":"w","action":"a"` + more + `}]`
	}
	list := func(n int, entry string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(entry+",", n), ",") + "]"
	}
	long := func(n int) string { return `"` + strings.Repeat("é", n) + `"` }
	for members, want := range map[string][]string{
		`"memory":{"customer":"all"}`:    {"/memory/customer enum"},
		`"name":""`:                      {"/name required"},
		`"name":` + long(256):            {"/name maxLength"},
		`"name":7`:                       {"/name type"},
		`"colour":"red"`:                 {"/colour unknown_field"},
		`"Instructions":"x"`:             {"/Instructions unknown_field"},
		`"instructions":` + long(32_769): {"/instructions maxLength"},
		`"executionMode":"wild"`:         {"/executionMode enum"},
		`"executionMode":"goal","completion_criteria":[{"id":"a","description":"d","check":"${ .facts | length > 0 }"},{"id":"b","description":"d","check":".facts"},{"id":"c","description":"d","check":"${ trigger_data.x }"},{"id":"d","description":"d","check":"${ now }"}]`: {"/completion_criteria/1/check expression", "/completion_criteria/2/check expression", "/completion_criteria/3/check expression"},
		`"executionMode":"workflow_only"`:                 {"/map_id required"},
		`"map_id":"0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95"`: {"/map_id mode"},

		`"completion_criteria":[{"id":"a","description":"d"}]`: {"/completion_criteria mode"},
		`"language":"tlh"`:                                      {"/language enum"},
		`"concurrency":"both"`:                                  {"/concurrency enum"},
		`"models":{"worker":{"provider":"builtin"}}`:            {"/models/worker/model required"},
		`"models":{"worker":{"provider":"No One","model":"m"}}`: {"/models/worker/provider pattern"},
		`"models":{"boss":{"provider":"p","model":"m"}}`:        {"/models/boss unknown_field"},
		`"models":{"planner":{"provider":"p","model":"m","temperature":2.5,"max_output_tokens":-1,"timeout":"11m"}}`: {
			"/models/planner/temperature range", "/models/planner/max_output_tokens range", "/models/planner/timeout range",
		},
		`"models":{"worker":{"provider":"p","model":"m","timeout":30}}`:                                               {"/models/worker/timeout type"},
		`"models":{"worker":{"provider":"p","model":"m","timeout":"1y"}}`:                                             {"/models/worker/timeout format"},
		`"models":{"worker":{"provider":"p","model":"m","fallback":` + list(4, `{"provider":"p","model":"m"}`) + `}}`: {"/models/worker/fallback maxItems"},
		`"models":{"worker":{"provider":"p","model":"m","fallback":[{"provider":"p","model":"m","fallback":[{"provider":"p","model":"m"}]}]}}`: {
			"/models/worker/fallback/0/fallback maxItems",
		},
		`"tools":{"allow":["*"],"deny":["shop.eu:*"]}`: {"/tools/allow/0 pattern", "/tools/deny/0 pattern"},
		`"tools":{"allow":` + list(101, `"a:b"`) + `}`: {"/tools/allow maxItems"},
		`"tools":{"max_per_turn":101,"parallel":0}`:    {"/tools/max_per_turn range", "/tools/parallel range"},
		`"tools":{"max_per_turn":"many"}`:              {"/tools/max_per_turn type"},
		`"limits":{"max_turns":0,"step_attempts":11,"goal_steps":201,"tokens":-1,"money_micros":-1,"wall_clock":"2h"}`: {
			"/limits/max_turns range", "/limits/step_attempts range", "/limits/goal_steps range", "/limits/tokens range", "/limits/money_micros range", "/limits/wall_clock range",
		},
		`"limits":7`:                          {"/limits type"},
		`"sops":[7]`:                          {"/sops/0 type"},
		`"sops":[{}]`:                         {"/sops/0/slug pattern", "/sops/0/title required", "/sops/0/when required", "/sops/0/action required"},
		sop(`,"colour":"red"`):                {"/sops/0/colour unknown_field"},
		sop(`,"tools":["*:"]`):                {"/sops/0/tools/0 pattern"},
		sop(`,"examples":[""]`):               {"/sops/0/examples/0 required"},
		sop(`,"keywords":` + list(51, `"k"`)): {"/sops/0/keywords maxItems"},
		sop(`,"priority":1001`):               {"/sops/0/priority range"},
		`"sops":` + list(2, `{"slug":"s","title":"t","when":"w","action":"a"}`): {"/sops/1/slug unique"},
		`"maps":["x"]`: {"/maps/0 type"},
		`"maps":` + list(2, `"0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95"`): {"/maps/1 unique"},
		`"memory":{"window_messages":1}`:                              {"/memory/window_messages range"},
		`"escalation":{"on_limit":"yes"}`:                             {"/escalation/on_limit type"},
		`"tools":{"parallel":0},"limits":{"max_turns":0},"x":1`:       {"/x unknown_field", "/tools/parallel range", "/limits/max_turns range"},
	} {
		t.Run(members[:min(len(members), 40)], func(t *testing.T) {
			t.Parallel()
			source := `{` + members + `}`
			if !strings.HasPrefix(members, `"name"`) {
				source = `{"name":"a",` + members + `}`
			}
			_, err := agentdef.Read([]byte(source))
			f := fault.As(err)
			require.NotNil(t, f, "%v", err)
			require.Equal(t, fault.CodeValidation, f.Code)
			var got []string
			for _, d := range f.Details {
				got = append(got, d.Path+" "+d.Rule)
			}
			require.Equal(t, want, got)
		})
	}
}

func TestReadSaysWhichModesThereAre(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"wild", "goals"} {
		_, err := agentdef.Read(fmt.Appendf(nil, `{"name":"a","executionMode":%q}`, mode))
		require.ErrorContains(t, err, "conversational")
		require.ErrorContains(t, err, "workflow_only")
		require.ErrorContains(t, err, "goal")
	}
}

func TestReadIsBounded(t *testing.T) {
	t.Parallel()
	sop := func(i int) string {
		return fmt.Sprintf(`{"slug":"s%d","title":"t","when":"w","action":"%s"}`, i, strings.Repeat("x", 1_000))
	}
	many := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, sop(i))
		}
		return `{"name":"a","sops":[` + strings.Join(list, ",") + `]}`
	}
	require.Len(t, read(t, many(200)).SOPs, 200)
	for name, source := range map[string]string{
		"SOPs": many(201), "bytes": `{"name":"a"}` + strings.Repeat(" ", agentdef.MaxBytes), "not an object": `[]`, "null": `null`,
	} {
		_, err := agentdef.Read([]byte(source))
		require.True(t, fault.HasCode(err, fault.CodeValidation), "%s: %v", name, err)
	}
	_, err := agentdef.Read([]byte(`{"name":"a","name":"b"}`))
	require.True(t, fault.HasCode(err, fault.CodeInvalidJSON), "%v", err)
}

// Each fault is told once, however many there are, and an answer stays small.
func TestReadTellsAtMostFiftyFaults(t *testing.T) {
	t.Parallel()
	_, err := agentdef.Read([]byte(`{"name":"a","sops":[` + strings.TrimSuffix(strings.Repeat(`{},`, 100), ",") + `]}`))
	require.Len(t, fault.As(err).Details, 50)
	require.ErrorContains(t, err, "more)")
}

func TestPatternMatchesNamesOfVerbs(t *testing.T) {
	t.Parallel()
	for pattern, names := range map[string]map[string]bool{
		"shop:*":         {"shop:get_order": true, "shopping:get_order": false, "tool:shop": false, "shop": false},
		"*:get_*":        {"shop:get_order": true, "shop:get_": true, "shop:forget_me": false, "get_:x": false},
		"tool:*":         {"tool:reason": true, "shop:reason": false},
		"*:*":            {"shop:get_order": true, "tool:reason": true},
		"shop:get_order": {"shop:get_order": true, "shop:get_orders": false, "shop:get_orde": false},
		"s*p:*_o*r":      {"shop:get_order": true, "shop:get_orders": false, "sp:_or": true},
	} {
		for name, want := range names {
			require.Equal(t, want, agentdef.Matches([]string{pattern}, name), "%s %s", pattern, name)
		}
		read(t, `{"name":"a","tools":{"allow":["`+pattern+`"]}}`)
	}
	for _, pattern := range []string{
		"", "*", "shop", "shop:", ":x", "shop:a:b", "shop:get order", "-shop:x", "shop:-x", "a__b:x", "tool:" + strings.Repeat("x", 60),
		strings.Repeat("x", 41) + ":*", "shop:" + strings.Repeat("*", 256), "shop.eu:*",
	} {
		_, err := agentdef.Read([]byte(`{"name":"a","tools":{"allow":["` + pattern + `"]}}`))
		require.ErrorContains(t, err, "/tools/allow/0", "%q", pattern)
	}
}

func TestToolsDenyCountsBeforeAllow(t *testing.T) {
	t.Parallel()
	tools := agentdef.Tools{Allow: []string{"shop:*", "tool:reason"}, Deny: []string{"*:delete_*"}}
	for name, want := range map[string]bool{
		"shop:get_order": true, "shop:delete_order": false, "tool:reason": true, "tool:web_fetch": false, "crm:get": false, "nothing": false,
	} {
		require.Equal(t, want, tools.Allows(name), name)
	}
}

func TestChangeReplacesWholeMembers(t *testing.T) {
	t.Parallel()
	d := read(t, `{"name":"a","instructions":"Be brief.","tools":{"allow":["shop:*"],"deny":["shop:x"]},"limits":{"max_turns":3,"goal_steps":4}}`)
	changed, err := d.Change([]byte(`{"tools":{"allow":["crm:*"]},"limits":null}`))
	require.NoError(t, err)
	require.Equal(t, []string{"crm:*"}, changed.Tools.Allow)
	require.Empty(t, changed.Tools.Deny)
	require.Equal(t, 10, changed.Limits.MaxTurns, "null is the default")
	require.Equal(t, "Be brief.", changed.Instructions)
	require.Equal(t, []string{"limits", "tools"}, agentdef.Changed(d, changed))
	same, err := d.Change([]byte(`{}`))
	require.NoError(t, err)
	require.Equal(t, d, same)
	for patch, path := range map[string]string{
		`{"name":null}`: "/name", `{"colour":null}`: "/colour", `{"colour":1}`: "/colour", `{"tools":{"allow":["x"]}}`: "/tools/allow/0", `[]`: "",
	} {
		_, err := d.Change([]byte(patch))
		f := fault.As(err)
		require.NotNil(t, f, patch)
		require.Equal(t, path, f.Details[0].Path, patch)
	}
}

func TestEncodeIsReadAgain(t *testing.T) {
	t.Parallel()
	d := read(t, `{"name":"a","models":{"worker":{"provider":"p","model":"m","temperature":0.25,"timeout":"1500ms","fallback":[{"provider":"builtin","model":"rules"}]}},
		"limits":{"wall_clock":"90s"},"maps":["0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95"],"sops":[{"slug":"s","title":"t","when":"<w>","action":"a","enabled":false,"tools":["*:pay"]}]}`)
	require.Equal(t, d, read(t, string(d.Encode())))
	stored, err := agentdef.Decode(d.Encode())
	require.NoError(t, err)
	require.Equal(t, d, stored)
	require.Contains(t, string(d.Encode()), `"timeout":"1500ms"`)
	require.Contains(t, string(d.Encode()), `"wall_clock":"90s"`)
	var names map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(d.Encode(), &names))
	for name := range names {
		require.Contains(t, agentdef.Members(), name)
	}
	_, err = agentdef.Decode([]byte(`[`))
	require.Error(t, err)
}

func TestDiffNamesEachPlace(t *testing.T) {
	t.Parallel()
	a := read(t, `{"name":"a","tools":{"allow":["shop:*","crm:*"]},"sops":[{"slug":"s","title":"t","when":"w","action":"a"}]}`)
	b := read(t, `{"name":"b","tools":{"allow":["shop:*"]},"sops":[{"slug":"s","title":"t","when":"w","action":"a","priority":2}],
		"models":{"worker":{"provider":"builtin","model":"rules"},"planner":{"provider":"p","model":"m"}}}`)
	raw, err := json.Marshal(agentdef.Diff(a, b))
	require.NoError(t, err)
	require.JSONEq(t, `[
		{"path":"/models/planner","before":null,"after":{"provider":"p","model":"m","timeout":"1m"}},
		{"path":"/name","before":"a","after":"b"},
		{"path":"/sops/0/priority","before":null,"after":2},
		{"path":"/tools/allow/1","before":"crm:*","after":null}
	]`, string(raw))
	require.Empty(t, agentdef.Diff(a, a))
}

func TestDurationIsWrittenInItsLargestUnit(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0ms", 400 * time.Millisecond: "400ms", 30 * time.Second: "30s", 90 * time.Second: "90s", 10 * time.Minute: "10m", time.Hour: "1h", 48 * time.Hour: "2d",
	} {
		require.Equal(t, want, agentdef.Duration(d).String())
	}
}
