package catalog

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"agentruntime/internal/base/actor"
)

// errPreviewed undoes the transaction of a preview.
var errPreviewed = errors.New("catalog: only a preview")

// Preview returns the provider as Import would leave it, and refuses what Import refuses. It
// stores the import and undoes it, so that no rule has a second form. Like an import it waits for
// others of the provider. Its notes have up to 1,000 entries each.
func (c *Catalog) Preview(ctx context.Context, who actor.Actor, in Import) (Provider, error) {
	st, err := c.storing(who, in)
	if err != nil {
		return Provider{}, err
	}
	said := st.Notes
	err = c.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		st.Notes = said
		was, changes, err := c.replace(ctx, tx, who, st)
		if err != nil {
			return err
		}
		said.Suggestions, said.SuggestionsTotal = st.Notes.Suggestions, st.Notes.SuggestionsTotal
		st.Notes = said.complete(was, st.verbs, changes, would, maxNotesShown)
		st.Notes.quarantined(st.quarantine.marks, maxNotesShown)
		return errPreviewed
	})
	if !errors.Is(err, errPreviewed) {
		return Provider{}, err
	}
	return st.Provider, nil
}
