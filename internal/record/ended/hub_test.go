package ended

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// The end of attempt 1 is delivered after attempt 2 was claimed: its caller waits for their
// own answer.
func TestHubDeliversToTheWaitersOfTheAttempt(t *testing.T) {
	t.Parallel()
	h, id := NewHub[string](), uuid.New()
	first, second := h.Join(id, 1), h.Join(id, 2)
	h.Deliver(id, 1, "refused")
	require.Equal(t, "refused", <-first.C)
	require.Empty(t, second.C)
	h.Deliver(id, 2, "executed")
	require.Equal(t, "executed", <-second.C)
	h.Leave(id, first)
	h.Leave(id, second)
	require.False(t, h.Awaited(id))
}
