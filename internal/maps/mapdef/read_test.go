package mapdef_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/mapdef"
)

func TestReadKeepsOrderAndText(t *testing.T) {
	t.Parallel()
	source := `{"schema_version":"1","name":"Refund","vars":{"z":1,"a":"${trigger_data.x}"},
		"steps":[{"id":"pay","type":"verb","verb":"shop:refund","args":{"z":1.10,"a":"${trigger_data.id}"},
		"retry":{"max_attempts":3},"catch":[{"errors":["*"],"as":"e","steps":[{"id":"note","type":"set","assign":{"b":"${e.code}","a":1}}]}]}]}`
	d, faults := mapdef.Read([]byte(source))
	require.Empty(t, faults)
	require.Equal(t, "z", d.Vars[0].Name)
	require.Equal(t, "a", d.Vars[1].Name)
	pay := d.Steps[0]
	do, ok := pay.Do.(*mapdef.DoVerb)
	require.True(t, ok)
	require.Equal(t, "shop:refund", do.Verb)
	require.Equal(t, "z", do.Args.Members()[0].Name)
	require.Equal(t, &mapdef.Retry{MaxAttempts: 3, Initial: 1e9, Backoff: 2, MaxInterval: 60e9, RetryOn: []string{"*"}}, pay.Retry)
	require.Equal(t, mapdef.OnErrorFail, pay.OnError)
	require.Equal(t, "/steps/0/catch/0/steps/0", pay.Catch[0].Steps[0].Pointer)

	again, err := json.Marshal(d)
	require.NoError(t, err)
	require.JSONEq(t, source, string(again))
	var stored mapdef.Definition
	require.NoError(t, json.Unmarshal(again, &stored))
	require.Equal(t, d.Name, stored.Name)
	require.Error(t, json.Unmarshal([]byte(`{}`), &stored))
}
