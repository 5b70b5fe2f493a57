// Package taint knows which results have words of others than the tenant, and names the sources of a
// session's taint. Agents, Maps, runs and the catalog use it. It never decides about a call.
package taint

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/strictjson"
)

// Sources besides the names of verbs.
const (
	// Event is an event that an execution has waited for.
	Event = "event"
)

// Fact names a fact of a customer.
func Fact(id string) string { return "fact:" + id }

// Map names an execution of a Map.
func Map(id string) string { return "map:" + id }

// Most is how many sources are named of one session or execution. More stands in the last place where there
// are others.
const (
	Most = 20
	More = "more"
)

// Add returns the sources with others, each once, as long as there is room. It does not change list.
func Add(list []string, others ...string) []string {
	list = slices.Clip(list)
	for _, other := range others {
		if other == "" || slices.Contains(list, other) {
			continue
		}
		if len(list) == Most {
			list = slices.Clone(list)
			list[Most-1] = More
			break
		}
		list = append(list, other)
	}
	return list
}

// Limits of the places of one verb.
const (
	MaxPlaces = 32
	maxPlace  = 200 // bytes
)

// ErrPlace is why a text names no place.
var ErrPlace = errors.New("is a JSON pointer like /customer/note, with * for each element of an array or member of an object, at most 200 bytes")

// CheckPlace returns what is wrong with the name of a place in a result.
func CheckPlace(place string) error {
	if place == "" || place[0] != '/' || len(place) > maxPlace || strings.ContainsRune(place, 0) {
		return ErrPlace
	}
	for i, letter := range place {
		if rest := place[i+1:]; letter == '~' && !strings.HasPrefix(rest, "0") && !strings.HasPrefix(rest, "1") {
			return ErrPlace
		}
	}
	return nil
}

// Contains reports whether any of the places has content in a result: anything but null, "", spaces, []
// and {}. It does so too where the result cannot be read in one way only, as one with a name that stands
// twice in an object, and where it has another form than the places are of: wrapped is the member under which the service has put an answer that was no object, "" for an object
// of the provider. Its content counts, unless a place begins with that member.
func Contains(result json.RawMessage, wrapped string, places []string) bool {
	if len(places) == 0 {
		return false
	}
	if strictjson.Check(result, strictjson.Options{Free: []string{""}, MaxDepth: exactjson.MaxDepth}) != nil {
		return true
	}
	value, err := exactjson.Decode(result)
	if err != nil {
		return true
	}
	expected := wrapped == ""
	for _, place := range places {
		path := strings.Split(place, "/")[1:]
		if within(value, path) {
			return true
		}
		expected = expected || isNamed(path[0], wrapped)
	}
	return !expected && within(value, []string{wrapped})
}

// isNamed reports whether a part of a place is the member: providers write names in another case now and
// then.
func isNamed(part, member string) bool {
	return part == "*" || strings.EqualFold(member, unescape(part))
}

// unescape reads a member's name of a JSON pointer.
func unescape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
}

func within(value any, path []string) bool {
	if len(path) == 0 {
		return hasContent(value)
	}
	in := func(v any) bool { return within(v, path[1:]) }
	switch v := value.(type) {
	case []any:
		if path[0] == "*" {
			return slices.ContainsFunc(v, in)
		}
		i, err := strconv.Atoi(path[0])
		if err != nil {
			return hasContent(value) // an array where the place has an object
		}
		return i >= 0 && i < len(v) && in(v[i])
	case map[string]any:
		if len(path) == 1 && path[0] == "*" {
			return len(v) > 0 // who writes the members chooses their names
		}
		for name, member := range v {
			if isNamed(path[0], name) && in(member) {
				return true
			}
		}
		return false
	default:
		// What is no container has no such place. A text where the schema has an object is another's word.
		return hasContent(value)
	}
}

func hasContent(value any) bool {
	switch v := value.(type) {
	case nil:
		return false
	case string:
		return strings.TrimSpace(v) != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0 // a name can say as much as a value
	default:
		return true
	}
}
