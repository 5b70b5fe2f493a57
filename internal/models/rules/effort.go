package rules

import (
	"regexp"
	"strings"
)

// What of one request is looked at. Schemas, results and goals are written by others, and what they cost
// must not grow faster than they do.
const (
	// mostGoal is how many bytes of a goal are read: all words of so many are compared.
	mostGoal = 2 << 10
	// mostText is how many bytes of a text are searched for values.
	mostText = 64 << 10
	// mostIDs is how many ids of a text may be arguments.
	mostIDs = 500
	// mostEffort is what one request may cost. A unit is about one value that is compared, or some dozens
	// of bytes that are read: a tenth of a microsecond. Requests of shops take some thousands.
	mostEffort = 5_000_000
)

// effort is what is left of what one request may cost.
type effort struct {
	left int
	// over: there is none left. What is answered then is wrong.
	over bool
}

// spend takes what a step costs, and reports whether there was as much.
func (e *effort) spend(units int) bool {
	e.left -= units
	e.over = e.left < 0
	return !e.over
}

// beginning returns the begin of a text, of at most so many bytes and up to the end of a word: half an id
// is another one.
func beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:max(0, strings.LastIndexAny(text[:most], " \n"))]
}

// scan is what a text has for arguments.
type scan struct {
	text, lower string
	ids         []string
	quotes      [][]string
	// rest is the text without ids and addresses.
	rest string
}

// scanOf reads a text for arguments.
func (e *effort) scanOf(text string) *scan {
	text = beginning(text, mostText)
	const passes = 3 // units for a byte: five patterns are looked for
	if !e.spend(passes * len(text)) {
		return &scan{}
	}
	return &scan{
		text: text, lower: strings.ToLower(text), ids: idLike.FindAllString(text, mostIDs), quotes: quoted.FindAllStringSubmatch(text, mostIDs),
		rest: email.ReplaceAllString(idLike.ReplaceAllString(text, " "), " "),
	}
}

// matches looks for a pattern that is made for one request.
func (e *effort) matches(pattern, text string) []int {
	const compiling = 100
	if !e.spend(compiling + len(text)) {
		return nil
	}
	return regexp.MustCompile(pattern).FindStringSubmatchIndex(text)
}
