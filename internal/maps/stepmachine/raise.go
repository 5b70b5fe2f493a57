package stepmachine

import (
	"encoding/json"

	"agentruntime/internal/maps/mapdef"
)

// raise fails with an error of the author's own.
func (m *machine) raise(t *Task, do *mapdef.DoRaise, input Value) {
	var words struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	_ = json.Unmarshal(input.raw(), &words) // two texts, by their evaluation
	if input.referred() {
		words.Detail = tooLong
	}
	e := NewError(do.Code, words.Detail)
	e.Title = words.Title
	m.fail(t, e)
}
