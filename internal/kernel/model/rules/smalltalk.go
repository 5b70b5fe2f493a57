package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"agentruntime/internal/kernel/model"
)

var (
	hello  = regexp.MustCompile(`(?i)^\W*(hello|hi|hey|hallo|good (morning|day|afternoon|evening)|bonjour|hola|ciao|moin|servus)( there| again)?\W*$`)
	thanks = regexp.MustCompile(`(?i)^\W*((many )?thanks|thank you|thx|danke|merci|gracias|great|perfect)( (very|so) much| a lot| again)?\W*$`)
	bye    = regexp.MustCompile(`(?i)^\W*(good ?bye|bye( bye)?|see you( later)?|tsch[uü]ss|ciao ciao)\W*$`)
	able   = regexp.MustCompile(`(?i)^\W*(help( me)?|what can (you|i) do( here| for me)?|(what|how) (do|can) you (do|help)( me)?|who are you|what are you|how does this work|menu|options)\W*$`)
)

// smallTalk returns the answer to a text that wants no call; is is false for any other.
func smallTalk(p phrases, tools []model.Tool, text string) (answer string, is bool) {
	text = strings.TrimSpace(text)
	switch {
	case hello.MatchString(text) || isOne("hellos", text, false):
		return p.of["hello"] + " " + p.of["iam"] + abilities(p, tools), true
	case able.MatchString(text):
		return p.of["iam"] + abilities(p, tools), true
	case thanks.MatchString(text) || isOne("thanks", text, false):
		return p.of["welcome"], true
	case bye.MatchString(text) || isOne("bye", text, false):
		return p.of["bye"], true
	}
	return "", false
}

// notUnderstood is the answer where no tool fits.
func notUnderstood(p phrases, tools []model.Tool) string {
	return p.of["lost"] + " " + p.of["iam"] + abilities(p, tools)
}

// mostOffered is how many tools an answer names.
const mostOffered = 8

// abilities says what the model can do: what reads first, then what writes, with an example.
func abilities(p phrases, tools []model.Tool) string {
	var reads, writes []string
	example := ""
	for _, tool := range tools {
		if own(tool.Name) {
			continue
		}
		c := candidateOf(tool)
		if c.writes {
			writes = append(writes, inWords(c.verb()))
			continue
		}
		reads = append(reads, inWords(c.verb()))
		if example == "" {
			example = c.example()
		}
	}
	most := max(mostOffered/2, mostOffered-len(writes))
	names := slices.Concat(reads[:min(len(reads), most)], writes)
	if len(names) == 0 {
		return " I have no tools here, so I can do nothing."
	}
	all := len(reads) + len(writes)
	names = names[:min(len(names), mostOffered)]
	list := strings.Join(names, ", ")
	if more := all - len(names); more > 0 && p.code == english {
		list += fmt.Sprintf(", and %d more", more)
	} else if more > 0 {
		list += ", …"
	}
	said := " " + p.say("can", list)
	if example != "" {
		return said + " " + p.say("example", example)
	}
	if p.code == english {
		return said + " Please name one, with the ids that it needs."
	}
	return said
}

// own reports whether a tool is one of the service's own, which no customer names. A call of escalate
// has a rule of its own.
func own(name string) bool {
	return name == escalate || name == "search_verbs" || name == "describe_verb" || strings.HasPrefix(name, "tool__")
}

// example returns a message that calls the tool, where it needs one id and its schema shows one.
func (c candidate) example() string {
	if len(c.required) != 1 || !isID(c.required[0]) {
		return ""
	}
	id := idLike.FindString(c.props[c.required[0]].Description)
	if id == "" {
		return ""
	}
	words := inWords(c.verb())
	return capital(words) + " " + id
}
