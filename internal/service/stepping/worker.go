package stepping

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/modelstep"
	"agentruntime/internal/agents/roster"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
)

// Agents finds stored agents. internal/agents/roster implements it.
type Agents interface {
	// Version returns a version of an agent; 0 is the published one. It refuses with AGENT_NOT_FOUND.
	Version(ctx context.Context, tenant, agent uuid.UUID, number int32) (roster.Version, error)
}

// worker returns the version of the stored agent that does a step: the one that the step names, otherwise
// the agent of the mode workflow_only whose Map it is; nil where there is none. The step's first call of a
// model pins that. failed is why the agent does not do the step.
func (s *Stepper) worker(ctx context.Context, asked execution.AskedModel, turns []execution.ModelTurn) (v *roster.Version, failed *stepmachine.Error, err error) {
	do, is := asked.Do.(*mapdef.DoAgent)
	if !is {
		return nil, nil, nil
	}
	tenant := asked.Execution.TenantID
	if len(turns) > 0 {
		by := turns[0].Agent
		if by == nil {
			return nil, nil, nil
		}
		found, err := s.d.Agents.Version(ctx, tenant, by.ID, by.Version)
		return &found, nil, err
	}
	if do.AgentID == "" {
		by := asked.Execution.Chain.Driver()
		if by == nil {
			return nil, nil, nil
		}
		found, err := s.d.Agents.Version(ctx, tenant, by.AgentID, by.Drives)
		return &found, nil, err
	}
	id, err := uuid.Parse(do.AgentID)
	if err != nil {
		return nil, stepmachine.NewError(string(fault.CodeAgentNotFound), "agent_id is no id of an agent"), nil //nolint:nilerr // it is the end of the step
	}
	found, err := s.d.Agents.Version(ctx, tenant, id, 0)
	switch {
	case fault.HasCode(err, fault.CodeAgentNotFound):
		return nil, stepmachine.NewError(string(fault.CodeAgentNotFound), "there is no agent with the id "+do.AgentID), nil
	case err != nil:
		return nil, nil, err
	case found.Status == roster.Paused:
		return nil, stepmachine.NewError(string(fault.CodeConflict), "the agent of the step is paused"), nil
	case len(asked.Execution.Chain.Turns) >= agentdef.MaxAgentDepth:
		return nil, stepmachine.NewError(string(fault.CodeConflict), fmt.Sprintf("more than %d agents would call each other in a row", agentdef.MaxAgentDepth)), nil
	}
	return &found, nil, nil
}

// choiceOf returns the model that a step asks.
func (s *Stepper) choiceOf(ctx context.Context, asked execution.AskedModel, by *roster.Version, purpose model.Purpose) (agentdef.Model, error) {
	if by == nil {
		return s.d.Models.ForMaps(ctx, asked.Execution.TenantID, purpose)
	}
	if purpose == model.Manager {
		return managerOf(by), nil
	}
	return *by.Definition.Models.Worker, nil
}

// patternsOf returns the patterns of the verbs that a step may call: those of the step, otherwise those of
// its agent.
func patternsOf(do *mapdef.DoAgent, by *roster.Version) []string {
	if by == nil || len(do.Tools) > 0 {
		return do.Tools
	}
	return slices.DeleteFunc(slices.Clone(by.Definition.Tools.Allow), func(pattern string) bool {
		return strings.HasPrefix(pattern, "tool:") || strings.HasPrefix(pattern, "agent:")
	})
}

// overspent returns why no model is asked again for an execution; nil where one is. What its models use
// counts for the messages to agents above it, within their limits.
func (s *Stepper) overspent(ctx context.Context, e execution.Execution) (*stepmachine.Error, error) {
	tokens, money, err := s.d.Callers.Spent(ctx, e.TenantID, e.Chain)
	switch {
	case tokens:
		return stepmachine.NewError(mapdef.CodeBudgetExceeded, "limits.tokens of the agent whose message has led to the Map is used up"), err
	case money:
		return stepmachine.NewError(mapdef.CodeBudgetExceeded, "limits.money_micros of the agent whose message has led to the Map is used up"), err
	}
	return nil, err
}

// spent returns why the agent of a step is not asked again; nil where it is. Its limits are those of one
// message.
func spent(by *roster.Version, turns []execution.ModelTurn) *stepmachine.Error {
	if by == nil {
		return nil
	}
	limits := by.Definition.Limits
	var tokens, money int64
	var worked time.Duration
	for _, turn := range turns {
		tokens += turn.Answer.Usage.Total()
		money += turn.Money
		worked += turn.Took
	}
	switch {
	case limits.Tokens > 0 && tokens >= limits.Tokens:
		return stepmachine.NewError(mapdef.CodeBudgetExceeded, "limits.tokens of the agent is used up")
	case limits.MoneyMicros > 0 && money >= limits.MoneyMicros:
		return stepmachine.NewError(mapdef.CodeBudgetExceeded, "limits.money_micros of the agent is used up")
	case worked >= limits.WallClock.Std():
		return stepmachine.NewError(mapdef.CodeStepTimeout, "the models of the agent have taken longer than limits.wall_clock")
	}
	return nil
}

// turnsOf returns how often an agent may ask for calls before it answers.
func turnsOf(by *roster.Version) int {
	if by == nil {
		return modelstep.MaxTurns
	}
	return by.Definition.Limits.MaxTurns - 1 // the last one is the answer
}

// left returns how many calls a step may still make. Those of its newest answer are not made yet.
func left(by *roster.Version, turns []execution.ModelTurn) int {
	if by == nil {
		return model.MaxCalls * modelstep.MaxTurns * len(turns)
	}
	made := 0
	for _, turn := range turns {
		made += len(turn.Ends)
	}
	return by.Definition.Tools.MaxPerTurn - made
}

// actingFor returns the agent for which a step makes a call; nil for none. Kill switches and policies
// that name it hold for the call.
func actingFor(e execution.Execution, do mapdef.Action) *uuid.UUID {
	if agent, is := do.(*mapdef.DoAgent); is && agent.AgentID != "" {
		if id, err := uuid.Parse(agent.AgentID); err == nil {
			return &id
		}
	}
	return agentOf(e)
}

// notMade returns how the call with the number in its answer has ended, which the step was not allowed to make.
func notMade(number int) *stepmachine.Error {
	if number >= model.MaxCalls {
		return stepmachine.NewError(flow.CodeNotMade, model.NotMade)
	}
	return stepmachine.NewError(flow.CodeNotMade, "the agent may make no further calls in this step")
}
