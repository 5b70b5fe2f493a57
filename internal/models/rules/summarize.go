package rules

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/models/model"
)

// A summary without a bound has at most so many sentences and words.
const (
	mostSentences    = 4
	mostSummaryWords = 120
)

var inAtMost = regexp.MustCompile(`in at most ([0-9]+) words`)

// summarize answers a step that shortens data: it takes the first sentences of a text, or says the values of
// other data.
func summarize(req model.Request) string {
	data, task := dataOf(asked(req))
	most := 0
	if found := inAtMost.FindStringSubmatch(task); found != nil {
		most, _ = strconv.Atoi(found[1])
	}
	raw := dataIn(data, "input")
	list, isList := listOf(raw)
	facts := factsOf(raw, mostFacts)
	switch {
	case isList && len(list) > 0:
		return shortened(strconv.Itoa(len(list))+" items: "+items(list), most)
	case facts != "":
		return shortened(capital(facts)+".", most)
	}
	return shortened(plainOf(raw), most)
}

// shortened returns the first sentences of a text that fit, in their order; 0 words for no bound. Of a
// first sentence that is too long, it is the beginning.
func shortened(text string, most int) string {
	list := agentloop.Sentences(text)
	bound, words := len(list), most
	if most == 0 {
		bound, words = min(mostSentences, (len(list)+1)/2), mostSummaryWords
	}
	var kept []string
	for _, sentence := range list[:bound] {
		n := len(strings.Fields(sentence))
		if n > words {
			break
		}
		kept, words = append(kept, sentence), words-n
	}
	if len(kept) == 0 {
		fields := strings.Fields(cmp.Or(strings.TrimSpace(text), "There is nothing to summarize."))
		kept = fields[:min(len(fields), words)]
	}
	return strings.Join(kept, " ")
}
