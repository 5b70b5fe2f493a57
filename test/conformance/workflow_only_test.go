//go:build conformance

package conformance

import (
	"encoding/json"
	"net/http"
	"path"
)

// guided writes to agents that work by a Map alone: it asks, waits, fails, and takes no such message.
func (j *journey) guided() {
	works := func(name, members string) string {
		a := j.post(j.user, 201, "/v1/maps?publish=true", json.RawMessage(`{"schema_version":"1","name":"`+name+`",`+members+`}`))
		_, messages := j.talks("builtin", "scripted", object{"executionMode": "workflow_only", "map_id": path.Base(a.Header.Get("Location"))})
		return messages
	}
	asks := works("Asks", `"steps":[{"id":"ask","type":"agent","goal":"Ask for the size"}]`)
	j.post(j.writer, 200, asks, object{"message": "A cup please", "session_id": "w-1"})
	j.post(j.writer, 200, asks, object{"message": "large", "session_id": "w-1"})
	waits := works("Waits", `"steps":[{"id":"w","type":"wait","event":{"type":"ripe"}}]`)
	j.post(j.writer, 200, waits, object{"message": "Is it ripe?", "session_id": "w-2"})
	j.refused(j.writer, 409, "SESSION_BUSY", http.MethodPost, waits, object{"message": "And now?", "session_id": "w-2"})
	fails := works("Fails", `"steps":[{"id":"no","type":"raise","error":{"code":"NO_WAY"}}]`)
	j.post(j.writer, 200, fails, object{"message": "Try"})
	strict := works("Wants more", `"trigger_schema":{"required":["order"]},"steps":[{"id":"n","type":"transform","expr":1}]`)
	j.refused(j.writer, 422, "INVALID_ARGS", http.MethodPost, strict, object{"message": "Go"})
}
