//go:build chaos

package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// mostWorker is how much memory the worker may take with 200 conversations.
const mostWorker = 400 << 20

// 200 conversations of ten messages go on while the worker dies at each place of a message, and the
// others at any moment.
func TestChaosConversationsEachPartKilled(t *testing.T) {
	t.Parallel()
	k := newTalk(t, 10)
	k.hold(200, func() {
		for _, place := range messagePlaces {
			k.kill("worker", place)
		}
		k.kill("api", claimPlace)
		for _, victim := range []string{"temporal", "postgres", "worker"} {
			k.kill(victim, "")
		}
	})
	require.Less(t, k.peak, int64(mostWorker))
}
