package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/audit"
)

// Accept ends the quarantine of a verb, and returns the verb. What it is now is its accepted form
// from then on. A verb that is not quarantined is returned as it is. form is that of the quarantine
// which the caller has seen, "" for any: CONFLICT where an import has changed the verb since.
// PROVIDER_NOT_FOUND and VERB_NOT_FOUND.
func (c *Catalog) Accept(ctx context.Context, who actor.Actor, name verb.Name, form string) (v Verb, err error) {
	if !verb.ValidSlug(name.Provider) {
		return Verb{}, fault.New(fault.CodeProviderNotFound, "")
	}
	err = c.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if err := c.lockImport(ctx, tx, who.TenantID, name.Provider); err != nil {
			return err
		}
		before, err := c.verb(ctx, tx, who.TenantID, name)
		if fault.HasCode(err, fault.CodeVerbNotFound) {
			if _, err := c.provider(ctx, tx, who.TenantID, name.Provider); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if v = before; before.Quarantine == nil {
			return nil
		}
		if form != "" && form != before.Quarantine.Form {
			return fault.New(fault.CodeConflict, "The verb has changed since. Look at its quarantine again, and accept that form.")
		}
		if err := c.accept(ctx, tx, who, name); err != nil {
			return err
		}
		v.Quarantine = nil
		record := changed(who, audit.VerbAccepted, name.Provider)
		record.Verb, record.RiskLevel = name.Verb, string(v.Risk)
		return audit.Append(ctx, tx, record.With(map[string]any{"changes": before.Quarantine.Changes, "changes_total": before.Quarantine.ChangesTotal, "since": before.Quarantine.Since}))
	})
	return v, err
}

func (c *Catalog) accept(ctx context.Context, tx pgx.Tx, who actor.Actor, name verb.Name) error {
	b := &db.Batch{}
	db.QueueExec(b, c.q.AcceptVerb, dbsqlc.AcceptVerbParams{TenantID: who.TenantID, Provider: name.Provider, Name: name.Verb})
	db.QueueExec(b, c.q.ForgetAcceptedVerbs, dbsqlc.ForgetAcceptedVerbsParams{TenantID: who.TenantID, Provider: name.Provider, Names: []string{name.Verb}})
	if err := b.SendIn(ctx, tx); err != nil {
		return fmt.Errorf("catalog: accept a verb: %w", err)
	}
	return nil
}
