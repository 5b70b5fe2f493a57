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

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/stepmachine"
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

// queueLook stores a look.
func (s *rows) queueLook(b *db.Batch, key *datakey.Key, e Execution, name string, look verb.Look) {
	s.queueValue(b, key, e, name, stepmachine.Of(look.Value))
	s.queueValue(b, key, e, statePrefix+name, stepmachine.Of(mustJSON(look.State)))
}

// event returns an event by the name that a look gave it; null for one that is forgotten.
func (l *loader) event(name string) (json.RawMessage, error) {
	e, err := l.s.d.Events.Get(l.ctx, l.e.TenantID, strings.TrimPrefix(name, eventPrefix))
	switch {
	case fault.HasCode(err, fault.CodeEventNotFound):
		return json.RawMessage("null"), nil
	case err != nil:
		return nil, err
	}
	if body := e.AsWritten(); body != nil {
		return body, nil
	}
	return json.RawMessage("null"), nil
}

// signal returns the data of a signal by its number.
func (l *loader) signal(number string) (json.RawMessage, error) {
	seq, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return nil, err
	}
	row, err := l.s.q.ReadMapSignal(l.ctx, l.s.d.DB.Tenant(l.e.TenantID), dbsqlc.ReadMapSignalParams{TenantID: l.e.TenantID, Execution: l.e.ID, Seq: int32(seq)})
	if err != nil {
		return nil, err
	}
	return l.key.Open(signalPlace(l.e.TenantID, row.ID), row.Data)
}
