package api

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/redact"
)

// How answers show values that stand in many of them.

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

// textOrNull returns nil for "".
func textOrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// texts returns values as texts.
func texts[T ~string](values []T) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return list
}

// byUser names the user who did something, in the form of created_by: "user:<id>".
func byUser(id *uuid.UUID) *string {
	if id == nil {
		return nil
	}
	name := actor.Actor{Kind: actor.User, ID: *id}.String()
	return &name
}

// byUsers is byUser for all who did it.
func byUsers(ids []uuid.UUID) []string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = *byUser(&id)
	}
	return names
}

// byCaller is byUser for a key or a user.
func byCaller(who *actor.Caller) *string {
	if who == nil {
		return nil
	}
	name := who.String()
	return &name
}

// maskedText returns a value as others than its caller may see it.
func maskedText(value json.RawMessage) json.RawMessage {
	if len(value) == 0 {
		return json.RawMessage("null")
	}
	out, _ := redact.NewMasker(nil).Mask(value)
	return out
}

// executionPath returns the path of an execution. The caller's id may contain any visible
// character, also a slash.
func executionPath(id string) string { return "/v1/executions/" + url.PathEscape(id) }
