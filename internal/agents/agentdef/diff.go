package agentdef

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/base/fault"
)

// Difference is one place in which two definitions differ.
type Difference struct {
	// Path is the JSON Pointer of the place.
	Path string `json:"path"`
	// Before and After are the values there, as JSON; null where a definition does not have the place.
	Before any `json:"before"`
	After  any `json:"after"`
}

// Diff returns where b differs from a, by the names of the members. Entries of lists are compared by
// their places.
func Diff(a, b *Definition) []Difference {
	list := []Difference{}
	differ(tree(a), tree(b), "", &list)
	return list
}

// Changed returns the names of the top-level members in which b differs from a.
func Changed(a, b *Definition) []string {
	names := []string{}
	for _, d := range Diff(a, b) {
		name, _, _ := strings.Cut(strings.TrimPrefix(d.Path, "/"), "/")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// tree returns the definition as JSON values, with numbers as they are written.
func tree(d *Definition) any {
	dec := json.NewDecoder(strings.NewReader(string(d.Encode())))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil { // Encode writes JSON
		return nil
	}
	return v
}

func differ(a, b any, path string, list *[]Difference) {
	if x, ok := a.(map[string]any); ok {
		if y, ok := b.(map[string]any); ok {
			names := slices.Collect(maps.Keys(x))
			for name := range y {
				if _, both := x[name]; !both {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			for _, name := range names {
				differ(x[name], y[name], path+"/"+fault.PointerToken(name), list)
			}
			return
		}
	}
	if x, ok := a.([]any); ok {
		if y, ok := b.([]any); ok {
			for i := range max(len(x), len(y)) {
				differ(at(x, i), at(y, i), path+"/"+strconv.Itoa(i), list)
			}
			return
		}
	}
	if !scalarEqual(a, b) {
		*list = append(*list, Difference{Path: path, Before: a, After: b})
	}
}

// at returns the entry of a list, nil behind its end.
func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// scalarEqual reports whether two texts, numbers or flags are the same. Objects and lists are
// compared here only with something of another kind.
func scalarEqual(a, b any) bool {
	switch a.(type) {
	case map[string]any, []any:
		return false
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}
