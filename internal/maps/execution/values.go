package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/record/quota"
)

// The names of stored values that are no rows of map_values.
const (
	// triggerData is the payload, in the execution's row.
	triggerData = "trigger_data"
	// resultPrefix begins the name of the result of a run, in the run's row. The run's id follows.
	resultPrefix = "run:"
	// iterationsPrefix begins the name of the outputs of a foreach, see stepmachine.Iterations.
	iterationsPrefix = "iterations:"
)

// loader reads stored values of one execution, each once. pending are those that are not written
// yet: what a step stores is written with the call of the next one, which may read it already.
type loader struct {
	ctx  context.Context //nolint:containedctx // it lives as long as one call
	s    *rows
	e    Execution
	key  *datakey.Key
	read map[string]json.RawMessage
	// total is how many bytes were read.
	total int

	pending map[string]stepmachine.Value
}

func (s *rows) newLoader(ctx context.Context, e Execution, unwritten []stepmachine.Command) (*loader, error) {
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return nil, fmt.Errorf("execution: %w", err)
	}
	l := &loader{ctx: ctx, s: s, e: e, key: key, read: map[string]json.RawMessage{}, pending: map[string]stepmachine.Value{}}
	for _, command := range unwritten {
		if name, v, stores := storedBy(command); stores {
			l.pending[name] = v
		}
	}
	return l, nil
}

// storedBy returns the value that a command stores, and its name.
func storedBy(command stepmachine.Command) (name string, v stepmachine.Value, stores bool) {
	switch c := command.(type) {
	case stepmachine.StoreValue:
		return c.ID, c.Value, true
	case stepmachine.StoreIteration:
		return fmt.Sprintf("%s/%05d", stepmachine.Iterations(c.Ref), c.Index), c.Output, true
	case stepmachine.KeepCompensation:
		return compensation(c.Seq), keptCall(c), true
	case stepmachine.StartModel:
		return modelStep(c.Ref), stepmachine.Of(mustJSON(c)), true
	case stepmachine.RecordChange:
		return changePrefix + c.ID, stepmachine.Of(mustJSON(c)), true
	default:
		return "", v, false
	}
}

// mostLoaded is how many bytes of stored values one evaluation reads. They are in memory together.
const mostLoaded = 2 * stepmachine.MaxResolved

// load returns a stored value, or the part of it that is meant.
func (l *loader) load(v stepmachine.Stored) (json.RawMessage, error) {
	whole, known := l.read[v.ID]
	if !known {
		var err error
		if whole, err = l.whole(v.ID); err != nil {
			return nil, fmt.Errorf("execution: value %s of %s: %w", v.ID, l.e.ID, err)
		}
		if l.total += len(whole); l.total > mostLoaded {
			return nil, stepmachine.ErrTooLarge
		}
		l.read[v.ID] = whole
	}
	return part(whole, v.At)
}

func (l *loader) whole(name string) (json.RawMessage, error) {
	if name == triggerData {
		return l.key.Open(l.e.place(datakey.MapPayload), l.e.payload)
	}
	if id, ok := strings.CutPrefix(name, resultPrefix); ok {
		run, err := uuid.Parse(id)
		if err != nil {
			return nil, err
		}
		return l.s.d.Results.Result(l.ctx, l.e.TenantID, run)
	}
	if number, ok := strings.CutPrefix(name, signalPrefix); ok {
		return l.signal(number)
	}
	if strings.HasPrefix(name, iterationsPrefix) {
		return l.iterations(name)
	}
	if v, unwritten := l.pending[name]; unwritten {
		return v.Resolve(l.load)
	}
	rows, err := l.s.q.ReadMapValues(l.ctx, l.s.d.DB.Tenant(l.e.TenantID), dbsqlc.ReadMapValuesParams{
		TenantID: l.e.TenantID, Execution: l.e.ID, Names: []string{name},
	})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 && strings.HasPrefix(name, eventPrefix) {
		return l.event(name)
	}
	if len(rows) == 0 {
		return nil, errors.New("there is none")
	}
	return l.open(name, rows[0].Body)
}

// readAll reads stored values at once, so that load has them. Those that are not written yet, load has
// anyway.
func (l *loader) readAll(names []string) error {
	rows, err := l.s.q.ReadMapValues(l.ctx, l.s.d.DB.Tenant(l.e.TenantID), dbsqlc.ReadMapValuesParams{
		TenantID: l.e.TenantID, Execution: l.e.ID, Names: names,
	})
	if err != nil {
		return fmt.Errorf("execution: values of %s: %w", l.e.ID, err)
	}
	for _, row := range rows {
		if l.read[row.Name], err = l.open(row.Name, row.Body); err != nil {
			return fmt.Errorf("execution: value %s of %s: %w", row.Name, l.e.ID, err)
		}
	}
	return nil
}

// iterations returns the array of the outputs of a foreach.
func (l *loader) iterations(name string) (json.RawMessage, error) {
	rows, err := l.s.q.ReadMapIterations(l.ctx, l.s.d.DB.Tenant(l.e.TenantID), dbsqlc.ReadMapIterationsParams{
		TenantID: l.e.TenantID, Execution: l.e.ID, Low: name + "/", High: name + "0", Bytes: mostLoaded,
	})
	if err != nil {
		return nil, err
	}
	if len(rows) > 0 && rows[0].Found > int64(len(rows)) {
		return nil, stepmachine.ErrTooLarge
	}
	items := map[string]json.RawMessage{}
	for _, row := range rows {
		if items[row.Name], err = l.open(row.Name, row.Body); err != nil {
			return nil, err
		}
	}
	for pending, v := range l.pending {
		if strings.HasPrefix(pending, name+"/") {
			if items[pending], err = v.Resolve(l.load); err != nil {
				return nil, err
			}
		}
	}
	out := []byte{'['}
	for i, key := range slices.Sorted(maps.Keys(items)) {
		if len(out)+len(items[key]) > stepmachine.MaxResolved {
			return nil, stepmachine.ErrTooLarge
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, items[key]...)
	}
	return append(out, ']'), nil
}

func (l *loader) open(name, body string) (json.RawMessage, error) {
	text, err := l.key.Open(valuePlace(l.e.TenantID, l.e.ID, name), body)
	if err != nil {
		return nil, err
	}
	var v stepmachine.Value
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	return v.Resolve(l.load)
}

// part returns the part of a value that a JSON Pointer names.
func part(whole json.RawMessage, at string) (json.RawMessage, error) {
	if at == "" {
		return whole, nil
	}
	var path []any
	for token := range strings.SplitSeq(strings.TrimPrefix(at, "/"), "/") {
		if i, err := strconv.Atoi(token); err == nil {
			path = append(path, i)
		} else {
			path = append(path, fault.PointerName(token))
		}
	}
	found, ok := exactjson.Lookup(whole, path)
	if !ok {
		return nil, fmt.Errorf("the value has nothing at %s", at)
	}
	return found, nil
}

// valuePlace is where a stored value is sealed.
func valuePlace(tenant, execution uuid.UUID, name string) datakey.Place {
	return datakey.Place{Tenant: tenant, Row: uuid.NewSHA1(execution, []byte(name)), Field: datakey.MapValue}
}

// Resolve returns a value of the step machine in full. unwritten are the commands whose values are
// not written yet; nil for none.
func (s *rows) Resolve(ctx context.Context, e Execution, v stepmachine.Value, unwritten []stepmachine.Command) (json.RawMessage, error) {
	l, err := s.newLoader(ctx, e, unwritten)
	if err != nil {
		return nil, err
	}
	return v.Resolve(l.load)
}

// Evaluate evaluates an expression of a step that the workflow does not: one that reads stored
// values, or may take much time or memory. A *expression.BusyError comes where it finds no child soon.
func (s *steps) Evaluate(ctx context.Context, in flow.MapEvaluation) (stepmachine.Evaluated, error) {
	ask := in.Ask
	e, err := s.readHead(ctx, in.MapRef)
	if err != nil {
		return stepmachine.Evaluated{}, err
	}
	defer failpoint.Hit("map_evaluated", e.ID)
	if n := ask.Room(); n > 0 {
		return s.roomOf(ctx, e, ask, n)
	}
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return stepmachine.Evaluated{}, err
	}
	if same := ask.SameAs(); same != "" {
		return s.filters.evaluate(ctx, fmt.Sprint(e.TenantID, e.MapID, e.Version, same), ask, func(ctx context.Context) (stepmachine.Evaluated, error) {
			l, err := s.newLoader(ctx, e, in.Unwritten)
			if err != nil {
				return stepmachine.Evaluated{}, err
			}
			return v.Program.Evaluate(ctx, s.d.Sandbox.Briefly(e.TenantID.String()), ask, l.load)
		})
	}
	l, err := s.newLoader(ctx, e, in.Unwritten)
	if err != nil {
		return stepmachine.Evaluated{}, err
	}
	out, err := v.Program.Evaluate(ctx, s.d.Sandbox.Briefly(e.TenantID.String()), ask, l.load)
	if err != nil || len(out.Value.JSON) <= stepmachine.MaxInline {
		return out, err
	}
	// No history has a value that is larger than the state may have.
	name := ask.Ref.String() + ":" + ask.What
	b := &db.Batch{}
	s.queueValue(b, l.key, e, name, out.Value)
	if err := s.d.DB.Send(ctx, e.TenantID, b); err != nil {
		return out, fmt.Errorf("execution: store a value: %w", err)
	}
	out.Value = Reference(name, out.Value.JSON, out.Value.Invented)
	return out, nil
}

// roomOf takes room for n events of what the tenant's Maps may emit in this hour, or for one. A repeat of
// the question takes it twice.
func (s *steps) roomOf(ctx context.Context, e Execution, ask stepmachine.Evaluate, n int) (stepmachine.Evaluated, error) {
	most := s.d.Quotas.Most(quota.EmittedEvents)
	for _, n := range []int{n, 1} {
		taken, err := s.q.TakeEmitted(ctx, s.d.DB.Tenant(e.TenantID), dbsqlc.TakeEmittedParams{
			TenantID: e.TenantID, Most: int32(min(most, math.MaxInt32)), N: int32(n),
		})
		if err != nil {
			return stepmachine.Evaluated{}, fmt.Errorf("execution: take room for events: %w", err)
		}
		if taken {
			return ask.Given(n), nil
		}
	}
	return ask.Refused(string(fault.CodeQuotaExceeded), fmt.Sprintf(
		"The tenant has reached its quota emitted_events: at most %d events that steps of Maps emit in an hour. Emit fewer, or later.", most)), nil
}

// Reference returns a value that is stored under the name.
func Reference(name string, whole json.RawMessage, invented []string) stepmachine.Value {
	stored := &stepmachine.Stored{ID: name, Bytes: len(whole)}
	if len(whole) > 0 && whole[0] == '[' {
		var items []json.RawMessage
		if json.Unmarshal(whole, &items) == nil {
			n := len(items)
			stored.Items = &n
		}
	}
	return stepmachine.Value{Stored: stored, Invented: invented}
}

// ResultOf returns the result of a run as a value: as it is, or the name of it where it is large.
func ResultOf(run uuid.UUID, result json.RawMessage) stepmachine.Value {
	if len(result) <= stepmachine.MaxInline {
		return stepmachine.Of(result)
	}
	return Reference(resultPrefix+run.String(), result, nil)
}

func (s *rows) queueValue(b *db.Batch, key *datakey.Key, e Execution, name string, v stepmachine.Value) {
	db.QueueExec(b, s.q.WriteMapValue, dbsqlc.WriteMapValueParams{
		TenantID: e.TenantID, Execution: e.ID, Name: name, Body: key.Seal(valuePlace(e.TenantID, e.ID, name), mustJSON(v)),
	})
}
