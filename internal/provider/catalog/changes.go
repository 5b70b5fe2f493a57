package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/argdiff"
	"agentruntime/internal/provider/credential"
)

// Limits of a comparison.
const (
	// maxChangesTold is how many changes a refusal and an audit record name.
	maxChangesTold = 50
	// maxCompared bounds the pairs of routes that are compared: a second of work at most.
	maxCompared = 20_000_000
	// maxFollowed bounds the places of schemas that are compared, in steps of about 20 ns.
	maxFollowed = 100_000_000
)

// knownVerb is a verb as a provider has it, or as it had it when it was removed.
type knownVerb struct {
	name        string
	route       route
	domain      string
	risk        verb.Risk
	riskBy      verb.RiskBy // "" of a removed verb
	operation   verb.Operation
	idempotency verb.Idempotency
	// readBack is the declared read-back as JSON, "" for none. Of a removed verb it is not known.
	readBack string
	// normalized is the program of normalized forms, "" for none. Of a removed verb it is not known.
	normalized string
	// errorWhen is the program that finds errors in answers, "" for none. Of a removed verb it is not known.
	errorWhen string
	removed   bool
	// places says where each argument goes. It is nil where that is not known, as of removed
	// verbs.
	places map[string]argPlace
	// schema is nil where places is.
	schema json.RawMessage
	// form tells whether the arguments are the same, where places and schema are not known.
	form []byte
	// description and plan are of a verb that the provider has.
	description string
	plan        Hash
	// security is what a call presents, nil where the plan does not say.
	security verb.Security
	// quarantine is nil where calls of the verb are not blocked by an import.
	quarantine *verb.Quarantine
}

// known is what a provider was before an import.
type known struct {
	// exists is false where the tenant never had a provider under the slug.
	exists  bool
	baseURL string
	auth    json.RawMessage
	domain  string
	verbs   []knownVerb
	// accepted are the accepted forms of verbs that are quarantined or were removed, by name.
	accepted map[string]accepted
	// offered are the verbs of the platform's provider in whose place the import comes, by name. Where a
	// verb has no other form, this one counts as accepted.
	offered map[string]accepted
	// corrections are those that the provider has, none of a removed one.
	corrections Corrections
	// platform says that the slug means a provider of the platform, which one of the tenant would
	// hide. It does so after the operator removed it too, where the tenant chose it before.
	platform bool
	// keeps says that the provider has its document stored, with the hash document.
	keeps    bool
	document Hash
}

// change is one thing that an import changes. Audit records store it.
type change struct {
	// What is base_url, auth, domain, rules, server, servers, platform, removed, renamed, argument, arguments, mask, method, path,
	// risk_level, operation_type, idempotency, read_back, normalized, error_when, comparison, schema or a kind of package argdiff.
	What  string `json:"what"`
	Verb  string `json:"verb,omitempty"`
	Route route  `json:"operation,omitempty"`
	// Pointer is the JSON Pointer of the argument that changes, "" where none does.
	Pointer string `json:"pointer,omitempty"`
	Before  string `json:"before"`
	After   string `json:"after"`
	// needsUser: a key may not do it.
	needsUser bool
	// gone: the argument is removed, and does not only go elsewhere.
	gone bool
}

// tense says how a change is told of.
type tense bool

const (
	would tense = false // by a preview or a refusal
	did   tense = true  // by the report of an import that is stored
)

// pick returns the text for the tense.
func (t tense) pick(would, did string) string {
	if t {
		return did
	}
	return would
}

// from tells of a value before and after.
func (t tense) from(before, after string) string {
	return t.pick("is ", "was ") + before + t.pick(" and would be ", " and is ") + after + "."
}

// message says what changes.
func (c change) message(t tense) string {
	where := ""
	if c.Verb != "" {
		where = fmt.Sprintf("%s (%s): ", c.Route, c.Verb)
	}
	if text := c.argumentMessage(t); text != "" {
		return where + text
	}
	switch c.What {
	case "removed":
		return where + t.pick("the operation would be removed.", "the operation was removed.")
	case "renamed":
		return where + "the verb was " + c.Before + "."
	case "argument":
		if c.gone {
			return where + t.pick("an argument would be removed.", "an argument was removed.")
		}
		return where + t.pick("an argument would go to another place of the request.", "an argument goes to another place of the request.")
	case "arguments":
		return where + "the operation was removed, and its arguments were others."
	case "mask":
		return where + t.pick("a value that is masked would be shown.", "a value that was masked is shown.")
	case "path":
		return where + "an argument may have slashes, by which the operation could make the requests of others."
	case "method":
		return where + "an argument could choose another method."
	case "platform":
		return "The slug is that of a provider that the platform offers, or that it offered when the tenant chose it. The import " + t.pick("would take its place.", "took its place.")
	case "rules":
		return "The rules that stay with the provider " + t.pick("would be", "are") + " others. A key only adds rules at their end, which make the risk high or hide operations."
	case "overlay":
		return "The overlay that stays with the provider " + t.pick("would be", "is") + " another. A key leaves it as it is."
	case "servers":
		return "servers or server_variables that stay with the provider " + t.pick("would be", "are") + " others."
	case "comparison":
		return "The document has too much to compare with what was before."
	}
	if c.Verb == "" || c.What == "server" || c.What == "domain" {
		return where + c.What + t.pick(" is "+c.Before+"; the import changes it.", " was "+c.Before+"; the import changed it.")
	}
	if c.What == "auth" && c.Before == "" {
		return where + t.pick("the operation would present ", "the operation presents ") + c.After + ", and no other of the provider does."
	}
	return where + c.What + " " + t.from(c.Before, c.After)
}

// path returns where the change is in the body of the import.
func (c change) path() string {
	switch c.What {
	case "base_url", "auth", "domain", "rules", "overlay", "servers":
		if c.Verb == "" {
			return "/" + c.What
		}
	case "platform":
		return "/slug"
	}
	return "/openapi/paths"
}

// comparison finds what an import changes.
type comparison struct {
	was     known
	baseURL string
	byRoute map[route][]knownVerb
	byName  map[string][]knownVerb
	present map[string]*knownVerb // by name, without those that were removed
	places  []place
	origins map[string]bool
	// secretsIn are the places where verbs send secrets.
	secretsIn map[string]bool
	pairs     int
	follow    int // how much work is left for comparing schemas
	found     []change
	// diffs has what is different about the arguments of the verbs whose schemas are.
	diffs        map[string]argdiff.Result
	argumentWork int // that is left
}

// place is a known verb with its address.
type place struct {
	knownVerb
	origin   string
	segments []string
}

// standsIn reports whether a verb of the route, which meets p, could make every request of p,
// or one of them where p writes. A low-risk read may lie below a path with a parameter, as
// /users/me beside /users/{id}.
func (p place) standsIn(r route, segments []string) bool {
	if p.operation == verb.Write {
		return !toldApart(r, p.route)
	}
	if p.risk == verb.RiskLow && p.operation == verb.Read && !slices.Equal(p.segments, segments) {
		return false
	}
	return covers(segments, p.segments) && !toldApart(r, p.route)
}

// compare finds what an import changes, in the order of the verbs. For a key, those that need a
// user come first.
func compare(was known, p Provider, verbs []verb.Definition) *comparison {
	c := &comparison{
		was: was, baseURL: p.BaseURL, byRoute: map[route][]knownVerb{}, byName: map[string][]knownVerb{}, present: map[string]*knownVerb{},
		origins: map[string]bool{}, secretsIn: map[string]bool{}, follow: maxFollowed, diffs: map[string]argdiff.Result{}, argumentWork: maxArgumentWork,
	}
	c.notePlaces(authSecurity(was.auth))
	for i, k := range was.verbs {
		if !k.removed {
			c.present[k.name] = &was.verbs[i]
		}
		c.notePlaces(k.security)
		c.byRoute[k.route] = append(c.byRoute[k.route], k)
		c.byName[k.name] = append(c.byName[k.name], k)
		origin, segments := k.route.address(p.BaseURL)
		c.places = append(c.places, place{k, origin, segments})
		c.origins[origin] = true
	}
	c.origins[credential.OriginOf(p.BaseURL)] = true
	c.provider(p)
	c.corrected(p.Corrections)
	has := map[route]bool{}
	pairs := map[string]bool{}
	for _, d := range verbs {
		v := knownVerb{
			name: d.Name, route: routeOf(d.Name, d.Plan), domain: d.Domain, risk: d.Risk, operation: d.Operation, idempotency: d.Idempotency,
			readBack: readBackOf(d.Plan), normalized: headOf(d.Plan).Normalized, errorWhen: headOf(d.Plan).ErrorWhen, places: placesOf(d.Plan, argsOf(d.Schema)), schema: d.Schema,
			form: formOf(d.Schema, d.Plan), security: securityOf(d.Plan),
		}
		has[v.route], pairs[v.name+" "+string(v.route)] = true, true
		if same := c.byRoute[v.route]; len(same) > 0 {
			c.again(v, same)
		} else {
			c.fresh(v)
			c.newPlace(v)
		}
		c.arguments(v)
	}
	for _, k := range was.verbs {
		if !k.removed && !pairs[k.name+" "+string(k.route)] && (!has[k.route] || len(c.byRoute[k.route]) > 1) {
			c.add("removed", k, "", "", true)
		}
	}
	if c.pairs > maxCompared || c.follow < 0 {
		c.add("comparison", knownVerb{}, "", "", true)
	}
	c.order()
	return c
}

// order puts what needs a user first.
func (c *comparison) order() {
	slices.SortStableFunc(c.found, func(a, b change) int { return rankOf(a) - rankOf(b) })
}

// rankOf returns the place of a change in that order.
func rankOf(c change) int {
	if c.needsUser {
		return 0
	}
	return 1
}

func (c *comparison) add(what string, v knownVerb, before, after string, needsUser bool) {
	c.found = append(c.found, change{What: what, Verb: v.name, Route: v.route, Before: before, After: after, needsUser: needsUser})
}

// provider compares what concerns all verbs.
func (c *comparison) provider(p Provider) {
	if c.was.platform {
		c.add("platform", knownVerb{}, "", "", true)
	}
	if !c.was.exists {
		return
	}
	if c.was.baseURL != p.BaseURL {
		c.add("base_url", knownVerb{}, c.was.baseURL, p.BaseURL, true)
	}
	if !bytes.Equal(c.was.auth, p.Auth) {
		c.add("auth", knownVerb{}, string(c.was.auth), string(p.Auth), true)
	}
	if c.was.domain != p.Domain {
		c.add("domain", knownVerb{}, c.was.domain, p.Domain, true)
	}
}

// again compares a verb with what its route was. A verb that the provider has counts before
// one that was removed, and the same name before another.
func (c *comparison) again(v knownVerb, same []knownVerb) {
	was := slices.MinFunc(same, func(a, b knownVerb) int { return nearness(v, a) - nearness(v, b) })
	if was.name != v.name {
		c.add("renamed", v, was.name, v.name, true)
	}
	if was.domain != v.domain {
		c.add("domain", v, was.domain, v.domain, true)
	}
	if was.risk != v.risk {
		c.add("risk_level", v, string(was.risk), string(v.risk), v.risk.Below(was.risk))
	}
	if was.operation != v.operation {
		c.add("operation_type", v, string(was.operation), string(v.operation), true)
	}
	if was.idempotency != v.idempotency {
		c.add("idempotency", v, string(was.idempotency), string(v.idempotency), true)
	}
	if was.readBack != v.readBack {
		c.add("read_back", v, was.readBack, v.readBack, true)
	}
	if was.normalized != v.normalized {
		c.add("normalized", v, was.normalized, v.normalized, true)
	}
	if was.errorWhen != v.errorWhen {
		c.add("error_when", v, was.errorWhen, v.errorWhen, true)
	}
	if m := moves(was.places, v.places); m != stays {
		c.add("argument", v, "", "", true)
		c.found[len(c.found)-1].gone = m == gone
	}
	if was.removed && !bytes.Equal(was.form, v.form) {
		c.add("arguments", v, "", "", true)
	}
	if !was.removed {
		c.security(v, was.security)
	}
	c.mask(v, was.schema)
	c.method(v, was.places)
}

// mask finds marks of secrets that a schema no longer has.
func (c *comparison) mask(v knownVerb, before json.RawMessage) {
	if c.follow < 0 || bytes.Equal(before, v.schema) {
		return
	}
	if redact.Unmasks(before, v.schema, &c.follow) {
		c.add("mask", v, "", "", true)
	}
}

// method finds arguments by which a call could choose another method than the one that its
// risk is judged by.
func (c *comparison) method(v knownVerb, before map[string]argPlace) {
	if choosesMethod(v.places) && !choosesMethod(before) {
		c.add("method", v, "", "", true)
	}
}

// nearness orders what a verb is compared with; the lowest counts.
func nearness(v, was knownVerb) int {
	n := 0
	if was.removed {
		n += 2
	}
	if was.name != v.name {
		n++
	}
	return n
}

// fresh looks at a verb whose route the provider never had. A key's may not fall below what
// its method implies, nor below another verb through which the same request was made. Where
// it stands for another verb, policies that name that one would not see its calls.
func (c *comparison) fresh(v knownVerb) {
	if others := c.byName[v.name]; len(others) > 0 {
		c.add("renamed", v, string(others[0].route), string(v.route), true)
	}
	origin, segments := v.route.address(c.baseURL)
	c.server(v, origin)
	least := c.leastOf(v, origin, segments)
	c.method(v, nil)
	if c.was.exists && spreads(v.places) {
		c.add("path", v, "", "", true)
	}
	if least.standsFor != "" {
		c.add("renamed", v, least.standsFor, v.name, true)
	}
	if v.risk.Below(least.risk) {
		c.add("risk_level", v, string(least.risk), string(v.risk), true)
	}
	if v.operation == verb.Read && least.operation == verb.Write {
		c.add("operation_type", v, string(least.operation), string(v.operation), true)
	}
	if v.idempotency != least.idempotency && v.operation == verb.Write {
		c.add("idempotency", v, string(least.idempotency), string(v.idempotency), true)
	}
}

// server finds a verb whose calls would go to another server than those of its name, or to one
// that no verb of the provider has.
func (c *comparison) server(v knownVerb, origin string) {
	before, moved := credential.OriginOf(c.baseURL), false
	if was, had := c.present[v.name]; had {
		before, _ = was.route.address(c.was.baseURL)
		moved = before != origin
	}
	if c.was.exists && (moved || !c.origins[origin]) {
		c.add("server", v, before, origin, true)
	}
}

// least is what a verb must at least be.
type least struct {
	risk        verb.Risk
	operation   verb.Operation
	idempotency verb.Idempotency
	standsFor   string // another verb, "" for none
}

// leastOf returns what a verb must be by its method, and by the verbs through which the same request
// was made.
func (c *comparison) leastOf(v knownVerb, origin string, segments []string) least {
	l := least{idempotency: v.idempotency}
	l.risk, l.operation = verb.OfMethod(v.route.method())
	for _, k := range c.places {
		if c.pairs++; c.pairs > maxCompared {
			break
		}
		if !sameMethod(k.route.method(), v.route.method()) || k.origin != origin || !meets(k.segments, segments) {
			continue
		}
		if l.risk.Below(k.risk) {
			l.risk = k.risk
		}
		if k.operation == verb.Write {
			l.operation = verb.Write
		}
		// Of several verbs, one that may not be repeated counts.
		if l.idempotency != verb.IdempotencyNone {
			l.idempotency = k.idempotency
		}
		if k.name != v.name && k.standsIn(v.route, segments) {
			l.standsFor = k.name
		}
	}
	return l
}

// refused returns the refusal of an import by a key, nil where the key may make it. Its
// details name what needs a user, at most maxChangesTold.
func refused(changes []change) error {
	n := 0
	for n < len(changes) && changes[n].needsUser {
		n++
	}
	if n == 0 {
		return nil
	}
	f := fault.Newf(fault.CodeInsufficientPermissions, "An API key cannot make this import: %d changes need a user. "+
		"The details name them. An owner or an admin imports the document with a JWT.", n)
	for _, c := range changes[:min(n, maxChangesTold)] {
		f.Details = append(f.Details, fault.Detail{Path: c.path(), Rule: c.What, Message: c.message(would)})
	}
	return f
}
