package redact_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/redact"
)

func TestRestoreKeepsWhatTheEditorCouldNotSee(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"properties":{"iban":{"x-sensitive":true},"pin":{"type":"integer","x-sensitive":true},"ok":{"type":"boolean","x-sensitive":true},
		"o":{"properties":{"key":{"writeOnly":true}}},"list":{"items":{"properties":{"key":{"writeOnly":true}}}},"codes":{"items":{"x-sensitive":true}}}}`)
	original := json.RawMessage(`{"iban":"DE89","pin":1234,"ok":true,"amount":100,"note":"card 4111111111111111","o":{"key":"k","n":1},"list":[{"key":"a"},{"key":"b"}],"codes":[1,2],"zero":0}`)
	masked, _ := redact.MaskArgs(original, schema)
	for name, tc := range map[string]struct{ edited, want, place string }{
		"all left out":                    {`{"amount":50}`, `{"amount":50,"iban":"DE89","pin":1234,"ok":true,"note":"card 4111111111111111"}`, ""},
		"set again":                       {`{"iban":"DE90","pin":1,"ok":null,"note":"x"}`, `{"iban":"DE90","pin":1,"ok":null,"note":"x"}`, ""},
		"the same number of elements":     {`{"iban":"x","pin":1,"ok":null,"note":"","list":[{},{"key":"c"}]}`, `{"iban":"x","pin":1,"ok":null,"note":"","list":[{"key":"a"},{"key":"c"}]}`, ""},
		"fewer elements":                  {`{"iban":"x","pin":1,"ok":null,"note":"","list":[{}]}`, `{"iban":"x","pin":1,"ok":null,"note":"","list":[{}]}`, ""},
		"inside an object":                {`{"iban":"x","pin":1,"ok":null,"note":"","o":{"n":2}}`, `{"iban":"x","pin":1,"ok":null,"note":"","o":{"key":"k","n":2}}`, ""},
		"zero where nothing is masked":    {`{"iban":"x","pin":1,"ok":null,"note":"","zero":0,"amount":0}`, `{"iban":"x","pin":1,"ok":null,"note":"","zero":0,"amount":0}`, ""},
		"the placeholder of a text":       {`{"iban":"[masked]"}`, "", "/iban"},
		"the placeholder of a number":     {`{"pin":0}`, "", "/pin"},
		"the placeholder of a boolean":    {`{"ok":false}`, "", "/ok"},
		"the placeholder of a card":       {`{"note":"card ***1111"}`, "", "/note"},
		"the placeholder in a longer one": {`{"note":"use card ***1111 now"}`, "", "/note"},
		"in another place":                {`{"other":"[masked]"}`, "", "/other"},
		"a placeholder in an object":      {`{"o":{"key":"[masked]"}}`, "", "/o/key"},
		"a placeholder in a list":         {`{"list":[{"key":"[masked]"}]}`, "", "/list/0/key"},
		"a masked element":                {`{"codes":[0]}`, "", "/codes/0"},
		"a hidden name":                   {`{"o":{"[masked 1]":1}}`, "", "/o/[masked 1]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, places, err := redact.Restore(original, masked, json.RawMessage(tc.edited))
			require.NoError(t, err)
			if tc.place != "" {
				require.Equal(t, []string{tc.place}, places)
				return
			}
			require.Empty(t, places)
			require.JSONEq(t, tc.want, string(got))
		})
	}
}
