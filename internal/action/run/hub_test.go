package run

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A caller whose attempt ended unseen finds the row of a later one: it is a repeat of that.
func TestAnswerOfALaterAttemptIsThatOfARepeat(t *testing.T) {
	t.Parallel()
	mine := Claimed{Outcome: Outcome{Run: Run{Attempt: 1}}, Fresh: true, req: Request{Args: []byte(`{"a":1}`)}, print: []byte("mine")}
	own, err := mine.answer(Run{Attempt: 1, Fingerprint: []byte("mine")})
	require.NoError(t, err)
	require.False(t, own.Cached)
	later := Run{Attempt: 2, Fingerprint: []byte("other"), Args: []byte(`{"a":2}`)}
	out, err := mine.answer(later)
	require.NoError(t, err)
	require.True(t, out.Cached)
	require.Equal(t, []string{"/args/a"}, out.ArgsDiffer)
	mine.req.KeyByHeader = true
	_, err = mine.answer(later)
	require.Error(t, err, "by the header, another call's run is refused")
}
