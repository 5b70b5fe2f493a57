package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/event"
)

// An execution may emit 1,000 events of 64 KiB. They are looked through and written in pieces, each of them
// of at most so many bytes besides the last event, and so many events.
const (
	eventsTogether = 1 << 20
	eventsAtOnce   = 100
)

// prepareEvents returns what queues the last events of emit and escalate steps. Those before them it writes, in
// transactions of their own: an event has a name, so a repeat writes it once, and begins where the try
// before was ended. Events show no secret that the tenant has stored. Where these cannot be read, the error
// is returned: an event is written once, so it waits for a repeat.
func (s *steps) prepareEvents(ctx context.Context, key *datakey.Key, e Execution, w flow.MapWrites) (queues []func(b *db.Batch), err error) {
	commands, err := s.unwrittenEvents(ctx, e, w.Commands)
	if err != nil || len(commands) == 0 {
		return nil, err
	}
	var p eventPiece
	for _, command := range commands {
		if len(p.queues) >= eventsAtOnce || p.bytes >= eventsTogether {
			if err := s.writeEvents(ctx, e, p); err != nil {
				return nil, err
			}
			p = eventPiece{}
		}
		switch c := command.(type) {
		case stepmachine.Emit:
			if p.loader == nil {
				if p.loader, err = s.newLoader(ctx, e, w.Commands); err != nil {
					return nil, err
				}
			}
			data, err := s.eventData(ctx, e, p.loader, c, w.Commands)
			if err != nil {
				return nil, err
			}
			p.add(&data, func(b *db.Batch) {
				event.QueueCustom(b, event.Event{
					TenantID: e.TenantID, Key: key, About: about(e), Causes: []event.Cause{{Type: event.CauseExecution, ID: e.ExecutionID}},
					Body: event.NewCustom(event.Type(c.Type), c.ID, "map:"+e.MapID.String(), data),
				})
			})
		case stepmachine.Escalate:
			text := json.RawMessage(mustJSON(c.Reason))
			p.add(&text, func(b *db.Batch) {
				var reason string
				_ = json.Unmarshal(text, &reason) // a hidden text is a text
				event.QueueOnce(b, event.Event{TenantID: e.TenantID, Key: key, About: about(e), Causes: causesOf(e, ""), Body: event.Escalated{
					Kind: "step", Reason: redact.Text(reason), MapID: e.MapID.String(), Step: pathOf(c.Ref), Waits: c.Wait,
				}}, event.PublicID(uuid.NewSHA1(e.ID, []byte("escalate "+subjectOf(w.MapRef, c.Ref)))))
			})
		}
	}
	if err := s.views.Hide(ctx, e.TenantID, p.texts...); err != nil {
		return nil, err
	}
	return p.queues, nil
}

// eventPiece is what is looked through and written together.
type eventPiece struct {
	loader *loader
	texts  []*json.RawMessage
	bytes  int
	queues []func(b *db.Batch)
}

func (p *eventPiece) add(text *json.RawMessage, queue func(b *db.Batch)) {
	p.texts, p.bytes, p.queues = append(p.texts, text), p.bytes+len(*text), append(p.queues, queue)
}

// writeEvents writes a piece of what is said.
func (s *steps) writeEvents(ctx context.Context, e Execution, p eventPiece) error {
	if err := s.views.Hide(ctx, e.TenantID, p.texts...); err != nil {
		return err
	}
	b := &db.Batch{}
	for _, queue := range p.queues {
		queue(b)
	}
	if err := s.d.DB.Send(ctx, e.TenantID, b); err != nil {
		return fmt.Errorf("execution: write events: %w", err)
	}
	return nil
}

// unwrittenEvents returns the commands that say something, without the events that a try before has written. It
// looks for these only where there are several pieces.
func (s *steps) unwrittenEvents(ctx context.Context, e Execution, commands []stepmachine.Command) (unsaid []stepmachine.Command, err error) {
	var names []string
	for _, command := range commands {
		switch c := command.(type) {
		case stepmachine.Emit:
			unsaid, names = append(unsaid, c), append(names, c.ID)
		case stepmachine.Escalate:
			unsaid = append(unsaid, c)
		}
	}
	if len(names) <= eventsTogether/event.MostBytes {
		return unsaid, nil
	}
	said, err := s.q.EventsWritten(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.EventsWrittenParams{TenantID: e.TenantID, SourceIds: names})
	if err != nil {
		return nil, fmt.Errorf("execution: read which events are written: %w", err)
	}
	written := map[string]bool{}
	for _, name := range said {
		written[name] = true
	}
	return slices.DeleteFunc(unsaid, func(command stepmachine.Command) bool {
		c, emits := command.(stepmachine.Emit)
		return emits && written[c.ID]
	}), nil
}

// eventData returns the data of an event as it may be told, but for secrets that the tenant has stored. The
// loader is that of its piece, so a value that many events have is read once.
func (s *steps) eventData(ctx context.Context, e Execution, l *loader, c stepmachine.Emit, unwritten []stepmachine.Command) (json.RawMessage, error) {
	data, err := c.Data.Resolve(l.load)
	if errors.Is(err, stepmachine.ErrTooLarge) { // or those before it were large
		data, err = s.Resolve(ctx, e, c.Data, unwritten)
	}
	if errors.Is(err, stepmachine.ErrTooLarge) || err == nil && len(data) > event.MostBytes {
		return overlongData(), nil // as events leave out what is too long for them
	}
	return masked(data), err
}

// overlongData returns data that no event has room for.
func overlongData() json.RawMessage {
	return mustJSON(map[string]string{"data": strings.Repeat(" ", event.MostBytes)})
}

// queueEscalatedEvent queues the event of a manager that wants people to look at a step.
func queueEscalatedEvent(b *db.Batch, key *datakey.Key, e Execution, ref stepmachine.Ref, turn int, reason string) {
	event.QueueOnce(b, event.Event{TenantID: e.TenantID, Key: key, About: about(e), Causes: causesOf(e, ""), Body: event.Escalated{
		Kind: "step", Reason: redact.Text(reason), MapID: e.MapID.String(), Step: pathOf(ref), Waits: true,
	}}, event.PublicID(uuid.NewSHA1(e.ID, fmt.Appendf(nil, "escalate %s/%d", subjectOf(e.Ref(), ref), turn))))
}

// queueWaitingEvent queues the event of a wait. Its id is derived, so that a repeat of the write tells
// nobody again.
func queueWaitingEvent(b *db.Batch, e Execution, show *flow.MapShow) {
	w := show.WaitingFor
	if w == nil || show.Tell.IsZero() {
		return
	}
	id := uuid.NewSHA1(e.ID, []byte("waits for "+string(w.For)+" "+w.Ref.String()+w.UndoneBy))
	first := db.FirstID(show.Tell) // events are found and forgotten by the time in their ids
	copy(id[:6], first[:6])
	id[6] = 0x70 | id[6]&0x0f
	body := event.MapWaiting{MapID: e.MapID.String(), Version: int(e.Version), WaitingFor: string(w.For), Step: w.Step, UndoneBy: w.UndoneBy}
	if !w.Until.IsZero() {
		body.Until = new(w.Until.UTC())
	}
	event.Queue(b, event.Event{ID: id, TenantID: e.TenantID, About: about(e), Body: body})
}
