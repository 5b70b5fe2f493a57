package catalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/argdiff"
)

// Bounds of what is said about one quarantined verb.
const (
	maxNamedBy     = 10
	maxPointerText = 200 // bytes of a pointer
)

// accepted is what people had in mind when they named a verb: its form before the first import
// that would have changed what they said.
type accepted struct {
	risk   verb.Risk
	schema json.RawMessage
}

// quarantine is what an import, or the deletion of a provider, does to verbs that are named.
type quarantine struct {
	was *known
	now []verb.Definition
	// byKey: a key neither accepts nor ends a quarantine, however it changes what names the verb. Only
	// the accepted form ends it.
	byKey    bool
	diffs    map[string]argdiff.Result // of the verbs that have no other accepted form
	work     int                       // that is left for comparing
	at       time.Time
	suspects map[string]verb.Quarantine
	// marks are the verbs that are blocked from now on.
	marks map[string]verb.Quarantine
	// kept are the accepted forms that have to be known after it.
	kept map[string]accepted
}

// quarantined finds the verbs that an import changes in a way that those who name them must
// accept, and keeps their accepted forms. A removed verb that is named keeps its form too, so that
// no removal in between makes a change look new. now is empty where the provider is deleted.
func (c *Catalog) quarantined(ctx context.Context, tx pgx.Tx, who actor.Actor, slug string, was *known, now []verb.Definition, diffs map[string]argdiff.Result) (*quarantine, error) {
	q := &quarantine{
		was: was, now: now, byKey: who.Kind != actor.User, diffs: diffs, work: maxArgumentWork, at: c.now().UTC(), suspects: map[string]verb.Quarantine{}, marks: map[string]verb.Quarantine{},
		kept: map[string]accepted{},
	}
	gone := q.gone()
	present := was.present()
	for _, d := range now {
		q.suspect(d, present)
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(q.suspects)), maps.Keys(gone))
	naming, err := c.naming(ctx, tx, who.TenantID, slug, names)
	if err != nil {
		return nil, err
	}
	for name, form := range gone {
		if len(naming[name]) > 0 || q.staysKept(name) {
			q.kept[name] = form
		}
	}
	for name, mark := range q.suspects {
		if by := naming[name]; len(by) > 0 || q.staysKept(name) {
			q.kept[name] = was.acceptedOf(name, present)
			q.marks[name] = q.mark(name, mark, by, present)
		}
	}
	return q, c.keepAccepted(ctx, tx, who.TenantID, slug, was.accepted, q.kept)
}

// staysKept reports whether the accepted form of a verb outlasts what named the verb.
func (q *quarantine) staysKept(name string) bool {
	_, kept := q.was.accepted[name]
	return kept && q.byKey
}

// present returns the verbs that the provider has, by name.
func (k *known) present() map[string]*knownVerb {
	list := make(map[string]*knownVerb, len(k.verbs))
	for i, v := range k.verbs {
		if !v.removed {
			list[v.name] = &k.verbs[i]
		}
	}
	return list
}

// acceptedOf returns the form of a verb that was accepted last: the one that it has, or that the
// platform offers, where no other is kept.
func (k *known) acceptedOf(name string, present map[string]*knownVerb) accepted {
	if form, kept := k.accepted[name]; kept {
		return form
	}
	if v, has := present[name]; has {
		return accepted{v.risk, v.schema}
	}
	return k.offered[name]
}

// gone returns the accepted forms of verbs that the provider does not have afterwards.
func (q *quarantine) gone() map[string]accepted {
	gone := maps.Clone(q.was.offered)
	if gone == nil {
		gone = map[string]accepted{}
	}
	for _, v := range q.was.verbs {
		if !v.removed {
			gone[v.name] = accepted{v.risk, v.schema}
		}
	}
	maps.Copy(gone, q.was.accepted)
	for _, d := range q.now {
		delete(gone, d.Name)
	}
	return gone
}

// suspect compares a verb with its accepted form. One that has none is new.
func (q *quarantine) suspect(d verb.Definition, present map[string]*knownVerb) {
	form, kept := q.was.accepted[d.Name]
	k, had := present[d.Name]
	if !kept && !had {
		form, kept = q.was.offered[d.Name]
	}
	var diff argdiff.Result
	switch {
	case kept && !bytes.Equal(form.schema, d.Schema):
		diff = compareArguments(form.schema, d.Schema, &q.work)
	case !kept && had:
		form, diff = accepted{k.risk, k.schema}, q.diffs[d.Name]
	case !kept:
		return
	}
	changes, total := breaks(form.risk, d.Risk, diff)
	if total > 0 {
		q.suspects[d.Name] = verb.Quarantine{Form: acceptable(d), Changes: changes, ChangesTotal: total}
	}
}

// breaks returns what those who name a verb have to accept, and how much that is in all.
func breaks(before, now verb.Risk, diff argdiff.Result) (changes []verb.FormChange, total int) {
	if before.Below(now) {
		changes = append(changes, verb.FormChange{What: "risk_level", Before: string(before), After: string(now)})
	}
	total = len(changes) + diff.Breaking
	for _, d := range diff.List {
		if d.Kind.Breaks() {
			changes = append(changes, verb.FormChange{What: string(d.Kind), Pointer: argschema.Shorten(d.Pointer, maxPointerText), Before: d.Before, After: d.After})
		}
	}
	if diff.Incomplete {
		changes = append(changes, verb.FormChange{What: whatSchema, After: untold(diff)})
		total++
	}
	return changes, total
}

// acceptable returns a digest of the form that accepting a verb accepts.
func acceptable(d verb.Definition) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q %d %s%s", d.Risk, len(d.Schema), d.Schema, d.Plan) // a hash takes all
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// mark completes what is said of a verb that is blocked. One that was blocked for the same changes
// is so since then. Where nothing names it any longer, what named it before is told.
func (q *quarantine) mark(name string, mark verb.Quarantine, by []verb.Naming, present map[string]*knownVerb) verb.Quarantine {
	mark.Since, mark.NamedBy, mark.NamedByTotal = q.at, by[:min(len(by), maxNamedBy)], len(by)
	k := present[name]
	if k == nil || k.quarantine == nil {
		return mark
	}
	if slices.Equal(k.quarantine.Changes, mark.Changes) && k.quarantine.ChangesTotal == mark.ChangesTotal {
		mark.Since = k.quarantine.Since
	}
	if len(by) == 0 {
		mark.NamedBy, mark.NamedByTotal = k.quarantine.NamedBy, k.quarantine.NamedByTotal
	}
	return mark
}

// naming returns what names verbs of a provider exactly: policies, published Maps and the published
// versions of agents.
func (c *Catalog) naming(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, slug string, names []string) (map[string][]verb.Naming, error) {
	found := map[string][]verb.Naming{}
	if len(names) == 0 {
		return found, nil
	}
	wanted := make(map[verb.Name]bool, len(names))
	full := make([]string, len(names))
	for i, name := range names {
		n := verb.Name{Provider: slug, Verb: name}
		wanted[n], full[i] = true, n.String()
	}
	rows, err := c.q.NamingVerbs(ctx, tx, dbsqlc.NamingVerbsParams{TenantID: tenant, Prefix: `"` + slug + `:`, Names: full})
	if err != nil {
		return nil, fmt.Errorf("catalog: read what names verbs: %w", err)
	}
	for _, r := range rows {
		seen := map[verb.Name]bool{}
		for _, n := range namesIn(r.Type, json.RawMessage(r.Part)) {
			if wanted[n] && !seen[n] {
				seen[n] = true
				found[n.Verb] = append(found[n.Verb], verb.Naming{Type: r.Type, ID: r.ID.String(), Name: r.Name})
			}
		}
	}
	return found, nil
}

// namedByPolicy is the type of a policy in what NamingVerbs finds.
const namedByPolicy = "policy"

// namesIn returns the verbs that a part of a policy, a Map or an agent names exactly.
func namesIn(kind string, part json.RawMessage) (names []verb.Name) {
	if kind == namedByPolicy {
		return namesOfPolicy(part)
	}
	var list []string
	if json.Unmarshal(part, &list) != nil {
		return nil
	}
	for _, text := range list {
		if n, err := verb.Parse(text); err == nil {
			names = append(names, n)
		}
	}
	return names
}

// namesOfPolicy returns the verbs that a policy names exactly. One that cannot be read blocks each call
// already.
func namesOfPolicy(document json.RawMessage) []verb.Name {
	var d struct {
		VerbMatchers []governance.Matcher   `json:"verbMatchers"`
		Match        governance.Narrowing   `json:"match"`
		Conditions   []governance.Condition `json:"conditions"`
		Lookups      []governance.Lookup    `json:"lookups"`
	}
	if json.Unmarshal(document, &d) != nil {
		return nil
	}
	return governance.Policy{Matchers: d.VerbMatchers, Match: d.Match, Conditions: d.Conditions, Lookups: d.Lookups}.NamedVerbs()
}

// keepAccepted makes the accepted forms that are stored of a provider those of now.
func (c *Catalog) keepAccepted(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, slug string, was, now map[string]accepted) error {
	keep := dbsqlc.KeepAcceptedVerbsParams{TenantID: tenant, Provider: slug}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, has := was[name]; !has {
			keep.Names, keep.RiskLevels = append(keep.Names, name), append(keep.RiskLevels, string(now[name].risk))
			keep.Schemas = append(keep.Schemas, string(now[name].schema))
		}
	}
	var forget []string
	for name := range was {
		if _, has := now[name]; !has {
			forget = append(forget, name)
		}
	}
	if len(keep.Names) > 0 {
		if err := c.q.KeepAcceptedVerbs(ctx, tx, keep); err != nil {
			return fmt.Errorf("catalog: keep accepted verbs: %w", err)
		}
	}
	if len(forget) > 0 {
		if err := c.q.ForgetAcceptedVerbs(ctx, tx, dbsqlc.ForgetAcceptedVerbsParams{TenantID: tenant, Provider: slug, Names: forget}); err != nil {
			return fmt.Errorf("catalog: forget accepted verbs: %w", err)
		}
	}
	return nil
}

// markOf reads a stored mark; nil where there is none. One that cannot be read blocks too.
func markOf(raw []byte) *verb.Quarantine {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var q verb.Quarantine
	if json.Unmarshal(raw, &q) != nil {
		return &verb.Quarantine{}
	}
	return &q
}

// readQuarantined reads the first of the marks that a provider's verbs have now.
func (n *Notes) readQuarantined(raw []byte, total int) error {
	var rows []struct {
		Verb string          `json:"verb"`
		Mark json.RawMessage `json:"mark"`
	}
	if err := json.Unmarshal(raw, &rows); err != nil {
		return err //nolint:wrapcheck // the caller says what it reads
	}
	marks := make(map[string]verb.Quarantine, len(rows))
	for _, r := range rows {
		if mark := markOf(r.Mark); mark != nil {
			marks[r.Verb] = *mark
		}
	}
	n.quarantined(marks, maxNotesStored)
	n.QuarantinedTotal = total
	return nil
}

// storedMark returns the mark of a verb as it is stored, "" where it has none.
func storedMark(marks map[string]verb.Quarantine, name string) (string, error) {
	mark, has := marks[name]
	if !has {
		return "", nil
	}
	raw, err := json.Marshal(mark)
	if err != nil {
		return "", fmt.Errorf("catalog: encode the quarantine of a verb: %w", err)
	}
	return string(raw), nil
}
