package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/stepmachine"
)

// changePrefix begins the name of the record of a change, beforePrefix that of what a probe read
// before it, in the stored values of an execution.
const (
	changePrefix = "change:"
	beforePrefix = "before:"
)

// Change is a write that a dry run has not made.
type Change struct {
	ID string
	// Number is its place in the order of the changes, from 1.
	Number int
	Verb   string
	Step   string // the place of the step
	// Args are masked, and so is Before: what the read-back of the verb read, nil where it declares
	// none or found nothing.
	Args, Before json.RawMessage
	// DependsOn are the changes that the arguments were built from. Their results are made up.
	DependsOn []string
}

// Changes returns the changes of a dry run in their order; none for an execution that is no dry run.
func (s *Service) Changes(ctx context.Context, e Execution) ([]Change, error) {
	out := []Change{}
	if !e.DryRun {
		return out, nil
	}
	l, err := s.loader(ctx, e, nil)
	if err != nil {
		return nil, err
	}
	for _, prefix := range []string{beforePrefix, changePrefix} {
		rows, err := s.q.ReadMapIterations(ctx, s.d.DB.Reading(e.TenantID, db.ListLimit), dbsqlc.ReadMapIterationsParams{
			TenantID: e.TenantID, Execution: e.ID, Low: prefix, High: strings.TrimSuffix(prefix, ":") + ";",
		})
		if err != nil {
			return nil, fmt.Errorf("execution: changes: %w", err)
		}
		for _, row := range rows {
			text, err := l.open(row.Name, row.Body)
			if err != nil {
				return nil, fmt.Errorf("execution: change %s: %w", row.Name, err)
			}
			l.read[row.Name] = text
			if prefix == changePrefix {
				change, err := l.change(text)
				if err != nil {
					return nil, err
				}
				out = append(out, change)
			}
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return a.Number - b.Number })
	return out, nil
}

// change reads a record. What a probe has read was read before.
func (l *loader) change(text json.RawMessage) (Change, error) {
	var c stepmachine.RecordChange
	if err := json.Unmarshal(text, &c); err != nil {
		return Change{}, fmt.Errorf("execution: a change of %s: %w", l.e.ID, err)
	}
	args, err := c.Args.Resolve(l.load)
	if err != nil {
		return Change{}, fmt.Errorf("execution: change %s: %w", c.ID, err)
	}
	change := Change{ID: c.ID, Verb: c.Verb, Step: pathOf(c.Ref), Args: masked(args), DependsOn: c.DependsOn}
	if change.DependsOn == nil {
		change.DependsOn = []string{}
	}
	change.Number, err = strconv.Atoi(c.ID[strings.LastIndexByte(c.ID, ':')+1:])
	if before, probed := l.read[beforePrefix+pathOf(c.Ref)]; probed {
		change.Before = masked(before)
	}
	return change, err
}

// KeepBefore stores what a probe read before a change of a dry run, and returns it as a value.
func (s *Service) KeepBefore(ctx context.Context, e Execution, ref stepmachine.Ref, before json.RawMessage) (stepmachine.Value, error) {
	key, err := s.d.Keys.Key(ctx, e.TenantID)
	if err != nil {
		return stepmachine.Value{}, fmt.Errorf("execution: %w", err)
	}
	name, v, b := beforePrefix+pathOf(ref), stepmachine.Of(before), &db.Batch{}
	s.queueValue(b, key, e, name, v)
	if err := s.d.DB.Send(ctx, e.TenantID, b); err != nil {
		return v, fmt.Errorf("execution: keep what was before: %w", err)
	}
	if len(v.JSON) > stepmachine.MaxInline {
		v = Reference(name, v.JSON, nil)
	}
	return v, nil
}

// Invent returns a made-up result of a write of a dry run, of what its step expects.
func (s *Service) Invent(ctx context.Context, e Execution, ref stepmachine.Ref) (stepmachine.Value, error) {
	v, err := s.d.Definitions.Version(ctx, e.TenantID, e.MapID, e.Version)
	if err != nil {
		return stepmachine.Value{}, err
	}
	return stepmachine.Of(v.Program.Invent(ref)), nil
}
