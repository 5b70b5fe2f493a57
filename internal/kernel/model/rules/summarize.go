package rules

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/kernel/agentloop"
	"agentruntime/internal/kernel/model"
	"agentruntime/internal/kernel/wordrank"
)

// A summary without a bound has at most so many sentences and words.
const (
	mostSentences    = 4
	mostSummaryWords = 120
)

var inAtMost = regexp.MustCompile(`in at most ([0-9]+) words`)

// summarize answers a step that shortens data: it takes the sentences of a text that have most of its
// frequent words, or says the values of other data.
func summarize(req model.Request) string {
	data, task := dataOf(asked(req))
	most := 0
	if found := inAtMost.FindStringSubmatch(task); found != nil {
		most, _ = strconv.Atoi(found[1])
	}
	raw := dataIn(data, "input")
	text, is := decoded(raw).(string)
	if !is {
		text = said(raw)
	}
	return shortened(text, most)
}

// said says JSON in words.
func said(raw json.RawMessage) string {
	if list, is := listOf(raw); is && len(list) > 0 {
		return strconv.Itoa(len(list)) + " items: " + items(list)
	}
	if facts := factsOf(raw); facts != "" {
		return capital(facts) + "."
	}
	return plainOf(raw)
}

// shortened returns the most telling sentences of a text, in their order; 0 words for no bound.
func shortened(text string, most int) string {
	list := agentloop.Sentences(text)
	bound, words := len(list), most
	if most == 0 {
		bound, words = min(mostSentences, max(1, (len(list)+1)/2)), mostSummaryWords
	}
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	weights := telling(list)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	var kept []int
	for _, i := range order {
		if n := len(strings.Fields(list[i])); n <= words && len(kept) < bound && (n > 1 || len(list) == 1) {
			kept = append(kept, i)
			words -= n
		}
	}
	slices.Sort(kept)
	var out []string
	for _, i := range kept {
		out = append(out, list[i])
	}
	if len(out) == 0 { // the first sentence alone is too long
		fields := strings.Fields(text)
		if len(fields) == 0 {
			fields = strings.Fields("There is nothing to summarize.")
		}
		return strings.Join(fields[:min(len(fields), max(1, words))], " ")
	}
	return strings.Join(out, " ")
}

// telling returns how much each sentence tells: by the words that others have too, and by ids and
// numbers. The first one tells more.
func telling(list []string) []float64 {
	counts := map[string]float64{}
	for _, s := range list {
		for _, w := range wordrank.Words(s) {
			if !w.Function {
				counts[w.Key]++
			}
		}
	}
	weights := make([]float64, len(list))
	for i, s := range list {
		words := wordrank.Words(s)
		for _, w := range words {
			weights[i] += counts[w.Key]
		}
		weights[i] /= float64(len(words) + 1)
		const forFact, forFirst = 0.5, 1.0
		if idLike.MatchString(s) || number.MatchString(s) {
			weights[i] += forFact
		}
		if i == 0 {
			weights[i] += forFirst
		}
	}
	return weights
}
