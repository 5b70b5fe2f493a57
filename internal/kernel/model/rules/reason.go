package rules

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/kernel/agentloop"
	"agentruntime/internal/kernel/model"
	"agentruntime/internal/kernel/wordrank"
)

// ruled is how the reasons of answers begin.
const ruled = "By builtin:rules, no language model: "

// unknown is the answer to a question that the data does not answer by its words.
const unknown = "unknown"

var (
	yesOrNo = regexp.MustCompile(`(?i)^\W*(is|are|was|were|has|have|had|does|do|did|can|should|will|must)\b`)
	howMany = regexp.MustCompile(`(?i)\bhow many ([\p{L} ]+)`)
	compare = regexp.MustCompile(`(?i)\b(over|above|more than|greater than|exceeds?|at least|under|below|less than|fewer than|at most)\s*([$€£]\s*)?([0-9]+(?:[.,][0-9]+)?)\s*(dollars?|usd|euros?|eur|pounds?|gbp|[$€£])?`)
	known   = regexp.MustCompile(`^(status|state)$`)
)

// reason answers a question by the value or the sentence of the data that has its words.
func reason(e *effort, req model.Request) string {
	data, task := dataOf(asked(req))
	_, question, _ := strings.Cut(task, "The question: ")
	answer, why := answered(e, strings.TrimSpace(question), data)
	return encoded(map[string]string{"answer": answer, "reason": ruled + why})
}

func answered(e *effort, question string, data []named) (answer, why string) {
	var leaves []leaf
	for _, one := range data {
		leaves = append(leaves, leavesOf(one.raw)...)
	}
	if found := howMany.FindStringSubmatch(question); found != nil {
		for _, one := range data {
			if n, name, ok := counted(found[1], decoded(one.raw)); ok {
				return strconv.Itoa(n), fmt.Sprintf("the list %s has %d items.", name, n)
			}
		}
	}
	if yesOrNo.MatchString(question) {
		if yes, why, sure := judged(e, question, leaves, nil); sure {
			return map[bool]string{true: "yes", false: "no"}[yes], why
		}
	}
	if l, ok := valueFor(question, leaves); ok {
		return l.text(), fmt.Sprintf("the value of %s is %s.", l.name(), short(l.text()))
	}
	if s := sentenceFor(question, leaves); s != "" {
		return s, "this sentence has the words of the question."
	}
	return unknown, "no value and no sentence of the data has the words of the question."
}

// counted returns how many items the list has that words name.
func counted(words string, value any) (n int, name string, ok bool) {
	if list, is := value.([]any); is {
		return len(list), "itself", true
	}
	for word := range strings.FieldsSeq(strings.ToLower(words)) {
		for _, name := range []string{word, singular(word), singular(word) + "s"} {
			if list, is := member(value, name).([]any); is {
				return len(list), name, true
			}
		}
	}
	return 0, "", false
}

// valueFor returns the value whose name has most words of the question.
func valueFor(question string, leaves []leaf) (l leaf, ok bool) {
	docs := make([]wordrank.Doc, len(leaves))
	for i, l := range leaves {
		docs[i] = wordrank.Doc{Name: strings.TrimSpace(l.name() + " " + inWords(strings.Join(l.path, " ")))}
	}
	hits := wordrank.New(docs).Rank(question, 1)
	if len(hits) == 0 {
		return l, false
	}
	return leaves[hits[0].Doc], true
}

// sentenceFor returns the sentence of the texts that has most words of the question; "" for none.
func sentenceFor(question string, leaves []leaf) string {
	var docs []wordrank.Doc
	for _, l := range leaves {
		if text, is := l.value.(string); is {
			for _, s := range agentloop.Sentences(text) {
				docs = append(docs, wordrank.Doc{Text: s})
			}
		}
	}
	hits := wordrank.New(docs).Rank(question, 1)
	if len(hits) == 0 {
		return ""
	}
	return docs[hits[0].Doc].Text
}

// mostStatus is how long a value of up to three words is.
const mostStatus = 200

// judged returns whether what a text says is true of values; sure is false where they do not tell.
// values are texts that a status can have, besides those that the text may mean.
func judged(e *effort, text string, leaves []leaf, values []string) (yes bool, why string, sure bool) {
	no := negation.MatchString(text)
	if found := compare.FindStringSubmatch(text); found != nil {
		l, ok := numberFor(text, leaves)
		if !ok {
			return false, "", false
		}
		yes = compared(found, l)
		return yes != no, fmt.Sprintf("%s is %s.", l.name(), l.text()), true
	}
	keys := keysOf(text)
	const compared = 32 // words for a unit
	if !e.spend((len(leaves) + len(values)) * (1 + len(keys)/compared)) {
		return false, "", false
	}
	for _, l := range leaves {
		switch value := l.value.(type) {
		case bool:
			if phrase(keys, keysOf(strings.TrimPrefix(l.name(), "is "))) {
				return value != no, fmt.Sprintf("%s is %t.", l.name(), value), true
			}
		case string:
			if len(value) > mostStatus {
				continue
			}
			if words := keysOf(value); len(words) <= 3 && !idLike.MatchString(value) && phrase(keys, words) {
				return !no, fmt.Sprintf("%s is %s.", l.name(), value), true
			}
		}
	}
	// Another value of a status is no.
	if values != nil && !slices.ContainsFunc(values, func(v string) bool { return phrase(keys, keysOf(v)) }) {
		return false, "", false
	}
	for _, l := range leaves {
		if known.MatchString(l.name()) {
			return no, fmt.Sprintf("%s is %s.", l.name(), l.text()), true
		}
	}
	return false, "", false
}

// numberFor returns the number that a text compares: one that it names, otherwise an amount.
func numberFor(text string, leaves []leaf) (leaf, bool) {
	var numbers []leaf
	for _, l := range leaves {
		if _, is := l.value.(json.Number); is {
			numbers = append(numbers, l)
		}
	}
	if l, ok := valueFor(text, numbers); ok {
		return l, true
	}
	for _, l := range numbers {
		if money.MatchString(l.name()) {
			return l, true
		}
	}
	if len(numbers) == 1 {
		return numbers[0], true
	}
	return leaf{}, false
}

// compared returns whether a number is as a comparison says. An amount is in the smallest unit where
// the comparison names a currency and the amount is a whole number.
func compared(said []string, l leaf) bool {
	bound, ok := new(big.Rat).SetString(strings.ReplaceAll(said[3], ",", "."))
	value, known := new(big.Rat).SetString(l.text())
	if !ok || !known {
		return false
	}
	if (said[2] != "" || said[4] != "") && money.MatchString(l.name()) && value.IsInt() {
		bound.Mul(bound, big.NewRat(100, 1))
	}
	order := value.Cmp(bound)
	switch word := strings.ToLower(said[1]); word {
	case "at least":
		return order >= 0
	case "at most":
		return order <= 0
	case "under", "below", "less than", "fewer than":
		return order < 0
	}
	return order > 0
}
