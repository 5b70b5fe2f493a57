package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/event"
)

// stepRow is a row of map_steps, by the names of the columns.
type stepRow struct {
	Path     string     `json:"path"`
	Seq      int        `json:"seq"`
	Rev      int        `json:"rev"`
	Step     string     `json:"step"`
	Type     string     `json:"type"`
	Instance string     `json:"instance"`
	Status   string     `json:"status"`
	Attempts int        `json:"attempts"`
	Input    *string    `json:"input"`
	Output   *string    `json:"output"`
	Error    *string    `json:"error"`
	RunID    *string    `json:"run_id"`
	BeganAt  time.Time  `json:"began_at"`
	EndedAt  *time.Time `json:"ended_at"`
}

// pathOf names a step of an execution: its place in the definition, and the iterations around it.
func pathOf(ref stepmachine.Ref) string {
	return stepmachine.Ref{Path: ref.Path, Iteration: ref.Iteration}.String()
}

// stepPlace is where a text of a step is sealed.
func stepPlace(tenant, execution uuid.UUID, path string, f datakey.Field) datakey.Place {
	return datakey.Place{Tenant: tenant, Row: uuid.NewSHA1(execution, []byte(path)), Field: f}
}

// Queue adds what steps have done to a batch of the execution's tenant. It can be repeated: what
// was written by a later record stays.
func (s *steps) Queue(ctx context.Context, b *db.Batch, e Execution, w flow.MapWrites) error {
	queue, err := s.Prepare(ctx, e, w)
	if err != nil {
		return err
	}
	queue(b, Called{})
	return nil
}

// Called says which run a step makes, by its execution_id.
type Called struct {
	Ref stepmachine.Ref
	Run string
}

// Prepare reads all that the writes need, and returns what queues them, with the run that a step makes.
// That reads nothing, so it may be called within a transaction: a read would wait there for a second
// connection, as all others would that have one.
func (s *steps) Prepare(ctx context.Context, e Execution, w flow.MapWrites) (queue func(b *db.Batch, called Called), err error) {
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return nil, fmt.Errorf("execution: %w", err)
	}
	kept, err := s.keptEvents(ctx, e, w)
	if err != nil {
		return nil, err
	}
	said, err := s.prepareEvents(ctx, key, e, w)
	if err != nil {
		return nil, err
	}
	return func(b *db.Batch, called Called) {
		for name, body := range kept {
			s.queueValue(b, key, e, name, stepmachine.Of(body))
		}
		s.queueWrites(b, key, e, w, called)
		for _, one := range said {
			one(b)
		}
	}, nil
}

// queueWrites queues the rows of the writes.
func (s *steps) queueWrites(b *db.Batch, key *datakey.Key, e Execution, w flow.MapWrites, called Called) {
	rows := map[string]int{}
	var steps []stepRow
	reused := map[string]bool{}
	for i, command := range w.Commands {
		switch c := command.(type) {
		case stepmachine.RecordStep:
			row := sealedStep(key, e, c, w.Number(i))
			if c.Ref == called.Ref {
				row.RunID = &called.Run
			} else if id := w.Run(i); id != uuid.Nil {
				name := executionIDOf(id)
				row.RunID = &name
			}
			reused[row.Path] = c.Reused
			if at, twice := rows[row.Path]; twice {
				// One statement changes a row once.
				was := steps[at]
				row.Input, row.RunID, row.Seq, row.BeganAt = firstText(row.Input, was.Input), firstText(row.RunID, was.RunID), was.Seq, was.BeganAt
				steps[at] = row
				continue
			}
			rows[row.Path] = len(steps)
			steps = append(steps, row)
		default:
			if change, is := command.(stepmachine.RecordChange); is {
				s.queueChange(b, e, change, w.Number(i))
			}
			if name, v, stores := storedBy(command); stores {
				s.queueValue(b, key, e, name, v)
			}
		}
	}
	if len(steps) > 0 {
		db.QueueExec(b, s.q.WriteMapSteps, dbsqlc.WriteMapStepsParams{TenantID: e.TenantID, Execution: e.ID, Attempt: w.Attempt, Steps: mustJSON(steps), Reused: trueOf(reused)})
	}
}

// ForgetRun takes back what was noted for a call that was then refused: it has no run.
func (s *steps) ForgetRun(ctx context.Context, e Execution, ref stepmachine.Ref) error {
	err := s.q.ForgetRunOfMapStep(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.ForgetRunOfMapStepParams{
		TenantID: e.TenantID, Execution: e.ID, Path: pathOf(ref), Attempts: int32(ref.Attempt),
	})
	if err != nil {
		return fmt.Errorf("execution: %w", err)
	}
	return nil
}

// NameRun notes the run that the call of a step has found, by its execution_id.
func (s *steps) NameRun(ctx context.Context, e Execution, called Called) error {
	err := s.q.NameRunOfMapStep(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.NameRunOfMapStepParams{
		TenantID: e.TenantID, Execution: e.ID, Path: pathOf(called.Ref), Attempts: int32(called.Ref.Attempt), Run: called.Run,
	})
	if err != nil {
		return fmt.Errorf("execution: %w", err)
	}
	return nil
}

// WriteSteps writes the rows of steps apart.
func (s *steps) WriteSteps(ctx context.Context, e Execution, w flow.MapWrites, called Called) error {
	queue, err := s.Prepare(ctx, e, w)
	if err != nil {
		return err
	}
	b := &db.Batch{}
	queue(b, called)
	if err := s.d.DB.Send(ctx, e.TenantID, b); err != nil {
		return fmt.Errorf("execution: write steps: %w", err)
	}
	return nil
}

func firstText(a, b *string) *string {
	if a == nil {
		return b
	}
	return a
}

func sealedStep(key *datakey.Key, e Execution, c stepmachine.RecordStep, rev int) stepRow {
	path := pathOf(c.Ref)
	seal := func(f datakey.Field, v *stepmachine.Value) *string {
		if v == nil {
			return nil
		}
		return sealOptional(key, stepPlace(e.TenantID, e.ID, path, f), mustJSON(v))
	}
	row := stepRow{
		Path: path, Seq: rev, Rev: rev, Step: c.ID, Type: string(c.Type), Instance: c.Ref.Path, Status: string(c.Status), Attempts: c.Ref.Attempt,
		Input: seal(datakey.MapStepInput, c.Input), Output: seal(datakey.MapStepOutput, c.Output), BeganAt: c.Began,
	}
	if c.Error != nil {
		row.Error = sealOptional(key, stepPlace(e.TenantID, e.ID, path, datakey.MapStepError), mustJSON(c.Error))
	}
	if !c.Ended.IsZero() {
		row.EndedAt = &c.Ended
	}
	return row
}

// Kept is the call that undoes a completed step.
type Kept struct {
	Ref  stepmachine.Ref   `json:"ref"`
	Verb string            `json:"verb"`
	Args stepmachine.Value `json:"args"`
	// CredentialID is the credential that the call names, "" for none.
	CredentialID string `json:"credential_id,omitempty"`
	// Error is why the arguments could not be made; nil where they could.
	Error *stepmachine.Error `json:"error,omitempty"`
}

func compensation(seq int) string { return "compensation:" + strconv.Itoa(seq) }

func keptCall(c stepmachine.KeepCompensation) stepmachine.Value {
	return stepmachine.Of(mustJSON(Kept{Ref: c.Ref, Verb: c.Verb, Args: c.Args, CredentialID: c.CredentialID, Error: c.Error}))
}

// Kept returns the call that was kept under the number. unwritten are the commands whose values are
// not written yet.
func (s *steps) Kept(ctx context.Context, e Execution, seq int, unwritten []stepmachine.Command) (k Kept, err error) {
	l, err := s.newLoader(ctx, e, unwritten)
	if err != nil {
		return k, err
	}
	return l.openKept(seq)
}

func (l *loader) openKept(seq int) (k Kept, err error) {
	text, err := l.load(stepmachine.Stored{ID: compensation(seq)})
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	return k, err
}

// Write writes what steps have done, and what the execution waits for now. It returns what others
// want of the execution since.
func (s *steps) Write(ctx context.Context, w flow.MapWrites) (flow.MapNews, error) {
	e, err := s.readHead(ctx, w.MapRef)
	if err != nil {
		return flow.MapNews{}, err
	}
	b := &db.Batch{}
	if err := s.queueAll(ctx, b, e, w); err != nil {
		return flow.MapNews{}, err
	}
	row := db.QueueOptional(b, s.q.MapNews, dbsqlc.MapNewsParams{TenantID: e.TenantID, ID: e.ID})
	failpoint.Hit("before_map_write", e.ID)
	if err := s.d.DB.Send(ctx, e.TenantID, b); err != nil {
		return flow.MapNews{}, fmt.Errorf("execution: write: %w", err)
	}
	if w.Show != nil {
		s.workflows.Rests(e.ID)
	}
	failpoint.Hit("after_map_write", e.ID)
	return newsOf(row.Value, w.Attempt), nil
}

// queueAll adds all that a write of the workflow's loop has.
func (s *steps) queueAll(ctx context.Context, b *db.Batch, e Execution, w flow.MapWrites) error {
	if err := s.Queue(ctx, b, e, w); err != nil {
		return err
	}
	s.queueWaits(b, w)
	if c := w.Signals; c != nil {
		db.QueueExec(b, s.q.CountMapSignals, dbsqlc.CountMapSignalsParams{
			Heard: int32(c.Heard), Unused: int32(c.Unused), TenantID: e.TenantID, ID: e.ID, Attempt: w.Attempt,
		})
	}
	if w.Show != nil {
		db.QueueOptional(b, s.q.ShowMap, dbsqlc.ShowMapParams{
			Status: string(w.Show.Status), WaitingFor: waitingFor(w.Show), Asked: w.Show.Status == stepmachine.StatusPending,
			Governance: governanceOf(w.Show.Status), Now: s.d.Now(), Shown: int32(w.Seq), TenantID: e.TenantID, ID: e.ID, Attempt: w.Attempt,
		})
		queueWaitingEvent(b, e, w.Show)
	}
	return nil
}

func waitingFor(show *flow.MapShow) []byte {
	if show.WaitingFor == nil {
		return nil
	}
	return mustJSON(show.WaitingFor)
}

// governanceOf returns the governance status of an execution with the status.
func governanceOf(status stepmachine.Status) string {
	if status == stepmachine.StatusPending {
		return "pending"
	}
	return governanceApproved
}

func newsOf(row *dbsqlc.MapNewsRow, attempt int32) flow.MapNews {
	if row == nil || row.Attempt != attempt || row.FinishedAt != nil {
		return flow.MapNews{Private: flow.IsPrivate(), Over: true}
	}
	return flow.MapNews{Private: flow.IsPrivate(), Cancel: row.WantsCancel, Pause: row.WantsPause, Caller: db.Text(row.CallerWorkflow)}
}

// trueOf returns the names that are true, in order.
func trueOf(names map[string]bool) []string {
	list := []string{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if names[name] {
			list = append(list, name)
		}
	}
	return list
}

// queueWaits writes which events the execution waits for.
func (s *steps) queueWaits(b *db.Batch, w flow.MapWrites) {
	for _, command := range w.Waits {
		switch c := command.(type) {
		case stepmachine.AwaitEvent:
			if !event.Type(c.Type).Awaitable() {
				continue // only signals have such names
			}
			db.QueueExec(b, s.q.AwaitMapEvent, dbsqlc.AwaitMapEventParams{
				TenantID: w.TenantID, Execution: w.ID, Path: pathOf(c.Ref), Type: c.Type, Correlate: db.Optional(c.Correlate), SinceTrigger: c.Since.IsZero(),
			})
		case stepmachine.StopAwaiting:
			db.QueueExec(b, s.q.StopMapWait, dbsqlc.StopMapWaitParams{TenantID: w.TenantID, Execution: w.ID, Path: pathOf(c.Ref)})
		}
	}
}

// keptEvents returns the events that steps have used, by their names, where they are large: an execution
// may last longer than events are kept.
func (s *steps) keptEvents(ctx context.Context, e Execution, w flow.MapWrites) (map[string]json.RawMessage, error) {
	kept := map[string]json.RawMessage{}
	for _, command := range w.Commands {
		c, is := command.(stepmachine.RecordStep)
		if !is || c.Type != "wait" || c.Status != stepmachine.StepCompleted || c.Output == nil || c.Output.Stored == nil || !strings.HasPrefix(c.Output.Stored.ID, eventPrefix) {
			continue
		}
		l, err := s.newLoader(ctx, e, w.Commands)
		if err != nil {
			return nil, err
		}
		if kept[c.Output.Stored.ID], err = l.whole(c.Output.Stored.ID); err != nil {
			return nil, fmt.Errorf("execution: keep an event: %w", err)
		}
	}
	return kept, nil
}
