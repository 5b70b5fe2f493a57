package tooling

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/agents/roster"
	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/base/bytelru"
	maps "agentruntime/internal/maps/definition"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/models/model"
)

// Bounds of the tools that start other executions.
const (
	// startsBudget is how many bytes their definitions take, and mostStarts how many there are. Those that
	// fit the conversation come first.
	startsBudget = 8 << 10
	mostStarts   = 16
	// startsText is how many characters of a description a tool has, startsName of a name.
	startsText = 600
	startsName = 40
	// matchersBytes is what the words of Maps take in memory, of all agents.
	matchersBytes = 8 << 20
)

// Start is an execution that a tool starts: of a Map, in a version that was published when the tool was
// offered.
type Start struct {
	ID      uuid.UUID
	Version int32
}

// text returns the start as a Set keeps it. Patterns of verbs never match it.
func (s Start) text() string { return s.ID.String() + "@" + strconv.Itoa(int(s.Version)) }

func startOf(text string) (s Start, err error) {
	id, version, _ := strings.Cut(text, "@")
	if s.ID, err = uuid.Parse(id); err != nil {
		return s, fmt.Errorf("tooling: a stored tool: %w", err)
	}
	n, err := strconv.ParseInt(version, 10, 32)
	s.Version = int32(n)
	return s, err
}

// StartsDeps are the collaborators of Starts. All are required.
type StartsDeps struct {
	Maps   PublishedMaps
	Agents PublishedAgents
}

// PublishedAgents finds the agents that others may call.
type PublishedAgents interface {
	// PublishedOf returns the agents in the order of the ids. One that is deleted is left out.
	PublishedOf(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) ([]roster.Callable, error)
}

// PublishedMaps finds the Maps that can be started.
type PublishedMaps interface {
	// PublishedOf returns the published versions of Maps, in the order of the ids. One that has none, or
	// that is deleted, is left out.
	PublishedOf(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) ([]maps.Version, error)
}

// Starts offers the tools by which messages start Maps and ask other agents. It is safe for concurrent use.
type Starts struct {
	d        StartsDeps
	matchers *bytelru.Cache[[sha256.Size]byte, *agentloop.Matcher]
}

// NewStarts checks the collaborators.
func NewStarts(d StartsDeps) (*Starts, error) {
	if d.Maps == nil || d.Agents == nil {
		return nil, errors.New("tooling: the Maps and the agents are required")
	}
	matchers, err := bytelru.New[[sha256.Size]byte, *agentloop.Matcher](matchersBytes)
	return &Starts{d: d, matchers: matchers}, err
}

// Startable are the tools for what an agent may start, and what the model is told about them.
type Startable struct {
	tools  []offered
	Advice string
}

// Agents adds the tools by which an agent asks others; ids are those that it may ask. It costs a round
// trip where there are some.
func (s *Starts) Agents(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID, to Startable) (Startable, error) {
	if len(ids) == 0 {
		return to, nil
	}
	list, err := s.d.Agents.PublishedOf(ctx, tenant, ids)
	if err != nil {
		return to, err
	}
	names, size := map[string]bool{}, 0
	for _, agent := range list {
		if agent.Status == roster.Paused {
			continue
		}
		tool := agentTool(agent, names)
		if size += sizeOf(tool.Tool); size > startsBudget && len(names) > 0 || len(names) == mostStarts {
			break
		}
		names[tool.Tool.Name] = true
		to.tools = append(to.tools, tool)
	}
	return to, nil
}

// agentTool returns the tool that asks an agent.
func agentTool(a roster.Callable, taken map[string]bool) offered {
	about := "Asks the agent " + strconv.Quote(a.Name) + " to do something, and returns its reply. It works with tools of its own, and knows nothing of the conversation but what the message says."
	if a.Instructions != "" {
		about += " It is told: " + a.Instructions
	}
	return offered{
		Kind: AskAgent, Name: Start{a.ID, a.Version}.text(),
		Tool: model.Tool{
			Name: startName("ask_", a.Name, taken), Description: shorten(about, startsText),
			Schema: json.RawMessage(`{"properties":{"message":{"description":"What it is to do, with all that it needs to know.","type":"string"}},"required":["message"],"type":"object"}`),
		},
	}
}

// Offer returns the tools for the Maps of an agent. said are the customer's messages, the newest first:
// those that begin something else are matched with what the Maps are for, and an older one counts where
// the newer ones fit none. It costs a round trip where the agent has Maps.
func (s *Starts) Offer(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID, said []string) (out Startable, err error) {
	if len(ids) == 0 {
		return out, nil
	}
	list, err := s.d.Maps.PublishedOf(ctx, tenant, ids)
	if err != nil {
		return out, err
	}
	hits := s.hits(tenant, list, said)
	at := func(id uuid.UUID) int {
		return slices.IndexFunc(hits, func(h agentloop.Hit) bool { return h.ID == id.String() })
	}
	slices.SortStableFunc(list, func(a, b maps.Version) int {
		i, j := at(a.MapID), at(b.MapID)
		switch {
		case i == j:
			return 0
		case i < 0:
			return 1
		case j < 0:
			return -1
		default:
			return i - j
		}
	})
	names, size := map[string]bool{}, 0
	byID := map[string]string{}
	for _, v := range list {
		tool := mapTool(v.Definition, names)
		if size += sizeOf(tool.Tool); size > startsBudget && len(out.tools) > 0 || len(out.tools) == mostStarts {
			break
		}
		tool.Name = Start{v.MapID, v.Number}.text()
		names[tool.Tool.Name], byID[v.MapID.String()] = true, tool.Tool.Name
		out.tools = append(out.tools, tool)
	}
	out.Advice = startAdvice(hits, byID)
	return out, nil
}

// hits returns the Maps that fit what the customer has said last about any of them.
func (s *Starts) hits(tenant uuid.UUID, list []maps.Version, said []string) []agentloop.Hit {
	h := sha256.New()
	write(h, tenant.String())
	for _, v := range list {
		write(h, Start{v.MapID, v.Number}.text())
	}
	key := [sha256.Size]byte(h.Sum(nil))
	m, known := s.matchers.Get(key)
	if !known {
		subjects := make([]agentloop.Subject, len(list))
		for i, v := range list {
			d := v.Definition
			subjects[i] = agentloop.OfMap(v.MapID, d.Name, d.When, d.Examples, d.Keywords)
		}
		m = agentloop.NewMatcher(subjects)
		s.matchers.Add(key, m, m.Bytes(), nil)
	}
	for _, text := range said {
		if hits := m.Match(text, agentloop.ForStart); len(hits) > 0 {
			return hits
		}
	}
	return nil
}

// mapTool returns the tool that starts a Map. Its name differs from those that are taken.
func mapTool(d *mapdef.Definition, taken map[string]bool) offered {
	schema := d.TriggerSchema
	if schema == nil {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	p, err := tooldef.ParametersOf(schema, tooldef.OpenAI, schemaBudget)
	if err != nil {
		p = tooldef.Nothing()
	}
	about := "Starts the workflow " + strconv.Quote(d.Name) + ". " + d.Description
	if d.When != "" {
		about += " For: " + d.When
	}
	about = strings.TrimSpace(about) + " It may last longer than the conversation: its result then says that it runs."
	return offered{Kind: StartMap, Tool: model.Tool{Name: startName("start_", d.Name, taken), Description: shorten(about, startsText), Schema: p.Schema}}
}

func shorten(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// startName returns a name for a tool, made of a name of people's choice. No verb has such a name,
// because theirs have two underscores in a row.
func startName(prefix, name string, taken map[string]bool) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		letter := r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
		switch {
		case b.Len() == startsName:
		case letter:
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	made := strings.Trim(prefix+b.String(), "_")
	for n := 2; taken[made]; n++ {
		made = strings.TrimRight(prefix+b.String(), "_") + "_" + strconv.Itoa(n)
	}
	return made
}

// startAdvice returns what the model is told of the Maps that fit.
func startAdvice(hits []agentloop.Hit, tools map[string]string) string {
	if len(hits) == 0 {
		return ""
	}
	var names []string
	for _, h := range agentloop.Close(hits) {
		if name := tools[h.ID]; name != "" {
			names = append(names, name)
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return "The customer may want what the tool " + names[0] + " starts. Where they do, ask for what it still needs, and start it once."
	default:
		return "The customer may want what any of these tools starts: " + strings.Join(names, ", ") + ". Ask which one they mean before you start any of them."
	}
}
