package tooling

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/google/uuid"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/base/bytelru"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/models/model"
	"agentruntime/internal/provider/catalog"
)

// Bounds of what a model is offered.
const (
	// budget is how many bytes the definitions of a request take, about 6,000 tokens, and mostTools how
	// many there are. An agent with more looks for them.
	budget    = 24 << 10
	mostTools = 60
	// schemaBudget is how many bytes the schema of one tool has, describedBudget that of a verb which
	// the model has asked for.
	schemaBudget    = 4 << 10
	describedBudget = 16 << 10
	// An agent that looks for verbs is offered those that fit the message best, as many as take bestBudget
	// bytes: about 30. The rest of the budget is for what it finds. mostBest is how many verbs of each
	// procedure come first.
	mostBest   = 8
	bestBudget = budget / 4 * 3
	// shelfBytes is what the verbs to choose from take in memory, of all tenants.
	shelfBytes = 64 << 20
)

// Verbs is what a Toolbox reads of the catalog.
type Verbs interface {
	ToolProviders(ctx context.Context, tenant uuid.UUID) ([]catalog.ToolProvider, error)
	ToolVerbs(ctx context.Context, tenant uuid.UUID, providers []catalog.ToolProvider, most int) ([]catalog.ToolVerb, error)
	Schemas(ctx context.Context, tenant uuid.UUID, verbs []catalog.Meta) (map[catalog.Hash]json.RawMessage, error)
}

// Names gives arguments the names that the verb has for them.
type Names interface {
	Named(ctx context.Context, tenant uuid.UUID, name verb.Name, args json.RawMessage) (json.RawMessage, error)
}

// ToolboxDeps are the collaborators of a Toolbox. All but Platform are required.
type ToolboxDeps struct {
	Catalog Verbs
	Names   Names
	Tools   *Service
	// Platform are the service's own tools that agents may call, with names such as tool:name.
	Platform []model.Tool
}

// Toolbox offers tools to the models of agents. It is safe for concurrent use.
type Toolbox struct {
	d       ToolboxDeps
	shelves *bytelru.Cache[shelfKey, *shelf]
}

// NewToolbox returns a toolbox.
func NewToolbox(d ToolboxDeps) (*Toolbox, error) {
	if d.Catalog == nil || d.Names == nil || d.Tools == nil {
		return nil, errors.New("tooling: a catalog, names and a service for tools are required")
	}
	shelves, err := bytelru.New[shelfKey, *shelf](shelfBytes)
	return &Toolbox{d: d, shelves: shelves}, err
}

// Offer says for whom and for what tools are offered.
type Offer struct {
	Tenant uuid.UUID
	// Tools and SOPs are those of the agent's definition.
	Tools agentdef.Tools
	SOPs  []agentdef.SOP
	// Matched are the slugs of the procedures that fit the message.
	Matched []string
	// Message is the text whose words choose among many verbs.
	Message string
	// Starts are the tools that start other executions.
	Starts Startable
	// Platform are the service's own tools that only this message may have, beside those of all.
	Platform []model.Tool
}

// Offer returns what a model is offered: the tool to escalate, what it may start, the platform's tools, and the verbs
// that the agent may call, those of connected providers first. A verb that fits a pattern of a
// procedure is offered only while the procedure fits; the procedure also allows it. What Deny names is
// never offered. Where the definitions would take more than 24 KiB or there are more than 60, the model
// gets tools to look for verbs, with the verbs of the procedures and then those that fit the message best, as
// many as take 18 KiB.
// SERVICE_UNAVAILABLE where the tenant's turn does not come in time.
func (b *Toolbox) Offer(ctx context.Context, o Offer) (Set, error) {
	shelf, err := b.shelf(ctx, o)
	if err != nil {
		return Set{}, err
	}
	own := Set{stored{Tools: slices.Concat([]offered{{Kind: Escalate, Tool: escalateTool()}}, o.Starts.tools, b.platform(o))}}
	if list := shelf.offered(o.Matched); len(list)+len(own.s.Tools) <= mostTools {
		set := own.clone()
		tools, err := b.definitions(ctx, o.Tenant, shelf, list, schemaBudget)
		if err != nil {
			return Set{}, err
		}
		if set.s.Tools = append(set.s.Tools, tools...); set.size() <= budget {
			return set, nil
		}
	}
	own.s.Searches = true
	own.s.Tools = append(own.s.Tools, offered{Kind: SearchVerbs, Tool: searchTool()}, offered{Kind: DescribeVerb, Tool: describeTool()})
	var best []int32
	for _, slug := range o.Matched {
		of := shelf.of[slug]
		best = append(best, of[:min(len(of), mostBest)]...)
	}
	for _, place := range slices.Concat(shelf.rank(o.Message, mostTools, o.Matched), shelf.offered(o.Matched)) {
		if len(best) >= mostTools {
			break
		}
		if !slices.Contains(best, place) {
			best = append(best, place)
		}
	}
	tools, err := b.definitions(ctx, o.Tenant, shelf, best, schemaBudget)
	if err != nil {
		return Set{}, err
	}
	for _, t := range tools {
		if own.size()+sizeOf(t.Tool) <= bestBudget && len(own.s.Tools) < mostTools {
			own.s.Tools = append(own.s.Tools, t)
		}
	}
	return own, nil
}

// platform returns the platform's tools that the agent may call.
func (b *Toolbox) platform(o Offer) (list []offered) {
	for _, t := range slices.Concat(b.d.Platform, o.Platform) {
		if always, procedures := o.allowed(t.Name); always || anyOf(procedures, o.Matched) {
			name := t.Name
			t.Name = toolName(name)
			list = append(list, offered{Kind: Platform, Tool: t, Name: name})
		}
	}
	return list
}

// Resolve says what a call of the model means; see Set.Resolve. Arguments of a verb get the names that
// the verb has for them: VALIDATION_ERROR where one is there by both of its names.
func (b *Toolbox) Resolve(ctx context.Context, tenant uuid.UUID, s Set, call model.ToolCall) (Resolved, error) {
	r, err := s.Resolve(call)
	if err != nil || r.Kind != CallVerb {
		return r, err
	}
	r.Args, err = b.d.Names.Named(ctx, tenant, r.Verb, r.Args)
	return r, err
}

// definitions returns verbs as tools, their schemas within so many bytes. One that was replaced since
// the shelf was built is left out. It costs no round trip for what was written before, otherwise one.
func (b *Toolbox) definitions(ctx context.Context, tenant uuid.UUID, s *shelf, places []int32, most int) ([]offered, error) {
	form := Form{Format: tooldef.OpenAI, Budget: most}
	have := map[catalog.Hash]tooldef.Parameters{}
	var missing []catalog.Meta
	for _, place := range places {
		v := s.verbs[place]
		if p, known := b.d.Tools.kept.Get(key{v.SchemaHash, form}); known {
			have[v.SchemaHash] = p
		} else {
			missing = append(missing, catalog.Meta{Name: v.Name, SchemaHash: v.SchemaHash, Shared: v.Shared})
		}
	}
	if len(missing) > 0 {
		schemas, err := b.d.Catalog.Schemas(ctx, tenant, missing)
		if err != nil {
			return nil, err
		}
		missing = slices.DeleteFunc(missing, func(m catalog.Meta) bool { return schemas[m.SchemaHash] == nil })
		err = b.d.Tools.eachInTurn(ctx, tenant, len(missing), func(i int) {
			hash := missing[i].SchemaHash
			have[hash] = b.d.Tools.write(hash, schemas[hash], form)
		})
		if err != nil {
			return nil, err
		}
	}
	tools := make([]offered, 0, len(places))
	for _, place := range places {
		v := s.verbs[place]
		if p, known := have[v.SchemaHash]; known {
			tools = append(tools, offered{Kind: CallVerb, Tool: definition(v.ToolVerb, p), Name: v.Name.String(), Risk: v.Risk, Operation: v.Operation})
		}
	}
	return tools, nil
}

func definition(v catalog.ToolVerb, p tooldef.Parameters) model.Tool {
	of := tooldef.Verb{Name: v.Name, Description: v.Description, Operation: v.Operation, Idempotency: v.Idempotency, Risk: v.Risk}
	made, _ := of.Tool(tooldef.OpenAI, p).(tooldef.OpenAITool)
	return model.Tool{Name: made.Function.Name, Description: made.Function.Description, Schema: made.Function.Parameters, Operation: string(v.Operation)}
}
