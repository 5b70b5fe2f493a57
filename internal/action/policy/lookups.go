package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
)

// looksUp reports whether a look-up may call a verb: a read that is not of high risk.
func looksUp(s Subject) bool {
	c := s.Call(nil, governance.Context{})
	return c.Operation == verb.Read && (c.Risk == verb.RiskLow || c.Risk == verb.RiskMedium)
}

// lookupSubject returns the verb, nil where the tenant has none of the name.
func (s *Service) lookupSubject(ctx context.Context, tenant uuid.UUID, name verb.Name) (Subject, error) {
	subject, err := s.subjects.Subject(ctx, tenant, name)
	if fault.HasCode(err, fault.CodeVerbNotFound) {
		return nil, nil //nolint:nilnil // no verb is a value here
	}
	return subject, err
}

// lookupMistakes finds look-ups of verbs that write or are of high risk. A verb that the catalog does
// not have yet gets a warning only.
func (s *Service) lookupMistakes(ctx context.Context, tenant uuid.UUID, p Policy) (m mistakes, err error) {
	verbs, _ := governance.LookupsOf(p.Policy)
	for _, place := range slices.Sorted(maps.Keys(verbs)) {
		subject, err := s.lookupSubject(ctx, tenant, verbs[place])
		if err != nil {
			return nil, err
		}
		if subject != nil && !looksUp(subject) {
			m.add(place, "read", "must be a read of low or medium risk: a look-up changes nothing and waits for nobody")
		}
	}
	return m, nil
}

// lookups warns of look-ups that have no answer as things are, and of those that no condition uses.
func (l *look) lookups(ctx context.Context) error {
	verbs, unused := governance.LookupsOf(l.p.Policy)
	for i, one := range l.p.Lookups {
		name, readable := verbs[fmt.Sprintf("/lookups/%d/verb", i)]
		if !readable {
			continue
		}
		subject, err := l.s.lookupSubject(ctx, l.tenant, name)
		switch {
		case err != nil:
			return err
		case subject == nil:
			l.warn(LookupUnknownVerb, "No verb of the catalog is %s, which a look-up reads.", name)
		case !looksUp(subject):
			l.warn(LookupNotRead, "%s is not a read of low or medium risk, so the look-up is not made.", name)
		}
		if subject == nil || !looksUp(subject) {
			continue
		}
		if d := misfit(subject, one); d != nil {
			l.warn(LookupArgsMisfit, "The arguments of the look-up %s never fit %s, so it is not made: %s %s.", one.Name, name, d.Path, d.Message)
		}
		if err := l.unlisted(ctx, subject, one.Name, name); err != nil {
			return err
		}
		if subject.Connected() != nil {
			l.warn(LookupNotConnected, "The provider %s is not connected, so the look-up is not made. A customer may have a credential of their own.", name.Provider)
		}
	}
	for _, name := range unused {
		l.warn(LookupUnused, "No condition uses the look-up %s, so it is not made.", name)
	}
	return nil
}

// unlisted warns of conditions that ask for what the schema of the answer does not list. They are in
// doubt where the provider sends no more than it has described.
func (l *look) unlisted(ctx context.Context, subject Subject, lookup string, name verb.Name) error {
	fields := governance.FieldsOfLookup(l.p.Policy, lookup)
	if len(fields) == 0 {
		return nil
	}
	answer, err := subject.Answer(ctx)
	if err != nil || answer == nil {
		return err
	}
	for _, place := range slices.Sorted(maps.Keys(fields)) {
		if governance.Unlisted(fields[place], answer) {
			l.warn(LookupUnlistedField, "Condition %s asks for %s, which the schema of the answer of %s does not list.", place, fields[place], name)
		}
	}
	return nil
}

// misfit returns a mistake in the arguments of a look-up that no call can mend, nil for none known. An
// argument is missing or is not known, or a value that the policy itself gives is not allowed.
func misfit(subject Subject, l governance.Lookup) *fault.Detail {
	args, taken := l.Sample()
	for _, d := range subject.Check(args) {
		byCall := slices.ContainsFunc(taken, func(place string) bool { return strings.HasPrefix("/args"+place+"/", d.Path+"/") })
		if d.Rule == "required" || d.Rule == "unknown_field" || !byCall {
			return &d
		}
	}
	return nil
}
