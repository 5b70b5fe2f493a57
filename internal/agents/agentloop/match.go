// Package agentloop has the pure parts of an agent's turn. It says which procedures and Maps fit a
// message, and how a model confirms them. It says whether the calls of a turn go in circles, and which
// messages of a conversation a model still reads in full. The service around it asks the models and
// stores what they answer. What callers, customers and providers have written is data here: inside
// <data> elements, as JSON in which < and > are escaped.
package agentloop

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/wordrank"
)

// Subject is what a message is matched with: a procedure or a Map.
type Subject struct {
	// ID is the slug of a procedure, the id of a Map.
	ID       string
	Title    string
	When     string
	Examples []string
	Keywords []string
	// Priority puts hits before others, the highest first.
	Priority int
}

// Hit is a subject that fits a message.
type Hit struct {
	ID       string `json:"id"`
	Priority int    `json:"priority,omitempty"`
	// Score is over 0 and under 1.
	Score float64 `json:"score"`
	// Words are those of the message that the subject has too.
	Words []string `json:"words"`
	// Reason says why it fits, in the words of the service or of the model that has confirmed it.
	Reason string `json:"reason"`
	// Checked: a model has confirmed it.
	Checked bool `json:"checked"`
}

// The scores from which a subject is a hit. To start a Map takes more than to give advice.
const (
	ForAdvice = 0.35
	ForStart  = 0.6
)

// What the parts of a subject add to its score. A hit with less than this share of the best score is
// none.
const (
	keywordWeight = 0.6
	exampleWeight = 0.9
	textWeight    = 0.8 // of title and when
	mostHits      = 5
	shareOfBest   = 0.5
)

// SOPs returns the enabled procedures as subjects.
func SOPs(list []agentdef.SOP) (subjects []Subject) {
	for _, s := range list {
		if s.Enabled {
			subjects = append(subjects, Subject{ID: s.Slug, Title: s.Title, When: s.When, Examples: s.Examples, Keywords: s.Keywords, Priority: s.Priority})
		}
	}
	return subjects
}

// OfMap returns a Map as a subject.
func OfMap(id uuid.UUID, name, when string, examples, keywords []string) Subject {
	return Subject{ID: id.String(), Title: name, When: when, Examples: examples, Keywords: keywords}
}

// Match returns the subjects that fit the message; see Matcher.Match.
func Match(message string, subjects []Subject, atLeast float64) []Hit {
	return NewMatcher(subjects).Match(message, atLeast)
}

// Matcher matches messages with subjects. It is immutable and safe for concurrent use.
type Matcher struct {
	subjects []compiled
	bytes    int
}

// compiled is a subject with the words of its parts.
type compiled struct {
	Subject

	title, when part
	examples    []part
	keywords    [][]string // with all of their words, in their order
}

// part are the different words of a text that say something, with their weights: 1 for a word that all
// subjects have, and more for rare ones.
type part struct {
	keys    []string
	weights []float64
	all     float64 // the weights together
}

// parts calls f with the parts of a subject, beside its keywords.
func (c *compiled) parts(f func(*part)) {
	f(&c.title)
	f(&c.when)
	for i := range c.examples {
		f(&c.examples[i])
	}
}

// NewMatcher returns a matcher of the subjects. It reads all of their words, so it is kept.
func NewMatcher(subjects []Subject) *Matcher {
	m := &Matcher{subjects: make([]compiled, len(subjects)), bytes: len(subjects) * bytesOfSubject}
	counts := map[string]float64{}
	for i, s := range subjects {
		c := compiled{Subject: s, title: part{keys: contentOf(s.Title)}, when: part{keys: contentOf(s.When)}}
		for _, example := range s.Examples {
			c.examples = append(c.examples, part{keys: contentOf(example)})
		}
		has := map[string]bool{}
		note := func(keys []string) {
			for _, key := range keys {
				has[key] = true
				m.bytes += len(key) + bytesOfWord
			}
		}
		c.parts(func(p *part) { note(p.keys) })
		for _, keyword := range s.Keywords {
			var keys []string
			for _, w := range wordrank.Words(keyword) {
				keys = append(keys, w.Key)
			}
			c.keywords = append(c.keywords, keys)
			note(keys)
		}
		for key := range has {
			counts[key]++
		}
		m.subjects[i] = c
	}
	for i := range m.subjects {
		m.subjects[i].parts(func(p *part) {
			for _, key := range p.keys {
				weight := 1 + math.Log(float64(len(subjects))/counts[key])
				p.weights = append(p.weights, weight)
				p.all += weight
			}
		})
	}
	return m
}

// About what a word and a subject take in memory beside their texts.
const (
	bytesOfWord    = 80
	bytesOfSubject = 400
)

// Bytes returns about how many bytes of memory the matcher takes.
func (m *Matcher) Bytes() int { return m.bytes }

// Match returns the subjects that fit the message with at least the score, at most five: those of the
// highest priority first, of one priority by their scores, of one score in their order. A keyword of
// the message is enough for advice. A title, an example or a condition counts by how many of its words
// the message has, rare words among the subjects more than frequent ones.
func (m *Matcher) Match(message string, atLeast float64) []Hit {
	msg := readMessage(message)
	msg.enough = 2 + math.Log(float64(len(m.subjects))) // a frequent word and a rare one
	var hits []Hit
	for i := range m.subjects {
		if h := msg.hit(&m.subjects[i], atLeast); h.Score >= atLeast {
			hits = append(hits, h)
		}
	}
	var best float64
	for _, h := range hits {
		best = max(best, h.Score)
	}
	hits = slices.DeleteFunc(hits, func(h Hit) bool { return h.Score < shareOfBest*best })
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	sortByPriority(hits)
	return hits[:min(len(hits), mostHits)]
}

func sortByPriority(hits []Hit) {
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Priority, a.Priority) })
}

// closeShare is which share of the best score makes another hit as likely as it.
const closeShare = 0.8

// Close returns the first hit, and those that may as well be meant: of its priority, with nearly its
// score. Where there are several, the message is ambiguous, and the customer is asked.
func Close(hits []Hit) (close []Hit) {
	for _, h := range hits {
		if h.Priority == hits[0].Priority && h.Score >= closeShare*hits[0].Score {
			close = append(close, h)
		}
	}
	return close
}

// read is a message as subjects are compared with it.
type read struct {
	// order has the keys of its words, at where each of them stands, content those that say something,
	// with the words themselves.
	order   []string
	at      map[string][]int
	content map[string]string
	words   []string // of content, in their order
	// enough is the weight of words that are no chance.
	enough float64
}

func readMessage(message string) read {
	m := read{content: map[string]string{}, at: map[string][]int{}}
	for _, w := range wordrank.Words(message) {
		m.at[w.Key] = append(m.at[w.Key], len(m.order))
		m.order = append(m.order, w.Key)
		if _, known := m.content[w.Key]; !known && !w.Function {
			m.content[w.Key] = w.Text
			m.words = append(m.words, w.Key)
		}
	}
	return m
}

// contentOf returns the different words of a text that say something.
func contentOf(text string) (keys []string) {
	for _, w := range wordrank.Words(text) {
		if !w.Function && !slices.Contains(keys, w.Key) {
			keys = append(keys, w.Key)
		}
	}
	return keys
}

// hit returns how a subject fits; below the score that is wanted, only the score counts.
func (m read) hit(s *compiled, atLeast float64) Hit {
	h := Hit{ID: s.ID, Priority: s.Priority, Words: []string{}}
	rest := 1.0 // what the parts have left of doubt
	var keywords []string
	has := map[string]bool{}
	for i, keys := range s.keywords {
		if keyword := s.Keywords[i]; m.phrase(keys) && !slices.Contains(keywords, keyword) {
			keywords = append(keywords, keyword)
			rest *= 1 - keywordWeight
			for _, key := range keys {
				has[key] = true
			}
		}
	}
	var like string
	var best float64
	for i := range s.examples {
		if score := exampleWeight * m.covers(&s.examples[i]); score > best {
			best, like = score, s.Examples[i]
		}
	}
	rest *= 1 - best
	rest *= 1 - textWeight*max(m.covers(&s.title), m.covers(&s.when))
	if h.Score = 1 - rest; h.Score < atLeast {
		return h
	}
	s.parts(func(p *part) {
		for _, key := range p.keys {
			has[key] = true
		}
	})
	for _, key := range m.words {
		if has[key] {
			h.Words = append(h.Words, m.content[key])
		}
	}
	h.Reason = reason(keywords, like, best, h.Words)
	return h
}

// phrase reports whether the message has the words as they stand.
func (m read) phrase(keys []string) bool {
	if len(keys) == 0 {
		return false
	}
	for _, at := range m.at[keys[0]] {
		if at+len(keys) <= len(m.order) && slices.Equal(m.order[at:at+len(keys)], keys) {
			return true
		}
	}
	return false
}

// covers returns how much of the words the message has, from 0 to 1. One word alone counts about half,
// unless it is much of the message.
func (m read) covers(p *part) float64 {
	var found float64
	n := 0
	for i, key := range p.keys {
		if _, in := m.content[key]; in {
			found += p.weights[i]
			n++
		}
	}
	if n == 0 {
		return 0
	}
	sure := max(found/m.enough, float64(n)/float64(len(m.content)))
	return found / p.all * min(1, sure)
}

// reason says in words why a subject fits.
func reason(keywords []string, example string, alike float64, words []string) string {
	var parts []string
	if len(keywords) > 0 {
		quoted := make([]string, len(keywords))
		for i, k := range keywords {
			quoted[i] = strconv.Quote(k)
		}
		parts = append(parts, "the message has "+strings.Join(quoted, ", "))
	}
	if alike >= exampleWeight/2 {
		parts = append(parts, "it is like the example "+strconv.Quote(example))
	}
	if len(parts) == 0 || len(words) > 1 {
		parts = append(parts, "it shares the words "+strings.Join(words, ", "))
	}
	return strings.Join(parts, "; ")
}
