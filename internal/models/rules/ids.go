package rules

import (
	"regexp"
	"slices"
	"strings"
)

// wordBeforeID is what people write between a thing and its number: order 1001, order no. 1001,
// order #1001.
const wordBeforeID = `\s*(?:id|number|no\.?|nr\.?)?\s*[:#]?\s*`

// notANumber is what makes digits an amount, not an id.
var notANumber = regexp.MustCompile(`(?i)^(?:[.,][0-9]|\s*(?:dollars?|usd|euros?|eur|pounds?|gbp|cents?|[$€£%]))`)

// things returns the words by which people name what an argument is the id of: order for order_id, and
// refund for the id of get_refund.
func (c candidate) things(name string) []string {
	of := strings.TrimSuffix(inWords(name), " id")
	if name == "id" {
		_, of, _ = strings.Cut(c.words, " ")
	}
	return strings.Fields(of)
}

// bareID returns the id that a text names by its digits only, as the argument's description writes ids:
// with "such as ord_1001" in it, order 1002 is ord_1002. The rest is the text without it.
// lower has all words of the text in small letters.
func (c candidate) bareID(e *effort, name, text, lower string) (id, rest string, found bool) {
	for _, thing := range c.things(name) {
		if !strings.Contains(lower, thing) {
			continue
		}
		at := e.matches(`(?i)\b`+regexp.QuoteMeta(thing)+wordBeforeID+`([0-9]{2,})\b`, text)
		if at == nil || notANumber.MatchString(text[at[1]:]) {
			continue
		}
		return c.props[name].asID(text[at[2]:at[3]]), text[:at[2]] + " " + text[at[1]:], true
	}
	return "", text, false
}

var digits = regexp.MustCompile(`^#?[0-9]+$`)

// asID returns digits as the argument's description writes ids. Any other text stays as it is.
func (p property) asID(text string) string {
	text = strings.TrimSpace(text)
	if !digits.MatchString(text) {
		return text
	}
	text = strings.TrimPrefix(text, "#")
	example := idLike.FindString(p.Description)
	if cut := strings.LastIndexAny(example, "_-"); cut >= 0 && digits.MatchString(example[cut+1:]) {
		return example[:cut+1] + text
	}
	return text
}

// meant returns the text of a wish with the words that it means without saying them: what its ids are
// of, so that "Where is ord_1001?" is about an order.
func meant(e *effort, tools []candidate, text string) string {
	more := []string{text}
	for _, id := range idLike.FindAllString(text, mostIDs) {
		letters := lettersOf(id)
		if len(letters) < 2 || !e.spend(len(tools)) {
			continue
		}
		for _, c := range tools {
			i := slices.IndexFunc(c.ids, func(name string) bool { return strings.HasPrefix(inWords(name), letters[:min(len(letters), 3)]) })
			if i >= 0 {
				more = append(more, c.things(c.ids[i])...)
				break
			}
		}
	}
	return strings.Join(more, " ")
}

var letters = regexp.MustCompile(`^[A-Za-z]*`)

func lettersOf(id string) string { return strings.ToLower(letters.FindString(id)) }
