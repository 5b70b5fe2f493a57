package model_test

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/models/model"
)

func TestSoundResponseCanBeKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ given, want model.Response }{
		"nothing to mend": {
			model.Response{Model: "m-1", Text: "t", Usage: model.Usage{In: 3, Cached: 1, Out: 2}, Finish: model.Stopped},
			model.Response{Model: "m-1", Text: "t", Usage: model.Usage{In: 3, Cached: 1, Out: 2}, Finish: model.Stopped},
		},
		"counts below zero": {model.Response{Usage: model.Usage{In: -5, Cached: -1, Out: math.MinInt64}}, model.Response{}},
		"NUL in names":      {model.Response{Model: "a\x00b", Finish: "s\x00top"}, model.Response{Model: "ab", Finish: "stop"}},
		"no UTF-8":          {model.Response{Model: "a\xffb"}, model.Response{Model: "ab"}},
		"arguments that are no JSON": {
			model.Response{Calls: []model.ToolCall{{ID: "1", Args: []byte(`{"a": 1`)}, {ID: "2"}, {ID: "3", Args: []byte(`{"a": 1}`)}, {ID: "4", Args: []byte("\xff")}}},
			model.Response{Calls: []model.ToolCall{{ID: "1", Args: []byte(`"{\"a\": 1"`)}, {ID: "2", Args: []byte(`{}`)}, {ID: "3", Args: []byte(`{"a": 1}`)}, {ID: "4", Args: []byte(`"\ufffd"`)}}},
		},
		"a long name": {model.Response{Model: strings.Repeat("é", 500)}, model.Response{Model: strings.Repeat("é", 100)}},
	} {
		require.Equal(t, c.want, c.given.Sound(), name)
	}
	most := model.Response{Model: "a" + strings.Repeat("é", 500), Usage: model.Usage{In: math.MaxInt64, Out: math.MaxInt64}}.Sound()
	require.Positive(t, most.Usage.Total())
	require.True(t, utf8.ValidString(most.Model))
}

// A model may ask for any number of calls at once; only so many are told to it again.
func TestResponseHasABoundedNumberOfCalls(t *testing.T) {
	t.Parallel()
	for _, asked := range []int{0, 1, model.MaxCalls, model.MaxTold, 5000} {
		kept := model.Response{Calls: make([]model.ToolCall, asked)}.Bounded().Calls
		require.Len(t, kept, min(asked, 64))
	}
}
