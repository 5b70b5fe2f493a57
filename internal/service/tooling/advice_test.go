package tooling_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/service/tooling"
)

// names is what an adviser reads besides: the near names of a shop, what the tenant trusts, and its policies.
type names struct {
	*shop

	trusted map[verb.Name]bool
	guarded bool
}

func (n names) Near(_ context.Context, _ uuid.UUID, name verb.Name) (m catalog.Meant, err error) {
	for _, v := range n.verbs {
		if v.Name.Provider == name.Provider && near.Name(name.Verb, []string{v.Name.Verb}) != "" {
			m.Verbs = append(m.Verbs, v.Name)
		}
	}
	return m, nil
}

func (n names) KnownProvider(_ context.Context, _ uuid.UUID, slug string) (known bool, meant string, err error) {
	var slugs []string
	for _, p := range n.providers {
		slugs, known = append(slugs, p.Slug), known || p.Slug == slug
	}
	return known, near.Name(slug, slugs), nil
}

func (n names) TrustedVerbs(context.Context, uuid.UUID) (map[verb.Name]bool, error) {
	return n.trusted, nil
}

func (n names) HoldsTainted(context.Context, uuid.UUID) (bool, error) { return n.guarded, nil }

// rules returns the paths and rules of the warnings of an agent, and their messages.
func rules(t *testing.T, n names, d agentdef.Definition) (list []string, text string) {
	t.Helper()
	a, err := tooling.NewAdviser(tooling.AdviserDeps{Toolbox: toolbox(t, n.shop), Catalog: n, Policies: n})
	require.NoError(t, err)
	for _, w := range a.Warnings(t.Context(), uuid.New(), &d) {
		list, text = append(list, w.Path+" "+w.Rule), text+w.Message+"\n"
	}
	return list, text
}

func allowing(patterns ...string) agentdef.Definition {
	return agentdef.Definition{Tools: agentdef.Tools{Allow: patterns}}
}

func TestAdviceNamesWhatAllowMayMean(t *testing.T) {
	t.Parallel()
	n := names{shop: small()}
	list, text := rules(t, n, allowing("shop:create_refnd", "shpo:*", "shop:get_*", "*:get_nothing", "tool:*", "*:memory_read", "agent:"+uuid.NewString()))
	require.Equal(t, []string{"/tools/allow/0 unknown_tool", "/tools/allow/1 unknown_tool"}, list)
	require.Contains(t, text, "is no verb of the catalog that the agent may call. Did you mean shop:create_refund?")
	require.Contains(t, text, "fits no verb of the catalog that the agent may call. There is no provider shpo in it. Did you mean the provider shop?")
}

func TestAdviceTellsOfAMemoryWithoutALanguageModel(t *testing.T) {
	t.Parallel()
	for named, want := range map[string][]string{
		"builtin:rules":    {"/memory/customer keeps_nothing"},
		"builtin:scripted": nil,
		"openai:gpt":       nil,
	} {
		provider, model, _ := strings.Cut(named, ":")
		d := agentdef.Definition{Models: agentdef.Models{Worker: &agentdef.Model{Provider: provider, Model: model}}, Memory: agentdef.Memory{Customer: agentdef.MemoryAuto}}
		list, _ := rules(t, names{shop: small()}, d)
		require.Equal(t, want, list, named)
	}
}

func TestAdviceTellsOfMoreVerbsThanAModelIsShown(t *testing.T) {
	t.Parallel()
	n := names{shop: large(300)}
	list, text := rules(t, n, allowing("*:*"))
	require.Equal(t, []string{"/tools/allow many_tools"}, list)
	require.Contains(t, text, "allows 301 verbs")
	require.Regexp(t, `about [1-9]\d of them at once`, text)
	list, _ = rules(t, n, allowing("unbound:*"))
	require.Empty(t, list)
	guided := allowing("*:*")
	guided.ExecutionMode = agentdef.WorkflowOnly
	list, _ = rules(t, n, guided)
	require.Empty(t, list, "its Map has the tools")
}

// An agent that reads what strangers may write, and writes, wants a policy that looks at that.
func TestAdviceTellsOfAnAgentWithoutAGuard(t *testing.T) {
	t.Parallel()
	s := small()
	for i := range s.verbs {
		if strings.HasPrefix(s.verbs[i].Name.Verb, "create_") {
			s.verbs[i].Operation, s.verbs[i].Risk = verb.Write, verb.RiskMedium
		}
	}
	own := map[verb.Name]bool{{Provider: "shop", Verb: "get_order"}: true}
	for name, c := range map[string]struct {
		allow []string
		names names
		want  bool
	}{
		"no policy":              {[]string{"shop:get_order", "shop:create_*"}, names{shop: s}, true},
		"a policy":               {[]string{"shop:get_order", "shop:create_*"}, names{shop: s, guarded: true}, false},
		"reads its own":          {[]string{"shop:get_order", "shop:create_*"}, names{shop: s, trusted: own}, false},
		"reads its own and mail": {[]string{"shop:get_order", "away:*", "shop:create_*"}, names{shop: s, trusted: own}, true},
		"writes nothing":         {[]string{"shop:get_order"}, names{shop: s}, false},
		"reads nothing":          {[]string{"shop:create_*"}, names{shop: s}, false},
	} {
		list, text := rules(t, c.names, allowing(c.allow...))
		if !c.want {
			require.Empty(t, list, name)
			continue
		}
		require.Equal(t, []string{"/tools/allow no_guard"}, list, name)
		require.Contains(t, text, "shop:create_refund", name)
	}
}
