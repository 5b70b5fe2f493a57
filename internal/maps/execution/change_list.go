package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/stepmachine"
)

// The changes of a dry run are one ordered list. Those of a Map that a step started and waits for
// are in the list of the dry run that started it, at the place of the step: all of them come after
// the changes before it, and before those after it. Rows of map_changes say how far each is. What
// it would send, and what its probe has read, are stored values of the execution that came to it.

// These begin the names of such values.
const (
	// changePrefix is that of the record of a change, by its id.
	changePrefix = "change:"
	// beforePrefix is that of what a probe read before it, and probePrefix of the run whose read-back
	// that is, both by the place of the step.
	beforePrefix = "before:"
	probePrefix  = "probe:"
	// afterPrefix is that of what the probe read after it was applied, by its id.
	afterPrefix = "after:"
	// leftPrefix is that of how the last change that was applied left what a probe reads, by the
	// probe. It belongs to the dry run.
	leftPrefix = "left:"
	// statePrefix comes before the name of what a probe read: the state of that look. Earlier releases
	// stored none, and no look that read nothing before a change.
	statePrefix = "state:"
)

// ChangeStatus says how far a change is. Rows store it as text.
type ChangeStatus string

// The statuses of a change.
const (
	ChangeProposed ChangeStatus = "proposed"
	ChangeApproved              = ChangeStatus(governance.ApprovalApproved)
	ChangeRejected              = ChangeStatus(governance.ApprovalRejected)
	ChangeApplying ChangeStatus = "applying"
	ChangeApplied  ChangeStatus = "applied"
	ChangeFailed   ChangeStatus = "failed"
	// ChangeDrifted: it would no longer be what people have approved, so it was not applied.
	ChangeDrifted ChangeStatus = "drifted"
	// ChangeNotApplied: another one before it was not applied, or nobody decided in time.
	ChangeNotApplied ChangeStatus = "not_applied"
)

// Change is a write that a dry run has not made.
type Change struct {
	ID string
	// Number is its place in the order of the changes, from 1.
	Number int32
	Verb   string
	Step   string // the place of the step in its execution
	// Path is the step, after the steps that started the executions around it.
	Path []string
	// Execution is the id of the execution that came to it.
	Execution uuid.UUID
	// Args are masked, as are Before and After: what the read-back of the verb read in the dry run, and
	// after the change was applied. They are nil where it read nothing. The states say why.
	Args, Before, After     json.RawMessage
	BeforeState, AfterState verb.LookState
	// DependsOn are the changes that the arguments were built from. Their results are made up.
	DependsOn []string
	Status    ChangeStatus
	// Run is the execution_id of the run that applies it, "" before.
	Run string
	// Code and Reason say why it failed or has drifted.
	Code, Reason string
}

// ChangeList is a page of the changes of a dry run.
type ChangeList struct {
	// Status is "" where people were not asked about them.
	Status     SetStatus
	ApprovalID string
	ExpiresAt  *time.Time
	DecidedBy  *uuid.UUID
	Changes    []Change
	More       bool
}

// listOf returns the dry run whose list has the changes of the execution.
func (e Execution) listOf() uuid.UUID {
	if e.changesOf != nil {
		return *e.changesOf
	}
	return e.ID
}

// Changes returns a page of the changes of a dry run in their order, after the one with the number.
// There are none for an execution that is no dry run. Of an execution that a step has started they
// are those of the list of its dry run that it came to.
func (s *changes) Changes(ctx context.Context, e Execution, after int32, limit int) (out ChangeList, err error) {
	out.Changes = []Change{}
	if !e.DryRun {
		return out, nil
	}
	b := &db.Batch{}
	set := db.Queue(b, s.q.GetMapChangeSet, dbsqlc.GetMapChangeSetParams{TenantID: e.TenantID, Execution: e.listOf()})
	found := db.Queue(b, s.q.ListMapChanges, dbsqlc.ListMapChangesParams{
		TenantID: e.TenantID, DryRun: e.listOf(), After: after, Within: append([]int32{}, e.changesAt...), Most: int32(limit + 1),
	})
	if err := s.d.DB.SendReading(ctx, e.TenantID, db.ListLimit, b); err != nil {
		return out, fmt.Errorf("execution: changes: %w", err)
	}
	for _, row := range set.Value {
		out.Status, out.ApprovalID, out.ExpiresAt, out.DecidedBy = SetStatus(row.Status), row.ApprovalID, db.UTC(row.ExpiresAt), row.DecidedBy
	}
	rows, more := db.Page(found.Value, limit)
	out.More = more
	bytes := 0
	for chunk := range slices.Chunk(rows, changesRead) {
		if bytes > changesBytes {
			out.More = true
			break
		}
		texts, err := s.changeTexts(ctx, e.TenantID, chunk)
		if err != nil {
			return out, err
		}
		for _, row := range chunk {
			change, err := texts.change(row)
			if err != nil {
				return out, err
			}
			out.Changes = append(out.Changes, change)
			bytes += len(change.Args) + len(change.Before) + len(change.After)
		}
	}
	s.views.maskChanges(ctx, e, out.Changes)
	return out, nil
}

// A page ends after changesBytes of values. The values of changesRead changes are read at a time.
const (
	changesBytes = 4 << 20
	changesRead  = 20
)

// changeTexts are the stored values of the executions of a page of changes.
type changeTexts map[uuid.UUID]*loader

func (s *changes) changeTexts(ctx context.Context, tenant uuid.UUID, rows []dbsqlc.ListMapChangesRow) (changeTexts, error) {
	names, texts := map[uuid.UUID][]string{}, changeTexts{}
	for _, row := range rows {
		place := row.Path[len(row.Path)-1]
		names[row.Execution] = append(names[row.Execution], changePrefix+row.ID, beforePrefix+place, statePrefix+beforePrefix+place, afterPrefix+row.ID, statePrefix+afterPrefix+row.ID)
	}
	for id, all := range names {
		e, err := s.readExecution(ctx, tenant, id)
		if err != nil {
			return nil, err
		}
		l, err := s.newLoader(ctx, e, nil)
		if err != nil {
			return nil, err
		}
		found, err := s.q.ReadMapValues(ctx, s.d.DB.Reading(tenant, db.ListLimit), dbsqlc.ReadMapValuesParams{TenantID: tenant, Execution: id, Names: all})
		if err != nil {
			return nil, fmt.Errorf("execution: changes: %w", err)
		}
		for _, value := range found {
			if l.read[value.Name], err = l.open(value.Name, value.Body); err != nil {
				return nil, fmt.Errorf("execution: change %s: %w", value.Name, err)
			}
		}
		texts[id] = l
	}
	return texts, nil
}

func (t changeTexts) change(row dbsqlc.ListMapChangesRow) (Change, error) {
	l, place := t[row.Execution], row.Path[len(row.Path)-1]
	change := Change{
		ID: row.ID, Number: row.Number, Verb: row.Verb, Step: place, Path: row.Path, Execution: row.Execution, DependsOn: append([]string{}, row.DependsOn...),
		Status: ChangeStatus(row.Status), Code: db.Text(row.Code), Reason: db.Text(row.Reason), Args: json.RawMessage("{}"),
	}
	if row.Run != nil {
		change.Run = executionIDOf(*row.Run)
	}
	change.Before, change.BeforeState = l.shownLook(beforePrefix + place)
	change.After, change.AfterState = l.shownLook(afterPrefix + row.ID)
	text, kept := l.read[changePrefix+row.ID]
	if !kept {
		return change, nil // the texts of its execution were erased
	}
	args, err := l.argsOf(text)
	change.Args = masked(args)
	return change, err
}

// argsOf returns the arguments of the record of a change.
func (l *loader) argsOf(record json.RawMessage) (json.RawMessage, error) {
	var c stepmachine.RecordChange
	if err := json.Unmarshal(record, &c); err != nil {
		return nil, fmt.Errorf("execution: a change of %s: %w", l.e.ID, err)
	}
	args, err := c.Args.Resolve(l.load)
	if err != nil {
		return nil, fmt.Errorf("execution: change %s: %w", c.ID, err)
	}
	return args, nil
}
