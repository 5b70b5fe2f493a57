package tooldef

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/schemagraph"
)

// Names of arguments that models accept. Gemini's rule is that of its older field; nothing says that
// the newer one takes more.
var (
	acceptedName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
	geminiName   = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`)
)

func (f Format) accepts(name string) bool {
	if f == Gemini {
		return geminiName.MatchString(name)
	}
	return acceptedName.MatchString(name)
}

// A name that is not accepted gets another one: what is left of it, two underscores, and the begin
// of its SHA-256. The end tells Back which names to look at.
const (
	mostName   = 64
	hashMark   = "__"
	hashDigits = 8
	hashMore   = 4 // digits more where another argument has the name
	mostDigits = 60
)

var (
	refusedCharacters = regexp.MustCompile(`[^a-zA-Z0-9_]+`)
	// givenName finds a member whose name we may have given.
	givenName = regexp.MustCompile(`__[0-9a-f]{8,60}"\s*:`)
)

// alias returns the accepted name of an argument, with so many digits of the hash.
func alias(name string, digits int) string {
	sum := sha256.Sum256([]byte(name))
	base := strings.Trim(refusedCharacters.ReplaceAllString(name, "_"), "_")
	if base == "" || base[0] >= '0' && base[0] <= '9' {
		base = "a_" + base
	}
	base = base[:min(len(base), mostName-len(hashMark)-digits)]
	return strings.TrimRight(base, "_") + hashMark + hex.EncodeToString(sum[:])[:digits]
}

// aliasBeside returns an accepted name that is none of the taken ones. ok is false where the
// schema has taken them all.
func aliasBeside(name string, taken map[string]bool) (given string, ok bool) {
	for digits := hashDigits; digits <= mostDigits; digits += hashMore {
		if given = alias(name, digits); !taken[given] {
			return given, true
		}
	}
	return "", false
}

// MayBeGiven reports whether the arguments may have names that we have given to tools. Others need
// no look at the schema.
func MayBeGiven(args json.RawMessage) bool { return givenName.Match(args) }

// Back returns the arguments of a tool call with the names that the verb's schema has, in every
// object that the schema describes. The error is VALIDATION_ERROR where an object has an argument by
// both of its names.
func Back(graph *schemagraph.Graph, args json.RawMessage) (json.RawMessage, error) {
	if graph.Root == nil {
		return args, nil
	}
	value, err := exactjson.Decode(args)
	if err != nil {
		return args, nil //nolint:nilerr // what is wrong with them is said elsewhere
	}
	b := back{given: map[*schemagraph.Node]map[string][]string{}}
	var at schemagraph.Set
	at.Add(graph.Root)
	b.value(&at, value, "/args")
	switch {
	case b.twice != nil:
		return nil, b.twice
	case !b.changed:
		return args, nil
	}
	raw, err := exactjson.Encode(value)
	if err != nil {
		return nil, fmt.Errorf("tooldef: %w", err)
	}
	return bytes.TrimSpace(raw), nil
}

// mostWork is how much work the patterns of a schema may take, in steps of package pattern. Beyond
// it names that only patterns describe are taken as they are.
const mostWork = 1 << 20

type back struct {
	changed bool
	twice   error
	work    int
	// given has the names that the arguments of a place may have got, by place and by the first
	// digits of their hash.
	given map[*schemagraph.Node]map[string][]string
}

func (b *back) value(at *schemagraph.Set, value any, path string) {
	if at.Close(); at.Over || len(at.Nodes()) == 0 || b.twice != nil {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		b.object(at, v, path)
	case []any:
		for i, element := range v {
			var to schemagraph.Set
			for _, n := range at.Nodes() {
				n.Elements(i, &to)
			}
			b.value(&to, element, path+"/"+strconv.Itoa(i))
		}
	}
}

func (b *back) object(at *schemagraph.Set, object map[string]any, path string) {
	for _, given := range slices.Sorted(maps.Keys(object)) {
		name := b.nameOf(at, given)
		if name != given {
			if _, has := object[name]; has {
				b.twice = fault.Invalid(path+"/"+fault.PointerToken(given), "unique",
					fmt.Sprintf("stands for %q, which is there too. Send one of them.", name))
				return
			}
			object[name] = object[given]
			delete(object, given)
			b.changed = true
		}
		var to schemagraph.Set
		for _, n := range at.Nodes() {
			b.member(n, name, &to)
		}
		b.value(&to, object[name], path+"/"+fault.PointerToken(name))
	}
}

// member adds what the schema says of a member.
func (b *back) member(n *schemagraph.Node, name string, to *schemagraph.Set) {
	child, named := n.Properties[name]
	to.Add(child)
	for _, p := range n.Patterns {
		if b.work += p.Cost(len(name)); b.work <= mostWork && p.Fits(name, named) {
			to.Add(p.Node)
		}
	}
}

// nameOf returns the argument that the name was given to; the name itself where it was given to none.
func (b *back) nameOf(at *schemagraph.Set, given string) string {
	mark := strings.LastIndex(given, hashMark)
	if mark < 0 || len(given) > mostName {
		return given
	}
	digits := len(given) - mark - len(hashMark)
	if digits < hashDigits {
		return given
	}
	for _, n := range at.Nodes() {
		if _, own := n.Properties[given]; own {
			return given
		}
	}
	begin := given[mark+len(hashMark):][:hashDigits]
	for _, n := range at.Nodes() {
		for _, name := range b.givenAt(n)[begin] {
			if alias(name, digits) == given {
				return name
			}
		}
	}
	return given
}

// givenAt returns the names that tools may have for the properties of a place.
func (b *back) givenAt(n *schemagraph.Node) map[string][]string {
	if all, known := b.given[n]; known {
		return all
	}
	all := map[string][]string{}
	for name := range n.Properties {
		sum := sha256.Sum256([]byte(name))
		begin := hex.EncodeToString(sum[:])[:hashDigits]
		all[begin] = append(all[begin], name)
	}
	b.given[n] = all
	return all
}
