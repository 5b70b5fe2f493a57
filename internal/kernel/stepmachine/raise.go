package stepmachine

import (
	"encoding/json"

	"agentruntime/internal/kernel/mapdef"
)

// raise fails with an error of the author's own.
func (m *machine) raise(t *Task, do *mapdef.DoRaise) {
	var words struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	_ = json.Unmarshal(t.Input.raw(), &words) // two texts, by their evaluation
	e := NewError(do.Code, words.Detail)
	e.Title = words.Title
	m.fail(t, e)
}
