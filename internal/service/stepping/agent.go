package stepping

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/google/uuid"

	"agentruntime/internal/agents/modelstep"
	"agentruntime/internal/agents/roster"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
	"agentruntime/internal/provider/catalog"
)

// tools returns the verbs that an agent may call, by the patterns of its step and of the
// stored agent. failed is why it cannot have them.
func (s *Stepper) tools(ctx context.Context, tenant uuid.UUID, do *mapdef.DoAgent, by *roster.Version) (tools []model.Tool, failed *stepmachine.Error, err error) {
	patterns := patternsOf(do, by)
	for _, provider := range providersOf(patterns) {
		for offset := 0; ; offset += toolsPage {
			page, err := s.d.Catalog.List(ctx, tenant, catalog.Filter{Provider: provider, Limit: toolsPage, Offset: offset})
			if err != nil {
				return nil, nil, err
			}
			for _, v := range page.Verbs {
				if !matches(patterns, v.Name) || by != nil && !by.Definition.Tools.Allows(v.Name.String()) {
					continue
				}
				if len(tools) == modelstep.MaxTools {
					return nil, stepmachine.NewError(mapdef.CodeModelError, fmt.Sprintf("tools match more than %d verbs: name fewer", modelstep.MaxTools)), nil
				}
				tools = append(tools, model.Tool{Name: v.Name.String(), Description: v.Description, Schema: v.Schema, Operation: string(v.Operation)})
			}
			if !page.HasMore {
				break
			}
		}
	}
	return tools, nil, nil
}

// providersOf returns the providers of which verbs can match the patterns, each once. "" alone stands
// for all of the catalog, which is read once and not for each pattern.
func providersOf(patterns []string) (providers []string) {
	for _, pattern := range patterns {
		provider, _, _ := strings.Cut(pattern, ":")
		if strings.Contains(provider, "*") {
			return []string{""}
		}
		if !slices.Contains(providers, provider) {
			providers = append(providers, provider)
		}
	}
	return providers
}

func matches(patterns []string, name verb.Name) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, err := path.Match(pattern, name.String())
		return err == nil && matched
	})
}

// toolsPage is how many verbs of the catalog are read at once.
const toolsPage = 500

// tool returns the call that an agent has asked for, the path of its run, for which stored agent it is
// made, and which one has asked for it.
func (s *Stepper) tool(
	ctx context.Context, e execution.Execution, call stepmachine.StartVerb, path string, at flow.MapTool,
) (made stepmachine.StartVerb, step string, agent *uuid.UUID, by *execution.StepAgent, err error) {
	asked, err := s.Model(ctx, e, call.Ref)
	if err != nil {
		return call, path, nil, nil, err
	}
	wanted, by, err := asked.ToolCall(ctx, at.Turn, at.Number)
	if err != nil {
		return call, path, nil, nil, err
	}
	call.Verb, call.Args = wanted.Name, stepmachine.Of(wanted.Args)
	call.Args.Invented = asked.Start.Input.Invented
	return call, fmt.Sprintf("%s/turns/%d/calls/%d", path, at.Turn, at.Number), actingFor(e, asked.Do), by, nil
}

// keepChange adds an intercepted write of an agent to the changes of the dry run.
func (s *Stepper) keepChange(ctx context.Context, e execution.Execution, c execution.CallChange) (err error) {
	if c.Before, err = s.d.Runs.Probe(ctx, c.Run, nil); err != nil {
		return err
	}
	return s.KeepCallChange(ctx, e, c)
}

// callable returns why a call of an agent is not made; nil where it is.
func callable(turns []execution.ModelTurn, call model.ToolCall) *stepmachine.Error {
	if !execution.Offered(turns, call.Name) {
		name := call.Name[:min(len(call.Name), 80)] // the model made it up
		return stepmachine.NewError("VERB_NOT_FOUND", fmt.Sprintf("There is no tool %q.", name)+near.Sentence(name, execution.ToolNames(turns)))
	}
	var args map[string]json.RawMessage
	if json.Unmarshal(call.Args, &args) != nil || args == nil {
		return stepmachine.NewError("INVALID_ARGS", "the arguments are not a JSON object")
	}
	return nil
}

// toldCall is a call of an agent with its end.
type toldCall struct {
	stepmachine.AgentCall

	failed  *stepmachine.Error
	headers map[string]string
}

// told returns what the model hears of the calls that it has asked for last: with their
// ids, where a manager judges by these.
func (s *Stepper) told(ctx context.Context, e execution.Execution, turns []execution.ModelTurn, ends []flow.MapToolEnd, managed bool) (messages []model.Message, err error) {
	calls, err := s.ended(ctx, e, turns, turns[len(turns)-1].Answer.Calls, ends)
	if err != nil {
		return nil, err
	}
	told := make([]*modelstep.ToolEnd, len(calls))
	for i, call := range calls {
		told[i] = &modelstep.ToolEnd{Status: call.Status, Result: call.Result, Headers: call.headers, Error: call.failed}
		if managed {
			told[i].ID = evidenceID(len(turns)-1, i)
		}
	}
	if err := s.HideEnds(ctx, e.TenantID, told...); err != nil {
		return nil, err
	}
	for i, call := range calls {
		messages = append(messages, modelstep.Told(call.ID, *told[i]))
	}
	return messages, nil
}

// ended returns calls with their ends. One that was not made has failed.
func (s *Stepper) ended(
	ctx context.Context, e execution.Execution, turns []execution.ModelTurn, calls []model.ToolCall, ends []flow.MapToolEnd,
) (list []toldCall, err error) {
	for i, call := range calls {
		told := toldCall{AgentCall: stepmachine.AgentCall{ID: call.ID, Verb: call.Name, Args: call.Args, Status: string(stepmachine.CallFailed)}}
		at := slices.IndexFunc(ends, func(end flow.MapToolEnd) bool { return end.Number == i })
		if at < 0 {
			if told.failed = callable(turns, call); told.failed == nil {
				told.failed = notMade(i)
			}
			list = append(list, told)
			continue
		}
		told.Status, told.failed = string(ends[at].Status), ends[at].Error
		if ends[at].Status == stepmachine.CallExecuted {
			seen, err := s.d.Runs.Seen(ctx, flow.RunRef{TenantID: e.TenantID, RunID: ends[at].Run})
			if err != nil {
				return nil, err
			}
			told.Result, told.headers = seen.Run.Note.Told(seen.Run.Result), seen.Run.Note.Headers
		}
		list = append(list, told)
	}
	return list, nil
}

// complete returns what an answer of an agent means whose form is right.
func (s *Stepper) complete(ctx context.Context, asked execution.AskedModel, do *mapdef.DoAgent, turns []execution.ModelTurn, output json.RawMessage) (said, error) {
	calls := []stepmachine.AgentCall{}
	attempts := 1
	for i, turn := range turns[:len(turns)-1] {
		if len(turn.Answer.Calls) == 0 && strings.HasPrefix(turns[i+1].Added[0].Text, modelstep.Incomplete) {
			attempts++
		}
		list, err := s.ended(ctx, asked.Execution, turns, turn.Answer.Calls, turns[i+1].Ends)
		if err != nil {
			return said{}, err
		}
		for _, call := range list {
			calls = append(calls, call.AgentCall)
		}
	}
	yes, failed, err := asked.IsComplete(ctx, calls, output)
	switch {
	case err != nil || failed != nil:
		return said{failed: failed}, err
	case yes:
		return said{output: output}, nil
	case attempts >= max(1, do.MaxAttempts):
		return said{failed: stepmachine.NewError(mapdef.CodeModelError, fmt.Sprintf("complete_when is not true after %d attempts of the agent", attempts))}, nil
	default:
		return said{again: modelstep.Incomplete}, nil
	}
}
