package catalog

import (
	"bytes"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/verb"
)

// maxChangesShown is how many changes a preview names.
const maxChangesShown = 1000

// Preview is what an import would do.
type Preview struct {
	// Provider is as the import would leave it.
	Provider
	// Added, Changed and Removed are names of verbs, compared with those that the provider has.
	Added, Changed, Removed []string
	// Changes are those that matter to what governs calls, at most 1,000 of ChangesTotal. Those
	// that need a user come first.
	Changes      []Change
	ChangesTotal int
}

// Change is one thing that an import would change.
type Change struct {
	What            string
	Verb, Operation string // "" where the change is about the provider
	Before, After   string
	Message         string // for people
	NeedsUser       bool
}

// errPreviewed undoes the transaction of a preview.
var errPreviewed = errors.New("catalog: only a preview")

// Preview returns what Import would do, and refuses what Import refuses. It stores the import
// and undoes it, so that no rule has a second form. Like an import it waits for others of the
// provider.
func (c *Catalog) Preview(ctx context.Context, who actor.Actor, in Import) (Preview, error) {
	st, err := c.storing(who, in)
	if err != nil {
		return Preview{}, err
	}
	var p Preview
	err = c.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		was, changes, err := c.replace(ctx, tx, who, st)
		if err != nil {
			return err
		}
		p.told(changes)
		p.differs(was.verbs, in.Verbs)
		return errPreviewed
	})
	if !errors.Is(err, errPreviewed) {
		return Preview{}, err
	}
	p.Provider = st.Provider
	return p, nil
}

// told names the changes.
func (p *Preview) told(changes []change) {
	p.ChangesTotal = len(changes)
	for _, c := range changes[:min(len(changes), maxChangesShown)] {
		p.Changes = append(p.Changes, Change{
			What: c.What, Verb: c.Verb, Operation: string(c.Route), Before: c.Before, After: c.After, Message: c.message(), NeedsUser: c.needsUser,
		})
	}
}

// differs finds the verbs that would be there, would no longer, and would be others.
func (p *Preview) differs(was []knownVerb, now []verb.Definition) {
	had := map[string]knownVerb{}
	for _, k := range was {
		if !k.removed {
			had[k.name] = k
		}
	}
	for _, d := range inPageOrder(now) {
		k, before := had[d.Name]
		delete(had, d.Name)
		switch {
		case !before:
			p.Added = append(p.Added, d.Name)
		case !k.is(d):
			p.Changed = append(p.Changed, d.Name)
		}
	}
	for _, k := range was {
		if _, gone := had[k.name]; gone && !k.removed {
			p.Removed = append(p.Removed, k.name)
		}
	}
}

// is reports whether the verb is the one that an import makes, in all that callers see and send.
func (k knownVerb) is(d verb.Definition) bool {
	return k.domain == d.Domain && k.risk == d.Risk && k.operation == d.Operation && k.idempotency == d.Idempotency &&
		k.description == d.Description && bytes.Equal(k.schema, d.Schema) && k.plan == HashOf(d.Plan)
}
