package rate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/rate"
)

func TestTightestWindowHasTheLeastRoom(t *testing.T) {
	t.Parallel()
	w := func(name string, limit, used int64, left time.Duration) rate.Window {
		return rate.Window{Name: name, Limit: limit, Used: used, Length: time.Hour, Left: left}
	}
	for name, tc := range map[string]struct {
		windows []rate.Window
		want    string
	}{
		"none":               {nil, `"";r=0;t=1`},
		"one":                {[]rate.Window{w("a", 5, 2, time.Second)}, `"a";r=3;t=1`},
		"least room":         {[]rate.Window{w("a", 5, 2, time.Minute), w("b", 100, 99, time.Second)}, `"b";r=1;t=1`},
		"of equals the last": {[]rate.Window{w("a", 5, 5, time.Second), w("b", 5, 5, time.Minute), w("c", 5, 5, 2*time.Second)}, `"b";r=0;t=60`},
		"over the limit":     {[]rate.Window{w("a", 5, 7, 1500*time.Millisecond)}, `"a";r=0;t=2`},
		"in the last moment": {[]rate.Window{w("a", 5, 7, 0)}, `"a";r=0;t=1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, rate.State{Windows: tc.windows}.Tightest().Header())
		})
	}
}

func TestAddressesAreCountedByTheMinute(t *testing.T) {
	t.Parallel()
	a, err := rate.NewAddresses(rate.AddressConfig{PerMinute: 2, Loopback: 3})
	require.NoError(t, err)
	at := time.Date(2026, 1, 1, 12, 0, 45, 0, time.UTC)
	full := func(address string) bool { return a.See(address, at).Refused }
	for i, address := range []string{"192.0.2.1", "2001:db8::/64", "what is no address"} {
		require.False(t, full(address), address)
		require.Equal(t, `"address";r=1;t=15`, a.Count(address, at).Tightest().Header(), i)
		a.Count(address, at)
		require.True(t, full(address), address)
	}
	require.False(t, full("192.0.2.2"))
	for range 2 {
		a.Count("127.0.0.1", at)
	}
	require.False(t, full("127.0.0.1"))
	a.Count("127.0.0.1", at)
	require.True(t, full("127.0.0.1"))
	at = at.Add(15 * time.Second)
	require.False(t, full("192.0.2.1"), "the next minute")
}

// What a flood of addresses can make the process keep is bounded, and it forgets the oldest.
func TestAddressesAreForgottenInTheirOrder(t *testing.T) {
	t.Parallel()
	a, err := rate.NewAddresses(rate.AddressConfig{PerMinute: 1, Loopback: 1})
	require.NoError(t, err)
	at := time.Date(2026, 1, 1, 12, 0, 45, 0, time.UTC)
	address := func(i int) string { return fmt.Sprintf("2001:db8:%x:%x::/64", i>>16, i&0xffff) }
	for i := range 1<<16 + 1 {
		a.Count(address(i), at)
	}
	require.False(t, a.See(address(0), at).Refused)
	require.True(t, a.See(address(1), at).Refused)
	require.True(t, a.See(address(1<<16), at).Refused)
}
