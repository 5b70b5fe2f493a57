package exactjson_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/exactjson"
)

func TestItemsAreThoseOfTheArray(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`[]`: nil, `[ ]`: nil, `[1]`: {"1"}, `[1,"a,]",{"b":[2]},[3]]`: {"1", `"a,]"`, `{"b":[2]}`, "[3]"}, `[ 1 , 2 ]`: {"1", "2"},
		`{"a":1}`: nil, `"[1]"`: nil, ``: nil, `null`: nil, `["\"",2]`: {`"\""`, "2"}, `["a`: nil,
	} {
		var got []string
		for item := range exactjson.Items(json.RawMessage(text)) {
			got = append(got, string(item))
		}
		require.Equal(t, want, got, text)
	}
	for item := range exactjson.Items(json.RawMessage(`[1,2]`)) {
		require.Equal(t, "1", string(item))
		break
	}
}
