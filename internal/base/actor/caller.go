package actor

import (
	"strings"

	"github.com/google/uuid"
)

// Caller names the key or the user that made a call, without how they reached us.
type Caller struct {
	// Kind is Key or User.
	Kind Kind
	ID   uuid.UUID
}

// CallerOf returns the caller of which a row has the key's or the user's id, nil where it has
// neither.
func CallerOf(key, user *uuid.UUID) *Caller {
	switch {
	case key != nil:
		return &Caller{Kind: Key, ID: *key}
	case user != nil:
		return &Caller{Kind: User, ID: *user}
	default:
		return nil
	}
}

// ParseCaller reads the form of String. ok is false for any other text.
func ParseCaller(text string) (c Caller, ok bool) {
	kind, id, _ := strings.Cut(text, ":")
	parsed, err := uuid.Parse(id)
	c = Caller{Kind: Kind(kind), ID: parsed}
	return c, err == nil && len(id) == len(parsed.String()) && (c.Kind == Key || c.Kind == User)
}

// String returns "key:<id>" or "user:<id>".
func (c Caller) String() string { return Actor{Kind: c.Kind, ID: c.ID}.String() }
