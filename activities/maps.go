package activities

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/share"
	"agentruntime/internal/base/turns"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/stepmachine"
)

// MapSteps is what the activities of an execution of a Map need of the domain.
type MapSteps interface {
	Begin(ctx context.Context, ref flow.MapRef) (flow.MapBegun, error)
	Call(ctx context.Context, in flow.MapCall) (flow.MapCallEnd, error)
	GoOn(ctx context.Context, in flow.MapCallRef) (flow.MapCallEnd, error)
	Stop(ctx context.Context, in flow.MapCallRef) (flow.MapCallEnd, error)
	Evaluate(ctx context.Context, in flow.MapEvaluation) (stepmachine.Evaluated, error)
	Write(ctx context.Context, w flow.MapWrites) (flow.MapNews, error)
	Look(ctx context.Context, in flow.MapLook) (flow.MapNews, error)
	Ask(ctx context.Context, in flow.MapAsk) (flow.MapAsked, error)
	CloseAsk(ctx context.Context, in flow.MapAskEnd) (flow.MapDecision, error)
	Finish(ctx context.Context, in flow.MapFinish) (flow.MapResult, error)
	AskModel(ctx context.Context, in flow.MapModelCall) (flow.MapModelTurn, error)
	StartOther(ctx context.Context, in flow.MapStart) (flow.MapOfMap, error)
	LookAtOther(ctx context.Context, in flow.MapOfMapRef) (flow.MapOfMap, error)
	StopOther(ctx context.Context, in flow.MapOfMapRef) (flow.MapOfMap, error)
	BeginChange(ctx context.Context, in flow.ApplyRef) (flow.ApplyStep, error)
	GoOnWithChange(ctx context.Context, in flow.ApplyCall) (flow.ApplyStep, error)
}

// Maps contains the activities of an execution of a Map.
type Maps struct {
	steps  MapSteps
	turns  *turns.Turns
	places *share.Pool
}

// NewMaps returns the activities over steps. It returns an error where steps is nil.
func NewMaps(steps MapSteps) (*Maps, error) {
	if steps == nil {
		return nil, errors.New("activities: the steps of Maps are required")
	}
	return &Maps{steps: steps, turns: turns.New(mapTurns(runtime.GOMAXPROCS(0))), places: share.New(modelPlaces(AskSlots))}, nil
}

// turnWait is how long an activity waits for the turn of its tenant. It then goes on without: a
// turn is about who is first, and the time of the activity is bounded.
const turnWait = 5 * time.Second

// turnHeld is how long an activity keeps its turn. What lasts longer waits for something, and then
// costs no CPU: it does not hold up the other steps of its tenant.
const turnHeld = time.Second

// mapTurns says how many activities of Maps a process runs at once. A tenant gets half of them. While
// other tenants are active, it gets as many as they ask for together, at least one for two CPUs: with
// more, it would take the CPU from them, that of Postgres and of Temporal too.
func mapTurns(cpus int) turns.Config {
	slots := 4 * cpus
	return turns.Config{
		Slots: slots, Share: slots / 2, Least: max(1, cpus/2), Lately: activeFor, Wait: turnWait, Each: waitingMost, Most: waitingMost,
	}
}

// activeFor is how long a tenant counts as active after its last step. The next step of its Maps
// comes sooner.
const activeFor = 250 * time.Millisecond

// waitingMost bounds the activities that wait. Fewer than so many are under way in a process.
const waitingMost = 1 << 14

// inTurn runs do in the turn of the tenant. A step that waits for its provider gives its turn back.
// The activities that start workflows have none, because those need turns of the same tenant.
func inTurn[I, O any](ctx context.Context, m *Maps, tenant uuid.UUID, in I, do func(context.Context, I) (O, error)) (O, error) {
	if free, err := m.turns.Take(ctx, tenant.String()); err == nil {
		held, release := turns.Holding(ctx, free)
		defer release()
		defer time.AfterFunc(turnHeld, release).Stop()
		ctx = held
	}
	out, err := do(ctx, in)
	return out, applicationError(err)
}

// BeginMap reads what an execution begins with, or goes on with.
func (m *Maps) BeginMap(ctx context.Context, in flow.MapRef) (flow.MapBegun, error) {
	return inTurn(ctx, m, in.TenantID, in, m.steps.Begin)
}

// CallFromMap claims the run of a step, governs and sends it.
func (m *Maps) CallFromMap(ctx context.Context, in flow.MapCall) (flow.MapCallEnd, error) {
	return inTurn(ctx, m, in.TenantID, in, m.steps.Call)
}

// GoOnWithCall takes a run of a step further.
func (m *Maps) GoOnWithCall(ctx context.Context, in flow.MapCallRef) (flow.MapCallEnd, error) {
	return inTurn(ctx, m, in.TenantID, in, m.steps.GoOn)
}

// StopCallOfMap cancels a run of a step that was not sent.
func (m *Maps) StopCallOfMap(ctx context.Context, in flow.MapCallRef) (flow.MapCallEnd, error) {
	return inTurn(ctx, m, in.TenantID, in, m.steps.Stop)
}

// EvaluateInMap evaluates an expression that the workflow does not. An evaluation that finds no place
// among those of its tenant is no fault: the workflow keeps it, and no worker has to.
func (m *Maps) EvaluateInMap(ctx context.Context, in flow.MapEvaluation) (flow.MapEvaluated, error) {
	out, err := m.steps.Evaluate(ctx, in)
	if busy, is := errors.AsType[*expression.BusyError](err); is {
		return flow.MapEvaluated{Private: flow.IsPrivate(), Later: busy.Line()}, nil
	}
	return flow.MapEvaluated{Private: flow.IsPrivate(), Evaluated: out}, applicationError(err)
}

// WriteMap writes what steps have done.
func (m *Maps) WriteMap(ctx context.Context, in flow.MapWrites) (flow.MapNews, error) {
	return inTurn(ctx, m, in.TenantID, in, m.steps.Write)
}

// LookAtMap reads what people and others want of an execution.
func (m *Maps) LookAtMap(ctx context.Context, in flow.MapLook) (flow.MapNews, error) {
	return inTurn(ctx, m, in.TenantID, in, m.steps.Look)
}

// StartMapOfMap starts another Map for a step.
func (m *Maps) StartMapOfMap(ctx context.Context, in flow.MapStart) (flow.MapOfMap, error) {
	out, err := m.steps.StartOther(ctx, in)
	return out, applicationError(err)
}

// LookAtMapOfMap reads how far the execution is that a step has started.
func (m *Maps) LookAtMapOfMap(ctx context.Context, in flow.MapOfMapRef) (flow.MapOfMap, error) {
	return inTurn(ctx, m, in.TenantID, in, m.steps.LookAtOther)
}

// StopMapOfMap cancels the execution that a step has started.
func (m *Maps) StopMapOfMap(ctx context.Context, in flow.MapOfMapRef) (flow.MapOfMap, error) {
	return inTurn(ctx, m, in.TenantID, in, m.steps.StopOther)
}

// AskInMap asks people on behalf of a step.
func (m *Maps) AskInMap(ctx context.Context, in flow.MapAsk) (flow.MapAsked, error) {
	return inTurn(ctx, m, in.TenantID, in, m.steps.Ask)
}

// CloseAskInMap ends the question of a step.
func (m *Maps) CloseAskInMap(ctx context.Context, in flow.MapAskEnd) (flow.MapDecision, error) {
	return inTurn(ctx, m, in.TenantID, in, m.steps.CloseAsk)
}

// AskModel has a model answer one request of a step. It says that it is at work until the answer is
// there, so that another worker takes over soon where this one dies. Where the tenant has its share of
// answers already, it fails and is started again later.
func (m *Maps) AskModel(ctx context.Context, in flow.MapModelCall) (flow.MapModelTurn, error) {
	leave, err := place(ctx, m.places, in.TenantID)
	if err != nil {
		return flow.MapModelTurn{}, err
	}
	defer leave()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go beat(ctx)
	out, err := m.steps.AskModel(ctx, in)
	return out, applicationError(err)
}

// beat says that the activity is at work until ctx ends.
func beat(ctx context.Context) {
	tick := time.NewTicker(heartbeatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}

// heartbeatEvery is a fourth of the time after which another worker takes over; see package
// workflows.
const heartbeatEvery = 5 * time.Second

// FinishMap ends an execution.
func (m *Maps) FinishMap(ctx context.Context, in flow.MapFinish) (flow.MapResult, error) {
	return inTurn(ctx, m, in.TenantID, in, m.steps.Finish)
}

// BeginChange claims the run of the next change of a dry run, governs and sends it.
func (m *Maps) BeginChange(ctx context.Context, in flow.ApplyRef) (flow.ApplyStep, error) {
	out, err := m.steps.BeginChange(ctx, in)
	return out, applicationError(err)
}

// GoOnWithChange takes the run of a change further, or reads how it ended.
func (m *Maps) GoOnWithChange(ctx context.Context, in flow.ApplyCall) (flow.ApplyStep, error) {
	out, err := m.steps.GoOnWithChange(ctx, in)
	return out, applicationError(err)
}
