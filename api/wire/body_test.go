package wire_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/api/wire"
)

// send writes a request with a body of n parts, and a pause before each.
func send(conn net.Conn, n int, part string, pause time.Duration) {
	_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", n*len(part))
	for range n {
		wait(pause)
		if _, err := io.WriteString(conn, part); err != nil {
			return // the server has answered
		}
	}
}

func TestBodyThatTricklesIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		parts int
		part  string
		want  int
	}{
		"a byte a second":               {2 << 20, "x", http.StatusBadRequest},
		"a quarter of a MiB a second":   {80, strings.Repeat("x", 1<<18), http.StatusBadRequest},
		"a MiB a second":                {20, strings.Repeat("x", 1<<20), http.StatusOK},
		"a small one in eight seconds":  {8, "x", http.StatusOK},
		"a small one in twelve seconds": {12, "x", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var read error
				var body []byte
				conn := serve(t, func(_ context.Context, c *wire.Call) (wire.Reply, error) {
					read, body = c.ReadBody(25<<20), c.Body()
					return wire.OK(nil), read
				})
				t.Cleanup(func() { wait(time.Minute) }) // the server and the caller end
				go send(conn, tc.parts, tc.part, time.Second)
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				defer res.Body.Close()
				require.Equal(t, tc.want, res.StatusCode)
				if tc.want != http.StatusOK {
					require.ErrorContains(t, read, "too slowly")
					return
				}
				whole := strings.Repeat(tc.part, tc.parts) == string(body)
				require.True(t, whole) // without a difference of 20 MiB
			})
		})
	}
}

func TestCallOutlastsTheDeadlineOfItsBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := serve(t, func(ctx context.Context, c *wire.Call) (wire.Reply, error) {
			if err := c.ReadBody(100); err != nil {
				return wire.Reply{}, err
			}
			wait(time.Minute)
			return wire.OK(nil), ctx.Err()
		})
		in := bufio.NewReader(conn)
		for range 2 {
			go send(conn, 2, "x", time.Second)
			res, err := http.ReadResponse(in, nil)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusOK, res.StatusCode)
		}
	})
}
