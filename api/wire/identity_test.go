package wire_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/api/wire"
)

// The same parts under another boundary are the same body, so that a repeat under an
// Idempotency-Key is one.
func TestIdentityOfPartsIgnoresTheirBoundary(t *testing.T) {
	t.Parallel()
	identity := func(media, body string) string {
		var got string
		conn := serve(t, func(_ context.Context, c *wire.Call) (wire.Reply, error) {
			err := c.ReadBody(1000, "multipart/form-data")
			got = string(c.Identity())
			return wire.OK(nil), err
		})
		go func() {
			_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", media, len(body), body)
		}()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
		return got
	}
	parts := func(boundary, value string) string {
		return identity("multipart/form-data; boundary="+boundary, "--"+boundary+"\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n"+value+"\r\n--"+boundary+"--\r\n")
	}
	require.Equal(t, parts("one", "x"), parts("another-1", "x"))
	require.NotEqual(t, parts("one", "x"), parts("one", "y"))
	require.JSONEq(t, `{"a":1}`, identity("application/json", `{"a":1}`))
}
