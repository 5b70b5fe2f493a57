// Package correction has what users say about a provider's document beside it: rules about its
// operations, and what the names of operations suggest. The importer applies it. It has no state
// and does no I/O.
package correction

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentruntime/internal/base/glob"
)

// Bounds of the rules of one import. Each rule is compared with each operation, and the importer
// counts that as work.
const (
	// MaxRules is the most rules of one import.
	MaxRules = 200
	// MaxBytes is the most bytes of them as JSON.
	MaxBytes = 64 << 10
	// maxText is the longest pattern or text of a rule, in bytes.
	maxText = 255
)

// Rule corrects operations of a document. What it leaves out stays as the document says it. The
// catalog stores rules, so a JSON name is never renamed.
type Rule struct {
	Match       Match           `json:"match"`
	Risk        *string         `json:"risk_level,omitempty"`
	Operation   *string         `json:"operation_type,omitempty"`
	Domain      *string         `json:"domain,omitempty"`
	Idempotency *string         `json:"idempotency,omitempty"`
	ReadBack    json.RawMessage `json:"read_back,omitempty"`
	// Timeout is seconds or a duration, as in x-agent-runtime.
	Timeout json.RawMessage `json:"timeout,omitempty"`
	// Normalized is a jq program that makes the normalized form of results.
	Normalized *string `json:"normalized,omitempty"`
	// Hidden operations have no verb.
	Hidden *bool `json:"hidden,omitempty"`
	// Rename is another name of the verb. Such a rule matches one operation.
	Rename *string `json:"rename,omitempty"`
}

// Match says which operations a rule is about: those that have all of what is given.
type Match struct {
	// Verb is a pattern of the name that the verb has without rules.
	Verb *string `json:"verb,omitempty"`
	// Method is the HTTP method, in any case.
	Method *string `json:"method,omitempty"`
	// Path is a pattern of the path as the document writes it.
	Path *string `json:"path,omitempty"`
	// Tag is one of the operation's tags, as the document writes it.
	Tag *string `json:"tag,omitempty"`
}

// Operation is what rules are compared with.
type Operation struct {
	Verb, Method, Path string
	Tags               []string
}

// Near says which verbs a rule that is about nothing may mean. The catalog stores it.
type Near struct {
	Path  string   `json:"path"` // of the rule in the import
	Names []string `json:"names"`
}

// Fault is what is wrong with a list of rules. Path is a JSON pointer in it.
type Fault struct{ Path, Rule, Message string }

// Check returns what is wrong with the bounds and the matches of rules, in their order. It cannot
// say whether their values can be used: the importer does.
func Check(rules []Rule) []Fault {
	if len(rules) > MaxRules {
		return []Fault{{"", "max_items", fmt.Sprintf("rules has at most %d entries.", MaxRules)}}
	}
	if raw, err := json.Marshal(rules); err != nil || len(raw) > MaxBytes {
		return []Fault{{"", "size", fmt.Sprintf("rules has at most %d bytes.", MaxBytes)}}
	}
	var found []Fault
	for i, r := range rules {
		at := fmt.Sprintf("/%d", i)
		found = append(found, r.Match.check(at+"/match")...)
		if r.says() == 0 {
			found = append(found, Fault{at, "required", "A rule says something beside its match."})
		}
	}
	return found
}

// says returns how many members a rule has beside its match.
func (r Rule) says() (n int) {
	for _, given := range []bool{
		r.Risk != nil, r.Operation != nil, r.Domain != nil, r.Idempotency != nil, len(r.ReadBack) > 0, len(r.Timeout) > 0, r.Normalized != nil, r.Hidden != nil, r.Rename != nil,
	} {
		if given {
			n++
		}
	}
	return n
}

// OnlyRestricts reports whether a rule can do nothing but restrict what may be called, whatever
// the document says: it makes the risk high, hides operations, or both.
func (r Rule) OnlyRestricts() bool {
	n := 0
	if r.Risk != nil && strings.EqualFold(*r.Risk, "high") {
		n++
	}
	if r.Hidden != nil && *r.Hidden {
		n++
	}
	return n > 0 && n == r.says()
}

func (m Match) check(at string) (found []Fault) {
	given := false
	for _, f := range []struct {
		name  string
		value *string
	}{{"verb", m.Verb}, {"method", m.Method}, {"path", m.Path}, {"tag", m.Tag}} {
		if f.value == nil {
			continue
		}
		given = true
		if n := len(*f.value); n == 0 || n > maxText {
			found = append(found, Fault{at + "/" + f.name, "length", fmt.Sprintf("%s has 1 to %d bytes.", f.name, maxText)})
		}
	}
	if !given {
		found = append(found, Fault{at, "required", `match names at least one of verb, method, path and tag. All operations match {"verb": "*"}.`})
	}
	return found
}

// Cost returns about how long Matches takes, in microseconds.
func (m Match) Cost(o Operation) int {
	n := 0
	if m.Verb != nil {
		n += len(*m.Verb) * len(o.Verb)
	}
	if m.Path != nil {
		n += len(*m.Path) * len(o.Path)
	}
	if m.Tag != nil {
		n += 8 * len(o.Tags)
	}
	return 1 + n/512
}

// Matches reports whether the operation has all that is given.
func (m Match) Matches(o Operation) bool {
	if m.Method != nil && !strings.EqualFold(*m.Method, o.Method) {
		return false
	}
	if m.Tag != nil && !slices.Contains(o.Tags, *m.Tag) {
		return false
	}
	return (m.Verb == nil || glob.Match(*m.Verb, o.Verb)) && (m.Path == nil || glob.Match(*m.Path, o.Path))
}
