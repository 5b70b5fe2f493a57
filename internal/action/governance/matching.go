package governance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Matching says which calls a window counts. It is written as a list of matchers, of which one must fit, as
// one matcher, or as an object with all and except, as a policy's Match.
type Matching struct {
	Any []Matcher // none: every call
	Narrowing

	// single: it was written as one matcher.
	single bool
	// unknown: it was read with members that do not go together, or that this version does not know.
	unknown bool
}

// MatchingAny returns the matching of a list of alternatives; of an empty one that of every call.
func MatchingAny(list ...Matcher) *Matching { return &Matching{Any: list} }

// UnmarshalJSON reads any of the forms. An object that has none of them counts as one that cannot be read,
// as a matcher does.
func (m *Matching) UnmarshalJSON(data []byte) error {
	*m = Matching{}
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return json.Unmarshal(data, &m.Any) //nolint:wrapcheck // json adds its own words
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err //nolint:wrapcheck // see above
	}
	_, all := members["all"]
	_, except := members["except"]
	if !all && !except {
		m.single, m.Any = true, make([]Matcher, 1)
		return json.Unmarshal(data, &m.Any[0]) //nolint:wrapcheck // see above
	}
	for name, member := range members {
		switch name {
		case "all":
			if err := json.Unmarshal(member, &m.All); err != nil {
				return err //nolint:wrapcheck // see above
			}
		case "except":
			if err := json.Unmarshal(member, &m.Except); err != nil {
				return err //nolint:wrapcheck // see above
			}
		default:
			m.unknown = true
		}
	}
	return nil
}

// MarshalJSON writes a list where there is nothing but alternatives. What has both is not written by anyone.
func (m *Matching) MarshalJSON() ([]byte, error) {
	if len(m.All)+len(m.Except) > 0 {
		return json.Marshal(m.Narrowing) //nolint:wrapcheck // texts always encode
	}
	return json.Marshal(append([]Matcher{}, m.Any...)) //nolint:wrapcheck // see above
}

func (m *Matching) normalize() *Matching {
	if m == nil {
		return nil
	}
	out := *m
	out.Any, out.Narrowing = normalizeMatchers(m.Any), m.Narrowing.normalize()
	if len(out.All)+len(out.Except) == 0 {
		out.Narrowing = Narrowing{} // as it is read again: the id of the window is made of it
	}
	return &out
}

// policy returns a policy about the calls that count.
func (m *Matching) policy() Policy { return Policy{Matchers: m.Any, Match: m.Narrowing} }

// matchers returns all matchers, whatever they are for.
func (m *Matching) matchers() []Matcher {
	if m == nil {
		return nil
	}
	return append(append(append([]Matcher{}, m.Any...), m.All...), m.Except...)
}

// textSize returns the most bytes that it takes as JSON.
func (m *Matching) textSize() int {
	return len(`{"all":[],"except":[]}`) + matchersTextSize(m.matchers())
}

func (m *Matching) isUnknown() bool { return m != nil && m.unknown }

// narrows reports whether it says which calls count, and not only which do not.
func (m *Matching) narrows() bool { return m != nil && len(m.Any)+len(m.All) > 0 }

// about names the first calls that count, "" where they are those that the policy is about.
func (m *Matching) about() string {
	if m == nil {
		return ""
	}
	what := "all calls"
	switch {
	case len(m.Any) > 0:
		what = told(m.Any, " or ")
	case len(m.All) > 0:
		what = told(m.All, " and ")
	}
	if len(m.Except) > 0 {
		what += " except " + told(m.Except, " or ")
	}
	return what
}

// maxMatchersTold is how many matchers of each list of a window a reason names.
const maxMatchersTold = 3

// told names the first matchers of a list.
func told(list []Matcher, between string) string {
	var b strings.Builder
	for i, m := range list {
		if i == maxMatchersTold {
			fmt.Fprintf(&b, "%s%d more", between, len(list)-i)
			break
		}
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(m.about())
	}
	return b.String()
}

// matching checks which calls a window counts.
func (c *checker) matching(path string, m *Matching) {
	switch {
	case m == nil:
	case m.unknown:
		c.fail(path, "exclusive", "must be a list of matchers, one matcher, or an object with all and except and nothing else")
	case m.single:
		c.matcher(path, m.Any[0])
	default:
		c.matchers(path, m.Any)
		c.matchers(path+"/all", m.All)
		c.matchers(path+"/except", m.Except)
	}
}
