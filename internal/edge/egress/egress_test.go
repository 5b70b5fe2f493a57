package egress_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/edge/egress"
)

// control returns the guard as the dialer calls it.
func control(t *testing.T, cfg egress.Config) func(address string) error {
	t.Helper()
	guard := egress.Guard(cfg)
	return func(address string) error {
		network := "tcp4"
		if strings.HasPrefix(address, "[") {
			network = "tcp6"
		}
		return guard(t.Context(), network, address, syscall.RawConn(nil))
	}
}

func TestGuardNonPublicAddressIsRefused(t *testing.T) {
	t.Parallel()
	refused := []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.1.2.3", "169.254.169.254", "172.16.0.1",
		"172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1",
		"224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1",
		"100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "3fff:fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1",
	}
	allowed := []string{"1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8"}
	loopback := map[string]bool{"127.0.0.1": true, "127.1.2.3": true, "::1": true, "::ffff:127.0.0.1": true}
	public, dev := control(t, egress.Config{}), control(t, egress.Config{AllowLoopback: true})
	for _, ip := range refused {
		require.ErrorIs(t, public(net.JoinHostPort(ip, "443")), egress.ErrRefused, ip)
		err := dev(net.JoinHostPort(ip, "8080"))
		if loopback[ip] {
			require.NoError(t, err, ip)
		} else {
			require.ErrorIs(t, err, egress.ErrRefused, ip)
		}
	}
	for _, ip := range allowed {
		require.NoError(t, public(net.JoinHostPort(ip, "443")), ip)
		require.NoError(t, dev(net.JoinHostPort(ip, "8443")), ip)
	}
	require.ErrorIs(t, public("[fe80::1%eth0]:443"), egress.ErrRefused)
	require.ErrorIs(t, public("nonsense"), egress.ErrRefused)
	require.ErrorIs(t, egress.Guard(egress.Config{})(t.Context(), "udp4", "8.8.8.8:53", nil), egress.ErrRefused)
}

// TestClientNameOfPrivateAddressIsRefusedAtDial: the check is of the address that is dialed, however it is
// written and whatever the name said before.
func TestClientNameOfPrivateAddressIsRefusedAtDial(t *testing.T) {
	t.Parallel()
	hits := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits++
		_, _ = io.WriteString(w, "secret")
	}))
	t.Cleanup(srv.Close)
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	require.NoError(t, err)
	fetch := func(client *http.Client, url string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	public := egress.NewClient(egress.Config{})
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"} {
		require.ErrorIs(t, fetch(public, "http://"+host+":"+port), egress.ErrRefused, host)
	}
	require.Zero(t, hits)
	dev := egress.NewClient(egress.Config{AllowLoopback: true})
	require.NoError(t, fetch(dev, srv.URL))
	require.Equal(t, 1, hits)
}

func TestProxyVariablesAreIgnored(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	require.Nil(t, egress.NewTransport(egress.Config{}).Proxy)
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.RedirectHandler("/elsewhere", http.StatusFound))
	t.Cleanup(srv.Close)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, srv.URL, nil)
	require.NoError(t, err)
	resp, err := egress.NewClient(egress.Config{AllowLoopback: true}).Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusFound, resp.StatusCode)
}
