package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
)

// Step is what one step of an execution has done.
type Step struct {
	Path     string
	Seq      int32
	Rev      int32 // the record that was written last; a later one has a higher number
	ID       string
	Type     string
	Instance string
	Status   string
	Attempts int32
	RunID    string
	Input    json.RawMessage // masked; nil where there is none
	Output   json.RawMessage // masked
	Error    *stepmachine.Error
	// ModelCalls are those of a step that asks models.
	ModelCalls []ModelCall
	BeganAt    time.Time
	EndedAt    *time.Time
}

// stepsBytes bounds the stored values that a page of steps has. A page with one larger step has
// that one.
const stepsBytes = 1 << 20

// Steps returns the steps of an execution in the order in which they began, after the one with the
// number, and whether there are more. Values are shown as others than the caller may see them; one
// that is stored apart is shown by its name and size.
func (s *views) Steps(ctx context.Context, e Execution, after int32, limit int) (steps []Step, more bool, err error) {
	rows, err := s.q.ListMapSteps(ctx, s.d.DB.Reading(e.TenantID, db.ListLimit), dbsqlc.ListMapStepsParams{
		TenantID: e.TenantID, Execution: e.ID, After: after, Most: int32(limit + 1), Bytes: stepsBytes,
	})
	if err != nil {
		return nil, false, fmt.Errorf("execution: steps: %w", err)
	}
	return s.openSteps(ctx, e, rows, limit)
}

// Progress is how an execution stands, and which of its steps are new.
type Progress struct {
	// Execution has its output and its error where it has ended and no step is left to show.
	Execution Execution
	Steps     []Step
	More      bool
	// Frontier is what Since takes to go on from here.
	Frontier int64
}

// Since returns how an execution stands now, and those of its steps that were written since the
// frontier, all of them for nil, in the order in which they began, after the one with the number.
// A step may be in two answers, and is missing in none.
func (s *views) Since(ctx context.Context, e Execution, since *int64, after int32, limit int) (p Progress, err error) {
	b := &db.Batch{}
	frontier := queueFrontier(b, s.q)
	row := db.Queue(b, s.q.MapStanding, dbsqlc.MapStandingParams{TenantID: e.TenantID, ID: e.ID})
	rows := db.Queue(b, s.q.ListMapSteps, dbsqlc.ListMapStepsParams{
		TenantID: e.TenantID, Execution: e.ID, After: after, Since: since, Most: int32(limit + 1), Bytes: stepsBytes,
	})
	if err := s.d.DB.SendReading(ctx, e.TenantID, db.ListLimit, b); err != nil {
		return p, fmt.Errorf("execution: follow: %w", err)
	}
	p.Frontier = frontier.Value
	now := row.Value
	p.Execution = e
	p.Execution.Status, p.Execution.WaitingFor = stepmachine.Status(now.Status), now.WaitingFor
	p.Execution.Attempt, p.Execution.FinishedAt = now.Attempt, now.FinishedAt
	if p.Steps, p.More, err = s.openSteps(ctx, e, rows.Value, limit); err != nil || p.More || !p.Execution.Ended() {
		return p, err
	}
	p.Execution, err = s.readExecution(ctx, e.TenantID, e.ID)
	return p, err
}

func queueFrontier(b *db.Batch, q *dbsqlc.Queries) *db.Answer[int64] {
	return db.Queue(b, func(ctx context.Context, tx dbsqlc.DBTX, _ struct{}) (int64, error) { return q.EventFrontier(ctx, tx) }, struct{}{})
}

func (s *views) openSteps(ctx context.Context, e Execution, rows []dbsqlc.ListMapStepsRow, limit int) (steps []Step, more bool, err error) {
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return nil, false, fmt.Errorf("execution: %w", err)
	}
	more = len(rows) > 0 && rows[0].Found > int64(min(len(rows), limit))
	for _, row := range rows[:min(len(rows), limit)] {
		step, err := openStep(key, e, row)
		if err != nil {
			return nil, false, err
		}
		steps = append(steps, step)
	}
	if err := s.maskCalls(ctx, e, steps); err != nil {
		return nil, false, err
	}
	return steps, more, s.showModels(ctx, e, steps)
}

func openStep(key *datakey.Key, e Execution, row dbsqlc.ListMapStepsRow) (step Step, err error) {
	step = Step{
		Path: row.Path, Seq: row.Seq, Rev: row.Rev, ID: row.Step, Type: row.Type, Instance: row.Instance, Status: row.Status, Attempts: row.Attempts,
		RunID: db.Text(row.RunID), BeganAt: row.BeganAt, EndedAt: row.EndedAt,
	}
	at := func(f datakey.Field) datakey.Place { return stepPlace(e.TenantID, e.ID, row.Path, f) }
	if step.Input, err = openShown(key, at(datakey.MapStepInput), row.Input); err != nil {
		return step, err
	}
	if step.Output, err = openShown(key, at(datakey.MapStepOutput), row.Output); err != nil {
		return step, err
	}
	text, err := openOptional(key, at(datakey.MapStepError), row.Error)
	if err != nil || text == nil {
		return step, err
	}
	step.Error = &stepmachine.Error{}
	if err := json.Unmarshal(text, step.Error); err != nil {
		return step, fmt.Errorf("execution: steps: %w", err)
	}
	return step, nil
}

// openShown opens a stored value of the step machine and masks it.
func openShown(key *datakey.Key, at datakey.Place, stored *string) (json.RawMessage, error) {
	text, err := openOptional(key, at, stored)
	if err != nil || text == nil {
		return nil, err
	}
	var v stepmachine.Value
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, fmt.Errorf("execution: %s: %w", at.Field, err)
	}
	raw, err := v.Resolve(func(s stepmachine.Stored) (json.RawMessage, error) {
		return mustJSON(map[string]any{"stored": s.ID, "bytes": s.Bytes}), nil
	})
	if err != nil {
		return nil, err
	}
	return masked(raw), nil
}

// States returns the definition that an execution runs, and by the id of each step that has begun
// the status that says most: of one in a loop, that of an iteration which failed or still goes on
// comes before those of iterations that have ended well.
func (s *views) States(ctx context.Context, e Execution) (*mapdef.Definition, map[string]stepmachine.StepStatus, error) {
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return nil, nil, err
	}
	rows, err := s.q.MapStepStates(ctx, s.d.DB.Reading(e.TenantID, db.ListLimit), dbsqlc.MapStepStatesParams{TenantID: e.TenantID, Execution: e.ID})
	if err != nil {
		return nil, nil, fmt.Errorf("execution: states: %w", err)
	}
	weight := []stepmachine.StepStatus{
		stepmachine.StepUnknown, stepmachine.StepWaiting, stepmachine.StepRunning, stepmachine.StepFailed,
		stepmachine.StepCancelled, stepmachine.StepCompleted, stepmachine.StepSkipped,
	}
	states := map[string]stepmachine.StepStatus{}
	for _, row := range rows {
		for _, status := range weight {
			if slices.Contains(row.Statuses, string(status)) {
				states[row.Step] = status
				break
			}
		}
	}
	return v.Program.Definition(), states, nil
}
