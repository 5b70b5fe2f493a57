package exactjson_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/exactjson"
)

func TestShapeAndTreeBytesCountWithoutTexts(t *testing.T) {
	t.Parallel()
	const object, value = exactjson.BytesOfObject, exactjson.BytesOfValue
	for text, want := range map[string]struct{ deepest, values, bytes int }{
		`1`:                        {0, 0, 0},
		`{}`:                       {1, 1, object},
		`[1,2]`:                    {1, 2, 2 * value},
		`{"a":{"b":[1]},"c":[{}]}`: {3, 6, 3*object + 3*value},
		`["{[,]}", "\\\",{"]`:      {1, 2, 2 * value},
	} {
		deepest, values := exactjson.Shape([]byte(text))
		require.Equal(t, want.deepest, deepest, text)
		require.Equal(t, want.values, values, text)
		require.Equal(t, want.bytes, exactjson.TreeBytes([]byte(text)), text)
	}
}
