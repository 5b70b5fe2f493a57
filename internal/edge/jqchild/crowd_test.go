package jqchild

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestThoseWhoFindNoPlaceAskAsOftenAsTheyAreServed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		took  time.Duration
		first time.Duration
		last  time.Duration // of a thousand
	}{
		"nothing is known":               {0, leastPause, leastPause},
		"short ones":                     {6 * time.Millisecond, leastPause, 2128 * time.Millisecond},
		"long ones":                      {2400 * time.Millisecond, 30400 * time.Millisecond, 829600 * time.Millisecond},
		"ones that would wait for hours": {time.Minute, 40 * time.Second, mostPause},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				crowds := crowds{of: map[string]*crowd{"tenant": {took: c.took}}}
				require.Equal(t, c.first, crowds.join("tenant", 3, 30*time.Second), "it waits for those in the line")
				var last time.Duration
				for range 999 {
					last = crowds.join("tenant", 3, 30*time.Second)
				}
				require.Equal(t, c.last, last)
				require.Equal(t, leastPause, crowds.join("other", 3, 30*time.Second), "that of one party is not that of another")
				time.Sleep(mostPause) //nolint:forbidigo // the bubble's clock
				require.Equal(t, c.first, crowds.join("tenant", 3, 30*time.Second), "the line is over")
			})
		})
	}
}

func TestCrowdsForgetPartiesThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		crowds := crowds{of: map[string]*crowd{}}
		for i := range 10 * mostCrowds {
			crowds.served(string(rune(i+1000)), time.Second)
			time.Sleep(time.Millisecond) //nolint:forbidigo // the bubble's clock
		}
		require.LessOrEqual(t, len(crowds.of), mostCrowds)
	})
}
