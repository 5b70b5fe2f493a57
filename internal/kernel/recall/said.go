package recall

import (
	"regexp"
	"strings"

	"github.com/google/uuid"

	"agentruntime/internal/kernel/redact"
)

// Learned is something to remember of a message.
type Learned struct {
	Text    string
	Profile bool
	// Supersedes is the fact whose place it takes; nil for none.
	Supersedes *uuid.UUID
}

// Bounds of what rules find in one message.
const (
	mostSaid  = 5
	saidBytes = 300
)

// statement is a form in which customers say something about themselves. about is what it is about: a
// newer statement about the same takes the place of the older one. Where it is "", the first group says
// what it is about, or every statement stands for itself.
type statement struct {
	form    *regexp.Regexp
	about   string
	profile bool
}

// The forms, in English, German, French and Spanish. Each is explicit: the customer speaks of
// themselves, in the first person.
var statements = []statement{ //nolint:gochecknoglobals // a table
	{regexp.MustCompile(`(?i)\b(?:my name is|call me|ich hei(?:ß|ss)e|mein name ist|je m['’]appelle|mon nom est|me llamo|mi nombre es)\s+\S`), "name", true},
	{regexp.MustCompile(`(?i)\b(?:i live in|i moved to|ich wohne in|ich bin nach \S+ gezogen|j['’]habite|vivo en)\s+\S`), "home", true},
	{regexp.MustCompile(`(?i)\b(?:i work (?:at|as|for)|ich arbeite (?:bei|als)|je travaille|trabajo (?:en|como))\s+\S`), "work", true},
	{regexp.MustCompile(`(?i)\b(?:i (?:speak|would like to (?:speak|write) in)|please (?:write|answer|speak) (?:to me )?in|ich spreche|je parle|hablo)\s+\S`), "language", true},
	{regexp.MustCompile(`(?i)\bmy ((?:(?:favou?rite|preferred|default|delivery|billing|shipping|home|work|new|usual) )?[a-z]+(?: (?:address|number|size|day|time|date|method|plan|account|company|colou?r))?) (?:is|are)\s+\S`), "", true},
	{regexp.MustCompile(`(?i)\b(?:i (?:always |usually |really )?(?:prefer|like|love|hate|dislike|want to be)|i (?:don['’]?t|do not) (?:like|want|eat|drink|use)|i(?:['’]d| would) rather|ich (?:bevorzuge|mag|möchte immer|möchte nie)|je préfère|j['’]aime|je n['’]aime pas|prefiero|me gusta|no me gusta)\s+\S`), "", true},
	{regexp.MustCompile(`(?i)\b(?:please (?:always|never)|from now on|bitte (?:immer|nie)|ab jetzt|à partir de maintenant|a partir de ahora)\s+\S`), "", false},
	{regexp.MustCompile(`(?i)\b(?:remember (?:that|this|:)|please note that|keep in mind that|merk(?:e)? dir|vergiss nicht, dass|souviens-toi que|recuerda que)\s*\S`), "", false},
	{regexp.MustCompile(`(?i)\b(?:i have (?:an?|two|three|four|\d+)|i own|i drive|i(?:['’]m| am) (?:an?|from|vegetarian|vegan|retired|married)|ich habe (?:eine?n?|zwei|drei)|ich bin (?:vegetarier|veganer|aus))\b`), "", false},
}

var (
	// secret is never remembered by itself, passing is only of this conversation.
	secret  = regexp.MustCompile(`(?i)\b(password|passwort|mot de passe|contraseña|pin|cvv|cvc|iban|passcode|secret|token|(?:card|account|security|social security) (?:number|code))s?\b`)
	passing = regexp.MustCompile(`(?i)\b(order|problem|question|issue|refund|complaint|invoice|parcel|package)s?\b`)
	asks    = regexp.MustCompile(`[?？]\s*$`)
	ends    = regexp.MustCompile(`[.!?。！？](?:\s+|$)|\n+`)
)

// Said returns what a customer explicitly says about themselves in a message, in their own words: at most
// five sentences. known are the facts in use; one about the same is superseded. It takes no question, and
// nothing that looks like a secret.
func Said(message string, known []Fact) (list []Learned) {
	for _, text := range sentences(message) {
		about, s, is := stated(text)
		if !is || len(list) == mostSaid {
			continue
		}
		l := Learned{Text: text, Profile: s.profile}
		for _, f := range known {
			if of, _, was := stated(f.Text); about != "" && was && of == about && Canonical(f.Text) != Canonical(text) {
				l.Supersedes = &f.ID
				break
			}
		}
		list = append(list, l)
	}
	return list
}

// IsSecret reports whether a text is about a password, a code or the like, or has what looks like a
// secret in it.
func IsSecret(text string) bool { return secret.MatchString(text) || redact.Text(text) != text }

// stated returns what a sentence is about, "" where it stands for itself; is: it says something about
// the customer.
func stated(text string) (about string, s statement, is bool) {
	if len(text) > saidBytes || asks.MatchString(text) || passing.MatchString(text) || IsSecret(text) {
		return "", s, false
	}
	for _, s := range statements {
		found := s.form.FindStringSubmatch(text)
		switch {
		case found == nil:
			continue
		case s.about != "":
			return s.about, s, true
		case len(found) > 1:
			return Canonical(found[1]), s, true
		}
		return "", s, true
	}
	return "", s, false
}

// sentences divides a text.
func sentences(text string) (list []string) {
	from := 0
	for _, at := range append(ends.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		if s := strings.Join(strings.Fields(text[from:at[1]]), " "); s != "" {
			list = append(list, s)
		}
		from = at[1]
	}
	return list
}
