package agentdef

import (
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"agentruntime/internal/base/glob"
	"agentruntime/internal/base/verb"
)

// maxPattern is the longest pattern, in characters.
const maxPattern = 255

// patternText is the form of a pattern: that of a verb's name, with *.
var patternText = regexp.MustCompile(`^[a-z0-9*][a-z0-9_*-]*:[a-z0-9*][a-z0-9_*-]*$`)

// patternFault returns what is wrong with a pattern over names of verbs, "" where nothing is.
func patternFault(pattern string) string {
	if len(pattern) > maxPattern || !patternText.MatchString(pattern) {
		return "must be <provider>:<verb_name>, with * for any text, such as shop:* or *:get_*"
	}
	provider, name, _ := strings.Cut(pattern, ":")
	provider, name = strings.ReplaceAll(provider, "*", ""), strings.ReplaceAll(name, "*", "")
	// A verb is offered as the tool <provider>__<name>.
	if len(provider) > verb.MaxSlug || len(provider)+len("__")+len(name) > verb.MaxToolName || strings.Contains(pattern[:strings.Index(pattern, ":")], "__") {
		return "can never match the name of a verb"
	}
	return ""
}

// Allows reports whether the agent may call the verb provider:verb_name, or the platform's
// tool:name: a pattern of Allow has it, and none of Deny.
func (t Tools) Allows(name string) bool {
	return Matches(t.Allow, name) && !Matches(t.Deny, name)
}

// agentPrefix begins the entries of allow that name another agent by its id.
const agentPrefix = "agent:"

// platformPrefix begins the names of the platform's own tools.
const platformPrefix = "tool:"

// MaxAgentDepth is how many agents may call each other in a row, the first included.
const MaxAgentDepth = 3

// Agents returns the agents that the agent may call, each once. A pattern of deny takes them away as it
// does verbs.
func (t Tools) Agents() (ids []uuid.UUID) {
	for _, entry := range t.Allow {
		if id, named := AgentOf(entry); named && !slices.Contains(ids, id) && !Matches(t.Deny, entry) {
			ids = append(ids, id)
		}
	}
	return ids
}

// NamedVerbs returns the entries of allow that name a verb in full, without *, by their positions.
func (t Tools) NamedVerbs() map[int]verb.Name {
	named := map[int]verb.Name{}
	for i, entry := range t.Allow {
		if strings.Contains(entry, "*") || strings.HasPrefix(entry, agentPrefix) || strings.HasPrefix(entry, platformPrefix) {
			continue
		}
		if name, err := verb.Parse(entry); err == nil {
			named[i] = name
		}
	}
	return named
}

// OnlyVerbs returns the tools without those of the platform and without other agents.
func (t Tools) OnlyVerbs() Tools {
	t.Deny = append(slices.Clip(t.Deny), platformPrefix+"*")
	t.Allow = slices.DeleteFunc(slices.Clone(t.Allow), func(entry string) bool { return strings.HasPrefix(entry, agentPrefix) })
	return t
}

// AgentOf returns the agent that an entry of allow names; named is false for a pattern.
func AgentOf(entry string) (id uuid.UUID, named bool) {
	name, named := strings.CutPrefix(entry, agentPrefix)
	id, err := uuid.Parse(name)
	return id, named && err == nil && id.String() == name
}

// Matches reports whether one of the patterns has the name of a verb.
func Matches(patterns []string, name string) bool {
	provider, rest, ok := strings.Cut(name, ":")
	if !ok {
		return false
	}
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		p, n, _ := strings.Cut(pattern, ":")
		return glob.Match(p, provider) && glob.Match(n, rest)
	})
}
