package api

import (
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

// A tenant with many large calls waits for its own. Others, and its small ones, do not.
func TestLargeBodiesOfATenantTakeItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Server{bodies: newBodies()}
		a, b := uuid.New(), uuid.New()
		enter := func(tenant uuid.UUID, size int64) func() {
			leave, err := s.roomFor(t.Context(), upload(tenant, size), bodyRun)
			require.NoError(t, err)
			return leave
		}
		var leave []func()
		for range bodiesOfTenant / bodyRun {
			leave = append(leave, enter(a, bodyRun))
		}
		enter(b, -1)() // of unknown size
		for range 1000 {
			enter(a, freeBody)
		}
		_, err := s.roomFor(t.Context(), upload(a, bodyRun), bodyRun) // waits as long as a call may
		f := fault.As(err)
		require.NotNil(t, f)
		require.Equal(t, fault.CodeServiceUnavailable, f.Code)
		require.True(t, f.Retryable)
		require.Positive(t, f.RetryAfter)

		entered := make(chan struct{})
		go func() {
			enter(a, bodyRun)()
			close(entered)
		}()
		synctest.Wait()
		leave[0]()
		<-entered
	})
}

// A tenant that reads many large results at once waits, then is told where they are. Another
// tenant reads its own.
func TestLargeAnswersOfATenantTakeItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answers := newAnswers()
		a, b := uuid.New(), uuid.New()
		read := func(tenant uuid.UUID, size int) error {
			return (&answerRoom{answers: answers, c: upload(tenant, 0)}).take(t.Context(), "exec_1", size)
		}
		for range 4 {
			require.NoError(t, read(a, 4<<20))
		}
		require.NoError(t, read(b, 4<<20))
		for range 1000 {
			require.NoError(t, read(a, freeBody))
		}
		waiting := make(chan error, answersWaiting)
		for range answersWaiting {
			go func() { waiting <- read(a, 4<<20) }()
		}
		synctest.Wait()
		f := fault.As(read(a, 4<<20)) // at once: too many wait
		require.NotNil(t, f)
		require.Equal(t, fault.CodeServiceUnavailable, f.Code)
		require.Equal(t, "exec_1", f.ExecutionID)
		for range answersWaiting {
			require.True(t, fault.HasCode(<-waiting, fault.CodeServiceUnavailable))
		}
	})
}
