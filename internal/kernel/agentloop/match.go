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

	"agentruntime/internal/kernel/agentdef"
	"agentruntime/internal/kernel/wordrank"
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

// Match returns the subjects that fit the message with at least the score, at most five: those of the
// highest priority first, of one priority by their scores, of one score in their order. A keyword of
// the message is enough for advice. A title, an example or a condition counts by how many of its words
// the message has, rare words among the subjects more than frequent ones.
func Match(message string, subjects []Subject, atLeast float64) []Hit {
	m := readMessage(message)
	if len(m.content) == 0 && len(m.order) == 0 {
		return nil
	}
	weights := weigh(subjects)
	var hits []Hit
	for _, s := range subjects {
		if h := m.hit(s, weights); h.Score >= atLeast {
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
	// order has the keys of its words, content those that say something, with the words themselves.
	order   []string
	content map[string]string
	words   []string // of content, in their order
}

func readMessage(message string) read {
	m := read{content: map[string]string{}}
	for _, w := range wordrank.Words(message) {
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

// weights are those of the words of subjects: 1 for one that all have, and more for rare ones.
type weights struct {
	of       map[string]float64
	subjects float64
}

func weigh(subjects []Subject) weights {
	counts := map[string]float64{}
	for _, s := range subjects {
		for _, key := range contentOf(strings.Join(slices.Concat([]string{s.Title, s.When}, s.Examples, s.Keywords), "\n")) {
			counts[key]++
		}
	}
	for key, count := range counts {
		counts[key] = 1 + math.Log(float64(len(subjects))/count)
	}
	return weights{counts, float64(len(subjects))}
}

func (m read) hit(s Subject, w weights) Hit {
	h := Hit{ID: s.ID, Priority: s.Priority}
	has := map[string]bool{}
	rest := 1.0 // what the parts have left of doubt
	var keywords []string
	for _, keyword := range s.Keywords {
		if keys := m.phrase(keyword); keys != nil && !slices.Contains(keywords, keyword) {
			keywords = append(keywords, keyword)
			rest *= 1 - keywordWeight
			for _, key := range keys {
				has[key] = true
			}
		}
	}
	var like string
	var best float64
	for _, example := range s.Examples {
		if score := exampleWeight * m.covers(example, w, has); score > best {
			best, like = score, example
		}
	}
	rest *= 1 - best
	rest *= 1 - textWeight*max(m.covers(s.Title, w, has), m.covers(s.When, w, has))
	h.Score = 1 - rest
	h.Words = []string{}
	for _, key := range m.words {
		if has[key] {
			h.Words = append(h.Words, m.content[key])
		}
	}
	h.Reason = reason(keywords, like, best, h.Words)
	return h
}

// phrase returns the keys of a keyword that the message has as it stands; nil where it does not.
func (m read) phrase(keyword string) (keys []string) {
	for _, w := range wordrank.Words(keyword) {
		keys = append(keys, w.Key)
	}
	if len(keys) == 0 {
		return nil
	}
	for at := 0; at+len(keys) <= len(m.order); at++ {
		if slices.Equal(m.order[at:at+len(keys)], keys) {
			return keys
		}
	}
	return nil
}

// covers returns how much of a text the message has, from 0 to 1. One word alone counts about half,
// unless it is much of the message.
func (m read) covers(text string, w weights, has map[string]bool) float64 {
	var all, found float64
	n := 0
	for _, key := range contentOf(text) {
		all += w.of[key]
		if _, in := m.content[key]; in {
			found += w.of[key]
			has[key] = true
			n++
		}
	}
	if n == 0 {
		return 0
	}
	enough := 2 + math.Log(w.subjects) // a frequent word and a rare one
	sure := max(found/enough, float64(n)/float64(len(m.content)))
	return found / all * min(1, sure)
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
