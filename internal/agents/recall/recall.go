// Package recall chooses what a model reads of all that is remembered of a customer.
// internal/tenant/facts and internal/service/answering call it. It is pure.
package recall

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"agentruntime/internal/agents/wordrank"
	"agentruntime/internal/base/redact"
)

// Bounds of a fact, and of what a model reads for one message.
const (
	// MaxText is how many bytes a fact has.
	MaxText = 512
	// ProfileText is how many characters the facts of the profile have together.
	ProfileText = 2_000
	// MostRelevant is how many other facts there are.
	MostRelevant = 5
)

// Fact is something that is remembered of a customer.
type Fact struct {
	ID   uuid.UUID `json:"id"`
	Text string    `json:"text"`
	// Profile: it says who the customer is, and every message reads it.
	Profile bool `json:"profile,omitempty"`
	// Tainted: it was written where the agent had read what others than the tenant wrote.
	Tainted bool      `json:"tainted,omitempty"`
	At      time.Time `json:"at"`
}

// Learned is something to remember of a message.
type Learned struct {
	Text    string
	Profile bool
	// Supersedes is the fact whose place it takes; nil for none.
	Supersedes *uuid.UUID
}

// secret is never remembered by itself.
var secret = regexp.MustCompile(`(?i)\b(password|passwort|mot de passe|contraseña|pin|cvv|cvc|iban|passcode|secret|token|(?:card|account|security|social security) (?:number|code))s?\b`)

// IsSecret reports whether a text is about a password, a code or the like, or has what looks like a
// secret in it.
func IsSecret(text string) bool { return secret.MatchString(text) || redact.Text(text) != text }

// Why says why a fact is in the context of a message.
type Why string

// The reasons.
const (
	OfProfile Why = "profile" // it says who the customer is
	ByWords   Why = "words"   // it has words of the message
	ByRecency Why = "recency" // it is among the newest
	ByTool    Why = "tool"    // the model looked for it
)

// Chosen is a fact that a model reads.
type Chosen struct {
	Fact
	Why Why `json:"why"`
	// Words are those of the message that the fact has.
	Words []string `json:"words,omitempty"`
}

// Choose returns the facts that a model reads for a message: those of the profile, as many as have 2,000
// characters together, and five others. These are the ones with the words of the message, the best
// first, and otherwise the newest. all are in the order of time, the newest first. A tainted fact is
// never in the profile.
func Choose(all []Fact, message string) []Chosen {
	var profile, rest []Chosen
	room := ProfileText
	for _, f := range all {
		n := utf8.RuneCountInString(f.Text)
		if f.Profile && !f.Tainted && n <= room {
			room -= n
			profile = append(profile, Chosen{Fact: f, Why: OfProfile})
		} else {
			rest = append(rest, Chosen{Fact: f, Why: ByRecency})
		}
	}
	return append(profile, first(rest, message, MostRelevant)...)
}

// Search returns the facts that have words of the query, the best first, at most so many.
func Search(all []Fact, query string, most int) []Chosen {
	list := make([]Chosen, len(all))
	for i, f := range all {
		list[i] = Chosen{Fact: f, Why: ByRecency}
	}
	found := first(list, query, most)
	for i, c := range found {
		if c.Why != ByWords {
			return found[:i]
		}
	}
	return found
}

// first returns the facts with words of the query, the best first, and then the others in their order.
func first(list []Chosen, query string, most int) []Chosen {
	docs := make([]wordrank.Doc, len(list))
	for i, c := range list {
		docs[i].Text = c.Text
	}
	var out []Chosen
	taken := map[int]bool{}
	for _, hit := range wordrank.New(docs).Rank(query, most) {
		c := list[hit.Doc]
		c.Why, c.Words = ByWords, hit.Words
		out, taken[hit.Doc] = append(out, c), true
	}
	for i, c := range list {
		if len(out) >= most {
			break
		}
		if !taken[i] {
			out = append(out, c)
		}
	}
	return out
}

// Canonical returns the text by which two facts are the same: in lower case, with single spaces and
// without the point at the end.
func Canonical(text string) string {
	return strings.TrimRight(strings.Join(strings.Fields(strings.ToLower(text)), " "), ".!")
}
