package rules

import (
	"encoding/json"
	"slices"
	"strings"

	"agentruntime/internal/kernel/model"
	"agentruntime/internal/kernel/wordrank"
)

// cues are words by which a text is about what a label names, by a word of the label.
//
//nolint:gochecknoglobals // an immutable table
var cues = map[string]string{
	"refund":    "refund,money back,reimburse,return,give back,chargeback",
	"return":    "return,send back,refund,money back",
	"complaint": "broken,damaged,angry,disappointed,terrible,awful,unacceptable,worst,wrong,ruined,rude,complain",
	"question":  "?,how,what,where,when,why,which,who",
	"shipping":  "ship,deliver,delivery,arrive,parcel,package,tracking,track,courier,late",
	"delivery":  "ship,deliver,arrive,parcel,package,tracking,track,courier,late",
	"billing":   "invoice,bill,charge,payment,pay,paid,card,receipt,vat",
	"payment":   "invoice,charge,pay,paid,card,bank,receipt",
	"invoice":   "bill,receipt,vat",
	"cancel":    "cancel,stop,terminate,unsubscribe,no longer want",
	"technical": "error,crash,bug,not work,fails,broken,login,password,screen,app",
	"bug":       "error,crash,not work,fails,broken,freezes",
	"account":   "login,log in,password,profile,sign in,email address",
	"urgent":    "urgent,asap,immediately,emergency,critical,right now,today",
	"high":      "urgent,asap,immediately,emergency,critical,right now",
	"low":       "no rush,whenever,minor,no hurry",
	"positive":  "great,love,thanks,thank you,excellent,happy,perfect,good,wonderful,amazing,friendly",
	"negative":  "bad,angry,hate,terrible,awful,broken,disappointed,worst,poor,never again,rude",
	"spam":      "winner,prize,lottery,click here,free money,casino",
	"greeting":  "hello,hi,good morning,good evening",
	"order":     "buy,purchase",
	"sales":     "price,cost,quote,discount,offer,buy",
	"feedback":  "suggest,idea,feedback,improve,wish",
	"thanks":    "thanks,thank you,grateful",
	"fraud":     "fraud,stolen,scam,not me,hacked",
}

// restLabels are words of labels for all that no other label is for.
//
//nolint:gochecknoglobals // an immutable table
var restLabels = strings.Fields("other others unknown none general misc miscellaneous else neutral unclear rest default")

// classify answers a step that chooses a label: the one of which the data has most words.
func classify(e *effort, req model.Request) (string, error) {
	var schema struct {
		Properties struct{ Label struct{ Enum []string } }
	}
	data, _ := dataOf(asked(req))
	if json.Unmarshal(req.OutputSchema, &schema) != nil || len(schema.Properties.Label.Enum) == 0 {
		return "", cannot("classify without labels")
	}
	labels := schema.Properties.Label.Enum
	label, score := bestLabel(e, labels, plainOf(dataIn(data, "input")))
	if score == 0 {
		i := slices.IndexFunc(labels, func(label string) bool {
			return slices.ContainsFunc(strings.Fields(inWords(label)), func(word string) bool { return slices.Contains(restLabels, word) })
		})
		if i < 0 {
			return "", cannot("tell which label fits, because the data has no word of any; a label such as other is for that")
		}
		label = labels[i]
	}
	return encoded(map[string]string{"label": label}), nil
}

// What a word of the label itself counts, and one that suggests it.
const (
	ownWord = 3
	cueWord = 2
)

// bestLabel returns the label of which the text has most words; 0 where it has none of any.
func bestLabel(e *effort, labels []string, text string) (label string, best int) {
	const reading = 4 // bytes for a unit
	if !e.spend(len(text) / reading) {
		return "", 0
	}
	keys, asks := keysOf(text), strings.Contains(text, "?")
	for _, one := range labels {
		const compared = 4 // words for a unit: a label has some, and words that suggest it
		if !e.spend(1 + (1+len(one)/10)*len(keys)/compared) {
			break
		}
		if score := labelScore(one, keys, asks); score > best {
			label, best = one, score
		}
	}
	return label, best
}

func labelScore(label string, keys []string, asks bool) (score int) {
	for word := range strings.FieldsSeq(inWords(label)) {
		if phrase(keys, keysOf(word)) {
			score += ownWord
		}
		for cue := range strings.SplitSeq(cues[singular(word)], ",") {
			if cue == "?" && asks || cue != "" && phrase(keys, keysOf(cue)) {
				score += cueWord
			}
		}
	}
	return score
}

// keysOf returns what the words of a text are compared by, in their order.
func keysOf(text string) (keys []string) {
	for _, w := range wordrank.Words(text) {
		keys = append(keys, w.Key)
	}
	return keys
}

// phrase reports whether words stand beside each other in a text.
func phrase(text, words []string) bool {
	if len(words) == 0 {
		return false
	}
	for i := range text {
		if i+len(words) <= len(text) && slices.Equal(text[i:i+len(words)], words) {
			return true
		}
	}
	return false
}
