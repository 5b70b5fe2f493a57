package api

import (
	"bytes"
	"context"
	"strconv"

	mapruns "agentruntime/internal/maps/execution"
	"agentruntime/internal/record/event"
)

// mapRunSource tells of one execution of a Map.
type mapRunSource struct {
	h     *mapHandlers
	place *event.Stream
	e     mapruns.Execution
	// since is the frontier up to which all steps were told; nil before the first page. turn is the
	// one of the page that is being told, and after the last step of it.
	since, turn *int64
	after       int32
	// sent has the records that were told since that frontier, by the path of the step; telling
	// those of the turn.
	sent, telling map[string]int32
	told          string
}

func (f *mapRunSource) wait(ctx context.Context) bool { return f.place.Pause(ctx, followEvery) }
func (f *mapRunSource) beat() string                  { return f.id() }

// id is the line with the place from which a later stream goes on.
func (f *mapRunSource) id() string {
	if f.since == nil {
		return ""
	}
	return "id: " + strconv.FormatInt(*f.since, 10) + "\n"
}

func (f *mapRunSource) next(ctx context.Context) (messages []byte, more, over bool, err error) {
	p, err := f.h.executions.Since(ctx, f.e, f.since, f.after, followPage)
	if err != nil {
		return nil, false, false, err
	}
	if f.turn == nil {
		f.turn, f.telling = &p.Frontier, map[string]int32{}
	}
	var b bytes.Buffer
	for _, step := range p.Steps {
		f.telling[step.Path], f.after = step.Rev, step.Seq
		if f.sent[step.Path] == step.Rev {
			continue
		}
		if err := message(&b, "", "step", viewMapStep(step)); err != nil {
			return nil, false, false, err
		}
	}
	if p.More {
		return b.Bytes(), true, false, nil
	}
	// The last page has read the execution before its steps. Where it has ended by then, all
	// steps were told.
	f.since, f.sent, f.turn, f.after = f.turn, f.telling, nil, 0
	if err := f.status(ctx, &b, p.Execution); err != nil {
		return nil, false, false, err
	}
	if b.Len() > 0 {
		// What was sent until here is complete: a stream that begins after it misses nothing.
		b.WriteString(f.id() + "\n")
	}
	if over = p.Execution.Ended(); over {
		v, err := shownMapExecution(ctx, f.h.executions, p.Execution, f.h.now())
		if err != nil {
			return nil, false, false, err
		}
		if err := message(&b, "", "end", v); err != nil {
			return nil, false, false, err
		}
	}
	return b.Bytes(), false, over, nil
}

// status tells how the execution stands, where that is new.
func (f *mapRunSource) status(ctx context.Context, b *bytes.Buffer, e mapruns.Execution) error {
	text := string(e.Status) + strconv.Itoa(int(e.Attempt)) + string(e.WaitingFor)
	if text == f.told {
		return nil
	}
	waits, err := f.h.executions.Waiting(ctx, e)
	if err != nil {
		return err
	}
	f.told = text
	return message(b, "", "status", mapStatus{executionStatus{ExecutionID: e.ExecutionID, Status: string(e.Status), Attempt: e.Attempt}, waits})
}
