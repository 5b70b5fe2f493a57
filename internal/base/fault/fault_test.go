package fault_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

func TestPointerNameUndoesPointerToken(t *testing.T) {
	t.Parallel()
	for name, token := range map[string]string{"": "", "a": "a", "a/b": "a~1b", "~": "~0", "~1": "~01", "/~0": "~1~00", "%2F": "%2F"} {
		require.Equal(t, token, fault.PointerToken(name))
		require.Equal(t, name, fault.PointerName(token))
	}
}
