package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
)

// recordsAtOnce is how many audit records go in one batch.
const recordsAtOnce = 500

// tellQuarantine records which verbs an import quarantines, in one event for all, and whose
// quarantine it ends. A verb that stays quarantined for the same changes is not told again.
func (c *Catalog) tellQuarantine(ctx context.Context, tx pgx.Tx, who actor.Actor, st *storing, was known) error {
	present := was.present()
	var fresh []string
	var records []audit.Record
	record := func(action audit.Action, name string, details map[string]any) {
		r := changed(who, action, st.Slug)
		r.Verb = name
		records = append(records, r.With(details))
	}
	for _, name := range slices.Sorted(maps.Keys(st.quarantine.marks)) {
		mark := st.quarantine.marks[name]
		if k := present[name]; k != nil && k.quarantine != nil && k.quarantine.Since.Equal(mark.Since) {
			continue
		}
		fresh = append(fresh, verb.Name{Provider: st.Slug, Verb: name}.String())
		record(audit.VerbQuarantined, name, map[string]any{
			"changes": mark.Changes, "changes_total": mark.ChangesTotal, "named_by": mark.NamedBy, "named_by_total": mark.NamedByTotal,
		})
	}
	for _, d := range st.verbs {
		if k := present[d.Name]; k != nil && k.quarantine != nil {
			if _, still := st.quarantine.marks[d.Name]; !still {
				_, suspect := st.quarantine.suspects[d.Name]
				record(audit.VerbReleased, d.Name, map[string]any{"restored": !suspect})
			}
		}
	}
	for some := range slices.Chunk(records, recordsAtOnce) {
		b := &db.Batch{}
		for _, r := range some {
			audit.Queue(b, r)
		}
		if err := b.SendIn(ctx, tx); err != nil {
			return fmt.Errorf("catalog: record quarantined verbs: %w", err)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	return c.emitQuarantine(ctx, tx, who, st.Slug, fresh)
}

// emitQuarantine tells the tenant of the verbs that are quarantined from now on.
func (c *Catalog) emitQuarantine(ctx context.Context, tx pgx.Tx, who actor.Actor, slug string, verbs []string) error {
	b := &db.Batch{}
	event.Queue(b, event.Event{TenantID: who.TenantID, Body: event.Quarantined{
		Provider: slug, Verbs: verbs[:min(len(verbs), event.MaxQuarantined)], Total: len(verbs), ImportedBy: who.String(),
	}})
	if err := b.SendIn(ctx, tx); err != nil {
		return fmt.Errorf("catalog: tell of quarantined verbs: %w", err)
	}
	return nil
}
