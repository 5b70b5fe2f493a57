package near_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/near"
)

func TestNameFindsWhatWasMeant(t *testing.T) {
	t.Parallel()
	known := []string{"verb", "args", "execution_id", "idempotency_key", "metadata", "verbMatchers", "read", "write", "actions:run", "actions:catalog"}
	for text, want := range map[string]string{
		"arg": "args", "agrs": "args", "Args": "args", "executionId": "execution_id", "execution-id": "execution_id", "execution": "execution_id",
		"verbMatcher": "verbMatchers", "verb_matchers": "verbMatchers", "meta": "metadata", "wirte": "write", "action:run": "actions:run",
		"actions:read": "actions:run", "tags": "", "x": "", "": "", "args": "", "something": "", strings.Repeat("a", 65): "",
	} {
		require.Equal(t, want, near.Name(text, known), text)
	}
	require.Equal(t, "did you mean args?", near.Ask("arg", known))
	require.Equal(t, " Did you mean args?", near.Sentence("arg", known))
	require.Empty(t, near.Sentence("banana", known))
}

// Anybody may send any name, and the names of arguments are the provider's.
func TestNameHasABound(t *testing.T) {
	t.Parallel()
	known := make([]string, 100_000)
	for i := range known {
		known[i] = fmt.Sprintf("%064d", i)
	}
	began := time.Now()
	near.Name(strings.Repeat("9", 64), known)
	near.Name(strings.Repeat("9", 1<<20), known)
	require.Less(t, time.Since(began), 5*time.Second)
}

// Values that are refused come with those that fit, as people list them, and with the nearest one.
func TestOneOfListsAndAsks(t *testing.T) {
	t.Parallel()
	require.Equal(t, "must be enforce or shadow; did you mean shadow?", near.OneOf("shdow", "enforce", "shadow"))
	require.Equal(t, "must be allow, notify or block", near.OneOf("x", "allow", "notify", "block"))
	require.Equal(t, "mode is enforce or shadow. Did you mean enforce?", near.Enum("mode", "enforced", "enforce", "shadow"))
	require.Equal(t, "mode is enforce.", near.Enum("mode", "x", "enforce"))
}
