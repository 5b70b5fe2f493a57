package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/share"
)

// TurnSteps is what the activities of a message to an agent need of the domain.
type TurnSteps interface {
	Answer(ctx context.Context, in flow.TurnStep) (flow.TurnNext, error)
	Call(ctx context.Context, in flow.TurnCall) (flow.MapCallEnd, error)
	GoOn(ctx context.Context, in flow.MapCallRef) (flow.MapCallEnd, error)
	Stop(ctx context.Context, in flow.MapCallRef) (flow.MapCallEnd, error)
	Look(ctx context.Context, ref flow.TurnRef) (flow.TurnNews, error)
	Resume(ctx context.Context, ref flow.TurnRef) (flow.TurnNews, error)
	End(ctx context.Context, in flow.TurnEnd) (flow.TurnNews, error)
	StartOther(ctx context.Context, in flow.TurnCall) (flow.TurnOther, error)
	LookAtOther(ctx context.Context, in flow.TurnOtherRef) (flow.TurnOther, error)
}

// Turns contains the activities of a message to an agent.
type Turns struct {
	steps  TurnSteps
	places *share.Pool
}

// NewTurns returns the activities over steps. It returns an error where steps is nil.
func NewTurns(steps TurnSteps) (*Turns, error) {
	if steps == nil {
		return nil, errors.New("activities: the steps of messages are required")
	}
	return &Turns{steps: steps, places: share.New(modelPlaces(AnswerSlots))}, nil
}

// AnswerTurn has the agent's model answer once. It says that it is at work until the answer is there,
// so that another worker takes over soon where this one dies. Where the tenant has its share of answers
// already, it fails and is started again later.
func (t *Turns) AnswerTurn(ctx context.Context, in flow.TurnStep) (flow.TurnNext, error) {
	leave, err := place(ctx, t.places, in.TenantID)
	if err != nil {
		return flow.TurnNext{}, err
	}
	defer leave()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go beat(ctx)
	if activity.IsActivity(ctx) { // not where a test calls it
		in.Attempt = activity.GetInfo(ctx).Attempt
	}
	out, err := t.steps.Answer(ctx, in)
	return out, applicationError(err)
}

// CallFromTurn claims the run of a call that the agent asks for, governs and sends it.
func (t *Turns) CallFromTurn(ctx context.Context, in flow.TurnCall) (flow.MapCallEnd, error) {
	out, err := t.steps.Call(ctx, in)
	return out, applicationError(err)
}

// GoOnWithCall takes a run of a call further.
func (t *Turns) GoOnWithCall(ctx context.Context, in flow.MapCallRef) (flow.MapCallEnd, error) {
	out, err := t.steps.GoOn(ctx, in)
	return out, applicationError(err)
}

// StopCall cancels a run of a call that was not sent.
func (t *Turns) StopCall(ctx context.Context, in flow.MapCallRef) (flow.MapCallEnd, error) {
	out, err := t.steps.Stop(ctx, in)
	return out, applicationError(err)
}

// LookAtTurn reads what others want of a message.
func (t *Turns) LookAtTurn(ctx context.Context, in flow.TurnRef) (flow.TurnNews, error) {
	out, err := t.steps.Look(ctx, in)
	return out, applicationError(err)
}

// ResumeTurn asks for the session again.
func (t *Turns) ResumeTurn(ctx context.Context, in flow.TurnRef) (flow.TurnNews, error) {
	out, err := t.steps.Resume(ctx, in)
	return out, applicationError(err)
}

// EndTurn ends a message without a further answer.
func (t *Turns) EndTurn(ctx context.Context, in flow.TurnEnd) (flow.TurnNews, error) {
	out, err := t.steps.End(ctx, in)
	return out, applicationError(err)
}

// StartFromTurn starts another execution for a message.
func (t *Turns) StartFromTurn(ctx context.Context, in flow.TurnCall) (flow.TurnOther, error) {
	out, err := t.steps.StartOther(ctx, in)
	return out, applicationError(err)
}

// LookFromTurn returns how far an execution is that a message has started.
func (t *Turns) LookFromTurn(ctx context.Context, in flow.TurnOtherRef) (flow.TurnOther, error) {
	out, err := t.steps.LookAtOther(ctx, in)
	return out, applicationError(err)
}
