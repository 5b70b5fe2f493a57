package execution

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/strictjson"
	"agentruntime/internal/base/verb"
)

// A probe looks at what a change is about: before it, in the dry run, again when it is applied, and
// after that. What others have changed between the first two looks is drift. A look that could not read
// is stored as well: it must not pass for one that has found nothing.

// shownLook returns a look that was read, as people see it.
func (l *loader) shownLook(name string) (value json.RawMessage, state verb.LookState) {
	look := l.lookNamed(name)
	if look.Value == nil {
		return nil, look.State
	}
	return masked(look.Value), verb.LookFound
}

// lookNamed returns a look that was read.
func (l *loader) lookNamed(name string) (look verb.Look) {
	look.Value = l.read[name]
	if string(look.Value) == "null" {
		look.Value = nil
	}
	_ = json.Unmarshal(l.read[statePrefix+name], &look.State) // "" for none
	return look
}

// nameAfterApply is the name of the value that says how the apply has left what a probe reads.
func (l *loader) nameAfterApply(probe string) string {
	return leftPrefix + hex.EncodeToString(l.key.Digest([]byte(probe)))
}

// Drifted compares how a probe sees things now with how it saw them in the dry run, or after the
// last change of the list that was applied to the same thing. It returns why they differ, "" where
// they do not.
func (s *changes) Drifted(ctx context.Context, c *Applying, now verb.Look) (string, error) {
	left, known, err := s.lookAfterApply(ctx, c, now.Of)
	switch {
	case err != nil:
		return "", err
	case known:
		return compareLooks(left, now)
	case now.Elsewhere:
		// A change before has brought what it is about. The dry run has read another thing.
		return "", nil
	}
	return compareLooks(c.l.lookNamed(beforePrefix+c.Step), now)
}

// lookAfterApply returns how the apply has left what a probe reads. known is false where it did not change
// that.
func (s *changes) lookAfterApply(ctx context.Context, c *Applying, probe string) (look verb.Look, known bool, err error) {
	if probe == "" {
		return look, false, nil
	}
	l, err := s.newLoader(ctx, c.DryRun, nil)
	if err != nil {
		return look, false, err
	}
	name := l.nameAfterApply(probe)
	if err := l.readAll([]string{name, statePrefix + name}); err != nil {
		return look, false, err
	}
	_, known = l.read[name]
	return l.lookNamed(name), known, nil
}

// compareLooks returns why a change is not applied to what a probe sees now; "" where that is as it was.
func compareLooks(was, now verb.Look) (string, error) {
	same, err := sameJSON(was.Value, now.Value)
	switch {
	case err != nil:
		return "", err
	case was.State == verb.LookNotRead:
		return "The read-back of the verb could not read what the change is about, so nobody knows whether that has changed since.", nil
	case same && (was.State == "" || was.State == now.State):
		return "", nil
	case now.State == verb.LookNotFound:
		return "What the dry run has found is no longer there.", nil
	case now.State != verb.LookFound:
		return "The read-back of the verb cannot read now what the change is about, so nobody knows whether that has changed.", nil
	case was.State == verb.LookNotFound:
		return "The dry run has found nothing where there is something now.", nil
	}
	return "What the change is about is no longer as the dry run has read it.", nil
}

// sameJSON reports whether two values are equal; nil is null.
func sameJSON(a, b json.RawMessage) (bool, error) {
	one, err := canonical(a)
	if err != nil {
		return false, err
	}
	other, err := canonical(b)
	return bytes.Equal(one, other), err
}

func canonical(v json.RawMessage) ([]byte, error) {
	if len(v) == 0 {
		return []byte("null"), nil
	}
	out, err := strictjson.Canonical(v)
	if err != nil {
		return nil, fmt.Errorf("execution: a value that was read: %w", err)
	}
	return out, nil
}

// whyUnreadable returns why changes are not approved: the dry run could not read what they are about, so the
// apply would stop there as drift, after it has applied those before. "" for none such. What a change
// that depends on others is about, they may have made.
func (d *deciding) whyUnreadable(ctx context.Context, tx pgx.Tx, rows []dbsqlc.MapChangesToDecideRow, approved []string) (string, error) {
	names, changes, chosen := map[uuid.UUID][]string{}, map[string]string{}, map[string]bool{}
	for _, id := range approved {
		chosen[id] = true
	}
	for _, row := range rows {
		if name := statePrefix + beforePrefix + row.Step; len(row.DependsOn) == 0 && chosen[row.ID] {
			names[row.Execution] = append(names[row.Execution], name)
			changes[row.Execution.String()+name] = row.ID
		}
	}
	var unseen []string
	for of, all := range names {
		l := &loader{ctx: ctx, s: d.s.rows, e: Execution{TenantID: d.e.TenantID, ID: of}, key: d.key}
		states, err := d.s.q.ReadMapValues(ctx, tx, dbsqlc.ReadMapValuesParams{TenantID: d.e.TenantID, Execution: of, Names: all})
		if err != nil {
			return "", err
		}
		for _, value := range states {
			state, err := l.open(value.Name, value.Body)
			if err != nil {
				return "", err
			}
			if string(state) == string(mustJSON(verb.LookNotRead)) {
				unseen = append(unseen, changes[of.String()+value.Name])
			}
		}
	}
	if len(unseen) == 0 {
		return "", nil
	}
	return fmt.Sprintf("The dry run could not read what %d of the approved changes are about, such as %s. Reject those whose before_state is not_read, or make another dry run.",
		len(unseen), slices.Min(unseen)), nil
}
