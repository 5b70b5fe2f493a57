package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Pieces of work that follow one another are one burst, which ends a second after the last.
func TestBurstGivesMemoryBackOnceAfterTheLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun, ended := 0, 0
		b := burst{frugal: func() func() { begun++; return func() { ended++ } }}
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
		require.Equal(t, []int{1, 0}, []int{begun, ended})
		wait(lull)
		require.Equal(t, []int{1, 1}, []int{begun, ended})
		b.begin()
		b.end()
		wait(2 * lull)
		require.Equal(t, []int{2, 2}, []int{begun, ended})
	})
}
