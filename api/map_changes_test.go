package api

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
)

// The message of an error with one fault names the place of it: a caller may read nothing else.
func TestMalformedDecisionOfChangesIsRefusedWithItsPlace(t *testing.T) {
	t.Parallel()
	for body, message := range map[string]string{
		`{"approve":"each"}`:           `approve is a list of ids of changes, or "all".`,
		`{"approve":"all","reject":1}`: `reject is a list of ids of changes, or "all".`,
		`{"reject":["a b"]}`:           "reject has only ids of changes.",
	} {
		var b decideBody
		require.NoError(t, json.Unmarshal([]byte(body), &b))
		var v wire.Validation
		b.selection(&v)
		require.Equal(t, message, fault.As(v.Err()).Message)
	}
}
