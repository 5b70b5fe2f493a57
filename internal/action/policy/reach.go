package policy

import (
	"context"
	"slices"
	"strings"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
)

// reach is a policy's matchers, as rows of the queries, and the providers whose verbs they can
// mean.
type reach struct {
	matchers []governance.Matcher // with fields in place of a type
	// Of each matcher: whether it is one of any, all or except, and what it compares. "" fits
	// everything. patterns are those of LIKE.
	kinds, patterns, providers, risks, operations, domains []string
	// within are the only providers whose verbs can be meant, unless anywhere.
	within   []string
	anywhere bool
}

func reachOf(p governance.Policy) reach {
	r := reach{kinds: []string{}, patterns: []string{}, providers: []string{}, risks: []string{}, operations: []string{}, domains: []string{}}
	r.add("any", p.Matchers)
	r.add("all", p.Match.All)
	r.add("except", p.Match.Except)
	r.within = r.providersOf("all")
	r.within = slices.DeleteFunc(r.within, func(slug string) bool { return slug == "" })
	if len(r.within) == 0 {
		r.within = r.providersOf("any")
		r.anywhere = len(r.within) == 0 || slices.Contains(r.within, "")
	}
	return r
}

func (r *reach) add(kind string, list []governance.Matcher) {
	like := strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`)
	for _, m := range list {
		m = m.ByField()
		r.matchers = append(r.matchers, m)
		r.kinds = append(r.kinds, kind)
		r.patterns = append(r.patterns, like.Replace(m.Verb))
		r.providers = append(r.providers, m.Provider)
		r.risks = append(r.risks, m.Risk)
		r.operations = append(r.operations, m.Operation)
		r.domains = append(r.domains, m.Domain)
	}
}

// providersOf returns the provider that each matcher of a kind names, "" where it may be any.
func (r *reach) providersOf(kind string) []string {
	list := []string{}
	for i, m := range r.matchers {
		if r.kinds[i] == kind {
			list = append(list, providerOf(m))
		}
	}
	return list
}

func providerOf(m governance.Matcher) string {
	if m.Provider != "" {
		return m.Provider
	}
	if provider, _, ok := strings.Cut(m.Verb, ":"); ok && !strings.Contains(provider, "*") {
		return provider
	}
	return ""
}

// named returns what the matchers name of a property, each once.
func named(list []string) []string {
	list = slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "" })
	slices.Sort(list)
	return slices.Compact(list)
}

// unknownNames finds matchers that name what the catalog does not have.
func (l *look) unknownNames(ctx context.Context) error {
	on := l.s.db.Reading(l.tenant, db.ScanLimit)
	var unknown []string
	if slugs := named(l.reach.providers); len(slugs) > 0 {
		missing, err := l.s.q.MissingProviders(ctx, on, dbsqlc.MissingProvidersParams{TenantID: l.tenant, Slugs: slugs})
		if err != nil {
			return err
		}
		for _, slug := range missing {
			l.warn(UnknownProvider, "There is no provider %s.", slug)
		}
		unknown = missing
	}
	if domains := named(l.reach.domains); len(domains) > 0 {
		missing, err := l.s.q.MissingDomains(ctx, on, dbsqlc.MissingDomainsParams{TenantID: l.tenant, Domains: domains})
		if err != nil {
			return err
		}
		for _, domain := range missing {
			l.warn(UnknownDomain, "No verb of the catalog has the domain %s.", domain)
		}
		unknown = append(unknown, missing...)
	}
	return l.unknownVerbs(ctx, unknown)
}

// unknownVerbs finds matchers that fit no verb, of those that name a verb or several fields and
// nothing of what is unknown anyway.
func (l *look) unknownVerbs(ctx context.Context, unknown []string) error {
	arg := dbsqlc.MissingVerbsParams{TenantID: l.tenant}
	r := l.reach
	for i, m := range r.matchers {
		words := m.Words()
		if m.Verb == "" && len(words) < 2 || slices.Contains(unknown, m.Provider) || slices.Contains(unknown, m.Domain) {
			continue
		}
		arg.Places, arg.Patterns, arg.Providers = append(arg.Places, int32(i)), append(arg.Patterns, r.patterns[i]), append(arg.Providers, providerOf(m))
		arg.Risks, arg.Operations, arg.Domains = append(arg.Risks, r.risks[i]), append(arg.Operations, r.operations[i]), append(arg.Domains, r.domains[i])
	}
	if len(arg.Places) == 0 {
		return nil
	}
	missing, err := l.s.q.MissingVerbs(ctx, l.s.db.Reading(l.tenant, db.ScanLimit), arg)
	if err != nil {
		return err
	}
	for _, i := range missing {
		if words := r.matchers[i].Words(); len(words) > 1 {
			l.warn(UnknownVerb, "No verb of the catalog has %s.", strings.Join(words, " and "))
		} else {
			l.warn(UnknownVerb, "No verb of the catalog is %s.", r.matchers[i].Verb)
		}
	}
	return nil
}
