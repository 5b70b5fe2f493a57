package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/api/wire"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

// slowRuns evaluate until they are let go on.
type slowRuns struct {
	Runs

	goOn chan struct{}
}

func (s slowRuns) Evaluate(context.Context, actor.Actor, run.Question) (run.Evaluation, error) {
	<-s.goOn
	return run.Evaluation{}, nil
}

// A tenant with many large evaluations waits for its own, shortly, and is then told to come back. Others
// are answered meanwhile.
func TestEvaluationsOfATenantTakeItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bursts atomic.Int64
		slow := slowRuns{goOn: make(chan struct{})}
		h := assemble(Deps{Runs: slow, Burst: func() func() { bursts.Add(1); return func() { bursts.Add(-1) } }}).actions
		a, b := uuid.New(), uuid.New()
		evaluate := func(tenant uuid.UUID, size int) error {
			body := `{"verb":"shop:read","args":{"a":"` + strings.Repeat("x", size) + `"}}`
			r := httptest.NewRequest(http.MethodPost, "/v1/runtime/governance/evaluate", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			c := &wire.Call{Actor: actor.Actor{TenantID: tenant}, Request: r}
			require.NoError(t, c.ReadBody(bodyRun))
			_, err := h.evaluate(t.Context(), c)
			return err
		}
		const large = 900 << 10
		atOnce := judgingOfTenant / judgingUnit / placesToJudge(large)
		require.Positive(t, atOnce)
		answers := make(chan error, atOnce)
		for range atOnce {
			go func() { answers <- evaluate(a, large) }()
		}
		synctest.Wait()
		require.EqualValues(t, atOnce, bursts.Load())

		f := fault.As(evaluate(a, large)) // waits as long as a call may
		require.NotNil(t, f)
		require.Equal(t, fault.CodeServiceUnavailable, f.Code)
		require.True(t, f.Retryable)
		require.Positive(t, f.RetryAfter)

		other := make(chan error, 1)
		go func() { other <- evaluate(b, large) }()
		synctest.Wait()
		require.EqualValues(t, atOnce+1, bursts.Load(), "the other tenant's is under way")
		close(slow.goOn)
		require.NoError(t, <-other)
		for range atOnce {
			require.NoError(t, <-answers)
		}
		require.NoError(t, evaluate(a, large))
		require.Zero(t, bursts.Load())
	})
}

// So do many small ones: each counts.
func TestSmallEvaluationsOfATenantTakeItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := assemble(Deps{}).actions
		call := func(tenant uuid.UUID) *wire.Call { return &wire.Call{Actor: actor.Actor{TenantID: tenant}} }
		a, b := uuid.New(), uuid.New()
		waiting := make(chan error)
		for range judgingOfTenant/judgingUnit + judgingWaiting {
			go func() {
				_, err := h.roomToJudge(t.Context(), call(a)) // is never given back
				if err != nil {
					waiting <- err
				}
			}()
		}
		synctest.Wait()
		_, err := h.roomToJudge(t.Context(), call(a)) // at once: too many wait
		require.True(t, fault.HasCode(err, fault.CodeServiceUnavailable))
		leave, err := h.roomToJudge(t.Context(), call(b))
		require.NoError(t, err)
		leave()
		for range judgingWaiting {
			require.True(t, fault.HasCode(<-waiting, fault.CodeServiceUnavailable))
		}
	})
}
