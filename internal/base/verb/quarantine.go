package verb

import (
	"fmt"
	"time"
)

// Quarantine says why calls of a verb are blocked: an import changed what people had in mind when
// they named it. It ends when a user accepts the new form, or an import restores the old one. The
// catalog stores it, so a JSON name is never renamed.
type Quarantine struct {
	// Form is a digest of the form that would be accepted.
	Form  string    `json:"form"`
	Since time.Time `json:"since"`
	// Changes are the first of ChangesTotal, compared with the form that was accepted last.
	Changes      []FormChange `json:"changes"`
	ChangesTotal int          `json:"changes_total"`
	// NamedBy are the first of NamedByTotal that name the verb.
	NamedBy      []Naming `json:"named_by"`
	NamedByTotal int      `json:"named_by_total"`
}

// FormChange is one thing that is different about a verb.
type FormChange struct {
	What    string `json:"what"`
	Pointer string `json:"pointer,omitempty"` // JSON Pointer of an argument
	Before  string `json:"before"`
	After   string `json:"after"`
}

// String says what is different.
func (c FormChange) String() string {
	switch {
	case c.Pointer != "" && c.After == "":
		return fmt.Sprintf("the argument %s (%s) is gone", c.Pointer, c.Before)
	case c.Pointer != "" && c.Before == "":
		return fmt.Sprintf("the argument %s is new (%s)", c.Pointer, c.After)
	case c.Pointer != "":
		return fmt.Sprintf("the argument %s was %s and is %s", c.Pointer, c.Before, c.After)
	case c.Before == "":
		return fmt.Sprintf("the %s has %s", c.What, c.After)
	}
	return fmt.Sprintf("the %s was %s and is %s", c.What, c.Before, c.After)
}

// Naming is something that names a verb: a policy, a Map or an agent.
type Naming struct {
	Type string `json:"type"` // policy, map or agent
	ID   string `json:"id"`
	Name string `json:"name"`
}
