package execution

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/base/flow"
)

// startInTurn starts the workflow of the execution's attempt when it is the turn of its tenant, unless it
// waits for a place of its concurrency key. Where too many wait for their turn, the sweeper starts it.
func (s *workflows) startInTurn(ctx context.Context, e Execution) error {
	if waitsInLine(e) || !s.starts.take(context.WithoutCancel(ctx), e) {
		return nil
	}
	return s.startCounted(ctx, e)
}

// startIfFree is startInTurn for executions that no caller waits for. Where the tenant has no turn now, the
// sweeper starts the workflow later.
func (s *workflows) startIfFree(ctx context.Context, e Execution) error {
	if waitsInLine(e) || !s.starts.try(e) {
		return nil
	}
	return s.startCounted(ctx, e)
}

// startCounted starts the workflow of an execution that has its turn, and ends the turn where the start
// fails. Where the worker is another process, the start lasts until the first
// steps have come to rest.
func (s *workflows) startCounted(ctx context.Context, e Execution) error {
	err := s.startWorkflow(ctx, e)
	if err != nil || !s.cfg.OneProcess {
		s.starts.rest(e.ID)
	}
	return err
}

// waitsInLine reports whether the execution waits for a place of its concurrency key.
func waitsInLine(e Execution) bool { return string(e.WaitingFor) == waitsForPlace }

// Rests notes that the execution waits: for its provider, for people, for a time. Another one of its
// tenant begins in its place.
func (s *workflows) Rests(id uuid.UUID) { s.starts.rest(id) }

// startLimit is the time limit of one attempt to reach the workflow engine.
const startLimit = 10 * time.Second

// startWorkflow starts the workflow of the execution's attempt. It does not depend on the caller.
func (s *workflows) startWorkflow(ctx context.Context, e Execution) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	listing := flow.Listing{
		Kind: flow.KindMap, Tenant: e.TenantID, Execution: e.ExecutionID, Subject: e.MapID.String(), Name: e.mapName,
		Details: flow.ExecutionDetails(s.cfg.PublicURL, e.ExecutionID),
	}
	s.heads.Add(e)
	return s.d.Engine.StartMap(ctx, flow.MapInput{MapRef: e.Ref()}, e.WorkflowID, listing)
}

// otherPatience is how long a step waits for the start of another Map. Where API and worker are apart,
// the start lasts until the first steps of the other Map have come to rest. Often that is its end.
const otherPatience = 500 * time.Millisecond

// startBeside starts the workflow of another Map, and returns after otherPatience at the latest: all else
// of the execution waits for the step. It does not wait for the turn of the tenant, because the one that
// starts it has one.
func (s *workflows) startBeside(ctx context.Context, child Execution) {
	started := make(chan struct{})
	go func() {
		defer close(started)
		if err := s.startWorkflow(ctx, child); err != nil {
			// Sweep starts it.
			s.d.Log.WarnContext(ctx, "execution not started", "execution_id", child.ExecutionID, "error", err)
		}
	}()
	timer := time.NewTimer(otherPatience)
	defer timer.Stop()
	select {
	case <-started:
	case <-timer.C:
	}
}

// nudgeOne tells the workflow of an execution that there is news. Sweep repeats one that is lost.
func (s *workflows) nudgeOne(ctx context.Context, e Execution) {
	if _, err := s.d.Engine.Nudge(ctx, e.WorkflowID); err != nil {
		s.d.Log.WarnContext(ctx, "execution not told", "execution_id", e.ExecutionID, "error", err)
	}
}

// nudgeAll tells workflows that there is news. SweepNews repeats those that are lost.
func (s *workflows) nudgeAll(ctx context.Context, workflows []string) {
	var told sync.WaitGroup
	places := make(chan struct{}, tellAtOnce)
	for _, id := range workflows {
		places <- struct{}{}
		told.Go(func() {
			defer func() { <-places }()
			if _, err := s.d.Engine.Nudge(ctx, id); err != nil && ctx.Err() == nil {
				s.d.Log.WarnContext(ctx, "execution not told", "workflow_id", id, "error", err)
			}
		})
	}
	told.Wait()
}
