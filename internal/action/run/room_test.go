package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/run"
	"agentruntime/internal/dev/testkit"
)

// A call that finds a large run asks for room before it reads the run, and is refused where
// there is none. Nothing is asked for what the caller has sent itself.
func TestLargeRunIsReadOnlyWhereThereIsRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var reads *testkit.Reads
	r.db.Pool, reads = testkit.Watched(t, r.db)
	s := r.another()
	large := `{"text":"` + strings.Repeat("x", 100<<10) + `"}`
	r.must(r.do("pay", "one", large))

	var asked []string
	full := errors.New("no room")
	room := func(_ context.Context, executionID string, bytes int) error {
		require.Contains(t, reads.Last(), "RunSize", "the run was read before")
		require.Greater(t, bytes, 100<<10)
		asked = append(asked, executionID)
		return full
	}
	ctx := run.WithRoom(t.Context(), room)
	repeat := func(ctx context.Context, id, args string) (run.Outcome, error) {
		return s.Do(ctx, r.caller(), run.Request{Verb: "shop:pay", ExecutionID: id, Args: json.RawMessage(args), Metadata: json.RawMessage(`{}`)})
	}
	for name, call := range map[string]func() error{
		"repeat":  func() error { _, err := repeat(ctx, "one", `{}`); return err },
		"get":     func() error { _, err := s.Get(ctx, r.caller(), "one"); return err },
		"cancel":  func() error { _, err := s.Cancel(ctx, r.caller(), "one"); return err },
		"resolve": func() error { _, err := s.Resolve(ctx, r.caller(), "one", run.Resolution{Reason: "x"}); return err },
	} {
		asked = nil
		require.ErrorIs(t, call(), full, name)
		require.Equal(t, []string{"one"}, asked, name)
	}

	asked = nil
	out, err := repeat(ctx, "one", large)
	require.NoError(t, err)
	require.True(t, out.Cached)
	out, err = repeat(ctx, "two", large)
	require.NoError(t, err)
	require.False(t, out.Cached)
	require.Empty(t, asked)
	out, err = repeat(t.Context(), "one", `{}`)
	require.NoError(t, err)
	require.Equal(t, large, string(out.Run.Args))
	require.EqualValues(t, 2, r.provider.effects.Load())
}
