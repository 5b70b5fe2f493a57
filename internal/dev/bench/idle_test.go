package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBusyIsWhatIsNotIdle(t *testing.T) {
	t.Parallel()
	require.Equal(t, 2220*time.Millisecond, busyOf("cpu  100 20 30 4000 500 6 7 59 8 9\ncpu0 1 1 1 1\n"))
	require.Zero(t, busyOf(""))
}

func TestMachineIsIdleBelowItsShare(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		o    others
		idle bool
	}{
		"idle":   {others{0.02, 0.09}, true},
		"before": {others{0.2, 0.01}, false},
		"during": {others{0.02, 1.5}, false},
	} {
		var out strings.Builder
		require.NoError(t, tt.o.print(&out))
		require.Equal(t, tt.idle, tt.o.idle(), name)
		require.Equal(t, tt.idle, !strings.Contains(out.String(), "NOT IDLE"), name)
	}
}
