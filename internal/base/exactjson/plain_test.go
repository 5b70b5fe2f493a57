package exactjson_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/exactjson"
)

func TestPlainDecodesLettersOnly(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a":1.10,"b":[1e40, 9007199254740993]}`: `{"a":1.10,"b":[1e40, 9007199254740993]}`,
		`"M\u00fcller \u041f\u0440"`:              `"Müller Пр"`,
		`{"\u00fc":"\u00fc"}`:                     `{"ü":"ü"}`,
		`"\ud83d\ude00 a\/b"`:                     `"😀 a/b"`,
		`"\u003c\u003e\u0026\u0022\u005c"`:        `"\u003c\u003e\u0026\u0022\u005c"`,
		`"\u0000\u001f\u007f\u0085\u2028\n\t\""`:  `"\u0000\u001f\u007f\u0085\u2028\n\t\""`,
		`"\\u00fc \\\u00fc"`:                      `"\\u00fc \\ü"`,
		`"\ud83d"`:                                `"\ud83d"`,
		`"\ud83dx"`:                               `"\ud83dx"`,
		`"\ude00\ud83d"`:                          `"\ude00\ud83d"`,
		`"\u00FC"`:                                `"ü"`,
		`"plain ü"`:                               `"plain ü"`,
	} {
		got := exactjson.Plain(json.RawMessage(in))
		require.Equal(t, want, string(got))
		require.JSONEq(t, in, string(got), "the value is the same")
		require.Equal(t, want, string(exactjson.Plain(got)), "a second time changes nothing")
	}
}
