package activities_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"agentruntime/activities"
	"agentruntime/internal/base/flow"
)

// slow are models that answer when they may.
type slow struct {
	asked  chan uuid.UUID
	answer chan struct{}
}

func (s *slow) wait(ctx context.Context, tenant uuid.UUID) error {
	s.asked <- tenant
	select {
	case <-s.answer:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type slowTurns struct {
	activities.TurnSteps

	*slow
}

func (s slowTurns) Answer(ctx context.Context, in flow.TurnStep) (flow.TurnNext, error) {
	return flow.TurnNext{Replied: true}, s.wait(ctx, in.TenantID)
}

type slowMaps struct {
	activities.MapSteps

	*slow
}

func (s slowMaps) AskModel(ctx context.Context, in flow.MapModelCall) (flow.MapModelTurn, error) {
	return flow.MapModelTurn{}, s.wait(ctx, in.TenantID)
}

// A crowd of one tenant whose models do not answer leaves slots free: those of the crowd that get no
// place end, to be started again later, and another tenant's answer begins at once.
func TestSlowModelsOfOneTenantLeaveSlotsToOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		slots int
		ask   func(t *testing.T, s *slow) func(ctx context.Context, tenant uuid.UUID) error
	}{
		"messages": {activities.AnswerSlots, func(t *testing.T, s *slow) func(context.Context, uuid.UUID) error {
			t.Helper()
			turns, err := activities.NewTurns(slowTurns{slow: s})
			require.NoError(t, err)
			return func(ctx context.Context, tenant uuid.UUID) error {
				_, err := turns.AnswerTurn(ctx, flow.TurnStep{TurnRef: flow.TurnRef{TenantID: tenant}})
				return err
			}
		}},
		"steps of Maps": {activities.AskSlots, func(t *testing.T, s *slow) func(context.Context, uuid.UUID) error {
			t.Helper()
			maps, err := activities.NewMaps(slowMaps{slow: s})
			require.NoError(t, err)
			return func(ctx context.Context, tenant uuid.UUID) error {
				_, err := maps.AskModel(ctx, flow.MapModelCall{MapRef: flow.MapRef{TenantID: tenant}})
				return err
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &slow{asked: make(chan uuid.UUID, 3*c.slots), answer: make(chan struct{})}
				ask := c.ask(t, s)
				one, other, third := uuid.New(), uuid.New(), uuid.New()
				ended := make(chan error, 3*c.slots)
				begin := func(ctx context.Context, tenant uuid.UUID) { go func() { ended <- ask(ctx, tenant) }() }
				for range c.slots {
					begin(t.Context(), one)
				}
				synctest.Wait()
				at := len(s.asked)
				require.Less(t, at, c.slots/2)
				require.Positive(t, at)
				for range at {
					require.Equal(t, one, <-s.asked)
				}
				time.Sleep(4 * time.Second) //nolint:forbidigo // the bubble's clock: longer than any of them waits in its slot
				require.Len(t, ended, c.slots-at, "those without a place have ended")
				for range c.slots - at {
					var again *temporal.ApplicationError
					require.ErrorAs(t, <-ended, &again)
					require.False(t, again.NonRetryable())
					require.Positive(t, again.NextRetryDelay())
				}

				begin(t.Context(), other)
				synctest.Wait()
				require.Equal(t, other, <-s.asked)
				// Two crowds leave no place. Then those that wait get the free ones by turns, and one that is
				// gone waits no longer.
				for range c.slots {
					begin(t.Context(), other)
				}
				synctest.Wait()
				for len(s.asked) > 0 {
					<-s.asked
				}
				gone, leave := context.WithCancel(t.Context())
				begin(gone, third)
				begin(t.Context(), third)
				synctest.Wait()
				leave()
				synctest.Wait()
				for range 2 {
					s.answer <- struct{}{}
				}
				synctest.Wait()
				require.ElementsMatch(t, []uuid.UUID{other, third}, []uuid.UUID{<-s.asked, <-s.asked})
				close(s.answer)
			})
		})
	}
}
