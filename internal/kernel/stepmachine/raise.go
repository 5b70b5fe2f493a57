package stepmachine

import (
	"encoding/json"
	"net/http"

	"agentruntime/internal/kernel/mapdef"
)

// raise fails with an error of the author's own.
func (m *machine) raise(t *Task, do *mapdef.DoRaise) {
	var words struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	_ = json.Unmarshal(t.Input.raw(), &words) // two texts, by their evaluation
	m.fail(t, &Error{
		Type: errorType + do.Code, Code: do.Code, Status: http.StatusUnprocessableEntity, Title: words.Title, Detail: words.Detail,
	})
}
