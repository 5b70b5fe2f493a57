package tooling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/glob"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
)

// The rules of an Adviser's warnings.
const (
	ruleUnknownTool  = "unknown_tool"
	ruleKeepsNothing = "keeps_nothing"
	ruleManyTools    = "many_tools"
	ruleNoGuard      = "no_guard"
)

// nearMost is how many entries of allow that have no verb are compared with the catalog: each costs up to
// three statements.
const nearMost = 3

// CatalogNames is what an Adviser reads of the catalog, besides what its Toolbox does.
type CatalogNames interface {
	Near(ctx context.Context, tenant uuid.UUID, name verb.Name) (catalog.Meant, error)
	KnownProvider(ctx context.Context, tenant uuid.UUID, slug string) (known bool, meant string, err error)
	// TrustedVerbs returns the verbs whose answers are the tenant's own words.
	TrustedVerbs(ctx context.Context, tenant uuid.UUID) (map[verb.Name]bool, error)
}

// Guards says whether a policy of the tenant looks at what an agent has read.
type Guards interface {
	HoldsTainted(ctx context.Context, tenant uuid.UUID) (bool, error)
}

// AdviserDeps are the collaborators of an Adviser. All are required.
type AdviserDeps struct {
	Toolbox  *Toolbox
	Catalog  CatalogNames
	Policies Guards
}

// Adviser tells the author of an agent what they may not have meant. It is safe for concurrent use.
type Adviser struct{ d AdviserDeps }

// NewAdviser returns an adviser.
func NewAdviser(d AdviserDeps) (*Adviser, error) {
	if d.Toolbox == nil || d.Catalog == nil || d.Policies == nil {
		return nil, errors.New("tooling: a toolbox, a catalog and policies are required")
	}
	return &Adviser{d: d}, nil
}

// Warnings returns advice about a definition as of now. An agent may be made before its provider and its
// policies, so none of it is a fault. What cannot be read is left out: the change is made already.
func (a *Adviser) Warnings(ctx context.Context, tenant uuid.UUID, d *agentdef.Definition) []fault.Detail {
	warnings := []fault.Detail{}
	if choice := cmp.Or(d.Models.Summarizer, d.Models.Worker); d.Memory.Customer == agentdef.MemoryAuto && !agentloop.IsLanguageModel(choice) {
		warnings = append(warnings, fault.Detail{
			Path: "/memory/customer", Rule: ruleKeepsNothing,
			Message: "keeps nothing with builtin:rules, which is no language model. Give the agent a summarizer that is a language model",
		})
	}
	offer := Offer{Tenant: tenant, Tools: d.Tools, SOPs: d.SOPs}
	verbs, err := a.d.Toolbox.shelf(ctx, offer)
	if err != nil {
		return warnings
	}
	warnings = append(warnings, a.unknown(ctx, offer, verbs)...)
	if d.ExecutionMode == agentdef.WorkflowOnly {
		return warnings // its Map has the tools
	}
	for _, advise := range []func(context.Context, Offer, *shelf) (string, string, error){a.many, a.unguarded} {
		if rule, message, err := advise(ctx, offer, verbs); err == nil && message != "" {
			warnings = append(warnings, fault.Detail{Path: "/tools/allow", Rule: rule, Message: message})
		}
	}
	return warnings
}

// unknown tells of the entries of allow that fit no verb which the agent may call.
func (a *Adviser) unknown(ctx context.Context, o Offer, s *shelf) (warnings []fault.Detail) {
	for i, entry := range o.Tools.Allow {
		if !ofVerbs(entry) || slices.ContainsFunc(s.verbs, func(it item) bool { return agentdef.Matches([]string{entry}, it.Name.String()) }) {
			continue
		}
		message := "is no verb of the catalog that the agent may call"
		if strings.Contains(entry, "*") {
			message = "fits no verb of the catalog that the agent may call"
		}
		if len(warnings) < nearMost {
			message += a.meant(ctx, o.Tenant, entry)
		}
		warnings = append(warnings, fault.Detail{Path: "/tools/allow/" + strconv.Itoa(i), Rule: ruleUnknownTool, Message: message})
	}
	return warnings
}

// ofVerbs reports whether an entry of allow is about verbs only, not about the service's own tools or other
// agents.
func ofVerbs(entry string) bool {
	provider, _, _ := strings.Cut(entry, ":")
	_, agent := agentdef.AgentOf(entry)
	return !agent && !glob.Match(provider, verb.ReservedSlug)
}

// meant returns what an entry of allow may mean, as the end of a sentence; "" where nothing is like it.
func (a *Adviser) meant(ctx context.Context, tenant uuid.UUID, entry string) string {
	if name, err := verb.Parse(entry); err == nil {
		if m, err := a.d.Catalog.Near(ctx, tenant, name); err == nil && m.Text() != "" {
			return "." + m.Text()
		}
		return ""
	}
	slug, _, _ := strings.Cut(entry, ":")
	if known, provider, err := a.d.Catalog.KnownProvider(ctx, tenant, slug); err == nil && !known && !strings.Contains(slug, "*") {
		return "." + catalog.Meant{Unknown: slug, Provider: provider}.Text()
	}
	return ""
}

// many tells that a model is not shown all verbs at once.
func (a *Adviser) many(ctx context.Context, o Offer, s *shelf) (rule, message string, err error) {
	set, err := a.d.Toolbox.Offer(ctx, o)
	if err != nil || !set.s.Searches {
		return ruleManyTools, "", err
	}
	shown := 0
	for _, t := range set.s.Tools {
		if t.Kind == CallVerb {
			shown++
		}
	}
	return ruleManyTools, fmt.Sprintf(
		"allows %d verbs, and a model is shown about %d of them at once: those that fit the message best. It looks for others with search_verbs. Name fewer, or give the tools of rare tasks to procedures",
		len(s.offered(nil)), shown), nil
}

// unguarded tells that the agent may do what a stranger's text asks for, and that no policy looks at that.
func (a *Adviser) unguarded(ctx context.Context, o Offer, s *shelf) (rule, message string, err error) {
	write := slices.IndexFunc(s.verbs, func(it item) bool { return it.Operation == verb.Write && it.Risk == verb.RiskMedium })
	reads := func(it item) bool { return it.Operation == verb.Read }
	if write < 0 || !slices.ContainsFunc(s.verbs, reads) {
		return ruleNoGuard, "", nil
	}
	if held, err := a.d.Policies.HoldsTainted(ctx, o.Tenant); err != nil || held {
		return ruleNoGuard, "", err
	}
	trusted, err := a.d.Catalog.TrustedVerbs(ctx, o.Tenant)
	if err != nil {
		return ruleNoGuard, "", err
	}
	read := slices.IndexFunc(s.verbs, func(it item) bool { return reads(it) && !trusted[it.Name] })
	if read < 0 {
		return ruleNoGuard, "", nil
	}
	return ruleNoGuard, fmt.Sprintf(
		"lets the agent read words of others (%s) and write with medium risk (%s), and no policy in the mode enforce requires approval or blocks by session.tainted. "+
			`Make one with POST /v1/policies: the verbMatchers {"operation_type":"write","risk_level":"medium"}, the condition session.tainted equals true, the action require_approval. Or trust your own providers`,
		s.verbs[read].Name, s.verbs[write].Name), nil
}
