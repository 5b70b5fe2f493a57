package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/strictjson"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/correction"
	"agentruntime/internal/provider/httpplan"
	"agentruntime/internal/provider/overlay"
)

// Bounds of what an import says of itself. What is stored is shown with the provider, so it is
// bounded more than what a preview shows once.
const (
	maxNotesStored = 200
	maxNotesShown  = 1000
	maxNoteText    = 500 // bytes of a value before and after a change
	// maxNotedChanges is how many changes of a quarantined verb are noted.
	maxNotedChanges = 5
)

// Corrections are what users say about a document beside it. They stay with the provider, and
// count again at each import that does not replace them.
type Corrections struct {
	Rules []correction.Rule `json:"rules,omitempty"`
	// Servers and ServerVariables say where calls of the document's servers go.
	Servers         []verb.ServerChoice `json:"servers,omitempty"`
	ServerVariables map[string]string   `json:"server_variables,omitempty"`
	// Overlay is an OpenAPI Overlay that is applied to the document before it is read.
	Overlay json.RawMessage `json:"overlay,omitempty"`
}

// Notes are what an import said of itself, beside the operations that lost something. The
// catalog stores them, so a JSON name is never renamed.
type Notes struct {
	// Hidden is how many operations rules have hidden.
	Hidden int `json:"hidden,omitempty"`
	// Unused has JSON pointers in the import to the corrections that were about nothing.
	Unused []string `json:"unused,omitempty"`
	// UnusedNear has verbs that rules among them may mean.
	UnusedNear []correction.Near `json:"unused_near,omitempty"`
	// Raised are new verbs whose risk is higher than that of their method, because of a name.
	Raised      []Raised `json:"raised,omitempty"`
	RaisedTotal int      `json:"raised_total,omitempty"`
	// Suggestions are rules that names suggest.
	Suggestions      []correction.Suggestion `json:"suggestions,omitempty"`
	SuggestionsTotal int                     `json:"suggestions_total,omitempty"`
	// Added, Changed and Removed are names of verbs, compared with those before.
	Added   Names `json:"added,omitzero"`
	Changed Names `json:"changed,omitzero"`
	Removed Names `json:"removed,omitzero"`
	// Changes are those that matter to what governs calls. Those that need a user come first.
	Changes      []Change `json:"changes,omitempty"`
	ChangesTotal int      `json:"changes_total,omitempty"`
	// Quarantined are the verbs that are blocked until a user accepts them. They are read from the
	// verbs, and never stored here.
	Quarantined      []Quarantined `json:"-"`
	QuarantinedTotal int           `json:"-"`
	// EventTypes are the first of the webhooks that the document has.
	EventTypes      []verb.EventType `json:"event_types,omitempty"`
	EventTypesTotal int              `json:"event_types_total,omitempty"`
}

// Quarantined is a verb that an import leaves quarantined.
type Quarantined struct {
	Verb string
	verb.Quarantine
}

// Raised is a verb whose name raised its risk.
type Raised struct {
	Operation string `json:"operation"`
	Verb      string `json:"verb"`
	Reason    string `json:"reason"`
}

// Names are the first of Total names of verbs.
type Names struct {
	List  []string `json:"list,omitempty"`
	Total int      `json:"total,omitempty"`
}

func (n *Names) add(name string, most int) {
	if n.Total++; len(n.List) < most {
		n.List = append(n.List, name)
	}
}

// Change is one thing that an import changes.
type Change struct {
	What      string `json:"what"`
	Verb      string `json:"verb,omitempty"` // "" where the change is about the provider
	Operation string `json:"operation,omitempty"`
	Pointer   string `json:"pointer,omitempty"` // of the argument that changes
	Before    string `json:"before"`
	After     string `json:"after"`
	Message   string `json:"message"` // for people
	NeedsUser bool   `json:"needs_user"`
}

// complete returns what the importer said with what was before. verbs are those of the import, and told
// says whether it is stored.
func (n Notes) complete(was known, verbs []verb.Definition, changes []change, told tense, most int) Notes {
	for _, d := range verbs {
		if d.RiskBy != verb.ByName {
			continue
		}
		if n.RaisedTotal++; len(n.Raised) < most {
			n.Raised = append(n.Raised, Raised{Operation: requestOf(d), Verb: d.Name, Reason: "The risk is high: " + d.RiskWhy + "."})
		}
	}
	n.differs(was.verbs, verbs, most)
	n.ChangesTotal = len(changes)
	for _, c := range changes[:min(len(changes), most)] {
		n.Changes = append(n.Changes, Change{
			What: c.What, Verb: c.Verb, Operation: string(c.Route), Pointer: argschema.Shorten(c.Pointer, maxNoteText), Before: argschema.Shorten(c.Before, maxNoteText), After: argschema.Shorten(c.After, maxNoteText),
			Message: argschema.Shorten(c.message(told), 3*maxNoteText), NeedsUser: c.needsUser,
		})
	}
	return n
}

// quarantined says which verbs are quarantined, in the order of their names.
func (n *Notes) quarantined(marks map[string]verb.Quarantine, most int) {
	n.Quarantined, n.QuarantinedTotal = nil, len(marks)
	names := slices.Sorted(maps.Keys(marks))
	for _, name := range names[:min(len(names), most)] {
		mark := marks[name]
		mark.Changes = mark.Changes[:min(len(mark.Changes), maxNotedChanges)]
		n.Quarantined = append(n.Quarantined, Quarantined{Verb: name, Quarantine: mark})
	}
}

// requestOf returns the method and the path that a verb calls.
func requestOf(d verb.Definition) string {
	p, err := httpplan.Parse(d.Plan)
	if err != nil {
		return d.Name
	}
	return p.Method + " " + p.Path
}

// differs finds the verbs that are new, others, and gone.
func (n *Notes) differs(was []knownVerb, now []verb.Definition, most int) {
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
			n.Added.add(d.Name, most)
		case !k.is(d):
			n.Changed.add(d.Name, most)
		}
	}
	for _, k := range was {
		if _, gone := had[k.name]; gone && !k.removed {
			n.Removed.add(k.name, most)
		}
	}
}

// is reports whether the verb is the one that an import makes, in all that callers see and send.
func (k knownVerb) is(d verb.Definition) bool {
	return k.domain == d.Domain && k.risk == d.Risk && k.operation == d.Operation && k.idempotency == d.Idempotency &&
		k.description == d.Description && bytes.Equal(k.schema, d.Schema) && k.plan == HashOf(d.Plan)
}

// readNotes reads what is stored of the last import; raw is nil where nothing is.
func readNotes(raw []byte) (n Notes, err error) {
	if raw != nil {
		err = json.Unmarshal(raw, &n)
	}
	return n, err
}

// readCorrections reads the corrections of the settings of an import; raw is nil where none are
// stored.
func readCorrections(raw []byte) (c Corrections, err error) {
	if raw != nil {
		err = json.Unmarshal(raw, &c)
	}
	return c, err
}

// keepRisks leaves verbs the risk that they had, where nothing but their names would raise it
// now: calls that people rely on do not stop because of a word. A verb whose risk was last a
// name's, or which the document or a rule had set, gets what counts now. It suggests the rule
// that raises the risk.
func (st *storing) keepRisks(was known) {
	byMethod := map[route]knownVerb{}
	for _, k := range was.verbs {
		if risk, _ := verb.OfMethod(k.route.method()); !k.removed && k.risk == risk && (k.riskBy == "" || k.riskBy == verb.ByMethod) {
			byMethod[k.route] = k
		}
	}
	for i := range st.verbs {
		d := &st.verbs[i]
		if d.RiskBy != verb.ByName {
			continue
		}
		k, kept := byMethod[routeOf(d.Name, d.Plan)]
		if !kept {
			continue
		}
		d.Risk, d.RiskBy = k.risk, verb.ByMethod
		if st.Notes.SuggestionsTotal++; len(st.Notes.Suggestions) < maxNotesStored {
			st.Notes.Suggestions = append(st.Notes.Suggestions, correction.SuggestHigh(requestOf(*d), d.Name, d.RiskWhy))
		}
	}
}

// stillCorrected fails where the import took the corrections of the provider for its own, and
// another import has replaced them since.
func (st *storing) stillCorrected(was known) error {
	if st.kept != nil && !sameJSON(was.corrections, *st.kept) {
		return fault.New(fault.CodeConflict, "The provider's rules, overlay or servers were changed meanwhile. Nothing was done. Repeat the call.")
	}
	return nil
}

// corrected finds a change of the corrections that may loosen what governs calls of later
// imports. A rule that matches nothing today may match what a user imports tomorrow, so a key
// only adds rules that restrict.
//
// Servers that no call uses today would do so tomorrow too. A provider that a key creates has those
// of the key, like its base URL.
func (c *comparison) corrected(now Corrections) {
	was := c.was.corrections
	if c.was.exists && (!sameJSON(now.Servers, was.Servers) || !sameJSON(now.ServerVariables, was.ServerVariables)) {
		c.add("servers", knownVerb{}, fmt.Sprintf("%d entries", len(was.Servers)+len(was.ServerVariables)), fmt.Sprintf("%d entries", len(now.Servers)+len(now.ServerVariables)), true)
	}
	// An overlay may say anything, so a key leaves the one that there is.
	if !sameOverlay(now.Overlay, was.Overlay) {
		c.add("overlay", knownVerb{}, fmt.Sprintf("%d bytes", len(was.Overlay)), fmt.Sprintf("%d bytes", len(now.Overlay)), true)
	}
	if now.loosens(was) {
		c.add("rules", knownVerb{}, fmt.Sprintf("%d rules", len(was.Rules)), fmt.Sprintf("%d rules", len(now.Rules)), true)
	}
}

// sameJSON reports whether two values are stored alike. An empty list is stored like none.
func sameJSON[T any](a, b T) bool {
	type held struct {
		V T `json:"v,omitempty"`
	}
	rawA, errA := json.Marshal(held{a})
	rawB, errB := json.Marshal(held{b})
	return errA == nil && errB == nil && bytes.Equal(rawA, rawB)
}

// sameOverlay reports whether two overlays are one JSON value, whatever their space and order.
func sameOverlay(a, b json.RawMessage) bool {
	if overlay.None(a) || overlay.None(b) {
		return overlay.None(a) == overlay.None(b)
	}
	one, errA := strictjson.Canonical(a)
	other, errB := strictjson.Canonical(b)
	return errA == nil && errB == nil && bytes.Equal(one, other)
}

// loosens reports whether the corrections do more than restrict, beside what they did before.
func (c Corrections) loosens(was Corrections) bool {
	if len(c.Rules) < len(was.Rules) {
		return true
	}
	for i, r := range c.Rules {
		if i >= len(was.Rules) {
			if !r.OnlyRestricts() {
				return true
			}
			continue
		}
		if !sameJSON(r, was.Rules[i]) {
			return true
		}
	}
	return false
}

// KeptCorrections returns the corrections that a provider of the tenant's own has; none where
// there is no such provider.
func (c *Catalog) KeptCorrections(ctx context.Context, tenant uuid.UUID, slug string) (Corrections, error) {
	row, err := c.source(ctx, c.db.Tenant(tenant), tenant, slug)
	switch {
	case fault.HasCode(err, fault.CodeProviderNotFound), err == nil && row.Shared:
		return Corrections{}, nil
	case err != nil:
		return Corrections{}, err
	}
	return readCorrections(row.ImportSettings)
}
