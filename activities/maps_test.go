package activities_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/activities"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/turns"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/stepmachine"
)

// busy are steps that last until they may go on. Those of the tenant quick end at once.
type busy struct {
	activities.MapSteps

	quick uuid.UUID
	waits bool // for the provider
	begun chan struct{}
	goOn  chan struct{}
}

func (b *busy) Begin(ctx context.Context, ref flow.MapRef) (flow.MapBegun, error) {
	if ref.TenantID == b.quick {
		return flow.MapBegun{Over: true}, nil
	}
	b.begun <- struct{}{}
	if b.waits {
		turns.GiveBack(ctx)
	}
	<-b.goOn
	return flow.MapBegun{}, nil
}

const crowd = 1000

// crowded begins the steps of one tenant, looks, and lets them go on.
func crowded(t *testing.T, b *busy, look func(t *testing.T, maps *activities.Maps)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b.begun, b.goOn = make(chan struct{}, crowd), make(chan struct{})
		maps, err := activities.NewMaps(b)
		require.NoError(t, err)
		tenant, ended := uuid.New(), make(chan error, crowd)
		for range crowd {
			go func() {
				_, err := maps.BeginMap(t.Context(), flow.MapRef{TenantID: tenant})
				ended <- err
			}()
		}
		synctest.Wait()
		look(t, maps)
		close(b.goOn)
		for range crowd {
			require.NoError(t, <-ended)
		}
	})
}

func TestMapStepsOfACrowdLeaveTurnsToOtherTenants(t *testing.T) {
	t.Parallel()
	b := &busy{quick: uuid.New()}
	crowded(t, b, func(t *testing.T, maps *activities.Maps) {
		t.Helper()
		require.Len(t, b.begun, 2*runtime.GOMAXPROCS(0))
		begun, err := maps.BeginMap(t.Context(), flow.MapRef{TenantID: b.quick})
		require.NoError(t, err)
		require.True(t, begun.Over)
	})
}

// Another tenant has made a step just now. Until it no longer does, a crowd gets few turns, however
// many are free: each step that it makes takes the CPU from the steps of the other one.
func TestMapStepsOfACrowdGiveWayToAnActiveTenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &busy{quick: uuid.New(), begun: make(chan struct{}, crowd), goOn: make(chan struct{})}
		maps, err := activities.NewMaps(b)
		require.NoError(t, err)
		tenant, ended := uuid.New(), make(chan error, crowd)
		_, err = maps.BeginMap(t.Context(), flow.MapRef{TenantID: b.quick})
		require.NoError(t, err)
		for range crowd {
			go func() {
				_, err := maps.BeginMap(t.Context(), flow.MapRef{TenantID: tenant})
				ended <- err
			}()
		}
		synctest.Wait()
		few := max(1, runtime.GOMAXPROCS(0)/2)
		require.Len(t, b.begun, few)
		time.Sleep(time.Second / 2) //nolint:forbidigo // the bubble's clock
		b.goOn <- struct{}{}
		synctest.Wait()
		require.Len(t, b.begun, 1+2*runtime.GOMAXPROCS(0), "the crowd is alone again")
		close(b.goOn)
		for range crowd {
			require.NoError(t, <-ended)
		}
	})
}

// Steps that hang, as on a lock, keep their turns for a second only.
func TestMapStepsThatHangLoseTheirTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &busy{quick: uuid.New(), begun: make(chan struct{}, crowd), goOn: make(chan struct{})}
		maps, err := activities.NewMaps(b)
		require.NoError(t, err)
		tenant, ended := uuid.New(), make(chan error, crowd)
		for range crowd {
			go func() {
				_, err := maps.BeginMap(t.Context(), flow.MapRef{TenantID: tenant})
				ended <- err
			}()
		}
		synctest.Wait()
		require.Len(t, b.begun, 2*runtime.GOMAXPROCS(0))
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Len(t, b.begun, 4*runtime.GOMAXPROCS(0))
		close(b.goOn)
		for range crowd {
			require.NoError(t, <-ended)
		}
	})
}

func TestMapStepThatWaitsForItsProviderHasNoTurn(t *testing.T) {
	t.Parallel()
	b := &busy{waits: true}
	crowded(t, b, func(t *testing.T, _ *activities.Maps) {
		t.Helper()
		require.Len(t, b.begun, crowd)
	})
}

// tooMuch evaluates nothing, because its tenant has too much evaluated.
type tooMuch struct{ activities.MapSteps }

func (tooMuch) Evaluate(context.Context, flow.MapEvaluation) (stepmachine.Evaluated, error) {
	return stepmachine.Evaluated{}, fmt.Errorf("evaluate: %w", &expression.BusyError{Reason: turns.ErrCrowded, Line: func() time.Duration { return time.Minute }})
}

// A fault would be repeated at once, by each of many executions.
func TestEvaluationThatFindsNoPlaceIsNoFault(t *testing.T) {
	t.Parallel()
	maps, err := activities.NewMaps(tooMuch{})
	require.NoError(t, err)
	out, err := maps.EvaluateInMap(t.Context(), flow.MapEvaluation{})
	require.NoError(t, err)
	require.Equal(t, time.Minute, out.Later)
}
