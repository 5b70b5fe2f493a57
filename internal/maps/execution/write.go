package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/dev/failpoint"
	"agentruntime/internal/kernel/datakey"
	"agentruntime/internal/kernel/flow"
	"agentruntime/internal/kernel/redact"
	"agentruntime/internal/kernel/stepmachine"
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
func (s *Service) Queue(ctx context.Context, b *db.Batch, e Execution, w flow.MapWrites) error {
	return s.QueueCall(ctx, b, e, w, Called{})
}

// Called says which run a step makes, by its execution_id.
type Called struct {
	Ref stepmachine.Ref
	Run string
}

// QueueCall is Queue with the claim of a run.
func (s *Service) QueueCall(ctx context.Context, b *db.Batch, e Execution, w flow.MapWrites, called Called) error {
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return fmt.Errorf("execution: %w", err)
	}
	rows := map[string]int{}
	var steps []stepRow
	reused := map[string]bool{}
	for i, command := range w.Commands {
		switch c := command.(type) {
		case stepmachine.RecordStep:
			if err := s.keepEvent(ctx, b, e, c, w.Commands); err != nil {
				return err
			}
			row := sealedStep(key, e, c, w.Seq+i+1)
			if c.Ref == called.Ref {
				row.RunID = &called.Run
			}
			reused[row.Path] = c.Reused
			if at, twice := rows[row.Path]; twice {
				// One statement changes a row once.
				row.Input, row.Seq = or(row.Input, steps[at].Input), steps[at].Seq
				steps[at] = row
				continue
			}
			rows[row.Path] = len(steps)
			steps = append(steps, row)
		default:
			if change, is := command.(stepmachine.RecordChange); is {
				s.queueChange(b, e, change, w.Seq+i+1)
			}
			if name, v, stores := storedBy(command); stores {
				s.queueValue(b, key, e, name, v)
			}
		}
	}
	if err := s.queueSaid(ctx, b, key, e, w); err != nil {
		return err
	}
	if len(steps) > 0 {
		db.QueueExec(b, s.q.WriteMapSteps, dbsqlc.WriteMapStepsParams{TenantID: e.TenantID, Execution: e.ID, Attempt: w.Attempt, Steps: mustJSON(steps), Reused: trueOf(reused)})
	}
	return nil
}

// ForgetRun takes back what QueueCall has noted for a call that was then refused: it has no run.
func (s *Service) ForgetRun(ctx context.Context, e Execution, ref stepmachine.Ref) error {
	err := s.q.ForgetRunOfMapStep(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.ForgetRunOfMapStepParams{
		TenantID: e.TenantID, Execution: e.ID, Path: pathOf(ref), Attempts: int32(ref.Attempt),
	})
	if err != nil {
		return fmt.Errorf("execution: %w", err)
	}
	return nil
}

func or(a, b *string) *string {
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

func kept(c stepmachine.KeepCompensation) stepmachine.Value {
	return stepmachine.Of(mustJSON(Kept{Ref: c.Ref, Verb: c.Verb, Args: c.Args, CredentialID: c.CredentialID, Error: c.Error}))
}

// Kept returns the call that was kept under the number. unwritten are the commands whose values are
// not written yet.
func (s *Service) Kept(ctx context.Context, e Execution, seq int, unwritten []stepmachine.Command) (k Kept, err error) {
	l, err := s.loader(ctx, e, unwritten)
	if err != nil {
		return k, err
	}
	return l.kept(seq)
}

func (l *loader) kept(seq int) (k Kept, err error) {
	text, err := l.load(stepmachine.Stored{ID: compensation(seq)})
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	return k, err
}

// saidTogether is how many bytes of events are looked through together, besides the last: that copies
// them, and there may be 1,000 of 64 KiB.
const saidTogether = 1 << 20

// queueSaid queues the events of emit and escalate steps. They show no secret that the tenant has
// stored. Where these cannot be read, the error is returned: an event is written once, so it waits for
// a repeat.
func (s *Service) queueSaid(ctx context.Context, b *db.Batch, key *datakey.Key, e Execution, w flow.MapWrites) error {
	said := saying{s: s, tenant: e.TenantID}
	for _, command := range w.Commands {
		switch c := command.(type) {
		case stepmachine.Emit:
			data, err := s.emitted(ctx, e, c, w.Commands)
			if err != nil {
				return err
			}
			said.add(data, func(data json.RawMessage) {
				event.QueueCustom(b, event.Event{
					TenantID: e.TenantID, Key: key, About: about(e), Causes: []event.Cause{{Type: event.CauseExecution, ID: e.ExecutionID}},
					Body: event.NewCustom(event.Type(c.Type), c.ID, "map:"+e.MapID.String(), data),
				})
			})
		case stepmachine.Escalate:
			said.add(mustJSON(c.Reason), func(hidden json.RawMessage) {
				var reason string
				_ = json.Unmarshal(hidden, &reason) // a hidden text is a text
				event.QueueOnce(b, event.Event{TenantID: e.TenantID, Key: key, About: about(e), Causes: causesOf(e, ""), Body: event.Escalated{
					Kind: "step", Reason: redact.Text(reason), MapID: e.MapID.String(), Step: pathOf(c.Ref), Waits: c.Wait,
				}}, event.PublicID(uuid.NewSHA1(e.ID, []byte("escalate "+subjectOf(w.MapRef, c.Ref)))))
			})
		}
		if said.bytes >= saidTogether {
			if err := said.queue(ctx); err != nil {
				return err
			}
		}
	}
	return said.queue(ctx)
}

// saying gathers what events tell, so that secrets are looked up together.
type saying struct {
	s      *Service
	tenant uuid.UUID
	texts  []*json.RawMessage
	queues []func(hidden json.RawMessage)
	bytes  int
}

func (y *saying) add(text json.RawMessage, queue func(hidden json.RawMessage)) {
	y.texts, y.queues, y.bytes = append(y.texts, &text), append(y.queues, queue), y.bytes+len(text)
}

// queue has the events queued that were added since the last time.
func (y *saying) queue(ctx context.Context) error {
	if len(y.texts) == 0 {
		return nil
	}
	if err := y.s.Hide(ctx, y.tenant, y.texts...); err != nil {
		return err
	}
	for i, queue := range y.queues {
		queue(*y.texts[i])
	}
	y.texts, y.queues, y.bytes = nil, nil, 0
	return nil
}

// emitted returns the data of an event as it may be told, but for secrets that the tenant has stored.
func (s *Service) emitted(ctx context.Context, e Execution, c stepmachine.Emit, unwritten []stepmachine.Command) (json.RawMessage, error) {
	data, err := s.Resolve(ctx, e, c.Data, unwritten)
	if errors.Is(err, stepmachine.ErrTooLarge) || err == nil && len(data) > event.MostBytes {
		return tooLong(), nil // as events leave out what is too long for them
	}
	return masked(data), err
}

// tooLong returns data that no event has room for.
func tooLong() json.RawMessage {
	return mustJSON(map[string]string{"data": strings.Repeat(" ", event.MostBytes)})
}

// queueEscalated queues the event of a manager that wants people to look at a step.
func (s *Service) queueEscalated(b *db.Batch, key *datakey.Key, e Execution, ref stepmachine.Ref, turn int, reason string) {
	event.QueueOnce(b, event.Event{TenantID: e.TenantID, Key: key, About: about(e), Causes: causesOf(e, ""), Body: event.Escalated{
		Kind: "step", Reason: redact.Text(reason), MapID: e.MapID.String(), Step: pathOf(ref), Waits: true,
	}}, event.PublicID(uuid.NewSHA1(e.ID, fmt.Appendf(nil, "escalate %s/%d", subjectOf(e.Ref(), ref), turn))))
}

// about says what an event of the execution is about.
func about(e Execution) event.About {
	return event.About{ExecutionID: e.ExecutionID, SessionID: e.SessionID, CustomerID: e.Customer}
}

// Write writes what steps have done, and what the execution waits for now. It returns what others
// want of the execution since.
func (s *Service) Write(ctx context.Context, w flow.MapWrites) (flow.MapNews, error) {
	e, err := s.head(ctx, w.MapRef)
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
		s.Rests(e.ID)
	}
	failpoint.Hit("after_map_write", e.ID)
	return news(row.Value, w.Attempt), nil
}

// queueAll adds all that a write of the workflow's loop has.
func (s *Service) queueAll(ctx context.Context, b *db.Batch, e Execution, w flow.MapWrites) error {
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
		emitWaiting(b, e, w.Show)
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

func news(row *dbsqlc.MapNewsRow, attempt int32) flow.MapNews {
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
