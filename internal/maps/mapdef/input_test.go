package mapdef_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/mapdef"
)

func TestInputOfAStepIsJudgedAsAConstantOfADefinition(t *testing.T) {
	t.Parallel()
	const (
		verb      = `"type":"verb","verb":"shop:a"`
		transform = `"type":"transform","expr":1`
		validate  = `"type":"validate","value":1,"schema":true`
		foreach   = `"type":"foreach","items":[],"steps":[]`
		waitFor   = `"type":"wait","for":"1s"`
		waitUntil = `"type":"wait","until":"2026-01-01T00:00:00Z"`
		waitEvent = `"type":"wait","event":{"type":"go"}`
		approval  = `"type":"approval","title":"Go?"`
		another   = `"type":"map","map_id":"m"`
		raise     = `"type":"raise","error":{"code":"NO"}`
		emit      = `"type":"emit","event":"custom.x"`
		escalate  = `"type":"escalate","reason":"Look"`
		returns   = `"type":"return"`
		agent     = `"type":"agent","goal":"Do it"`
		extract   = `"type":"extract","input":1,"schema":true`
		classify  = `"type":"classify","input":1,"labels":["a","b"]`
		summarize = `"type":"summarize","input":1`
		reason    = `"type":"reason","question":"Why?"`
	)
	long := `"` + strings.Repeat("x", 16<<10+1) + `"`
	for _, c := range []struct {
		step, input string
		want        string // the path and the rule of each fault
	}{
		{verb, `{"a":1}`, ""},
		{verb, `[1]`, " type"},
		{verb, `null`, " type"},
		{another, `{}`, ""},
		{another, `"x"`, " type"},
		{emit, `{"n":1}`, ""},
		{emit, `"x"`, " type"},
		{emit, `null`, " type"},
		{transform, `null`, ""},
		{validate, `[1]`, ""},
		{returns, `5`, ""},
		{foreach, `[1,2]`, ""},
		{foreach, `{"0":1}`, " type"},
		{foreach, "[1" + strings.Repeat(",1", mapdef.MaxItems) + "]", " maxItems"},
		{waitFor, `"5m"`, ""},
		{waitFor, `"soon"`, " duration"},
		{waitFor, `300`, " type"},
		{waitUntil, `"2026-12-31T18:00:00Z"`, ""},
		{waitUntil, `"5m"`, " format"},
		{waitUntil, `5`, " type"},
		{waitEvent, `"o-1"`, ""},
		{waitEvent, `""`, " minLength"},
		{waitEvent, `{}`, " type"},
		{approval, `{"title":"Go?","payload":{"n":1}}`, ""},
		{approval, `{"title":"Go?","payload":null}`, ""},
		{approval, `{"title":"Go?"}`, ""},
		{approval, `{"title":"Go?","payload":[1]}`, "/payload type"},
		{approval, `{"title":5}`, "/title type"},
		{approval, `{"payload":{}}`, "/title required"},
		{approval, `{"title":"Go?","n":1}`, "/n unknown_field"},
		{approval, `"Go?"`, " type"},
		{raise, `{"title":"No","detail":""}`, ""},
		{raise, `{"title":{}}`, "/title type"},
		{raise, `{"code":"YES"}`, "/code unknown_field"},
		{raise, `"No"`, " type"},
		{escalate, `"Look"`, ""},
		{escalate, `""`, " minLength"},
		{escalate, long, " maxLength"},
		{escalate, `{"reason":"Look"}`, " type"},
		{agent, `{"goal":"Do that"}`, ""},
		{agent, `"Do that"`, " type"},
		{agent, `{}`, "/goal required"},
		{extract, `{"input":null}`, ""},
		{extract, `"text"`, " type"},
		{classify, `{"text":"x"}`, "/text unknown_field, /input required"},
		{summarize, `{"input":"x","max_words":5}`, "/max_words unknown_field"},
		{reason, `{"question":"Who?","context":null}`, ""},
		{reason, `{"question":5}`, "/question type"},
	} {
		d, wrong := mapdef.Read([]byte(`{"schema_version":"1","name":"x","steps":[{"id":"s",` + c.step + `}]}`))
		require.Empty(t, wrong, c.step)
		var got []string
		for _, f := range d.Steps[0].InputFaults([]byte(c.input)) {
			got = append(got, f.Path+" "+f.Rule)
		}
		require.Equal(t, c.want, strings.Join(got, ", "), "%s: %.80s", c.step, c.input)
	}
}
