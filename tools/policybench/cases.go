package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// set is the cases: policies, and the calls that they are compared with.
type set struct {
	policies []policy
	calls    []call
}

// policy is a rule in words that all three engines have. Empty fields ask nothing. Of
// verb, provider, risk and part one is set; a provider may have a risk beside it, and verbs
// that it exempts.
type policy struct {
	action   string // allow, notify, require_approval, block
	verb     string // provider:verb_name
	provider string
	risk     string
	part     string   // of the verb's name: "*:" + part + "*"
	except   string   // the beginning of verbs that a provider's policy exempts
	over     int64    // args.amount is greater; 0 asks nothing
	in       []string // args.customer.country is one of
	prefix   string   // args.note starts with
	beyond   bool     // args.amount is greater than args.limit
	outside  []string // args.customer.country is not one of
	unlike   string   // args.note does not start with, as a regular expression
	either   bool     // over or in is enough
}

type call struct {
	provider, name, risk string
	amount, limit        *int64
	country, note        *string
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
	text, err := json.Marshal(a)
	if err != nil {
		panic(err) // strings and numbers
	}
	return text
}

// schema is that of each verb: all fields are known, so one that is missing counts
// against the call.
const schema = `{"type":"object","properties":{"amount":{"type":"integer"},"limit":{"type":"integer"},"note":{"type":"string"},
"customer":{"type":"object","properties":{"country":{"type":"string"}}}}}`

var (
	providers = []string{"stripe", "github", "slack", "hubspot", "shopify"}
	names     = []string{"create_refund", "delete_customer", "list_orders", "update_contact", "send_message", "delete_repository", "create_order", "archive_channel"}
	risks     = []string{"low", "medium", "high"}
	actions   = []string{"allow", "notify", "require_approval", "block"}
	countries = []string{"DE", "FR", "KP", "IR", "US", "BR"}
	notes     = []string{"re: damaged", "urgent: pay", "hello", "test: x"}
)

// generate returns n policies and 100 calls, the same each time.
func generate(n int) set {
	r := rand.New(rand.NewPCG(42, uint64(n))) //nolint:gosec // the same each time
	s := set{}
	for i := range n {
		s.policies = append(s.policies, newPolicy(r, i))
	}
	for i := range 100 {
		c := call{provider: pick(r, providers), name: pick(r, names), risk: risks[i%3]}
		if r.IntN(8) > 0 {
			v := int64(r.IntN(5000))
			c.amount = &v
		}
		if r.IntN(8) > 0 {
			v := int64(r.IntN(5000))
			c.limit = &v
		}
		if r.IntN(8) > 0 {
			v := pick(r, countries)
			c.country = &v
		}
		if r.IntN(8) > 0 {
			v := pick(r, notes)
			c.note = &v
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
	switch r.IntN(7) {
	case 0:
		p.over = int64(500 + r.IntN(4000))
	case 1:
		p.over, p.in = int64(500+r.IntN(2000)), []string{"KP", "IR"}
		p.either = i%2 == 1
	case 2:
		p.prefix = "urgent:"
	case 3:
		p.beyond = true
	case 4:
		p.outside = []string{"DE", "FR", "US"}
	case 5:
		p.unlike = "test:"
	default:
		p.in = []string{"KP", "IR", "BR"}
	}
	return p
}

func pick(r *rand.Rand, list []string) string { return list[r.IntN(len(list))] }

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
