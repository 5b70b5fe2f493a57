package governance

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	exact "github.com/shopspring/decimal"
)

// Window is what a condition may ask about the calls of a period, the call itself included: how
// many there are, or the sum of one of their arguments. docs/use/policies.md says which calls count.
type Window struct {
	// By is the field of which all these calls have the same value.
	By string `json:"by"`
	// Per is the length of the period up to now, as in 15m, 1h or 30d.
	Per string `json:"per"`
	// Count counts calls. Sum is the argument that is added up instead.
	Count bool   `json:"count,omitempty"`
	Sum   string `json:"sum,omitempty"`
	// Matching says which calls count. nil: those that the policy's own matchers fit.
	Matching *Matching `json:"matching,omitempty"`
}

// WindowID names all windows that count the same: by one field, one argument or calls, and the
// same matchers. Windows that differ in their length only have one id.
type WindowID [16]byte

// Limits of windows.
const (
	MaxWindowPer = 90 * 24 * time.Hour
	// maxWindows is how many conditions of one policy may be about windows.
	maxWindows = 5
	// maxAmounts is how many values of one call are added up. A sum of more cannot be judged.
	maxAmounts = 1000
)

const memberWindow = "window"

// window is a Window that is ready to be judged.
type window struct {
	id    WindowID
	by    field
	sum   *field // nil where calls are counted
	per   time.Duration
	scope scope // the calls that count
	bound exact.Decimal
}

// readWindow reads the window of a condition, and the number that it is compared with. It returns all
// that is wrong with them.
func (c *condition) readWindow() (wrong []*problem) {
	source, w := c.source.Window, &window{}
	note := func(p *problem) {
		if p != nil {
			wrong = append(wrong, p)
		}
	}
	if c.source.Field != "" || c.source.ValueField != "" || c.source.Zone != "" {
		note(&problem{memberWindow, "unexpected", "must be absent where there is a field: it stands in the place of field"})
	}
	note(w.readBy(source.By))
	note(w.readSum(source))
	var p *problem
	w.per, p = readPer(source.Per)
	note(p)
	if c.op.windows {
		w.bound, p = c.readBound()
	} else {
		p = &problem{"operator", ruleEnum, "must be greater, greater_or_equal, less, less_or_equal, equals or not_equals: it compares a window"}
	}
	note(p)
	c.window = w
	return wrong
}

func (w *window) readBy(source string) (p *problem) {
	switch {
	case source == "":
		return &problem{"window/by", ruleRequired, "is missing: customer_id, session.id, agent_id, key.id or args.<path>"}
	case !countsBy(source):
		return &problem{"window/by", "field", "must be customer_id, session.id, agent_id, key.id or args.<path>"}
	}
	if w.by, p = readField(source, ""); p != nil {
		return &problem{"window/by", p.rule, p.message}
	}
	return nil
}

// readSum reads what is added up, nothing where calls are counted.
func (w *window) readSum(source *Window) *problem {
	switch {
	case source.Count == (source.Sum != ""):
		return &problem{memberWindow, "oneOf", "must have either count, which is true, or sum, which is args.<path>"}
	case source.Sum == "":
		return nil
	case !strings.HasPrefix(source.Sum, argsPrefix):
		return &problem{"window/sum", "field", "must be args.<path>: an argument that is a number"}
	}
	sum, p := readField(source.Sum, "")
	if p != nil {
		return &problem{"window/sum", p.rule, p.message}
	}
	w.sum = &sum
	return nil
}

// readBound reads the number that a window is compared with.
func (c *condition) readBound() (exact.Decimal, *problem) {
	if p := c.readValue(); p != nil {
		return exact.Decimal{}, p
	}
	if c.list[0].kind != kindNumber {
		return exact.Decimal{}, &problem{"value", "type", "must be a number: it is compared with a count or a sum"}
	}
	bound, err := exact.NewFromString(string(c.list[0].text))
	if err != nil {
		return exact.Decimal{}, &problem{"value", "number", "has a number that is too long or too large"}
	}
	return bound, nil
}

// countsBy reports whether calls are counted by the field.
func countsBy(field string) bool {
	switch field {
	case fieldCustomerID, fieldSessionID, fieldAgentID, fieldKeyID:
		return true
	}
	return strings.HasPrefix(field, argsPrefix)
}

// readPer reads the length of a window.
func readPer(text string) (time.Duration, *problem) {
	const must = "must be whole minutes, hours or days, from 1m to 90d, as in 15m, 1h or 30d"
	if len(text) < 2 || len(text) > 7 || text[0] < '1' || text[0] > '9' {
		return 0, &problem{"window/per", "duration", must}
	}
	unit := map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[text[len(text)-1]]
	n, err := strconv.Atoi(text[:len(text)-1])
	per := time.Duration(n) * unit
	if err != nil || unit == 0 || per > MaxWindowPer {
		return 0, &problem{"window/per", "duration", must}
	}
	return per, nil
}

// normalize returns a copy of w as it is stored.
func (w Window) normalize() *Window {
	w.Matching = w.Matching.normalize()
	return &w
}

// bind gives the window its matchers, where it has none of its own those of its policy, and its
// id. It reports whether they can be read.
func (w *window) bind(source *Window, own *Policy) bool {
	counted := Policy{Matchers: own.Matchers, Match: own.Match}
	if source.Matching != nil {
		counted = source.Matching.policy()
	}
	read, readable := scopeOf(&counted)
	w.scope = read
	// What follows never changes: recorded calls are found by it.
	canonical, err := json.Marshal(struct {
		By       string    `json:"by"`
		Sum      string    `json:"sum"`
		Matching []Matcher `json:"matching"`
		Match    Narrowing `json:"match,omitzero"`
	}{source.By, source.Sum, append([]Matcher{}, counted.Matchers...), counted.Match})
	if err != nil {
		panic(err) // texts always encode
	}
	sum := sha256.Sum256(canonical)
	w.id = WindowID(sum[:16])
	return readable && !source.Matching.isUnknown()
}

// counts reports whether the window counts the call. name is its provider:verb_name.
func (w *window) counts(c *Call, name []byte) bool { return w.scope.has(c, name) }

// misfit says why the window does not fit calls of this schema, "" where it fits.
func (w *window) misfit(f *Fields, counted bool) string {
	left := maxWork
	if w.by.from == ofArgs {
		if known, _ := f.find(w.by.path, &left); !known {
			return "the verb's schema does not have the argument of by"
		}
	}
	if w.sum == nil || !counted {
		return ""
	}
	switch known, types := f.find(w.sum.path, &left); {
	case !known:
		return "the verb's schema does not have the argument of sum"
	case types&kindNumber == 0:
		return "the verb's schema gives the argument of sum another type than number"
	}
	return ""
}

// about says in words what the window counts.
func (w *Window) about() string {
	what, of := "calls", w.Matching.about()
	switch {
	case w.Sum != "":
		what = "sum of " + w.Sum
		if of != "" {
			what += " of " + of
		}
	case w.Matching.narrows():
		what = "calls of " + of
	case of != "":
		what = of
	}
	return fmt.Sprintf("%s by %s within %s", what, w.By, w.Per)
}

// windowMeets compares the window with the bound. A call whose outcome is not known counts where
// that makes the decision stricter, and so does an amount below 0; see WindowReading.
func (c *condition) windowMeets(low, high exact.Decimal, strict bool) bool {
	bound := c.window.bound
	within := low.LessThanOrEqual(bound) && high.GreaterThanOrEqual(bound)
	only := low.Equal(bound) && high.Equal(bound)
	switch {
	case c.op.meets != nil:
		n := low
		if c.decidedByHigh(strict) {
			n = high
		}
		return c.op.meets(n.Cmp(bound))
	case c.op.want:
		return strict && within || only
	default: // not_equals
		return strict && !only || !within
	}
}

// decidedByHigh reports whether the high number decides alone, of operators that order.
func (c *condition) decidedByHigh(strict bool) bool { return c.op.rises == strict }
