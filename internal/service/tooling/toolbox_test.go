package tooling_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/models/model"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/service/tooling"
)

// shop is a catalog in memory. It counts what is read of it.
type shop struct {
	providers []catalog.ToolProvider
	verbs     []catalog.ToolVerb
	schemas   map[catalog.Hash]json.RawMessage
	lists     atomic.Int64
	reads     atomic.Int64
}

func (s *shop) ToolProviders(context.Context, uuid.UUID) ([]catalog.ToolProvider, error) {
	return s.providers, nil
}

func (s *shop) ToolVerbs(_ context.Context, _ uuid.UUID, providers []catalog.ToolProvider, most int) (list []catalog.ToolVerb, err error) {
	s.lists.Add(1)
	for _, v := range s.verbs {
		if slices.ContainsFunc(providers, func(p catalog.ToolProvider) bool { return p.Slug == v.Name.Provider }) && len(list) < most {
			list = append(list, v)
		}
	}
	return list, nil
}

func (s *shop) Schemas(_ context.Context, _ uuid.UUID, verbs []catalog.Meta) (map[catalog.Hash]json.RawMessage, error) {
	s.reads.Add(1)
	found := map[catalog.Hash]json.RawMessage{}
	for _, v := range verbs {
		if schema := s.schemas[v.SchemaHash]; schema != nil {
			found[v.SchemaHash] = schema
		}
	}
	return found, nil
}

// Named puts back the one name of an argument that the tests have.
func (s *shop) Named(_ context.Context, _ uuid.UUID, name verb.Name, args json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(strings.ReplaceAll(string(args), "given_by_the_tool", "of_"+name.Verb)), nil
}

// add adds a verb such as shop:get_order whose schema takes about so many bytes.
func (s *shop) add(name, description string, bytes int) {
	parsed, err := verb.Parse(name)
	if err != nil {
		panic(err)
	}
	var properties []string
	for i := range max(1, bytes/60) {
		properties = append(properties, fmt.Sprintf(`"%s_%d":{"type":"string"}`, strings.Repeat("p", 36), i))
	}
	schema := json.RawMessage(`{"type":"object","properties":{"` + parsed.Verb + `":{"type":"string"},` + strings.Join(properties, ",") + `}}`)
	at := slices.IndexFunc(s.providers, func(p catalog.ToolProvider) bool { return p.Slug == parsed.Provider })
	if at < 0 {
		at = len(s.providers)
		s.providers = append(s.providers, catalog.ToolProvider{Slug: parsed.Provider, Connected: parsed.Provider != "away" && parsed.Provider != "unbound", UpdatedAt: time.Unix(1, 0)})
	}
	v := catalog.ToolVerb{Name: parsed, Description: description, Risk: verb.RiskLow, Operation: verb.Read, SchemaHash: sha256.Sum256(schema), Connected: s.providers[at].Connected}
	s.verbs = append(s.verbs, v)
	if s.schemas == nil {
		s.schemas = map[catalog.Hash]json.RawMessage{}
	}
	s.schemas[v.SchemaHash] = schema
}

// small is a shop of few verbs.
func small() *shop {
	s := &shop{}
	for _, name := range []string{"away:get_x", "shop:get_order", "shop:list_orders", "shop:create_refund", "shop:delete_order", "mail:send_mail"} {
		s.add(name, "It does "+name, 100)
	}
	return s
}

// large is a shop with so many verbs.
func large(n int) *shop {
	s := &shop{}
	things := strings.Fields("order refund invoice customer charge dispute payout account webhook file")
	does := strings.Fields("create get list update delete search cancel capture approve")
	for i := range n {
		thing, do := things[i%len(things)], does[i/len(things)%len(does)]
		s.add(fmt.Sprintf("provider%d:%s_%s_%d", i%7, do, thing, i), fmt.Sprintf("Will %s the %s with the number %d, and takes all that such descriptions usually say of permissions.", do, thing, i), 300)
	}
	s.add("unbound:teleport_parcel", "Teleports a parcel", 300)
	return s
}

func toolbox(tb testing.TB, s *shop, platform ...model.Tool) *tooling.Toolbox {
	tb.Helper()
	tools, err := tooling.New()
	require.NoError(tb, err)
	b, err := tooling.NewToolbox(tooling.ToolboxDeps{Catalog: s, Names: s, Tools: tools, Platform: platform})
	require.NoError(tb, err)
	return b
}

func named(s tooling.Set) (list []string) {
	for _, t := range s.Tools() {
		list = append(list, t.Name)
	}
	return list
}

func refundSOP(tools ...string) agentdef.SOP {
	return agentdef.SOP{Slug: "refund", Tools: tools, Enabled: true}
}

func TestOfferHasWhatTheDefinitionAllows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		allow, deny string
		sops        []agentdef.SOP
		matched     []string
		want        string
	}{
		"nothing":                        {"tool:*", "", nil, nil, "escalate tool__recall"},
		"one verb":                       {"shop:get_order", "", nil, nil, "escalate shop__get_order"},
		"a provider":                     {"shop:*", "", nil, nil, "escalate shop__create_refund shop__delete_order shop__get_order shop__list_orders"},
		"connected first":                {"*:get_*", "", nil, nil, "escalate shop__get_order away__get_x"},
		"what is denied":                 {"shop:*", "*:delete_*", nil, nil, "escalate shop__create_refund shop__get_order shop__list_orders"},
		"a procedure that fits":          {"shop:*", "", []agentdef.SOP{refundSOP("shop:create_refund")}, []string{"refund"}, "escalate shop__delete_order shop__get_order shop__list_orders shop__create_refund"},
		"a procedure that does not":      {"shop:*", "", []agentdef.SOP{refundSOP("shop:create_refund")}, nil, "escalate shop__delete_order shop__get_order shop__list_orders"},
		"a procedure allows":             {"shop:get_order", "", []agentdef.SOP{refundSOP("shop:create_refund")}, []string{"refund"}, "escalate shop__get_order shop__create_refund"},
		"a procedure, denied":            {"shop:get_order", "shop:create_*", []agentdef.SOP{refundSOP("shop:create_refund")}, []string{"refund"}, "escalate shop__get_order"},
		"a procedure that is off":        {"shop:create_*", "", []agentdef.SOP{{Slug: "refund", Tools: []string{"shop:*"}}}, []string{"refund"}, "escalate shop__create_refund"},
		"an unknown procedure":           {"shop:create_*", "", nil, []string{"refund"}, "escalate shop__create_refund"},
		"platform tools":                 {"tool:re*", "", nil, nil, "escalate tool__recall"},
		"platform tools, denied":         {"tool:*", "tool:recall", nil, nil, "escalate"},
		"platform tools of a procedure":  {"tool:*", "", []agentdef.SOP{refundSOP("tool:recall")}, nil, "escalate"},
		"platform tools while it fits":   {"tool:*", "", []agentdef.SOP{refundSOP("tool:recall")}, []string{"refund"}, "escalate tool__recall"},
		"all of two procedures are once": {"", "", []agentdef.SOP{refundSOP("mail:*"), {Slug: "b", Tools: []string{"*:send_*"}, Enabled: true}}, []string{"refund", "b"}, "escalate mail__send_mail"},
	} {
		b := toolbox(t, small(), model.Tool{Name: "tool:recall", Description: "Recalls.", Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
		o := tooling.Offer{Tenant: uuid.New(), Tools: agentdef.Tools{Allow: strings.Fields(c.allow), Deny: strings.Fields(c.deny)}, SOPs: c.sops, Matched: c.matched, Message: "refund"}
		set, err := b.Offer(t.Context(), o)
		require.NoError(t, err, name)
		require.Equal(t, strings.Fields(c.want), named(set), name)
		require.False(t, set.Searches(), name)
		for _, tool := range set.Tools() {
			require.NotEmpty(t, tool.Description, name)
			require.True(t, json.Valid(tool.Schema), name)
		}
	}
}

func TestResolveSaysWhatACallMeans(t *testing.T) {
	t.Parallel()
	b := toolbox(t, small(), model.Tool{Name: "tool:recall", Schema: json.RawMessage(`{}`)})
	tenant := uuid.New()
	made, err := b.Offer(t.Context(), tooling.Offer{Tenant: tenant, Tools: agentdef.Tools{Allow: []string{"shop:get_*", "tool:*"}}})
	require.NoError(t, err)
	raw, err := json.Marshal(made)
	require.NoError(t, err)
	var again tooling.Set
	require.NoError(t, json.Unmarshal(raw, &again))
	require.Equal(t, made, again)

	for name, c := range map[string]struct {
		tool, args string
		want       string
		code       fault.Code
	}{
		"a verb":            {"shop__get_order", `{"id":"1"}`, `verb shop:get_order  {"id":"1"}`, ""},
		"a verb by its own": {"shop:get_order", `{"id":1.10}`, `verb shop:get_order  {"id":1.10}`, ""},
		"no arguments":      {"shop__get_order", ` `, `verb shop:get_order  {}`, ""},
		"a given name":      {"shop__get_order", `{"given_by_the_tool":1}`, `verb shop:get_order  {"of_get_order":1}`, ""},
		"escalate":          {"escalate", `{"reason":"x"}`, `escalate : {"reason":"x"}`, ""},
		"a platform tool":   {"tool__recall", `{}`, `platform : tool:recall {}`, ""},
		"not allowed":       {"shop__list_orders", `{}`, "", fault.CodeVerbNotFound},
		"not there":         {"shop__teleport", `{}`, "", fault.CodeVerbNotFound},
		"no search":         {"search_verbs", `{"query":"x"}`, "", fault.CodeVerbNotFound},
		"nothing":           {"", `{}`, "", fault.CodeVerbNotFound},
		"a list":            {"shop__get_order", `[]`, "", fault.CodeInvalidArgs},
		"null":              {"shop__get_order", `null`, "", fault.CodeInvalidArgs},
		"a text":            {"escalate", `"reason"`, "", fault.CodeInvalidArgs},
		"cut off":           {"shop__get_order", `{"id":`, "", fault.CodeInvalidArgs},
		"two values":        {"shop__get_order", `{}{}`, "", fault.CodeInvalidArgs},
	} {
		for _, set := range []tooling.Set{made, again} {
			r, err := b.Resolve(t.Context(), tenant, set, model.ToolCall{Name: c.tool, Args: json.RawMessage(c.args)})
			if c.code != "" {
				require.True(t, fault.HasCode(err, c.code), "%s: %v", name, err)
				continue
			}
			require.NoError(t, err, name)
			require.Equal(t, strings.Fields(c.want), strings.Fields(fmt.Sprint(r.Kind, " ", r.Verb, " ", r.Tool, " ", string(r.Args))), name)
		}
	}
}

// many is an agent that may call all.
func many(message string) tooling.Offer {
	return tooling.Offer{Tenant: uuid.UUID{1}, Tools: agentdef.Tools{Allow: []string{"*:*"}, Deny: []string{"*:delete_*"}}, Message: message}
}

func bytesOf(set tooling.Set) (n int) {
	for _, t := range set.Tools() {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return n
}

func TestAgentWithManyVerbsLooksForThem(t *testing.T) {
	t.Parallel()
	s := large(5000)
	b := toolbox(t, s)
	o := many("please cancel invoice 692")
	set, err := b.Offer(t.Context(), o)
	require.NoError(t, err)
	require.True(t, set.Searches())
	require.Equal(t, []string{"escalate", "search_verbs", "describe_verb", "provider6:cancel_invoice_692"}, strings.Split(strings.Replace(strings.Join(named(set)[:4], " "), "__", ":", 1), " "))
	require.Greater(t, len(set.Tools()), 25, "as many as fit")
	require.LessOrEqual(t, bytesOf(set), 18<<10)

	call := func(set tooling.Set, tool, args string) tooling.Resolved {
		t.Helper()
		r, err := b.Resolve(t.Context(), o.Tenant, set, model.ToolCall{Name: tool, Args: json.RawMessage(args)})
		require.NoError(t, err)
		return r
	}
	_, err = set.Resolve(model.ToolCall{Name: "unbound__teleport_parcel"})
	require.True(t, fault.HasCode(err, fault.CodeVerbNotFound))
	require.Contains(t, err.Error(), "search_verbs")

	var found struct {
		Verbs []struct {
			Verb, Tool, Description string
			Connected               bool
			Parameters              json.RawMessage
		}
		Hint      string
		Providers []string
		Error     struct {
			Code, Detail string
			Near         []string
		}
	}
	answer := func(set tooling.Set, tool, args string) tooling.Set {
		t.Helper()
		text, grown, err := b.Answer(t.Context(), o, set, call(set, tool, args))
		require.NoError(t, err)
		found.Verbs, found.Providers, found.Error.Code, found.Error.Near = nil, nil, "", nil
		require.NoError(t, json.Unmarshal(text, &found))
		return grown
	}
	grown := answer(set, "search_verbs", `{"query":"teleport parcels"}`)
	require.Len(t, found.Verbs, 1)
	require.Equal(t, "unbound:teleport_parcel", found.Verbs[0].Verb)
	require.Equal(t, "unbound__teleport_parcel", found.Verbs[0].Tool)
	require.False(t, found.Verbs[0].Connected)
	require.Contains(t, named(grown), "unbound__teleport_parcel")
	require.Equal(t, "unbound:teleport_parcel", call(grown, "unbound__teleport_parcel", `{}`).Verb.String())
	_, err = set.Resolve(model.ToolCall{Name: "unbound__teleport_parcel"})
	require.Error(t, err, "the set before is as it was")

	// All that is found may be called, also what has no definition.
	wide := answer(set, "search_verbs", `{"query":"list customers"}`)
	require.Len(t, found.Verbs, 8)
	for _, v := range found.Verbs {
		require.Equal(t, v.Verb, call(wide, v.Tool, `{}`).Verb.String())
		require.Equal(t, v.Verb, call(wide, v.Verb, `{}`).Verb.String())
		require.Contains(t, v.Verb, "list_customer")
	}
	require.LessOrEqual(t, len(wide.Tools()), len(set.Tools())+3)
	raw, err := json.Marshal(wide)
	require.NoError(t, err)
	var restored tooling.Set
	require.NoError(t, json.Unmarshal(raw, &restored))
	require.Equal(t, wide, restored)

	// What is denied is not found, described or called.
	answer(set, "search_verbs", `{"query":"delete"}`)
	require.Empty(t, found.Verbs)
	require.NotEmpty(t, found.Providers)
	denied := s.verbs[slices.IndexFunc(s.verbs, func(v catalog.ToolVerb) bool { return strings.HasPrefix(v.Name.Verb, "delete") })].Name.String()
	same := answer(set, "describe_verb", `{"verb":"`+denied+`"}`)
	require.Equal(t, "VERB_NOT_FOUND", found.Error.Code)
	require.Equal(t, set, same)

	for args, code := range map[string]string{`{}`: "INVALID_ARGS", `{"query":7}`: "INVALID_ARGS", `{"query":" "}`: "INVALID_ARGS"} {
		answer(set, "search_verbs", args)
		require.Equal(t, code, found.Error.Code, args)
	}
	answer(set, "describe_verb", `{"verb":"unbound:teleport_parcels"}`)
	require.Equal(t, []string{"unbound:teleport_parcel"}, found.Error.Near[:1])
}

func TestDescribedVerbTakesThePlaceOfAnother(t *testing.T) {
	t.Parallel()
	s := large(200)
	for i := range 12 {
		s.add(fmt.Sprintf("big:thing_%d", i), "A large one", 6_000)
	}
	b := toolbox(t, s)
	o := many("refund")
	set, err := b.Offer(t.Context(), o)
	require.NoError(t, err)
	first := named(set)[3]
	for i := range 12 {
		r, err := set.Resolve(model.ToolCall{Name: "describe_verb", Args: json.RawMessage(fmt.Sprintf(`{"verb":"big__thing_%d"}`, i))})
		require.NoError(t, err)
		before, err := json.Marshal(set)
		require.NoError(t, err)
		text, grown, err := b.Answer(t.Context(), o, set, r)
		require.NoError(t, err)
		after, err := json.Marshal(set)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after), "what was offered before stays as it was")
		require.Contains(t, string(text), fmt.Sprintf(`"verb":"big:thing_%d"`, i))
		require.Contains(t, string(text), `"parameters":{`)
		require.Greater(t, len(text), 5_000)
		set = grown
		require.Equal(t, fmt.Sprintf("big__thing_%d", i), named(set)[len(named(set))-1])
		require.LessOrEqual(t, bytesOf(set), 24<<10)
		require.Equal(t, []string{"escalate", "search_verbs", "describe_verb"}, named(set)[:3])
	}
	require.NotContains(t, named(set), first)
	for _, name := range []string{first, "big__thing_0", "big:thing_11"} {
		_, err = set.Resolve(model.ToolCall{Name: name})
		require.NoError(t, err, "what was described or offered may be called: %s", name)
	}
}

func TestDefinitionsThatAreTooLargeAreLookedFor(t *testing.T) {
	t.Parallel()
	for bytes, searches := range map[int]bool{500: false, 3_500: true} {
		s := &shop{}
		for i := range 20 {
			s.add(fmt.Sprintf("shop:thing_%d", i), "x", bytes)
		}
		set, err := toolbox(t, s).Offer(t.Context(), many("thing"))
		require.NoError(t, err)
		require.Equal(t, searches, set.Searches(), bytes)
		require.LessOrEqual(t, bytesOf(set), 24<<10)
	}
	s := &shop{}
	for i := range 60 {
		s.add(fmt.Sprintf("shop:thing_%d", i), "x", 1)
	}
	set, err := toolbox(t, s).Offer(t.Context(), many("thing"))
	require.NoError(t, err)
	require.True(t, set.Searches(), "61 tools")
}

// The verbs of a procedure that fits are offered also to an agent that looks for others.
func TestProceduresBringTheirVerbsToAnAgentWithMany(t *testing.T) {
	t.Parallel()
	s := large(300)
	b := toolbox(t, s)
	o := many("something else")
	o.SOPs = []agentdef.SOP{refundSOP("unbound:*")}
	set, err := b.Offer(t.Context(), o)
	require.NoError(t, err)
	require.NotContains(t, named(set), "unbound__teleport_parcel")
	search := tooling.Resolved{Kind: tooling.SearchVerbs, Args: json.RawMessage(`{"query":"teleport"}`)}
	text, _, err := b.Answer(t.Context(), o, set, search)
	require.NoError(t, err)
	require.NotContains(t, string(text), "teleport_parcel", "not while the procedure does not fit")
	text, _, err = b.Answer(t.Context(), o, set, tooling.Resolved{Kind: tooling.DescribeVerb, Args: json.RawMessage(`{"verb":"unbound:teleport_parcel"}`)})
	require.NoError(t, err)
	require.Contains(t, string(text), "VERB_NOT_FOUND")
	o.Matched = []string{"refund"}
	set, err = b.Offer(t.Context(), o)
	require.NoError(t, err)
	require.Contains(t, named(set), "unbound__teleport_parcel")
	text, _, err = b.Answer(t.Context(), o, set, search)
	require.NoError(t, err)
	require.Contains(t, string(text), "teleport_parcel")
}

func TestCatalogIsReadOnceForAState(t *testing.T) {
	t.Parallel()
	s := large(5000)
	b := toolbox(t, s)
	o := many("cancel invoice 692")
	for range 5 {
		_, err := b.Offer(t.Context(), o)
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, s.lists.Load())
	require.EqualValues(t, 1, s.reads.Load(), "definitions are written once")

	other := o
	other.Tools.Deny = nil
	_, err := b.Offer(t.Context(), other)
	require.NoError(t, err)
	require.EqualValues(t, 2, s.lists.Load(), "other patterns see other verbs")
	foreign := o
	foreign.Tenant = uuid.New()
	_, err = b.Offer(t.Context(), foreign)
	require.NoError(t, err)
	require.EqualValues(t, 3, s.lists.Load(), "tenants share nothing")

	// A new state of the catalog is seen at once.
	s.providers[0].UpdatedAt = s.providers[0].UpdatedAt.Add(time.Microsecond)
	s.add("provider0:frobnicate", "Frobnicates", 100)
	o.Message = "frobnicate"
	set, err := b.Offer(t.Context(), o)
	require.NoError(t, err)
	require.Contains(t, named(set), "provider0__frobnicate")
	require.EqualValues(t, 4, s.lists.Load())

	// A verb whose schema was replaced since is left out, not offered with another's.
	delete(s.schemas, s.verbs[slices.IndexFunc(s.verbs, func(v catalog.ToolVerb) bool { return v.Name.String() == "unbound:teleport_parcel" })].SchemaHash)
	o.Message = "teleport parcel"
	set, err = b.Offer(t.Context(), o)
	require.NoError(t, err)
	require.NotContains(t, named(set), "unbound__teleport_parcel")
}

// BenchmarkOfferOf5000 is what a turn costs an agent that may call 5,000 verbs.
func BenchmarkOfferOf5000(b *testing.B) {
	box := toolbox(b, large(5000))
	o := many("I would like to cancel the order 4711 and get a refund to my card, please")
	b.ReportAllocs()
	for b.Loop() {
		_, err := box.Offer(context.Background(), o)
		require.NoError(b, err)
	}
}

// BenchmarkShelfOf5000 is what the first turn after a change of the catalog costs.
func BenchmarkShelfOf5000(b *testing.B) {
	s := large(5000)
	box := toolbox(b, s)
	o := many("refund")
	b.ReportAllocs()
	for b.Loop() {
		s.providers[0].UpdatedAt = s.providers[0].UpdatedAt.Add(time.Second)
		_, err := box.Offer(context.Background(), o)
		require.NoError(b, err)
	}
}

// BenchmarkOfferOf20 is what a turn costs an agent of few verbs.
func BenchmarkOfferOf20(b *testing.B) {
	s := &shop{}
	for i := range 20 {
		s.add(fmt.Sprintf("shop:thing_%d", i), "x", 500)
	}
	box := toolbox(b, s)
	b.ReportAllocs()
	for b.Loop() {
		_, err := box.Offer(context.Background(), many("thing"))
		require.NoError(b, err)
	}
}
