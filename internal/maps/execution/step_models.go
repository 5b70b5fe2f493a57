package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/modelstep"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/taint"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
)

// Bounds of the model steps of one execution.
const (
	// modelCallsMost is how many calls of models an execution may make, modelBytesMost how many
	// bytes their rows may have, sealed.
	modelCallsMost = 10_000
	modelBytesMost = 64 << 20
)

// modelPrefix begins the name of the value that says what a model step is asked for. The step and
// its attempt follow.
const modelPrefix = "model:"

func modelStep(ref stepmachine.Ref) string { return modelPrefix + ref.String() }

// AskedModel is a model step, with what its conversation needs of the execution.
type AskedModel struct {
	Execution Execution
	Start     stepmachine.StartModel
	// Input is that of the step, in full. Text is what its author asks.
	Input json.RawMessage
	Text  stepmachine.Asked
	Do    mapdef.Action

	s       *steps
	loader  *loader
	program *stepmachine.Program
}

// Model returns a model step that the execution has begun.
func (s *steps) Model(ctx context.Context, e Execution, ref stepmachine.Ref) (AskedModel, error) {
	a := AskedModel{Execution: e, s: s}
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return a, err
	}
	a.program = v.Program
	if a.loader, err = s.newLoader(ctx, e, nil); err != nil {
		return a, err
	}
	raw, err := a.loader.load(stepmachine.Stored{ID: modelStep(ref)})
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(raw, &a.Start); err != nil {
		return a, fmt.Errorf("execution: model step: %w", err)
	}
	a.Do = a.program.Step(ref.Path).Do
	if a.Input, err = a.Start.Input.Resolve(a.loader.load); err != nil {
		return a, err
	}
	a.Text, err = a.program.Asked(ctx, s.d.Sandbox.For(e.TenantID.String()), a.Start, a.loader.load)
	return a, err
}

// Unnamed returns the first address in the arguments of a call that the Map does not name; "" where there is
// none. What has triggered the Map is not known to be the tenant's own words.
func (s *steps) Unnamed(ctx context.Context, e Execution, args json.RawMessage) (string, error) {
	if taint.Unnamed(args) == "" {
		return "", nil
	}
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return "", err
	}
	return taint.Unnamed(args, taint.Texts(v.Program.Definition().Source())...), nil
}

// Check returns what is wrong with an output of the step, by its schema; nil where it fits.
func (a AskedModel) Check(output json.RawMessage) []string {
	return a.program.CheckOutput(a.Start.Ref.Path, output)
}

// IsComplete reports whether complete_when of an agent accepts its output; failed is why the
// condition has no value.
func (a AskedModel) IsComplete(ctx context.Context, calls []stepmachine.AgentCall, output json.RawMessage) (yes bool, failed *stepmachine.Error, err error) {
	yes, failure, err := a.program.IsComplete(ctx, a.s.d.Sandbox.For(a.Execution.TenantID.String()), a.Start, calls, output, a.loader.load)
	if failure != nil {
		failed = stepmachine.NewError(failure.Code, "complete_when: "+failure.Detail)
	}
	return yes, failed, err
}

// Keep returns an output of the step as a value: as it is, or the name of it where it is large. It
// is stored then.
func (a AskedModel) Keep(ctx context.Context, output json.RawMessage) (stepmachine.Value, error) {
	v := stepmachine.Of(output)
	v.Invented = a.Start.Input.Invented
	if len(output) <= stepmachine.MaxInline {
		return v, nil
	}
	name := modelStep(a.Start.Ref) + ":output"
	b := &db.Batch{}
	a.s.queueValue(b, a.loader.key, a.Execution, name, v)
	if err := a.s.d.DB.Send(ctx, a.Execution.TenantID, b); err != nil {
		return v, fmt.Errorf("execution: store an output: %w", err)
	}
	return Reference(name, output, v.Invented), nil
}

// ModelTurn is one call of a model.
type ModelTurn struct {
	// Request is that of the first turn; nil of the others. Added are the messages that a later one
	// adds.
	Request *model.Request  `json:"request,omitempty"`
	Added   []model.Message `json:"added,omitempty"`
	// Ends are the ends of the calls that the turn before has asked for.
	Ends []flow.MapToolEnd `json:"ends,omitempty"`
	// Agent is the stored agent that does the step, in the first turn; nil for none.
	Agent *StepAgent `json:"agent,omitempty"`
	// Manager: the manager of the agent is asked, and not the agent. Asked is the question that was
	// answered before the turn; nil for none.
	Manager bool      `json:"manager,omitempty"`
	Asked   *Question `json:"asked,omitempty"`
	// Ruling is what the answer of a manager is worth; nil where it cannot be used, and Wrong says why.
	Ruling *modelstep.Ruling `json:"-"`
	Wrong  string            `json:"-"`
	// Ended: there is an Answer, or an Error. Both are there where a manager has answered, and what it was
	// asked about fails all the same.
	Ended  bool               `json:"-"`
	Answer model.Response     `json:"-"`
	Error  *stepmachine.Error `json:"-"`
	// Tainted: a model of the execution may have read what others than the tenant wrote.
	Tainted bool `json:"-"`
	// Sources say what.
	Sources []string `json:"-"`
	// Money is what the call has cost, in millionths of a US dollar, and Took how long it has lasted.
	Money int64         `json:"-"`
	Took  time.Duration `json:"-"`
}

// Question is a question of the manager of a step, with its answer.
type Question struct {
	Question string          `json:"question"`
	Answer   json.RawMessage `json:"answer"`
}

// ruling is what is stored of the answer of a manager.
type ruling struct {
	*modelstep.Ruling

	Wrong string `json:"wrong,omitempty"`
}

// StepAgent is the version of a stored agent that does a step.
type StepAgent struct {
	ID      uuid.UUID `json:"id"`
	Name    string    `json:"name"`
	Version int32     `json:"version"`
	// Mode is its executionMode.
	Mode string `json:"mode"`
}

func modelPlace(e Execution, ref stepmachine.Ref, turn int, f datakey.Field) datakey.Place {
	return datakey.Place{Tenant: e.TenantID, Row: uuid.NewSHA1(e.ID, fmt.Appendf(nil, "%s/%d", ref, turn)), Field: f}
}

// Prepare hides the secrets that the tenant has stored in what the step asks, and returns the calls so
// far, in one round trip. Without it nothing of the step is sent to a model.
func (a *AskedModel) Prepare(ctx context.Context) ([]ModelTurn, error) {
	values := []*json.RawMessage{&a.Input}
	for i := range a.Text.Values {
		values = append(values, &a.Text.Values[i].Value.JSON)
	}
	b := &db.Batch{}
	hide, err := a.s.views.queueHide(ctx, b, a.Execution.TenantID, values)
	if err != nil {
		return nil, fmt.Errorf("execution: secrets in what a model reads: %w", err)
	}
	rows := a.queueTurns(b)
	if err := a.s.d.DB.Send(ctx, a.Execution.TenantID, b); err != nil {
		return nil, fmt.Errorf("execution: calls of a model: %w", err)
	}
	if err := hide(); err != nil {
		return nil, err
	}
	return a.turns(rows.Value)
}

// Turns returns the calls of a step so far, in their order.
func (a AskedModel) Turns(ctx context.Context) ([]ModelTurn, error) {
	b := &db.Batch{}
	rows := a.queueTurns(b)
	if err := a.s.d.DB.Send(ctx, a.Execution.TenantID, b); err != nil {
		return nil, fmt.Errorf("execution: calls of a model: %w", err)
	}
	return a.turns(rows.Value)
}

func (a AskedModel) queueTurns(b *db.Batch) *db.Answer[[]dbsqlc.ModelCallsOfStepRow] {
	e, ref := a.Execution, a.Start.Ref
	return db.Queue(b, a.s.q.ModelCallsOfStep, dbsqlc.ModelCallsOfStepParams{
		TenantID: e.TenantID, Execution: e.ID, Path: pathOf(ref), Attempt: int32(ref.Attempt),
	})
}

func (a AskedModel) turns(rows []dbsqlc.ModelCallsOfStepRow) ([]ModelTurn, error) {
	e, ref, key := a.Execution, a.Start.Ref, a.loader.key
	turns := make([]ModelTurn, len(rows))
	for i, row := range rows {
		turn := &turns[i]
		text, err := key.Open(modelPlace(e, ref, i, datakey.ModelAsked), row.Asked)
		if err == nil {
			err = json.Unmarshal(text, turn)
		}
		if err == nil {
			err = openInto(key, modelPlace(e, ref, i, datakey.ModelAnswer), row.Answer, &turn.Answer)
		}
		if err == nil {
			err = openInto(key, modelPlace(e, ref, i, datakey.ModelError), row.Error, &turn.Error)
		}
		if err != nil {
			return nil, fmt.Errorf("execution: call %d of a model: %w", i, err)
		}
		if err := openRuling(key, modelPlace(e, ref, i, datakey.ModelRuling), row.Ruling, turn); err != nil {
			return nil, fmt.Errorf("execution: ruling %d of a model: %w", i, err)
		}
		turn.Tainted, turn.Sources = row.Tainted, row.TaintSources
		if turn.Money = row.MoneyMicros; row.EndedAt != nil {
			turn.Ended, turn.Took = true, row.EndedAt.Sub(row.BeganAt)
		}
	}
	return turns, nil
}

func openRuling(key *datakey.Key, at datakey.Place, sealed *string, turn *ModelTurn) error {
	var r ruling
	if err := openInto(key, at, sealed, &r); err != nil || sealed == nil {
		return err
	}
	if turn.Wrong = r.Wrong; r.Wrong == "" {
		turn.Ruling = r.Ruling
	}
	return nil
}

func openInto(key *datakey.Key, at datakey.Place, sealed *string, into any) error {
	text, err := openOptional(key, at, sealed)
	if err != nil || text == nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Resolve returns a value of the execution in full.
func (a AskedModel) Resolve(v stepmachine.Value) (json.RawMessage, error) {
	return v.Resolve(a.loader.load)
}

// BeginTurn stores what a call asks, before it is made. stored is false where the execution has
// made as many calls of models, or has stored as much of them, as it may. A turn that was begun
// before is not begun again. reads are the sources of others' words that the execution has by now: the
// model may read any of them. It sets Tainted of the turn, and notes it in the execution.
func (a AskedModel) BeginTurn(ctx context.Context, number int, turn *ModelTurn, reads []string) (stored bool, err error) {
	e, ref := a.Execution, a.Start.Ref
	sources, taints := taint.Add(e.TaintSources, reads...), e.Tainted || len(reads) > 0
	for _, end := range turn.Ends {
		sources, taints = taint.Add(sources, end.Sources...), taints || end.Taints()
	}
	begun, err := a.s.q.BeginModelCall(ctx, a.s.d.DB.Tenant(e.TenantID), dbsqlc.BeginModelCallParams{
		TenantID: e.TenantID, Execution: e.ID, Path: pathOf(ref), Attempt: int32(ref.Attempt), Turn: int32(number), Purpose: string(a.purpose(*turn)),
		Asked: a.loader.key.Seal(modelPlace(e, ref, number, datakey.ModelAsked), mustJSON(turn)),
		Now:   a.s.d.Now(), MostCalls: modelCallsMost, MostBytes: modelBytesMost,
		Tainted: taints, Sources: sources,
	})
	if err != nil {
		return false, fmt.Errorf("execution: begin a call of a model: %w", err)
	}
	failpoint.Hit("model_begun", e.ID)
	for _, row := range begun {
		turn.Tainted, turn.Sources = row.Tainted, row.TaintSources
	}
	return len(begun) > 0, nil
}

// purpose returns what a turn asks a model for.
func (a AskedModel) purpose(turn ModelTurn) model.Purpose {
	if turn.Manager {
		return model.Manager
	}
	return model.Purpose(a.Do.Type())
}

// EndTurn stores the end of a call, and counts its tokens. settle adds to the same transaction; it
// hears whether this is the end that counts, because another one was not there before.
func (a AskedModel) EndTurn(ctx context.Context, number int, turn ModelTurn, settle func(b *db.Batch, counts bool)) error {
	e, ref, key := a.Execution, a.Start.Ref, a.loader.key
	failpoint.Hit("model_answered", e.ID)
	p := dbsqlc.EndModelCallParams{
		TenantID: e.TenantID, Execution: e.ID, Path: pathOf(ref), Attempt: int32(ref.Attempt), Turn: int32(number), Now: new(a.s.d.Now()),
		MoneyMicros: turn.Money,
	}
	if turn.Error != nil {
		p.Error = sealOptional(key, modelPlace(e, ref, number, datakey.ModelError), mustJSON(turn.Error))
	}
	if turn.Error == nil || turn.Answer.Finish != "" {
		u := turn.Answer.Usage
		p.Answer = sealOptional(key, modelPlace(e, ref, number, datakey.ModelAnswer), mustJSON(turn.Answer))
		p.Model, p.Finish, p.TokensIn, p.TokensCached, p.TokensOut, p.Estimated = turn.Answer.Model, string(turn.Answer.Finish), u.In, u.Cached, u.Out, u.Estimate
	}
	if turn.Ruling != nil || turn.Wrong != "" {
		p.Ruling = sealOptional(key, modelPlace(e, ref, number, datakey.ModelRuling), mustJSON(ruling{turn.Ruling, turn.Wrong}))
	}
	err := db.Insist(ctx, func() error {
		first := &db.Batch{}
		ended := db.Queue(first, a.s.q.EndModelCall, p)
		return a.s.d.DB.ReadAndWrite(ctx, e.TenantID, first, func() (*db.Batch, error) {
			last := &db.Batch{}
			counts := len(ended.Value) > 0
			settle(last, counts)
			if counts && turn.escalates() {
				queueEscalatedEvent(last, key, e, ref, number, turn.Ruling.Feedback)
			}
			return last, nil
		})
	})
	if err != nil {
		return fmt.Errorf("execution: end a call of a model: %w", err)
	}
	return nil
}

// EndRuling stores what the answer of a manager is worth, which was stored without it. One that is there
// stays.
func (a AskedModel) EndRuling(ctx context.Context, number int, turn ModelTurn) error {
	e, ref, key := a.Execution, a.Start.Ref, a.loader.key
	p := dbsqlc.EndRulingParams{TenantID: e.TenantID, Execution: e.ID, Path: pathOf(ref), Attempt: int32(ref.Attempt), Turn: int32(number)}
	if turn.Error != nil {
		p.Error = sealOptional(key, modelPlace(e, ref, number, datakey.ModelError), mustJSON(turn.Error))
	} else {
		p.Ruling = sealOptional(key, modelPlace(e, ref, number, datakey.ModelRuling), mustJSON(ruling{turn.Ruling, turn.Wrong}))
	}
	first := &db.Batch{}
	ended := db.Queue(first, a.s.q.EndRuling, p)
	err := a.s.d.DB.ReadAndWrite(ctx, e.TenantID, first, func() (*db.Batch, error) {
		last := &db.Batch{}
		if len(ended.Value) > 0 && turn.escalates() {
			queueEscalatedEvent(last, key, e, ref, number, turn.Ruling.Feedback)
		}
		return last, nil
	})
	if err != nil {
		return fmt.Errorf("execution: end a ruling: %w", err)
	}
	return nil
}

// Unruled reports whether a manager has answered, and nothing says what that is worth.
func (t ModelTurn) Unruled() bool {
	return t.Manager && t.Ended && t.Error == nil && t.Ruling == nil && t.Wrong == ""
}

func (t ModelTurn) escalates() bool {
	return t.Ruling != nil && t.Ruling.Verdict == modelstep.Escalate
}

// QueueModelRun notes the run of a call that an agent has asked for, with the claim of the run.
func (s *steps) QueueModelRun(b *db.Batch, e Execution, ref stepmachine.Ref, at flow.MapTool, run ModelRun) {
	db.QueueExec(b, s.q.NoteModelRun, dbsqlc.NoteModelRunParams{
		Number: strconv.Itoa(at.Number), Verb: run.Verb, Run: run.ExecutionID, TenantID: e.TenantID, Execution: e.ID,
		Path: pathOf(ref), Attempt: int32(ref.Attempt), Turn: int32(at.Turn),
	})
}

// ToolCall returns a call that an agent has asked for, and the stored agent; nil for none.
func (a AskedModel) ToolCall(ctx context.Context, turn, number int) (call model.ToolCall, by *StepAgent, err error) {
	turns, err := a.Turns(ctx)
	if err != nil {
		return call, nil, err
	}
	if turn >= len(turns) || number >= len(turns[turn].Answer.Calls) {
		return call, nil, fmt.Errorf("execution: the agent has asked for no call %d in turn %d", number, turn)
	}
	return turns[turn].Answer.Calls[number], turns[0].Agent, nil
}

// Offered reports whether an agent was offered the tool.
func Offered(turns []ModelTurn, name string) bool { return slices.Contains(ToolNames(turns), name) }

// ToolNames returns the names of the tools that an agent was offered.
func ToolNames(turns []ModelTurn) (names []string) {
	if len(turns) == 0 || turns[0].Request == nil {
		return nil
	}
	for _, t := range turns[0].Request.Tools {
		names = append(names, t.Name)
	}
	return names
}
