package strictjson_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/strictjson"
)

type level string

func (l *level) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) != nil || (s != "low" && s != "high") {
		return fault.Invalid("", "enum", "must be low or high")
	}
	*l = level(s)
	return nil
}

type matcher struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

type paging struct {
	Limit int32 `json:"limit"`
}

type body struct {
	paging
	Verb     string            `json:"verb"`
	Args     json.RawMessage   `json:"args"`
	Name     *string           `json:"name,omitempty"`
	Matchers []matcher         `json:"matchers"`
	Labels   map[string]string `json:"labels"`
	Any      any               `json:"any"`
	Amount   json.Number       `json:"amount"`
	Ratio    float64           `json:"ratio"`
	Enabled  bool              `json:"enabled"`
	Level    level             `json:"level"`
	At       time.Time         `json:"at"`
	Blob     []byte            `json:"blob"`
	Hidden   string            `json:"-"`
}

func decode(text string, opts strictjson.Options) (body, error) {
	var b body
	err := strictjson.Decode([]byte(text), &b, opts)
	return b, err
}

func TestDecode(t *testing.T) {
	t.Parallel()
	got, err := decode(` {"verb":"a:b\u0063","args": {"N":9007199254740993,"n":1.0} ,"name":"x","limit":7,
		"matchers":[{"type":"verb","value":["a"]},{"value":null}],"labels":{"K\n":"v"},"any":{"n":[1e2]},"amount":1.50,
		"ratio":0.5,"enabled":true,"level":"high","at":"2026-01-02T03:04:05Z","blob":"aGk="} `,
		strictjson.Options{Free: []string{"/args", "/any"}})
	require.NoError(t, err)
	require.Equal(t, "a:bc", got.Verb)
	require.Equal(t, `{"N":9007199254740993,"n":1.0}`, string(got.Args))
	require.Equal(t, "x", *got.Name)
	require.Equal(t, int32(7), got.Limit)
	require.Equal(t, []matcher{{"verb", json.RawMessage(`["a"]`)}, {"", json.RawMessage("null")}}, got.Matchers)
	require.Equal(t, map[string]string{"K\n": "v"}, got.Labels)
	require.Equal(t, map[string]any{"n": []any{json.Number("1e2")}}, got.Any)
	require.Equal(t, json.Number("1.50"), got.Amount)
	require.InDelta(t, 0.5, got.Ratio, 0)
	require.True(t, got.Enabled)
	require.Equal(t, level("high"), got.Level)
	require.Equal(t, 2026, got.At.Year())
	require.Equal(t, "hi", string(got.Blob))
}

func TestDecodeNull(t *testing.T) {
	t.Parallel()
	got, err := decode(`{"name":null,"matchers":null,"labels":null,"any":null}`, strictjson.Options{})
	require.NoError(t, err)
	require.Equal(t, body{}, got)
	_, err = decode(`{"verb":null}`, strictjson.Options{})
	require.Equal(t, []fault.Detail{{Path: "/verb", Rule: "type", Message: "must be a string"}}, fault.As(err).Details)
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, body, path, rule, message string }{
		{"unknown", `{"foo":1}`, "/foo", "unknown_field", "known fields are limit, verb, args"},
		{"only by case", `{"Verb":"x"}`, "/Verb", "unknown_field", "write verb"},
		{"hidden", `{"Hidden":"x"}`, "/Hidden", "unknown_field", ""},
		{"nested unknown", `{"matchers":[{"typ":"x"}]}`, "/matchers/0/typ", "unknown_field", "type, value"},
		{"not an object", `[]`, "", "type", "must be an object"},
		{"string", `{"verb":1}`, "/verb", "type", "must be a string"},
		{"array", `{"matchers":{}}`, "/matchers", "type", "must be an array"},
		{"element", `{"matchers":[1]}`, "/matchers/0", "type", "must be an object"},
		{"map", `{"labels":[]}`, "/labels", "type", "must be an object"},
		{"map value", `{"labels":{"a/b":1}}`, "/labels/a~1b", "type", "must be a string"},
		{"boolean", `{"enabled":"true"}`, "/enabled", "type", "must be true or false"},
		{"fraction for int", `{"limit":1.5}`, "/limit", "type", "must be a whole number"},
		{"int too large", `{"limit":3000000000}`, "/limit", "type", "must be a whole number"},
		{"float too large", `{"ratio":1e400}`, "/ratio", "type", "must be a number"},
		{"string for number", `{"amount":"1"}`, "/amount", "type", "must be a number"},
		{"own fault", `{"level":"odd"}`, "/level", "enum", "must be low or high"},
		{"time", `{"at":"yesterday"}`, "/at", "type", "must be an RFC 3339 time"},
		{"time as number", `{"at":1}`, "/at", "type", "must be an RFC 3339 time"},
		{"bytes", `{"blob":"*"}`, "/blob", "type", "must be a base64 string"},
		{"pointer", `{"name":[]}`, "/name", "type", "must be a string"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := decode(tc.body, strictjson.Options{})
			f := fault.As(err)
			require.NotNil(t, f)
			require.Equal(t, fault.CodeValidation, f.Code)
			require.Len(t, f.Details, 1)
			require.Equal(t, tc.path, f.Details[0].Path)
			require.Equal(t, tc.rule, f.Details[0].Rule)
			require.Contains(t, f.Details[0].Message, tc.message)
		})
	}
}

func TestDecodeGathersProblems(t *testing.T) {
	t.Parallel()
	_, err := decode(`{"verb":1,"limit":"x","foo":1,"args":{}}`, strictjson.Options{})
	f := fault.As(err)
	require.Len(t, f.Details, 3)
	require.Equal(t, "/verb: must be a string (and 2 more)", f.Message)

	many := `{` + strings.TrimSuffix(manyNames(80), ",") + `}`
	_, err = decode(many, strictjson.Options{})
	f = fault.As(err)
	require.Len(t, f.Details, 50)
	require.Contains(t, f.Message, "(and 79 more)")
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`"x` + strings.Repeat("y", i) + `":1,`)
	}
	return b.String()
}

// A name in the wrong case never reaches the field, even where unknown names are
// ignored.
func TestDecodeAllowUnknown(t *testing.T) {
	t.Parallel()
	got, err := decode(`{"VERB":"evil","foo":{"bar":1},"matchers":[{"TYPE":"evil"}]}`, strictjson.Options{AllowUnknown: true})
	require.NoError(t, err)
	require.Empty(t, got.Verb)
	require.Equal(t, []matcher{{}}, got.Matchers)
}

func TestDecodeChecksFirst(t *testing.T) {
	t.Parallel()
	_, err := decode(`{"verb":"a:read","VERB":"a:delete"}`, strictjson.Options{AllowUnknown: true})
	require.True(t, fault.HasCode(err, fault.CodeInvalidJSON))
	require.Error(t, strictjson.Decode([]byte(`{}`), body{}, strictjson.Options{}))
}

func BenchmarkDecode(b *testing.B) {
	type run struct {
		Verb        string          `json:"verb"`
		Args        json.RawMessage `json:"args"`
		ExecutionID *string         `json:"execution_id"`
		SessionID   *string         `json:"session_id"`
		Metadata    json.RawMessage `json:"metadata"`
	}
	opts := strictjson.Options{Free: []string{"/args", "/metadata"}}
	for name, text := range map[string][]byte{"small": smallRun(), "1MiB": megabyte()} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				var r run
				if err := strictjson.Decode(text, &r, opts); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
