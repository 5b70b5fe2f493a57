package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/idempotency"
)

const (
	// MostSignalData is the most bytes of the data of a signal.
	MostSignalData = 32 << 10
	// mostSignals is how many an execution takes in its life.
	mostSignals = 10_000
	// lookSignals and lookBytes bound what one look returns, because it is in the workflow's history.
	lookSignals = 100
	lookBytes   = 256 << 10
	// mostCarried is the most bytes of one signal or event that is in the history. Larger ones are
	// read where they are needed.
	mostCarried = 4 << 10
	// signalPrefix begins the name of the data of a signal, in its row. Its number follows.
	signalPrefix = "signal:"
)

// Signal is something that people tell an execution.
type Signal struct {
	Name string
	Data json.RawMessage
}

// Signal sends a signal to an execution: all steps that wait for its name get it, and otherwise the
// first one that will. The error is CONFLICT where the execution has ended, and where as many
// signals as it keeps wait for a step. It is VALIDATION_ERROR where no step will ever wait for the name.
func (s *people) Signal(ctx context.Context, who actor.Actor, e Execution, signal Signal) (Execution, error) {
	if err := s.waitsFor(ctx, e, signal.Name); err != nil {
		return Execution{}, err
	}
	return s.storeSignal(ctx, who, e, signal, func(*db.Batch) {})
}

// mostNamed is how many signals a refusal names.
const mostNamed = 10

// waitsFor refuses the name of a signal that no step of the execution's Map waits for. That name is
// misspelt: the execution would wait for ever.
func (s *people) waitsFor(ctx context.Context, e Execution, name string) error {
	if e.FinishedAt != nil {
		return nil // that is said by who sends it
	}
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return fmt.Errorf("execution: signal: %w", err)
	}
	names := v.Program.Definition().Signals()
	switch {
	case slices.Contains(names, name):
		return nil
	case len(names) == 0:
		return fault.Invalid("/name", "unknown_signal", "No step of this Map waits for a signal.")
	}
	text := "No step of this Map waits for this signal. Steps wait for " + strings.Join(names[:min(mostNamed, len(names))], ", ")
	if len(names) > mostNamed {
		text += " and others"
	}
	return fault.Invalid("/name", "unknown_signal", text+".")
}

// storeSignal is Signal, with what also queues.
func (s *people) storeSignal(ctx context.Context, who actor.Actor, e Execution, signal Signal, also func(b *db.Batch)) (Execution, error) {
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return Execution{}, fmt.Errorf("execution: signal: %w", err)
	}
	id := uuid.Must(uuid.NewV7())
	p := dbsqlc.SendMapSignalParams{
		TenantID: e.TenantID, Execution: e.ID, ID: id, Name: signal.Name, Data: key.Seal(signalPlace(e.TenantID, id), signal.Data), Size: int32(len(signal.Data)),
		SentBy: who.String(), Now: s.d.Now(), MostUnused: stepmachine.MaxSignals, Most: mostSignals,
	}
	err = s.d.DB.InTenant(ctx, e.TenantID, func(tx pgx.Tx) error {
		if err := idempotency.Write(ctx, tx, e.ExecutionID); err != nil {
			return err
		}
		sent, err := s.q.SendMapSignal(ctx, tx, p)
		if err != nil {
			return err
		}
		if len(sent) == 0 {
			return s.notSignalled(ctx, tx, e)
		}
		rec := audit.Change(who, audit.MapSignalled, audit.SubjectMap, e.MapID.String()).With(map[string]any{"name": signal.Name, "number": sent[0]})
		rec.ExecutionID = e.ExecutionID
		b := &db.Batch{}
		audit.Queue(b, rec)
		approval.Wrote(b, e.TenantID, e.ExecutionID, who.UserID())
		also(b)
		return b.SendIn(ctx, tx)
	})
	if err != nil {
		return Execution{}, fmt.Errorf("execution: signal: %w", err)
	}
	s.workflows.nudgeOne(ctx, e)
	return s.readExecution(ctx, e.TenantID, e.ID)
}

// SentSignal is a signal that was sent to an execution, the Number-th of it.
type SentSignal struct {
	Number int32
	Name   string
	Data   json.RawMessage // masked
	SentBy string
	SentAt time.Time
}

// Signals returns the signals to an execution in their order, after the one with the number, and
// whether there are more.
func (s *people) Signals(ctx context.Context, e Execution, after int32, limit int) (page []SentSignal, more bool, err error) {
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return nil, false, fmt.Errorf("execution: %w", err)
	}
	rows, err := s.q.ListMapSignals(ctx, s.d.DB.Reading(e.TenantID, db.ListLimit), dbsqlc.ListMapSignalsParams{
		TenantID: e.TenantID, Execution: e.ID, After: after, Most: int32(limit + 1),
	})
	if err != nil {
		return nil, false, fmt.Errorf("execution: signals: %w", err)
	}
	rows, more = db.Page(rows, limit)
	for _, row := range rows {
		data, err := key.Open(signalPlace(e.TenantID, row.ID), row.Data)
		if err != nil {
			return nil, false, fmt.Errorf("execution: signal %d: %w", row.Seq, err)
		}
		page = append(page, SentSignal{row.Seq, row.Name, masked(data), row.SentBy, row.SentAt.UTC()})
	}
	return page, more, nil
}

// notSignalled says why an execution takes no signal.
func (s *people) notSignalled(ctx context.Context, tx pgx.Tx, e Execution) error {
	row, err := s.q.GetMapExecution(ctx, tx, dbsqlc.GetMapExecutionParams{TenantID: e.TenantID, ID: e.ID})
	switch {
	case err != nil:
		return err
	case row.FinishedAt != nil:
		return fault.Newf(fault.CodeConflict, "The execution has ended: its status is %s.", row.Status)
	case row.Signals >= mostSignals:
		return fault.Newf(fault.CodeConflict, "The execution has got %d signals. It takes no others.", mostSignals)
	default:
		return fault.Newf(fault.CodeConflict, "No step has used the last %d signals to the execution. Send this one when steps have used some of them.", stepmachine.MaxSignals)
	}
}

func signalPlace(tenant, id uuid.UUID) datakey.Place {
	return datakey.Place{Tenant: tenant, Row: id, Field: datakey.MapSignal}
}

// queueSignals reads the signals after a number. It returns them once the batch was sent.
func (s *people) queueSignals(b *db.Batch, in flow.MapLook) *db.Answer[[]dbsqlc.MapSignalsSinceRow] {
	return db.Queue(b, s.q.MapSignalsSince, dbsqlc.MapSignalsSinceParams{
		TenantID: in.TenantID, Execution: in.ID, After: int32(in.After), Most: lookSignals, Bytes: lookBytes,
	})
}

// addSignals adds the signals to the news.
func addSignals(news *flow.MapNews, key *datakey.Key, tenant uuid.UUID, rows []dbsqlc.MapSignalsSinceRow) error {
	for _, row := range rows {
		data, err := key.Open(signalPlace(tenant, row.ID), row.Data)
		if err != nil {
			return fmt.Errorf("execution: signal %d: %w", row.Seq, err)
		}
		news.Signals = append(news.Signals, stepmachine.Signalled{Signal: row.Name, Data: newsValue(signalPrefix+strconv.Itoa(int(row.Seq)), data)})
		news.Looked = int64(row.Seq)
	}
	return nil
}

// newsValue returns a value as histories may have it: as it is, or its name where it is large.
func newsValue(name string, data json.RawMessage) stepmachine.Value {
	if len(data) <= mostCarried {
		return stepmachine.Of(data)
	}
	return Reference(name, data, nil)
}
