package stepping

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/stepmachine"
)

// BeginChange claims the run of the next change of a dry run, and takes it as far as it goes without
// waiting. It can be repeated: a change always gets the same run.
func (s *Stepper) BeginChange(ctx context.Context, in flow.ApplyRef) (flow.ApplyStep, error) {
	c, err := s.NextChange(ctx, in)
	switch {
	case err != nil:
		return flow.ApplyStep{}, err
	case c == nil:
		return flow.ApplyStep{Over: true}, nil
	case c.Run != nil:
		at, err := s.d.Runs.GoOn(ctx, *c.Run)
		if err != nil {
			return flow.ApplyStep{}, err
		}
		return s.afterChange(ctx, c, at)
	}
	args, drift, err := s.Arguments(ctx, c)
	if err == nil && drift == "" {
		drift, err = s.drifted(ctx, c, args)
	}
	if err != nil {
		return flow.ApplyStep{}, err
	}
	if drift != "" {
		return endedChange(c), s.EndChange(ctx, c, execution.DriftedEnd(drift))
	}
	return s.claimChange(ctx, c, args)
}

// drifted looks whether what the change is about is as the dry run has seen it, and returns why it is
// not. args are what the change sends.
func (s *Stepper) drifted(ctx context.Context, c *execution.Applying, args json.RawMessage) (string, error) {
	if c.Probed == nil {
		return "", nil
	}
	if !c.Depends() {
		args = nil // it sends what the dry run has shown
	}
	now, err := s.d.Runs.Probe(ctx, *c.Probed, args)
	if err != nil {
		return "", err
	}
	return s.Drifted(ctx, c, now)
}

// claimChange claims the run of a change. It acts for whom the dry run acted.
func (s *Stepper) claimChange(ctx context.Context, c *execution.Applying, args json.RawMessage) (flow.ApplyStep, error) {
	e := c.Execution
	metadata, err := aboutCall(e, c.Step, c.CredentialID, making{change: c.ID})
	if err != nil {
		return flow.ApplyStep{}, err
	}
	who, parent := e.Starter(), c.DryRun.ExecutionID
	req := run.Request{
		Verb: c.Verb, Args: args, SessionID: e.SessionID, Metadata: metadata,
		Origin: run.Origin{
			Kind: actor.Map, KeyID: who.KeyID(), UserID: who.UserID(), ParentID: &parent, Step: &c.Step, WorkflowID: c.Workflow, Driver: flow.DriverChanges,
			AgentID: c.Agent,
		},
		StepKey:   run.StepKey(parent, "change "+c.ID, 0, 1),
		ExpiresIn: run.StepDeadline(s.Deadline(), s.d.Now()),
	}
	at, err := s.d.Runs.Step(ctx, who, req, func(b *db.Batch, name string) {
		if id, err := uuid.Parse(strings.TrimPrefix(name, "exec_")); err == nil {
			s.QueueBegin(b, c, id)
		}
	})
	if f := fault.As(err); f != nil && f.Code != fault.CodeServiceUnavailable && f.Code != fault.CodeInternal {
		// A call can be refused before it has a run.
		return endedChange(c), s.EndChange(ctx, c, execution.ChangeEnd{Status: execution.ChangeFailed, Code: string(f.Code), Reason: f.Message})
	}
	if err != nil {
		return flow.ApplyStep{}, err
	}
	c.Run = &flow.RunRef{TenantID: at.Run.TenantID, RunID: at.Run.ID, Attempt: at.Run.Attempt}
	return s.afterChange(ctx, c, at)
}

// GoOnWithChange takes the run of a change further, or reads how it ended.
func (s *Stepper) GoOnWithChange(ctx context.Context, in flow.ApplyCall) (flow.ApplyStep, error) {
	c, err := s.ChangeOf(ctx, in.ApplyRef, in.Change)
	if err != nil {
		return flow.ApplyStep{}, err
	}
	if c == nil { // a repeat: it has ended
		return flow.ApplyStep{Change: in.Change, Run: in.Run, Step: flow.Step{Done: true}}, nil
	}
	handedOver := in.Look
	if in.HandOver {
		if _, err := s.d.Runs.HandOver(ctx, in.Run, c.Workflow); err != nil {
			return flow.ApplyStep{}, err
		}
		handedOver = true
	}
	look := s.d.Runs.GoOn
	if handedOver {
		look = s.d.Runs.Seen
	}
	at, err := look(ctx, in.Run)
	if err != nil {
		return flow.ApplyStep{}, err
	}
	out, err := s.afterChange(ctx, c, at)
	out.HandedOver = handedOver
	return out, err
}

func endedChange(c *execution.Applying) flow.ApplyStep {
	return flow.ApplyStep{Change: c.ID, Step: flow.Step{Done: true}}
}

// afterChange returns how far a change is, and commits its end where its run has ended.
func (s *Stepper) afterChange(ctx context.Context, c *execution.Applying, at run.Progress) (flow.ApplyStep, error) {
	r := at.Run
	out := flow.ApplyStep{Change: c.ID, Verb: c.Verb, Run: flow.RunRef{TenantID: r.TenantID, RunID: r.ID, Attempt: r.Attempt}, Step: at.Step}
	if !at.Step.Done {
		if c.Run != nil {
			out.Run = *c.Run
		}
		return out, nil
	}
	made := s.end(stepmachine.Ref{}, at).End
	if made.Status == stepmachine.CallExecuted {
		end := execution.ChangeEnd{Status: execution.ChangeApplied}
		if c.Probed != nil {
			var err error
			if end.After, err = s.d.Runs.Probe(ctx, out.Run, nil); err != nil {
				return flow.ApplyStep{}, err
			}
		}
		return out, s.EndChange(ctx, c, end)
	}
	end := execution.ChangeEnd{Status: execution.ChangeFailed, Code: string(fault.CodeConflict), Reason: "The call was cancelled."}
	switch {
	case made.Status == stepmachine.CallUnknown:
		end.Code, end.Reason = string(fault.CodeOutcomeUnknown), fault.CodeOutcomeUnknown.Spec().Message
	case made.Error != nil:
		end.Code, end.Reason = made.Error.Code, made.Error.Title
	}
	return out, s.EndChange(ctx, c, end)
}
