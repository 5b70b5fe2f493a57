package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/taint"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/audit"
)

// MaxDepth is how many Maps may start each other in a row, the first included.
const MaxDepth = 5

// mostPayload is the most bytes of the payload of another Map: what a trigger may have too.
const mostPayload = 1 << 20

// otherPrefix begins the name of the output of another Map, as the one that started it keeps it. The
// step follows.
const otherPrefix = "map:"

// StartOther starts another Map for a step, for whom the execution acts. What steps have done is
// written in the same transaction. It can be repeated: the step always gets the same execution. One
// that is refused is the end of the call.
func (s *triggers) StartOther(ctx context.Context, in flow.MapStart) (flow.MapOfMap, error) {
	e, err := s.readHead(ctx, in.MapRef)
	if err != nil {
		return flow.MapOfMap{}, err
	}
	e.Tainted, e.TaintSources = e.Tainted || in.Tainted, taint.Add(e.TaintSources, in.Sources...)
	var child Execution
	if err = e.broken; err == nil {
		child, err = s.startOther(ctx, e, in)
	}
	f := fault.As(err)
	switch {
	case e.broken != nil:
		s.d.Log.ErrorContext(ctx, "a step of a Map starts no other", "error", e.broken)
		f = fault.New(fault.CodeInternal, ErrChain.Error())
	case err == nil:
		return s.progressOfOther(ctx, e, in.Start.Ref, child, in.Start.Wait)
	case f == nil || f.Code == fault.CodeServiceUnavailable || f.Code == fault.CodeInternal:
		return flow.MapOfMap{}, err
	}
	reused := fault.HasCode(err, fault.CodeIdempotencyKeyReused)
	// What is refused now may have been started before.
	rows, err := s.q.MapOfStep(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.MapOfStepParams{TenantID: e.TenantID, ParentID: e.ExecutionID, Step: in.Start.Ref.String()})
	if err != nil {
		return flow.MapOfMap{}, fmt.Errorf("execution: look for that of a step: %w", err)
	}
	if len(rows) > 0 && !reused {
		if child, err = s.openExecution(ctx, rows[0]); err != nil {
			return flow.MapOfMap{}, err
		}
		return s.progressOfOther(ctx, e, in.Start.Ref, child, in.Start.Wait)
	}
	b := &db.Batch{}
	if err := s.steps.Queue(ctx, b, e, in.MapWrites); err != nil {
		return flow.MapOfMap{}, err
	}
	if b.Len() > 0 {
		if err := s.d.DB.Send(ctx, e.TenantID, b); err != nil {
			return flow.MapOfMap{}, fmt.Errorf("execution: write: %w", err)
		}
	}
	return flow.MapOfMap{Private: flow.IsPrivate(), Done: true, End: stepmachine.CallEnd{
		Ref: in.Start.Ref, Status: stepmachine.CallFailed, Error: stepError(f), MayRepeat: !reused,
	}}, nil
}

// Others returns the sources of others' words that who reads the end of the execution reads.
func (e Execution) Others() []string {
	switch {
	case e.Ended() && e.Reads == nil: // it has ended in an unusual way, or before sources were noted
		return []string{taint.Map(e.ID.String())}
	case e.Ended():
		return taint.Add(e.Reads, e.TaintSources...)
	default:
		return e.TaintSources
	}
}

func stepError(f *fault.Error) *stepmachine.Error {
	out := stepmachine.NewError(string(f.Code), f.Message)
	out.Retryable, out.RetryAfterMS = f.Retryable, f.RetryAfter.Milliseconds()
	return out
}

func (s *triggers) startOther(ctx context.Context, e Execution, in flow.MapStart) (Execution, error) {
	start := in.Start
	payload, err := s.Resolve(ctx, e, start.Payload, in.Commands)
	if errors.Is(err, stepmachine.ErrTooLarge) || len(payload) > mostPayload {
		return Execution{}, fault.New(fault.CodeInvalidArgs, "The payload of another Map has at most 1 MiB.")
	}
	if err != nil {
		return Execution{}, err
	}
	id, err := uuid.Parse(start.MapID)
	if err != nil {
		return Execution{}, fault.New(fault.CodeMapNotFound, "")
	}
	version, err := s.d.Definitions.Version(ctx, e.TenantID, id, int32(start.Version))
	if err != nil {
		return Execution{}, err
	}
	if e.Depth+1 >= MaxDepth {
		return Execution{}, fault.Newf(fault.CodeConflict, "More than %d Maps would start each other in a row.", MaxDepth)
	}
	if len(payload) == 0 || payload[0] != '{' {
		return Execution{}, fault.New(fault.CodeInvalidArgs, "The payload of another Map is an object.")
	}
	var refused error // where the step has not started it before
	if wrong := version.Program.CheckPayload(payload); wrong != nil {
		refused = fault.Newf(fault.CodeInvalidArgs, "The payload does not fit the trigger_schema of the other Map: %s %s", wrong[0].Path, wrong[0].Message)
	}
	parent := &Parent{Execution: e, Step: start.Ref.String(), Awaited: start.Wait, Invented: start.Payload.Invented, reads: in.Reads, place: pathOf(start.Ref)}
	if e.DryRun && start.Wait {
		parent.changesAt = append(slices.Clone(e.changesAt), int32(in.Last()))
	}
	queue, err := s.steps.Prepare(ctx, e, in.MapWrites)
	if err != nil {
		return Execution{}, err
	}
	parent.also = func(b *db.Batch, id uuid.UUID) { queue(b, Called{Ref: start.Ref, Run: executionIDOf(id)}) }
	child, fresh, err := s.claimExecution(ctx, e.Starter(), uuid.Must(uuid.NewV7()), version, Request{
		MapID: id, Payload: payload, SessionID: e.SessionID, Customer: e.Customer, DryRun: start.DryRun || e.DryRun, Parent: parent,
		Metadata: mustJSON(e.About(pathOf(start.Ref))),
	}, refused)
	if err != nil || !fresh {
		return child, err
	}
	if waitsInLine(child) {
		return child, nil
	}
	s.workflows.startBeside(ctx, child)
	return child, nil
}

// LookAtOther returns how far the execution is that a step has started.
func (s *triggers) LookAtOther(ctx context.Context, in flow.MapOfMapRef) (flow.MapOfMap, error) {
	e, err := s.readHead(ctx, in.MapRef)
	if err != nil {
		return flow.MapOfMap{}, err
	}
	child, err := s.readExecution(ctx, in.TenantID, in.Child)
	if err != nil {
		return flow.MapOfMap{}, err
	}
	return s.progressOfOther(ctx, e, in.Ref, child, true)
}

// StopOther cancels the execution that a step has started. It undoes what it has done, and then ends.
func (s *triggers) StopOther(ctx context.Context, in flow.MapOfMapRef) (flow.MapOfMap, error) {
	e, err := s.readHead(ctx, in.MapRef)
	if err != nil {
		return flow.MapOfMap{}, err
	}
	child, err := s.readExecution(ctx, in.TenantID, in.Child)
	if err != nil {
		return flow.MapOfMap{}, err
	}
	if !child.Ended() {
		by := actor.Actor{Kind: actor.Map, TenantID: e.TenantID, ID: e.MapID}
		if child, err = s.setWanted(ctx, by, child, audit.MapCancelled, dbsqlc.WantOfMapParams{Cancel: true}); fault.HasCode(err, fault.CodeConflict) {
			child, err = s.readExecution(ctx, in.TenantID, in.Child)
		}
		if err != nil {
			return flow.MapOfMap{}, err
		}
	}
	return s.progressOfOther(ctx, e, in.Ref, child, true)
}

// progressOfOther returns how far the other execution is, as the step machine of the one that started it takes
// it.
func (s *triggers) progressOfOther(ctx context.Context, e Execution, ref stepmachine.Ref, child Execution, wait bool) (flow.MapOfMap, error) {
	out := flow.MapOfMap{Private: flow.IsPrivate(), Child: child.ID, End: stepmachine.CallEnd{Ref: ref, Wrote: child.Wrote}}
	end := &out.End
	out.Tainted, out.Sources, out.Reads = child.Tainted, child.TaintSources, child.Others()
	if out.Tainted && !e.Tainted {
		if err := s.q.TaintMap(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.TaintMapParams{TenantID: e.TenantID, ID: e.ID, Sources: append([]string{}, child.TaintSources...)}); err != nil {
			return flow.MapOfMap{}, fmt.Errorf("execution: taint: %w", err)
		}
		e.Tainted, e.TaintSources = true, taint.Add(e.TaintSources, child.TaintSources...)
		s.heads.Add(e) // looks follow while the other Map waits, and would write it again
	}
	switch {
	case !wait:
		// It is not known what it will do, so no retry starts it again.
		out.Done, end.Status, end.Wrote = true, stepmachine.CallExecuted, !child.DryRun
		end.Result = stepmachine.Of(mustJSON(map[string]string{"execution_id": child.ExecutionID}))
		return out, nil
	case !child.Ended():
		if out.Waits = waitsOf(child); waitsInLine(child) {
			// Only a row that waits in line itself may say so: the sweeper leaves such rows alone.
			out.Waits = stepmachine.WaitsMap
		}
		return out, nil
	case child.ErasedAt != nil:
		end.Status, end.Error = stepmachine.CallFailed, stepError(fault.New(fault.CodeResultExpired, ""))
	case child.Status == stepmachine.StatusCompleted:
		end.Status = stepmachine.CallExecuted
		var err error
		if end.Result, err = s.outputOf(ctx, e, ref, child); err != nil {
			return flow.MapOfMap{}, err
		}
	case child.Status == stepmachine.StatusCancelled && !child.Wrote:
		end.Status = stepmachine.CallCancelled
	default:
		end.Status, end.MayRepeat = stepmachine.CallFailed, !child.Wrote
		end.Error = errorOfOther(child)
	}
	out.Done = true
	return out, nil
}

// errorOfOther returns the error of another Map as the one that started it sees it: its instance is
// the step that started it.
func errorOfOther(child Execution) *stepmachine.Error {
	if child.Error == nil {
		return stepmachine.NewError(string(fault.CodeConflict), "The other Map was cancelled.")
	}
	out := *child.Error
	out.Instance = ""
	return &out
}

// outputOf returns the output of another Map. A large one is kept with the execution that reads it,
// which may outlive the other one.
func (s *triggers) outputOf(ctx context.Context, e Execution, ref stepmachine.Ref, child Execution) (stepmachine.Value, error) {
	output := child.Output
	if output == nil {
		output = json.RawMessage("null")
	}
	v := stepmachine.Of(output)
	if len(output) > stepmachine.MaxInline {
		l, err := s.newLoader(ctx, e, nil)
		if err != nil {
			return v, err
		}
		name := otherPrefix + ref.String()
		b := &db.Batch{}
		s.queueValue(b, l.key, e, name, v)
		if err := s.d.DB.Send(ctx, e.TenantID, b); err != nil {
			return v, fmt.Errorf("execution: store an output: %w", err)
		}
		v = Reference(name, output, nil)
	}
	v.Invented = child.outputInvented
	return v, nil
}

// waitsOf returns what an execution waits for; "" where it works.
func waitsOf(e Execution) stepmachine.Waiting {
	var w struct {
		For stepmachine.Waiting `json:"for"`
	}
	switch {
	case e.Status == stepmachine.StatusRunning:
		return ""
	case json.Unmarshal(e.WaitingFor, &w) == nil && w.For != "":
		return w.For
	default:
		return stepmachine.WaitsMap
	}
}
