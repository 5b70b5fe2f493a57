package api

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

// RFC 6901 writes a position in one way only.
func TestPathIntoAResultWithAnotherWrittenPositionFindsNothing(t *testing.T) {
	t.Parallel()
	result := json.RawMessage(`{"data":["a","b"],"names":{"00":"c"}}`)
	for path, want := range map[string]string{"/data/0": `"a"`, "/data/1": `"b"`, "/names/00": `"c"`} {
		value, err := valueAt(result, path)
		require.NoError(t, err, path)
		require.Equal(t, want, string(value), path)
	}
	for _, path := range []string{"/data/00", "/data/01", "/data/+1", "/data/-0", "/data/-", "/data/2"} {
		_, err := valueAt(result, path)
		require.True(t, fault.HasCode(err, fault.CodeValidation), "%s: %v", path, err)
	}
}
