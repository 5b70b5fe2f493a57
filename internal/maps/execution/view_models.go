package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/modelstep"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
)

// ModelCall is what others see of a call of a model.
type ModelCall struct {
	Attempt, Turn int32
	Purpose       string
	// Model is the name of the model; "" until it has answered.
	Model  string
	Usage  model.Usage
	Finish string
	Money  int64 // in millionths of a US dollar
	// Failed: the model has not answered, or the step has failed with its answer.
	Failed bool
	// Ruling is what the answer of a manager is worth; nil for other calls, and where it cannot be used.
	Ruling *modelstep.Ruling
	// Runs are those of the calls that the answer has asked for, in their order.
	Runs    []ModelRun
	BeganAt time.Time
	EndedAt *time.Time
}

// ModelRun is a run of an agent.
type ModelRun struct {
	Verb        string `json:"verb"`
	ExecutionID string `json:"execution_id"`
}

// runsOf returns the runs of a row in the order of their calls.
func runsOf(row []byte) (runs []ModelRun, err error) {
	var byNumber map[int]ModelRun
	if err := json.Unmarshal(row, &byNumber); err != nil {
		return nil, fmt.Errorf("execution: runs of a model: %w", err)
	}
	for _, number := range slices.Sorted(maps.Keys(byNumber)) {
		runs = append(runs, byNumber[number])
	}
	return runs, nil
}

// modelCallsShown bounds the calls of models that a page of steps shows.
const modelCallsShown = 1000

// showModels adds the calls of models to the steps that make some. It costs a round trip only where
// there are such steps.
func (s *views) showModels(ctx context.Context, e Execution, steps []Step) error {
	at := map[string]int{}
	paths := []string{}
	for i, step := range steps {
		if mapdef.Type(step.Type).IsModel() {
			at[step.Path] = i
			paths = append(paths, step.Path)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return fmt.Errorf("execution: %w", err)
	}
	rows, err := s.q.ListModelCalls(ctx, s.d.DB.Reading(e.TenantID, db.ListLimit), dbsqlc.ListModelCallsParams{
		TenantID: e.TenantID, Execution: e.ID, Paths: paths, Most: modelCallsShown,
	})
	if err != nil {
		return fmt.Errorf("execution: calls of models: %w", err)
	}
	for _, row := range rows {
		runs, err := runsOf(row.Runs)
		if err != nil {
			return err
		}
		var turn ModelTurn
		if err := openRuling(key, modelPlace(e, stepmachine.Ref{Path: row.Path, Attempt: int(row.Attempt)}, int(row.Turn), datakey.ModelRuling), row.Ruling, &turn); err != nil {
			return fmt.Errorf("execution: ruling of a model: %w", err)
		}
		step := &steps[at[row.Path]]
		step.ModelCalls = append(step.ModelCalls, ModelCall{
			Ruling:  turn.Ruling,
			Attempt: row.Attempt, Turn: row.Turn, Purpose: row.Purpose, Model: row.Model, Finish: row.Finish, Money: row.MoneyMicros, Failed: row.Failed, Runs: runs,
			Usage: model.Usage{In: row.TokensIn, Cached: row.TokensCached, Out: row.TokensOut, Estimate: row.Estimated}, BeganAt: row.BeganAt, EndedAt: row.EndedAt,
		})
	}
	return nil
}
