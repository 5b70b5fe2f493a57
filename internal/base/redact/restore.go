package redact

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/base/exactjson"
)

// placeholder finds what Mask writes instead of a text or of a part of it, or of a name.
var placeholder = regexp.MustCompile(`\[masked(?: \d+)?\]|\*\*\*\d{4}`)

// Restore completes an edited document whose editor saw only masked, the masked form of
// original. A member that was masked and is left out keeps its original value. Elements keep
// theirs where the array has as many as before.
//
// places has the JSON Pointers of the first 20 values that the editor must not send: a placeholder, or the masked
// form of the original in a masked place, also 0 and false. It fails where a document is no
// JSON.
func Restore(original, masked, edited json.RawMessage) (restored json.RawMessage, places []string, err error) {
	var trees [3]any
	for i, raw := range []json.RawMessage{original, masked, edited} {
		if trees[i], err = exactjson.Decode(raw); err != nil {
			return nil, nil, err
		}
	}
	var r restorer
	tree := r.value(nil, trees[0], trees[1], trees[2])
	restored, err = exactjson.Encode(tree)
	return restored, r.places, err
}

type restorer struct{ places []string }

// maxPlaces is how many places Restore names.
const maxPlaces = 20

// refuse notes a place that the editor must not send.
func (r *restorer) refuse(path *step) {
	if len(r.places) < maxPlaces {
		r.places = append(r.places, path.pointer())
	}
}

// value returns the edited value with what was left out. before and shown are the original and
// its masked form at the same place, nil where the original has none.
func (r *restorer) value(path *step, before, shown, edited any) any {
	switch edited := edited.(type) {
	case map[string]any:
		return r.object(path, before, shown, edited)
	case []any:
		was, _ := before.([]any)
		saw, _ := shown.([]any)
		for i, e := range edited {
			var b, s any
			if i < len(was) && i < len(saw) {
				b, s = was[i], saw[i]
			}
			if len(was) != len(edited) {
				b = keepNothing(b)
				s = keepNothing(s)
			}
			edited[i] = r.value(&step{above: path, name: strconv.Itoa(i)}, b, s, e)
		}
		return edited
	case string:
		text, _ := before.(string)
		for _, found := range placeholder.FindAllString(edited, -1) {
			if !strings.Contains(text, found) {
				r.refuse(path)
				return edited
			}
		}
	}
	if isLeaf(shown) && shown != nil && exactjson.Text(shown) != exactjson.Text(before) && exactjson.Text(shown) == exactjson.Text(edited) {
		r.refuse(path)
	}
	return edited
}

// keepNothing returns a value that Restore compares with, but takes nothing from: elements of
// an array that has another length now may stand for others.
func keepNothing(v any) any {
	if isLeaf(v) {
		return v
	}
	return nil
}

func (r *restorer) object(path *step, before, shown any, edited map[string]any) any {
	was, _ := before.(map[string]any)
	saw, _ := shown.(map[string]any)
	names := make([]string, 0, len(edited))
	for name := range edited {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		at := &step{above: path, name: name}
		if _, own := was[name]; !own && placeholder.MatchString(name) {
			r.refuse(at)
			continue
		}
		edited[name] = r.value(at, was[name], saw[name], edited[name])
	}
	for name, value := range was {
		_, sent := edited[name]
		if _, visible := saw[name]; !sent && (!visible || isLeaf(value) && exactjson.Text(saw[name]) != exactjson.Text(value)) {
			edited[name] = value
		}
	}
	return edited
}

func isLeaf(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}
