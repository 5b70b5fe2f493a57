package rig_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

func busy(header http.Header) rig.Answer {
	return rig.Answer{Status: http.StatusServiceUnavailable, Header: header, Body: []byte(`{"error":{"code":"SERVICE_UNAVAILABLE","retryable":true}}`)}
}

func TestCallersOfABusyServiceRepeatWhenItSaysAndCountThat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header http.Header
		pause  time.Duration
	}{"a time": {http.Header{"Retry-After": {"2"}}, 2 * time.Second}, "none": {http.Header{}, time.Second}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				t.Helper()
				var callers rig.Callers
				calls, began := 0, time.Now()
				a := callers.Settled(func() rig.Answer {
					if calls++; calls == 1 {
						return busy(c.header)
					}
					return rig.Answer{Status: http.StatusOK}
				})
				require.Equal(t, http.StatusOK, a.Status)
				require.Equal(t, 2, calls)
				require.Equal(t, c.pause, time.Since(began))
				callers.RepeatedFew(t)
			})
		})
	}
}

func TestCallersOfAServiceThatIsAlwaysBusyFailTheTest(t *testing.T) {
	t.Parallel()
	var callers rig.Callers
	for range 2 {
		a := callers.Settled(func() rig.Answer { return busy(http.Header{"Retry-After": {"0"}}) })
		require.Equal(t, http.StatusServiceUnavailable, a.Status)
	}
	told := &failing{TB: t}
	callers.RepeatedFew(told)
	require.True(t, told.failed)
}

// failing is a test that notes that it has failed.
type failing struct {
	testing.TB

	failed bool
}

func (f *failing) Errorf(string, ...any) { f.failed = true }
func (f *failing) FailNow()              { f.failed = true }
