package run_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/fault"
)

// severed forwards connections to Postgres. The answer to the transaction that contains mark
// is lost after Postgres has made it: its connection ends instead.
type severed struct {
	t        *testing.T
	to, mark string
	lost     atomic.Bool
	// off: there is no other connection after that.
	off bool
}

// idle ends the answer to a transaction.
var idle = []byte{'Z', 0, 0, 0, 5, 'I'}

func (s *severed) forward(client net.Conn) {
	defer client.Close()
	if s.off && s.lost.Load() {
		return
	}
	server, err := (&net.Dialer{}).DialContext(s.t.Context(), "tcp", s.to)
	if err != nil {
		return
	}
	defer server.Close()
	var losing atomic.Bool
	go func() {
		defer server.Close()
		_ = each(client, func(part []byte) error {
			switch {
			case bytes.Contains(part, []byte(s.mark)) && s.lost.CompareAndSwap(false, true):
				losing.Store(true)
			case s.off && s.lost.Load() && !losing.Load():
				return io.EOF
			}
			_, err := server.Write(part)
			return err
		})
	}()
	_ = each(server, func(part []byte) error {
		switch {
		case !losing.Load():
			_, err := client.Write(part)
			return err
		case bytes.HasSuffix(part, idle):
			return io.EOF
		}
		return nil
	})
}

func each(from io.Reader, do func(part []byte) error) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err == nil {
			err = do(buf[:n])
		}
		if err != nil {
			return err
		}
	}
}

// through returns a service whose connections go through s.
func (r *rig) through(s *severed) *run.Service {
	r.t.Helper()
	at, err := url.Parse(r.db.AppURL)
	require.NoError(r.t, err)
	s.t, s.to = r.t, at.Host
	l, err := (&net.ListenConfig{}).Listen(r.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(r.t, err)
	r.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go s.forward(client)
		}
	}()
	at.Host = l.Addr().String()
	pool, err := db.Open(r.t.Context(), db.Config{URL: at.String()})
	require.NoError(r.t, err)
	r.t.Cleanup(pool.Close)
	r.db.Pool = pool
	return r.another()
}

// Postgres has made the claim, and its answer was lost. The caller makes another call, so
// nothing may come of the first one.
func TestCallWithoutAnIDIsWithdrawnWhereTheClaimIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		id    string
		off   bool
		says  string
		state run.State
	}{
		"without an id":                       {"", false, "withdrawn", run.StateCancelled},
		"without one, and the database stays": {"", true, "may still run", run.StateClaimed},
		"with an id":                          {"mine", false, "", run.StateClaimed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := r.through(&severed{mark: "this-one", off: c.off})
			_, err := s.Do(t.Context(), r.caller(), run.Request{
				Verb: "shop:pay", Args: []byte(`{}`), Metadata: []byte(`{}`), ExecutionID: c.id, SessionID: "this-one",
			})
			f := fault.As(err)
			require.NotNil(t, f, "%v", err)
			require.Equal(t, fault.CodeServiceUnavailable, f.Code)
			require.True(t, f.Retryable)
			require.Contains(t, f.Message, c.says)
			require.Equal(t, string(c.state), r.text(`SELECT state FROM runs`))
			if c.id == "" {
				require.Equal(t, r.text(`SELECT execution_id FROM runs`), f.ExecutionID)
			}
			require.Zero(t, r.provider.effects.Load())
		})
	}
}
