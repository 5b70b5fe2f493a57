package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// set is the cases: policies, and the calls that they are compared with.
type set struct {
	policies []policy
	calls    []call
}

// policy is a rule in words that all three engines have. Of verb, provider, risk and part one is
// set; a provider may have a risk beside it, and verbs that it exempts.
type policy struct {
	action   string // allow, notify, require_approval, block
	verb     string // provider:verb_name
	provider string
	risk     string
	part     string      // of the verb's name: "*:" + part + "*"
	except   string      // the beginning of verbs that a provider's policy exempts
	where    []condition // all are true
}

// condition is a group, or one test. Exactly one field is set.
type condition struct {
	any, all []condition
	not      *condition

	over    int64    // args.amount is greater
	beyond  bool     // args.amount is greater than args.limit
	in      []string // args.customer.country is one of
	prefix  string   // args.note starts with
	unlike  string   // args.note does not start with, as a regular expression
	from    int      // the hour of the day, in UTC, is this or later
	stocked bool     // args.items has an element: a length
}

func not(c condition) condition { return condition{not: &c} }

func anyOf(list ...condition) condition { return condition{any: list} }

func allOf(list ...condition) condition { return condition{all: list} }

func within(countries ...string) condition { return condition{in: countries} }

type call struct {
	provider, name, risk string
	amount, limit        *int64
	country, note        *string
	items                *[]string
	at                   time.Time
}

func (c call) verb() string { return c.provider + ":" + c.name }

// args is the call's arguments as they are sent.
func (c call) args() json.RawMessage {
	a := map[string]any{}
	if c.amount != nil {
		a["amount"] = *c.amount
	}
	if c.limit != nil {
		a["limit"] = *c.limit
	}
	if c.country != nil {
		a["customer"] = map[string]any{"country": *c.country}
	}
	if c.note != nil {
		a["note"] = *c.note
	}
	if c.items != nil {
		a["items"] = *c.items
	}
	text, err := json.Marshal(a)
	if err != nil {
		panic(err) // strings and numbers
	}
	return text
}

// schema is that of each verb: all fields are known, so one that is missing counts
// against the call.
const schema = `{"type":"object","properties":{"amount":{"type":"integer"},"limit":{"type":"integer"},"note":{"type":"string"},
"customer":{"type":"object","properties":{"country":{"type":"string"}}},"items":{"type":"array","items":{"type":"string"}}}}`

var (
	providers = []string{"stripe", "github", "slack", "hubspot", "shopify"}
	names     = []string{"create_refund", "delete_customer", "list_orders", "update_contact", "send_message", "delete_repository", "create_order", "archive_channel"}
	risks     = []string{"low", "medium", "high"}
	actions   = []string{"allow", "notify", "require_approval", "block"}
	countries = []string{"DE", "FR", "KP", "IR", "US", "BR"}
	midnight  = time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	notes     = []string{"re: damaged", "urgent: pay", "hello", "test: x", "not urgent: a test: y"}
)

// generate returns n policies and 100 calls, the same each time.
func generate(n int) set {
	r := rand.New(rand.NewPCG(42, uint64(n))) //nolint:gosec // the same each time
	s := set{}
	for i := range n {
		s.policies = append(s.policies, newPolicy(r, i))
	}
	for i := range 100 {
		c := call{provider: pick(r, providers), name: pick(r, names), risk: risks[i%3], at: midnight.Add(time.Duration(r.IntN(24*60)) * time.Minute)}
		if r.IntN(8) > 0 {
			v := int64(r.IntN(5000))
			c.amount = &v
		}
		if r.IntN(8) > 0 {
			v := int64(r.IntN(5000))
			c.limit = &v
			if c.amount != nil && i%9 == 0 {
				c.limit = c.amount
			}
		}
		if r.IntN(8) > 0 {
			v := pick(r, countries)
			c.country = &v
		}
		if r.IntN(8) > 0 {
			v := pick(r, notes)
			c.note = &v
		}
		if r.IntN(8) > 0 {
			v := []string{"a", "b", "c"}[:r.IntN(4)]
			c.items = &v
		}
		s.calls = append(s.calls, c)
	}
	return s
}

// newPolicy returns one of the kinds that tenants write. The first ten are about the
// verbs that are called; of the others most are about verbs and providers of their own.
func newPolicy(r *rand.Rand, i int) policy {
	p := policy{action: pick(r, actions)}
	switch {
	case i < 10 && i%5 == 4:
		p.part = pick(r, []string{"delete_", "create_"})
	case i < 10:
		p.verb = pick(r, providers) + ":" + pick(r, names)
	case i%20 == 1:
		p.provider = fmt.Sprintf("provider%d", i)
	case i%20 == 11: // two fields in one matcher
		p.provider, p.risk = fmt.Sprintf("provider%d", i), pick(r, risks)
	case i%40 == 7: // two fields, about the verbs that are called
		p.provider, p.risk = pick(r, providers), pick(r, risks)
	case i%40 == 27: // all of a provider that is called, except some
		p.provider, p.except = pick(r, providers), pick(r, []string{"list_", "create_", "delete_"})
	case i%10 == 2:
		p.part = fmt.Sprintf("purge_%d_", i)
	case i%100 == 3:
		p.risk = pick(r, risks)
	default:
		p.verb = fmt.Sprintf("%s:verb_%d", pick(r, providers), i)
	}
	p.where = pick(r, kinds(int64(500+r.IntN(4000))))
	return p
}

// kinds returns conditions of each kind that tenants write: one or two tests, or groups within groups,
// up to four deep. All three engines can say them.
func kinds(amount int64) [][]condition {
	large, late := condition{over: amount}, condition{from: 18}
	urgent, noTest, stocked := condition{prefix: "urgent:"}, condition{unlike: "test:"}, condition{stocked: true}
	embargoed := within("KP", "IR")
	return [][]condition{
		{large},
		{large, embargoed},
		{anyOf(large, embargoed)},
		{urgent},
		{{beyond: true}},
		{within("KP", "IR", "BR")},
		{not(within("DE", "FR", "US"))},
		{noTest},
		{stocked},
		{late, large},
		{not(stocked), anyOf(allOf(urgent, large), embargoed)},
		{anyOf(allOf(large, not(anyOf(urgent, embargoed))), allOf(late, not(stocked)))},
		{not(allOf(anyOf(within("DE", "FR"), not(noTest)), stocked)), large},
	}
}

// alone returns for each kind of conditions a policy that blocks by it, and calls that nothing else
// decides.
func alone() (sets []set) {
	for _, where := range kinds(2500) {
		s := generate(0)
		s.policies = []policy{{action: "block", risk: "low", where: where}}
		for i := range s.calls {
			s.calls[i].risk = "low"
		}
		sets = append(sets, s)
	}
	return sets
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// strictest turns the actions of the policies that match into a decision, for engines
// that leave that to their caller.
func strictest(risk string, has func(action string) bool) string {
	switch {
	case has("block"):
		return "block"
	case has("require_approval"):
		return "pending_approval"
	case risk == "high":
		return "block"
	}
	return "allow"
}
