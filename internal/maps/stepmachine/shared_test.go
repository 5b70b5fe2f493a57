package stepmachine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/stepmachine"
)

// carried returns how many bytes a new history takes along: the state, and the commands without an
// answer. It checks that these are the same there.
func (x *player) carried(open []stepmachine.Command) int {
	x.t.Helper()
	raw, err := json.Marshal(stepmachine.Commands(open))
	require.NoError(x.t, err)
	var read stepmachine.Commands
	require.NoError(x.t, json.Unmarshal(raw, &read))
	require.Len(x.t, read, len(open))
	for i := range open {
		require.Equal(x.t, open[i], read[i])
	}
	x.t.Logf("%d open commands in %d KiB, the state in %d KiB", len(open), len(raw)>>10, x.bytes()>>10)
	return x.bytes() + len(raw)
}

// waitsForAnswer reports whether a new history takes the command up.
func waitsForAnswer(c stepmachine.Command) bool {
	switch c.(type) {
	case stepmachine.StartVerb, stepmachine.StartModel, stepmachine.StartMap, stepmachine.Evaluate, stepmachine.StartTimer,
		stepmachine.AskApproval, stepmachine.AwaitEvent, stepmachine.Compensate:
		return true
	default:
		return false
	}
}

// begunAtOnce begins the step in each of 2,500 iterations, as far as the machine begins them, and returns
// the commands without an answer.
func begunAtOnce(t *testing.T, step string, payload json.RawMessage) (*player, []stepmachine.Command) {
	t.Helper()
	items := "[1" + strings.Repeat(",1", 49) + "]"
	loop := func(id, steps string) string {
		return fmt.Sprintf(`[{"id":%q,"type":"foreach","mode":"parallel","concurrency":50,"items":%s,"steps":%s}]`, id, items, steps)
	}
	p := program(t, `{"steps":`+loop("a", loop("b", "["+step+"]"))+`}`)
	s, commands := stepmachine.Start(p, at(0), stepmachine.Beginning{Execution: "exec_1", TriggerData: stepmachine.Of(payload)})
	x := &player{t, p, s}
	var open []stepmachine.Command
	for len(commands) > 0 {
		var more []stepmachine.Command
		for _, c := range commands {
			if _, is := c.(stepmachine.Continue); is {
				state, next, err := stepmachine.Next(x.p, x.s, at(1), stepmachine.Continued{})
				require.NoError(t, err)
				x.s, more = state, append(more, next...)
				continue
			}
			if waitsForAnswer(c) {
				open = append(open, c)
			}
		}
		commands = more
	}
	require.Greater(t, len(open), 900)
	return x, open
}

// Many commands that wait have the same large values: what they take into a new history is bounded by
// what the state has, and not by how many they are.
func TestOpenCommandsShareTheirValues(t *testing.T) {
	t.Parallel()
	payload := json.RawMessage(`{"text":"` + strings.Repeat("x", 4<<10) + `"}`)
	form := `{"type":"object","description":"` + strings.Repeat("y", 4<<10) + `"}`
	for name, step := range map[string]string{
		"evaluations that read the payload": `{"id":"s","type":"transform","expr":"${[trigger_data.text, item] | map(length)}"}`,
		"calls that pass it on":             `{"id":"s","type":"verb","verb":"shop:send","args":{"text":"${trigger_data.text}"}}`,
		"questions with a large form":       `{"id":"s","type":"approval","title":"Go?","payload":"${trigger_data}","form":` + form + `}`,
		"models that read it":               `{"id":"s","type":"summarize","input":"${trigger_data.text}"}`,
		"agents whose goals read it":        `{"id":"s","type":"agent","goal":"Do it.","tools":["shop:*"],"complete_when":"${trigger_data.text | length > 1}"}`,
		"other Maps that are started":       `{"id":"s","type":"map","map_id":"0199a1f0-3b6e-7c40-9d55-0a3c5f0f6a22","payload":"${trigger_data}"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, open := begunAtOnce(t, step, payload)
			require.Less(t, x.carried(open), stateLimit)
		})
	}
}

// Few values are written in their places, as they were before there was sharing.
func TestFewOpenCommandsAreAList(t *testing.T) {
	t.Parallel()
	open := stepmachine.Commands{stepmachine.StartVerb{Verb: "shop:send", Args: stepmachine.Of(json.RawMessage(`"` + strings.Repeat("x", 1<<10) + `"`))}}
	raw, err := json.Marshal(open)
	require.NoError(t, err)
	require.Equal(t, byte('['), raw[0])
	var read stepmachine.Commands
	require.NoError(t, json.Unmarshal(raw, &read))
	require.Equal(t, open, read)
}

func TestOpenCommandsWithoutTheirValuesAreRefused(t *testing.T) {
	t.Parallel()
	var read stepmachine.Commands
	for _, id := range []string{"=1", "=-1", "=x"} {
		raw := `{"values":[1],"commands":[{"name":"start_verb","command":{"args":{"stored":{"id":"` + id + `"}}}}]}`
		require.ErrorContains(t, json.Unmarshal([]byte(raw), &read), "a shared value is missing")
	}
}
