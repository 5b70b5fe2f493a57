// Package stepping makes the calls of the steps of Maps, and has models do their model steps: where
// executions of Maps, runs of actions, models and budgets meet. The activities of the workflow MapRun call it. Each call is a governed run, claimed
// with what the steps before have done in the same transaction.
package stepping

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/taint"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/tenant/budget"
)

// Deps are the collaborators; all are required but Now.
type Deps struct {
	Runs       *run.Service
	Executions *execution.Service
	Budgets    *budget.Service
	Catalog    *catalog.Catalog
	// Models answer for the steps that ask one, and Agents are those that do steps.
	Models Models
	Agents Agents
	// Callers are the messages to agents that have led to Maps.
	Callers Callers
	Log     *slog.Logger
	Now     func() time.Time
}

// Callers counts what Maps use for the messages to agents that have led to them.
// internal/agents/conversation implements it.
type Callers interface {
	// QueueUsed counts tokens and money for all messages of a chain.
	QueueUsed(b *db.Batch, tenant uuid.UUID, chain agentloop.Chain, u model.Usage, money int64)
	// Spent reports which limits of them are used up.
	Spent(ctx context.Context, tenant uuid.UUID, chain agentloop.Chain) (tokens, money bool, err error)
}

// Models asks language models. internal/service/models implements it.
type Models interface {
	// ForMaps returns the model that a step of a Map asks.
	ForMaps(ctx context.Context, tenant uuid.UUID, purpose model.Purpose) (agentdef.Model, error)
	// Most returns the most that an answer can use.
	Most(choice agentdef.Model, req model.Request) budget.Amount
	// Generate asks. The error is a *model.Error where no model has answered, a fault, or that of ctx.
	Generate(ctx context.Context, ask model.Ask, stream model.Stream) (model.Answer, error)
}

// Stepper makes the calls.
type Stepper struct {
	*execution.Service

	d Deps
}

// New checks the collaborators.
func New(d Deps) (*Stepper, error) {
	if d.Runs == nil || d.Executions == nil || d.Budgets == nil || d.Catalog == nil || d.Models == nil || d.Agents == nil || d.Callers == nil || d.Log == nil {
		return nil, errors.New("stepping: runs, executions, budgets, catalog, models, agents, callers and log are required")
	}
	d.Now = db.Clock(d.Now)
	return &Stepper{Service: d.Executions, d: d}, nil
}

// mostArgs is the most bytes of the arguments of a call: what one expression can result in.
const mostArgs = expression.MaxResult

// Call claims the run of a step, or of a kept call that undoes one, and takes it as far as it goes
// without waiting. It can be repeated: the step always gets the same run.
func (s *Stepper) Call(ctx context.Context, in flow.MapCall) (flow.MapCallEnd, error) {
	ctx = run.WithPatience(ctx, in.Patience)
	e, err := s.Head(ctx, in.MapRef)
	if errors.Is(err, execution.ErrChain) {
		return s.unchained(ctx, in, err)
	}
	if err != nil {
		return flow.MapCallEnd{}, err
	}
	call, path, agent, how := in.Call, in.Call.Ref.Path, agentOf(e), making{tainted: in.Tainted, sources: in.Sources, byModel: in.Tool != nil}
	if call.Ref.Iteration != "" {
		path += "@" + call.Ref.Iteration
	}
	if in.Tool != nil {
		if call, path, agent, how.by, err = s.tool(ctx, e, call, path, *in.Tool); err != nil {
			return flow.MapCallEnd{}, err
		}
	}
	var kept execution.Kept
	if in.Compensates > 0 {
		if kept, err = s.Kept(ctx, e, in.Compensates, in.Commands); err != nil {
			return flow.MapCallEnd{}, err
		}
		if kept.Error != nil {
			return flow.MapCallEnd{Private: flow.IsPrivate(), Unwritten: true, Step: flow.Step{Done: true}, End: stepmachine.CallEnd{Ref: call.Ref, Status: stepmachine.CallFailed, Error: kept.Error}}, nil
		}
		call.Verb, call.Args, call.CredentialID, path = kept.Verb, kept.Args, kept.CredentialID, fmt.Sprintf("compensate/%d", in.Compensates)
	}
	args, err := s.Resolve(ctx, e, call.Args, in.Commands)
	if errors.Is(err, stepmachine.ErrTooLarge) || len(args) > mostArgs {
		_, err := s.Write(ctx, in.MapWrites)
		return refused(call.Ref, fault.New(fault.CodeInvalidArgs, "The arguments of the call have more than 4 MiB.")), err
	}
	if err != nil {
		return flow.MapCallEnd{}, err
	}
	metadata, err := s.about(ctx, e, path, call.CredentialID, how, args)
	if err != nil {
		return flow.MapCallEnd{}, err
	}
	who := e.Starter()
	req := run.Request{
		Verb: call.Verb, Args: args, SessionID: e.SessionID, Metadata: metadata, DryRun: call.DryRun,
		Origin: run.Origin{
			Kind: actor.Map, KeyID: who.KeyID(), UserID: who.UserID(), ParentID: &e.ExecutionID, Step: &path, WorkflowID: in.Workflow, Driver: flow.DriverMap,
			AgentID: agent,
		},
		StepKey:   run.StepKey(e.ExecutionID, path, 0, call.Ref.Attempt),
		ExpiresIn: run.StepDeadline(call.Deadline, s.d.Now()), Since: e.AgainSince(), Unsettled: comparedWith(e, in),
	}
	rows, err := s.rowsOf(ctx, e, in)
	if err != nil {
		return flow.MapCallEnd{}, err
	}
	req.Claimed = rows.isClaimed
	at, err := s.d.Runs.Step(ctx, who, req, func(b *db.Batch, run string) {
		if in.Tool != nil {
			s.QueueModelRun(b, e, in.Call.Ref, *in.Tool, execution.ModelRun{Verb: call.Verb, ExecutionID: run})
		}
		rows.claimed(b, run)
	})
	rows.stop()
	if err != nil {
		return s.notMade(ctx, e, in, err)
	}
	end := undoing(in, kept, at, s.begun(e, call.Ref, at))
	if end.Unwritten, err = rows.left(ctx, at.Run.ExecutionID); err != nil {
		return flow.MapCallEnd{}, err
	}
	switch {
	case end.End.Status != stepmachine.CallIntercepted:
	case in.Tool != nil:
		err = s.keepChange(ctx, e, execution.CallChange{Ref: call.Ref, Tool: *in.Tool, Call: call, Path: path, Agent: agent, Run: end.Run})
	default:
		end.Reads = []string{call.Verb} // what a read-back has read may stand there
		end.End.Result, err = s.instead(ctx, e, call, end.Run)
	}
	return end, err
}

// notMade is the end of a call that could not be claimed: it was refused, or an equal one is not settled.
// Faults of ours are returned.
func (s *Stepper) notMade(ctx context.Context, e execution.Execution, in flow.MapCall, err error) (flow.MapCallEnd, error) {
	f := fault.As(err)
	if f == nil || f.Code == fault.CodeServiceUnavailable || f.Code == fault.CodeInternal {
		return flow.MapCallEnd{}, err
	}
	equal, found, err := s.d.Runs.Unsettled(ctx, e.TenantID, f)
	if err != nil {
		return flow.MapCallEnd{}, err
	}
	if found {
		return s.unsettled(ctx, e, in, equal)
	}
	return s.notClaimed(ctx, e, in, f)
}

// notClaimed ends a call that was refused when it was claimed. That can be before anything is written. What
// goes with it is written once.
func (s *Stepper) notClaimed(ctx context.Context, e execution.Execution, in flow.MapCall, f *fault.Error) (flow.MapCallEnd, error) {
	if _, err := s.Write(ctx, in.MapWrites); err != nil {
		return flow.MapCallEnd{}, err
	}
	end := refused(in.Call.Ref, f)
	end.End.MayRepeat = f.Code != fault.CodeIdempotencyKeyReused // the call of this number was made
	return end, s.ForgetRun(ctx, e, in.Call.Ref)
}

// comparedWith says with which writes of unknown outcome a call is compared. What a model decides must not
// repeat one: a call of its own, or a Map that an agent starts again. A call that undoes one is not compared.
func comparedWith(e execution.Execution, in flow.MapCall) run.Unsettled {
	switch {
	case in.Tool != nil:
		return run.UnsettledOfChain
	case len(e.Chain.Turns) > 0 && in.Compensates == 0:
		return run.UnsettledOfOthers
	}
	return ""
}

// unsettled is the end of a call that was not made, because the outcome of an equal one is unknown. The
// step waits until people have settled that one, and goes on with what came of it.
func (s *Stepper) unsettled(ctx context.Context, e execution.Execution, in flow.MapCall, equal run.Progress) (flow.MapCallEnd, error) {
	if _, err := s.Write(ctx, in.MapWrites); err != nil {
		return flow.MapCallEnd{}, err
	}
	end := s.end(in.Call.Ref, equal)
	end.End.Sent = false
	if in.Tool != nil {
		return end, nil
	}
	return end, s.NameRun(ctx, e, execution.Called{Ref: in.Call.Ref, Run: equal.Run.ExecutionID})
}

// undoing returns how far a call is, with what it undoes where it is a kept one.
func undoing(in flow.MapCall, kept execution.Kept, at run.Progress, end flow.MapCallEnd) flow.MapCallEnd {
	if in.Compensates > 0 {
		end.Undoes = &flow.MapUndoing{Private: flow.IsPrivate(), Ref: kept.Ref, Call: at.Run.ExecutionID}
	}
	return end
}

// making is what policies and people see of a call besides its arguments and its execution.
type making struct {
	// change is the one that the call applies; "" for none.
	change string
	// tainted: a model of the execution has read what others than the tenant wrote.
	tainted bool
	sources []string
	// unnamed is an address in the arguments that the tenant has not named; "" for none.
	unnamed string
	// byModel: a model has asked for the call. by is the stored agent whose model it is; nil for none.
	byModel bool
	by      *execution.StepAgent
}

// about is aboutCall for a call with arguments that a model, or a result, may have made.
func (s *Stepper) about(ctx context.Context, e execution.Execution, step, credential string, how making, args json.RawMessage) (metadata json.RawMessage, err error) {
	if e.Tainted || how.tainted {
		if how.unnamed, err = s.Unnamed(ctx, e, args); err != nil {
			return nil, err
		}
	}
	return aboutCall(e, step, credential, how)
}

// aboutCall returns the metadata of the run of a call that the step makes. credential may be "".
func aboutCall(e execution.Execution, step, credential string, how making) (json.RawMessage, error) {
	about := e.About(step)
	tainted := e.Tainted || how.tainted
	// Before a model has read anything, the steps of a trigger have no session that could be tainted.
	if len(e.Chain.Turns) > 0 || how.byModel || tainted {
		about["tainted"] = tainted
	}
	if sources := taint.Add(e.TaintSources, how.sources...); tainted && len(sources) > 0 {
		about["taint_sources"] = sources
	}
	if by := how.by; by != nil && by.Name != "" {
		agent := map[string]any{"name": by.Name, "version": by.Version}
		if by.Mode != "" {
			agent["executionMode"] = by.Mode
		}
		about["agent"] = agent
	}
	for name, value := range map[string]string{
		"customer_id":   e.Customer, // policies judge by it, and an erasure finds the run by it
		"credential_id": credential, // the run uses this one only
		"change":        how.change,

		governance.MemberUnnamed: how.unnamed,
	} {
		if value != "" {
			about[name] = value
		}
	}
	metadata, err := json.Marshal(about)
	if err != nil {
		return nil, fmt.Errorf("stepping: %w", err)
	}
	return metadata, nil
}

// agentOf returns the agent that has started the Map, directly or through others; nil for none. Kill
// switches and policies that name it hold for the calls.
func agentOf(e execution.Execution) *uuid.UUID {
	if n := len(e.Chain.Turns); n > 0 {
		return &e.Chain.Turns[n-1].AgentID
	}
	return nil
}

// instead returns what the step of an intercepted write goes on with: what the read-back of the verb
// reads now, otherwise a value that is made up.
func (s *Stepper) instead(ctx context.Context, e execution.Execution, call stepmachine.StartVerb, of flow.RunRef) (stepmachine.Value, error) {
	before, err := s.d.Runs.Probe(ctx, of, nil)
	if err != nil {
		return stepmachine.Value{}, err
	}
	if before.Declared {
		v, err := s.KeepBefore(ctx, e, call.Ref, of, before)
		if err != nil || before.State == verb.LookFound {
			return v, err
		}
	}
	return s.Invent(ctx, e, call.Ref, func(ctx context.Context) (json.RawMessage, error) {
		name, err := verb.Parse(call.Verb)
		if err != nil {
			return nil, nil //nolint:nilerr // the call of no verb was refused before
		}
		return s.d.Catalog.Answer(ctx, e.TenantID, name)
	})
}

// GoOn takes the run of a step further, or reads how far it is.
func (s *Stepper) GoOn(ctx context.Context, in flow.MapCallRef) (flow.MapCallEnd, error) {
	ctx = run.WithPatience(ctx, in.Patience)
	handedOver := in.Look
	if in.HandOver {
		if _, err := s.d.Runs.HandOver(ctx, in.Run, in.Parent); err != nil {
			return flow.MapCallEnd{}, err
		}
		handedOver = true
	}
	look := s.d.Runs.GoOn
	if handedOver {
		look = s.d.Runs.Seen
	}
	at, err := look(ctx, in.Run)
	if err != nil {
		return flow.MapCallEnd{}, err
	}
	end := s.end(in.Ref, at)
	end.HandedOver = handedOver
	return end, nil
}

// Stop ends the run of a step that was not sent, and returns how far it is then.
func (s *Stepper) Stop(ctx context.Context, in flow.MapCallRef) (flow.MapCallEnd, error) {
	if err := s.d.Runs.Stop(ctx, in.Run); err != nil {
		return flow.MapCallEnd{}, err
	}
	at, err := s.d.Runs.Seen(ctx, in.Run)
	if err != nil {
		return flow.MapCallEnd{}, err
	}
	if !at.Step.Done && !in.Look {
		return s.GoOn(ctx, in)
	}
	end := s.end(in.Ref, at)
	end.HandedOver = in.Look
	return end, nil
}

// refused is the end of a call that has no run.
func refused(ref stepmachine.Ref, f *fault.Error) flow.MapCallEnd {
	return flow.MapCallEnd{
		Private: flow.IsPrivate(), Step: flow.Step{Done: true},
		End: stepmachine.CallEnd{Ref: ref, Status: stepmachine.CallFailed, Error: stepmachine.OfFault(f), MayRepeat: true},
	}
}

// unchained ends a call of an execution of which nobody knows what stands above it. Nothing is sent. An
// earlier try may have sent the call, so it is not made under another number.
func (s *Stepper) unchained(ctx context.Context, in flow.MapCall, why error) (flow.MapCallEnd, error) {
	s.d.Log.ErrorContext(ctx, "a step of a Map makes no call", "error", why)
	_, err := s.Write(ctx, in.MapWrites)
	out := refused(in.Call.Ref, fault.New(fault.CodeInternal, execution.ErrChain.Error()))
	out.End.MayRepeat = false
	return out, err
}

// begun is end for a call that has just been made.
func (s *Stepper) begun(e execution.Execution, ref stepmachine.Ref, at run.Progress) flow.MapCallEnd {
	if !at.Step.Done {
		s.Rests(e.ID)
	}
	return s.end(ref, at)
}

// end returns the progress of a run as the step machine takes it.
func (s *Stepper) end(ref stepmachine.Ref, at run.Progress) flow.MapCallEnd {
	r := at.Run
	out := flow.MapCallEnd{Private: flow.IsPrivate(), Run: flow.RunRef{TenantID: r.TenantID, RunID: r.ID, Attempt: r.Attempt}, Step: at.Step}
	if !at.Step.Done {
		return out
	}
	out.End = stepmachine.CallEnd{Ref: ref, Sent: r.Sends > 0}
	end := &out.End
	switch r.State {
	case run.StateExecuted:
		end.Status, end.Wrote = stepmachine.CallExecuted, at.Writes
		end.Result = execution.ResultOf(r.ID, r.Result)
	case run.StateIntercepted:
		end.Status = stepmachine.CallIntercepted
	case run.StateOutcomeUnknown:
		end.Status = stepmachine.CallUnknown
	case run.StateCancelled:
		end.Status = stepmachine.CallCancelled
	default:
		end.Status = stepmachine.CallFailed
		end.MayRepeat = mayRepeat(r, at.Writes)
	}
	if end.Status != stepmachine.CallExecuted && end.Status != stepmachine.CallIntercepted {
		end.Call = r.ExecutionID
	}
	if f := r.Fault(); f != nil {
		end.Error = stepmachine.OfFault(f)
		end.Error.ProviderError = r.ProviderError.Brief()
		// The caller may try again what the provider refused. Only its rate limit asks a Map to wait
		// and do so by itself.
		if r.State == run.StateRejected {
			end.Error.Type = stepmachine.TypeRejected
		}
		end.Error.Retryable = f.Retryable && (f.Code != fault.CodeProviderRejected || r.State == run.StateRefused)
	}
	out.Weigh(r.Verb.String(), r.Trusted)
	return out
}

// mayRepeat reports whether the end of a call provably had no effect: nothing was sent, it was a
// read, or the provider said no.
func mayRepeat(r run.Run, writes bool) bool {
	return !writes || r.Sends == 0 || r.State == run.StateRefused || r.ErrorCode == fault.CodeProviderRejected
}

// Result returns the result of a run, in the clear.
func Result(ctx context.Context, runs *run.Service, tenant, id uuid.UUID) (json.RawMessage, error) {
	at, err := runs.Seen(ctx, flow.RunRef{TenantID: tenant, RunID: id})
	return at.Run.Result, err
}
