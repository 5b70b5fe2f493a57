package recall

import (
	_ "embed" // the words
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
	// likes: the group named value is what they like, and says nothing of them where it means what is
	// being talked about.
	likes bool
	// kind is what the customer wants by saying it.
	kind kind
}

// kind is what a customer wants by a statement.
type kind int

const (
	tells kind = iota // something about themselves
	wants             // that something is always done
	asked             // that something is remembered
)

// form returns the form of a sentence that begins so, after a greeting and the like. In it, \p{Lu} is an
// upper-case letter, and all other letters are of any case.
func form(text string) *regexp.Regexp {
	const first = `(?:(?:hello|hi|hey|also|and|btw|by the way|please|hallo|übrigens|und|bitte|bonjour|au fait|et|hola|por cierto|y)[,!:]? +)*`
	return regexp.MustCompile(`(?i)^` + first + `(?:` + strings.ReplaceAll(text, `\p{Lu}`, `(?-i:\p{Lu})`) + `)`)
}

// Parts of forms.
const (
	nameWord = `\p{Lu}[\p{L}.'’-]*`
	thing    = ` +(?P<value>\S.*)`
	onlyThat = `(?:(?:,| (?:named|called|and|who|with|namens|und|qui|et|que|y)\b).*)?[.!]?$`
)

// The forms, in English, German, French and Spanish. Each is explicit: the sentence begins with the
// customer, in the first person, or with what they ask for.
var statements = []statement{ //nolint:gochecknoglobals // a table
	{form: form(`(?:my name is|ich hei(?:ß|ss)e|mein name ist|je m['’]appelle|mon nom est|me llamo|mi nombre es) +` + nameWord), about: "name", profile: true},
	{form: form(`(?:call me|nenn mich|nennen sie mich|appelez-moi|appelle-moi|llámame|llámeme) +` + nameWord + `(?: +(?:` + nameWord + `|van|von|der|de|du|la))*(?:,? +(?:please|bitte|por favor))?[.!]?$`), about: "name", profile: true},
	{form: form(`(?:i (?:now )?live in(?: the)?|i(?:['’]ve| have)? moved to|ich wohne (?:jetzt )?in|ich bin nach|j['’]habite (?:à|au|en)|vivo en) +\p{Lu}`), about: "home", profile: true},
	{form: form(`(?:i work (?:as an? +\p{L}|(?:at|for) +\p{Lu})|ich arbeite (?:als|bei) +\p{Lu}|je travaille (?:comme +\p{L}|chez +\p{Lu})|trabajo (?:como +\p{L}|en +\p{Lu}|para +\p{Lu}))`), about: "work", profile: true},
	{form: form(`(?:(?:i speak|ich spreche) (?:only |nur )?\p{Lu}|(?:always )?(?:write|answer|reply|speak)(?: to me)? in +\p{Lu}|je parle (?:français|anglais|allemand|espagnol|italien|portugais|néerlandais|arabe|turc|polonais|russe|chinois)|hablo (?:español|inglés|francés|alemán|italiano|portugués|catalán|árabe|chino))`), about: "language", profile: true},
	{form: form(`my ((?:favou?rite|preferred) +\p{L}+(?: +\p{L}+)?) (?:is|are)` + thing), profile: true, likes: true},
	{form: form(`(?:my|meine?|mon|mi) ((?:(?:new|delivery|billing|shipping|home|work|postal|neue) +)*(?:address|adresse|lieferadresse|rechnungsadresse|anschrift)|adresse de livraison|dirección(?: de entrega)?) (?:is|ist|lautet|est|es)(?: now)? +(?:\p{Lu}|\d)`), profile: true},
	{form: form(`my ((?:shoe|hat|shirt|dress|ring|coat|trouser|glove) size) is(?: now)? +(?:\d|x*[sml]\b)`), profile: true},
	{form: form(`my ((?:phone|telephone|mobile) number) is(?: now)? +[+\d]`), profile: true},
	{form: form(`my (e-?mail(?: address)?) is(?: now)? +\S+@\S`), profile: true},
	{form: form(`i (?:always |usually |really |generally )?(?:(?:prefer|like|love|enjoy|dislike|hate)|(?:don['’]?t|do not) (?:like|eat|drink)|never (?:eat|drink))` + thing), profile: true, likes: true},
	{form: form(`(?:ich (?:bevorzuge|mag)|je préfère|j['’]aime|je n['’]aime pas|prefiero|(?:no )?me gustan?)` + thing), profile: true, likes: true},
	{form: form(`i(?:['’]d like| would like| want) to be (?:called|addressed|contacted|reached|notified|informed) +(?:by|via|as|in|on|only|before) +\S`), profile: true},
	{form: form(`i have (?:an?|two|three|four|five|\d) +(?:\p{L}+ +)?(?:dogs?|cats?|birds?|horses?|rabbits?|parrots?|pets?|child|children|kids?|bab(?:y|ies)|sons?|daughters?|gardens?|cars?|bikes?|bicycles?|motorbikes?|boats?)` + onlyThat)},
	{form: form(`ich habe (?:eine?n?|zwei|drei|vier) +(?:\p{L}+ +)?(?:hunde?|katzen?|vögel|pferde?|kind(?:er)?|sohn|söhne|tochter|töchter|garten|autos?|fahrrad|fahrräder)` + onlyThat)},
	{form: form(`(?:j['’]ai (?:une?|deux|trois|quatre) +(?:chiens?|chats?|chevaux|enfants?|fils|filles?|jardin|voitures?|vélos?)|tengo (?:una?|dos|tres|cuatro) +(?:perr[oa]s?|gat[oa]s?|caballos?|hij[oa]s?|jardín|coches?|bicicletas?))` + onlyThat)},
	{form: form(`(?:i(?:['’]m| am) (?:a )?(?:vegetarian|vegan|retired|married)|ich bin (?:vegetarier(?:in)?|veganer(?:in)?|rentner(?:in)?|verheiratet)|je suis (?:végétarien(?:ne)?|végane?|retraitée?|mariée?)|soy (?:vegetarian[oa]|vegan[oa]|jubilad[oa]))` + onlyThat)},
	{form: form(`(?:please (?:always|never)|bitte (?:immer|nie|niemals)|from now on,? please|ab jetzt bitte|à partir de maintenant, (?:merci de|veuillez)|a partir de ahora, por favor,?) +\S`), kind: wants},
	{form: form(`(?:remember(?: that|:| this:)|keep in mind that|merke? dir|vergiss nicht, dass|souviens-toi que|souvenez-vous que|recuerda que|recuerde que),? *\S`), kind: asked},
}

//go:embed words.txt
var wordsFile string

// anyOf returns a pattern that finds one of the words of a list in words.txt. \b knows no letters but
// those of ASCII.
func anyOf(list string) *regexp.Regexp {
	_, words, is := strings.Cut(wordsFile, "["+list+"]\n")
	if !is {
		panic("recall: words.txt has no list " + list)
	}
	words, _, _ = strings.Cut(words, "\n[")
	return regexp.MustCompile(`(?i)(?:^|[^\p{L}\p{N}])(?:` + strings.Join(strings.Fields(words), "|") + `)(?:[^\p{L}\p{N}]|$)`)
}

// What no statement is remembered with, by its kind.
//
//nolint:gochecknoglobals // immutable tables
var (
	// secret is never remembered by itself, passing is only of this conversation.
	secret  = regexp.MustCompile(`(?i)\b(password|passwort|mot de passe|contraseña|pin|cvv|cvc|iban|passcode|secret|token|(?:card|account|security|social security) (?:number|code))s?\b`)
	passing = anyOf("passing")
	// moment is what is wrong, or so only for now: it complains, or will not be true in the next conversation.
	moment = anyOf("moment")
	// others are those who are spoken to: what is said of them says nothing of the customer.
	others = anyOf("others")
	// sensitive is of health, religion, politics, origin and sexual life. Customers must ask for it to be
	// remembered.
	sensitive = anyOf("sensitive")
	// unlike begins what is no thing that someone likes at all times.
	unlike = anyOf("unlike")
	usual  = regexp.MustCompile(`(?i)^to (?:be|pay|receive|get|use|talk|speak|write|shop|read|travel|eat|drink|sit)\b`)
	asks   = regexp.MustCompile(`[?？]\s*$`)
	ends   = regexp.MustCompile(`[.!?。！？](?:\s+|$)|\n+`)
)

// Said returns what a customer explicitly says about themselves in a message, in their own words: at most
// five sentences. known are the facts in use; one about the same is superseded. It takes no question, no
// complaint, nothing that looks like a secret, and nothing of health, religion, politics, origin and
// sexual life that the customer does not ask to have remembered.
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
	if len(text) > saidBytes || asks.MatchString(text) {
		return "", s, false
	}
	for _, s := range statements {
		found := s.form.FindStringSubmatch(text)
		if found == nil || !s.holds(text, found) {
			continue
		}
		if s.about == "" && len(found) > 1 && s.form.SubexpNames()[1] == "" {
			return Canonical(found[1]), s, true
		}
		return s.about, s, true
	}
	return "", s, false
}

// holds reports whether a sentence of the form says something that is to be remembered.
func (s statement) holds(text string, found []string) bool {
	said := text
	if s.kind == wants {
		said = text[len(found[0]):] // "from now on" itself is of the moment
	}
	switch {
	case passing.MatchString(text), IsSecret(text):
		return false
	case s.kind != asked && (moment.MatchString(said) || sensitive.MatchString(text)), s.kind == tells && others.MatchString(text):
		return false
	case !s.likes:
		return true
	}
	value := found[s.form.SubexpIndex("value")]
	first, _, _ := strings.Cut(value, " ")
	return usual.MatchString(value) || !unlike.MatchString(first)
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
