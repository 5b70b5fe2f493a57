package memory

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Pieces of work that follow one another are one burst, which ends a second after the last.
func TestBurstGivesMemoryBackOnceAfterTheLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var begun, ended atomic.Int64
		b := burst{frugal: func() func() { begun.Add(1); return func() { ended.Add(1) } }}
		counted := func() []int64 { return []int64{begun.Load(), ended.Load()} }
		wait := func(d time.Duration) {
			time.Sleep(d) //nolint:forbidigo // the bubble's clock
			synctest.Wait()
		}
		for range 5 {
			b.begin()
			b.begin()
			b.end()
			wait(2 * lull) // one is still there
			b.end()
			wait(lull / 2)
		}
		require.Equal(t, []int64{1, 0}, counted())
		wait(lull)
		require.Equal(t, []int64{1, 1}, counted())
		b.begin()
		b.end()
		wait(2 * lull)
		require.Equal(t, []int64{2, 2}, counted())
	})
}
