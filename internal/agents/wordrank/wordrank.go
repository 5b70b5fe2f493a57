// Package wordrank ranks short texts by the words of a query: verbs by a message, procedures by what
// they are for. It folds case, accents and English endings, splits camelCase and snake_case, and reads
// languages without blanks by pairs of characters. The same texts always get the same ranks. It is
// pure, and its work is bounded: only the beginning of a long text counts.
package wordrank

import (
	"cmp"
	"math"
	"slices"
)

// Doc is a text to rank.
type Doc struct {
	// Name is what the text is about in few words; they count three times.
	Name string
	Text string
}

// Hit is a text that has words of the query.
type Hit struct {
	// Doc is its place in the list.
	Doc int
	// Score compares the hits of one query, and no others. It is over zero.
	Score float64
	// Share is how much of the query the text has, from 0 to 1; rare words count more than frequent
	// ones, and words that no text has count as the rarest.
	Share float64
	// Words are those of the query that the text has, as the query has them.
	Words []string
}

// The constants of BM25 (Robertson and Zaragoza, 2009), and how often a word of a name counts.
const (
	saturation   = 1.2
	lengthWeight = 0.75
	nameWeight   = 3
)

// mostTerms is how many different words of a query are looked for.
const mostTerms = 256

// Index finds texts by their words. It is immutable and safe for concurrent use.
type Index struct {
	docs  int
	terms map[string]span
	// postings has, for each term, the texts that have it, in their order.
	postings []posting
	bytes    int
}

type span struct{ from, to int32 }

type posting struct {
	doc int32
	// weight is what the term adds to the score of the text.
	weight float32
}

// New returns the index of the texts. Of each text it reads what Words reads.
func New(docs []Doc) *Index {
	type entry struct {
		doc    int32
		weight float32
	}
	lists := map[string][]entry{}
	lengths := make([]float64, len(docs))
	var total float64
	count := 0
	for i, d := range docs {
		found := map[string]float32{}
		var order []string
		add := func(text string, weight float32) {
			for _, w := range Words(text) {
				if w.Function {
					continue
				}
				if found[w.Key] == 0 {
					order = append(order, w.Key)
				}
				found[w.Key] += weight
				if !w.joined {
					lengths[i] += float64(weight)
				}
			}
		}
		add(d.Name, nameWeight)
		add(d.Text, 1)
		for _, term := range order {
			lists[term] = append(lists[term], entry{int32(i), found[term]})
		}
		count += len(order)
		total += lengths[i]
	}
	mean := max(1, total/float64(max(1, len(docs))))
	x := &Index{docs: len(docs), terms: make(map[string]span, len(lists)), postings: make([]posting, 0, count)}
	for term, list := range lists {
		from := len(x.postings)
		rarity := x.rarity(len(list))
		for _, e := range list {
			frequency := float64(e.weight)
			norm := frequency + saturation*(1-lengthWeight+lengthWeight*lengths[e.doc]/mean)
			x.postings = append(x.postings, posting{e.doc, float32(rarity * frequency * (saturation + 1) / norm)})
		}
		x.terms[term] = span{int32(from), int32(len(x.postings))}
		x.bytes += len(term) + bytesOfTerm
	}
	x.bytes += len(x.postings) * bytesOfPosting
	return x
}

// What a term takes in the map beside its letters, and a posting, in bytes.
const (
	bytesOfTerm    = 48
	bytesOfPosting = 8
)

// Bytes returns about how many bytes of memory the index takes.
func (x *Index) Bytes() int { return x.bytes }

// rarity returns the weight of a word that so many texts have.
func (x *Index) rarity(texts int) float64 {
	return math.Log(1 + (float64(x.docs-texts)+0.5)/(float64(texts)+0.5))
}

// Rank returns the n texts with the highest scores, the best first; those of one score in their
// order. Texts without a word of the query are none of them.
func (x *Index) Rank(query string, n int) []Hit {
	terms, whole := x.asked(query)
	if len(terms) == 0 || n <= 0 {
		return nil
	}
	scores := make([]float32, x.docs)
	for _, t := range terms {
		for _, p := range x.postings[t.at.from:t.at.to] {
			scores[p.doc] += p.weight
		}
	}
	best := top(scores, n)
	hits := make([]Hit, len(best))
	for i, doc := range best {
		hits[i] = Hit{Doc: int(doc), Score: float64(scores[doc])}
		var has float64
		for _, t := range terms {
			list := x.postings[t.at.from:t.at.to]
			if _, in := slices.BinarySearchFunc(list, doc, func(p posting, doc int32) int { return cmp.Compare(p.doc, doc) }); in {
				hits[i].Words = append(hits[i].Words, t.word)
				if !t.joined {
					has += t.rarity
				}
			}
		}
		hits[i].Share = min(1, has/whole)
	}
	return hits
}

// asked is a word of a query.
type asked struct {
	word   string
	at     span
	rarity float64
	joined bool
}

// asked returns the words of a query that texts have, and the weight of all its words. Words such as
// "the" are not asked for.
func (x *Index) asked(query string) (terms []asked, whole float64) {
	seen, joined := map[string]bool{}, 0.0
	for _, w := range Words(query) {
		if w.Function || seen[w.Key] {
			continue
		}
		if len(seen) == mostTerms {
			break
		}
		seen[w.Key] = true
		at, known := x.terms[w.Key]
		t := asked{word: w.Text, at: at, rarity: x.rarity(int(at.to - at.from)), joined: w.joined}
		if known {
			terms = append(terms, t)
		}
		if t.joined {
			joined += t.rarity
		} else {
			whole += t.rarity
		}
	}
	if whole == 0 { // the parts of its joined words are words such as "the"
		whole = joined
		for i := range terms {
			terms[i].joined = false
		}
	}
	return terms, max(whole, math.SmallestNonzeroFloat64)
}

// top returns the n texts with the highest scores over zero.
func top(scores []float32, n int) []int32 {
	better := func(a, b int32) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b))
	}
	var best []int32 // sorted
	for i, score := range scores {
		doc := int32(i)
		if score <= 0 || len(best) == n && scores[best[n-1]] >= score {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, doc, better)
		if len(best) < n {
			best = append(best, 0)
		}
		copy(best[at+1:], best[at:])
		best[at] = doc
	}
	return best
}

// Rank returns the texts that have words of the query, the best first.
func Rank(query string, docs []Doc) []Hit { return New(docs).Rank(query, len(docs)) }
