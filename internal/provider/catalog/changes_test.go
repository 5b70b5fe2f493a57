package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/argdiff"
	"agentruntime/internal/provider/httpplan"
)

const shopURL = "https://api.shop.test/v1"

// defined is a verb of the route "POST /refunds", with what its method implies.
func defined(name, to string, change ...func(*verb.Definition)) verb.Definition {
	method, path, _ := strings.Cut(to, " ")
	d := verb.Definition{Name: name, Domain: "shop", Idempotency: verb.IdempotencyNone}
	d.Risk, d.Operation = verb.OfMethod(method)
	plan := map[string]string{"method": method, "path": path}
	if server, path, absolute := strings.Cut(path, "|"); absolute {
		plan["base_url"], plan["path"] = server, path
	}
	if path, query, has := strings.Cut(plan["path"], "?"); has {
		plan["path"], plan["query"] = path, query
	}
	raw, err := json.Marshal(plan)
	if err != nil {
		panic(err)
	}
	d.Plan = raw
	for _, c := range change {
		c(&d)
	}
	return d
}

func risk(r verb.Risk) func(*verb.Definition) { return func(d *verb.Definition) { d.Risk = r } }
func domain(s string) func(*verb.Definition)  { return func(d *verb.Definition) { d.Domain = s } }
func reads() func(*verb.Definition)           { return func(d *verb.Definition) { d.Operation = verb.Read } }

func repeats(i verb.Idempotency) func(*verb.Definition) {
	return func(d *verb.Definition) { d.Idempotency = i }
}

// proves declares a read-back by a verb.
func proves(by string) func(*verb.Definition) {
	return declares("read_back", map[string]any{"verb": by, "match": map[string]any{"equals": map[string]any{"id": "${args.id}"}}})
}

// declares sets a member of the plan.
func declares(name string, value any) func(*verb.Definition) {
	return func(d *verb.Definition) {
		var plan map[string]any
		if err := json.Unmarshal(d.Plan, &plan); err != nil {
			panic(err)
		}
		plan[name] = value
		raw, err := json.Marshal(plan)
		if err != nil {
			panic(err)
		}
		d.Plan = raw
	}
}

// knew returns the verb as it is known.
func knew(d verb.Definition, removed bool) knownVerb {
	return knownVerb{
		name: d.Name, route: routeOf(d.Name, d.Plan), domain: d.Domain, risk: d.Risk, operation: d.Operation, idempotency: d.Idempotency,
		readBack: readBackOf(d.Plan), normalized: headOf(d.Plan).Normalized, errorWhen: headOf(d.Plan).ErrorWhen, removed: removed,
		form: formOf(d.Schema, d.Plan),
	}
}

func TestRouteLeavesTheNamesOfParametersOut(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"GET /orders/{id}":                      "GET /orders/{}",
		"GET /orders/{order-id}/{b}.json":       "GET /orders/{}/{}.json",
		"POST /rpc?method={m}&x=1":              "POST /rpc?method={}&x=1",
		"POST https://up.shop.test/a|/files":    "POST https://up.shop.test/a/files",
		"DELETE /%7Bnot-a-parameter%7D/a%20b/x": "DELETE /%7Bnot-a-parameter%7D/a%20b/x",
	} {
		require.Equal(t, route(want), routeOf("n", defined("n", to).Plan))
	}
	require.Equal(t, route("other n"), routeOf("n", json.RawMessage(`{"kind":"mcp","tool":"x"}`)))
}

// A key's import is compared with what a user has imported; this is what it may do, and what
// needs a user.
func TestImportByKeyChangesNothingThatGovernsCalls(t *testing.T) {
	t.Parallel()
	refund := defined("refund", "POST /refunds", risk(verb.RiskHigh))
	get := defined("get_order", "GET /orders/{id}")
	search := defined("search", "POST /search", risk(verb.RiskLow), reads())
	export := defined("export", "GET /export", risk(verb.RiskHigh))
	rpc := defined("rpc", "POST /rpc?method=refund")
	charge := defined("charge", "POST /charges", proves("get_order"))
	was := known{
		exists: true, baseURL: shopURL, auth: json.RawMessage(`{"type":"bearer"}`), domain: "shop",
		verbs: []knownVerb{
			knew(refund, false), knew(get, false), knew(search, false), knew(export, false), knew(rpc, false), knew(charge, false),
			knew(defined("void", "DELETE /payments/{id}"), true), knew(defined("pay", "POST /payments", risk(verb.RiskHigh)), true),
		},
	}
	same := func(more ...verb.Definition) []verb.Definition {
		kept := []verb.Definition{refund, get, search, export, rpc, charge}
		if len(more) > 0 && more[0].Name == "charge" {
			kept = kept[:5]
		}
		return append(kept, more...)
	}
	with := func(d verb.Definition) []verb.Definition {
		return []verb.Definition{d, get, search, export, rpc, charge}
	}
	same2 := func(change func(*Provider)) Provider {
		p := Provider{Slug: "shop", BaseURL: shopURL, Auth: json.RawMessage(`{"type":"bearer"}`), Domain: "shop"}
		change(&p)
		return p
	}
	nothing := func(*Provider) {}
	for name, tt := range map[string]struct {
		provider func(*Provider)
		verbs    []verb.Definition
		want     []string // what needs a user
	}{
		"nothing":                               {nothing, same(), nil},
		"a parameter has another name":          {nothing, []verb.Definition{refund, defined("get_order", "GET /orders/{order}"), search, export, rpc, charge}, nil},
		"a higher risk":                         {nothing, []verb.Definition{refund, defined("get_order", "GET /orders/{id}", risk(verb.RiskMedium)), search, export, rpc, charge}, nil},
		"another base URL":                      {func(p *Provider) { p.BaseURL = "https://evil.test/v1" }, same(), []string{"base_url"}},
		"another port":                          {func(p *Provider) { p.BaseURL = "https://api.shop.test:8443/v1" }, same(), []string{"base_url"}},
		"another path":                          {func(p *Provider) { p.BaseURL = "https://api.shop.test/v2" }, same(), []string{"base_url"}},
		"another auth":                          {func(p *Provider) { p.Auth = json.RawMessage(`{"type":"none"}`) }, same(), []string{"auth"}},
		"another domain":                        {func(p *Provider) { p.Domain = "harmless" }, same(), []string{"domain"}},
		"another name and reports":              {func(p *Provider) { p.Name = "Other" }, same(), nil},
		"a lower risk":                          {nothing, with(defined("refund", "POST /refunds", risk(verb.RiskMedium))), []string{"risk_level"}},
		"a verb in another domain":              {nothing, with(defined("refund", "POST /refunds", risk(verb.RiskHigh), domain("x"))), []string{"domain"}},
		"a read":                                {nothing, with(defined("refund", "POST /refunds", risk(verb.RiskHigh), reads())), []string{"operation_type"}},
		"may be repeated":                       {nothing, with(defined("refund", "POST /refunds", risk(verb.RiskHigh), repeats("intrinsic"))), []string{"idempotency"}},
		"another name":                          {nothing, with(defined("harmless", "POST /refunds", risk(verb.RiskHigh))), []string{"renamed"}},
		"another operation under the name":      {nothing, with(defined("refund", "POST /elsewhere", risk(verb.RiskHigh))), []string{"renamed", "removed"}},
		"removed":                               {nothing, []verb.Definition{refund, search, export, rpc, charge}, []string{"removed"}},
		"all removed":                           {nothing, nil, []string{"removed", "removed", "removed", "removed", "removed", "removed"}},
		"new":                                   {nothing, same(defined("create", "POST /orders")), nil},
		"new, of higher risk":                   {nothing, same(defined("create", "POST /orders", risk(verb.RiskHigh))), nil},
		"new, of low risk":                      {nothing, same(defined("create", "POST /orders", risk(verb.RiskLow))), []string{"risk_level"}},
		"new, a read":                           {nothing, same(defined("create", "POST /orders", reads())), []string{"operation_type"}},
		"new, with an idempotency key":          {nothing, same(defined("create", "POST /orders", repeats("header:Idempotency-Key"))), nil},
		"new DELETE of medium risk":             {nothing, same(defined("drop", "DELETE /orders/{id}", risk(verb.RiskMedium))), []string{"risk_level"}},
		"new, at another server":                {nothing, same(defined("upload", "POST https://evil.test|/files")), []string{"server"}},
		"new, at the server's address":          {nothing, same(defined("upload", "POST https://api.shop.test/v1|/files")), nil},
		"again after it was removed":            {nothing, same(defined("void", "DELETE /payments/{id}")), nil},
		"again with a lower risk":               {nothing, same(defined("pay", "POST /payments")), []string{"risk_level"}},
		"again under another name":              {nothing, same(defined("harmless", "POST /payments", risk(verb.RiskHigh))), []string{"renamed"}},
		"the name of a removed verb":            {nothing, same(defined("pay", "POST /orders", risk(verb.RiskHigh))), []string{"renamed"}},
		"around it by a parameter":              {nothing, same(defined("any", "POST /{what}")), []string{"renamed", "risk_level"}},
		"around it by part of a segment":        {nothing, same(defined("any", "POST /ref{what}")), []string{"renamed", "risk_level"}},
		"around it by upper case":               {nothing, same(defined("any", "POST /Refunds")), []string{"renamed", "risk_level"}},
		"around it by encoding":                 {nothing, same(defined("any", "POST /%72efunds")), []string{"renamed", "risk_level"}},
		"around it by an encoded slash":         {nothing, same(defined("any", "POST /%2Frefunds%2F")), []string{"renamed", "risk_level"}},
		"around it by a backslash":              {nothing, same(defined("any", "POST /%5Crefunds")), []string{"renamed", "risk_level"}},
		"around it by an encoded climb":         {nothing, same(defined("any", "POST /x%2F..%2Frefunds")), []string{"renamed", "risk_level"}},
		"one request of a write":                {nothing, same(defined("void_one", "DELETE /payments/1")), []string{"renamed"}},
		"around it by a format":                 {nothing, same(defined("any", "POST /refunds.json")), []string{"renamed", "risk_level"}},
		"around it by a path parameter":         {nothing, same(defined("any", "POST /refunds;v=1")), []string{"renamed", "risk_level"}},
		"around it by slashes":                  {nothing, same(defined("any", "POST //refunds/")), []string{"renamed", "risk_level"}},
		"around it by a NUL":                    {nothing, same(defined("any", "POST /refunds%00")), []string{"renamed", "risk_level"}},
		"around it by text after a NUL":         {nothing, same(defined("any", "POST /refunds%00/x")), []string{"renamed", "risk_level"}},
		"around it by a dot at the end":         {nothing, same(defined("any", "POST /refunds.")), []string{"renamed", "risk_level"}},
		"around it by an encoded dot":           {nothing, same(defined("any", "POST /refunds%2e")), []string{"renamed", "risk_level"}},
		"around it by an encoded question mark": {nothing, same(defined("any", "POST /refunds%3fx=1")), []string{"renamed", "risk_level"}},
		"around it by an encoded hash":          {nothing, same(defined("any", "POST /refunds%23")), []string{"renamed", "risk_level"}},
		"around it by a query":                  {nothing, same(defined("any", "POST /refunds?x=1")), []string{"renamed", "risk_level"}},
		"around it by a server":                 {nothing, same(defined("any", "POST https://api.shop.test|/v1/refunds")), []string{"renamed", "risk_level"}},
		"around it, as risky":                   {nothing, same(defined("any", "POST /{what}", risk(verb.RiskHigh))), []string{"renamed"}},
		"around it, repeated":                   {nothing, same(defined("any", "POST /{what}", risk(verb.RiskHigh), repeats("intrinsic"))), []string{"renamed", "idempotency"}},
		"around a risky read by HEAD":           {nothing, same(defined("any", "HEAD /export")), []string{"renamed", "risk_level"}},
		"a low read by a parameter":             {nothing, same(defined("any", "GET /orders/{id}/{part}"), defined("all", "GET /{what}/{id}")), nil},
		"beside a call that a query tells":      {nothing, same(defined("other", "POST /rpc?method=list")), nil},
		"as a call that a query tells":          {nothing, same(defined("other", "POST /rpc?method={m}")), []string{"renamed"}},
		"a read-back":                           {nothing, with(defined("refund", "POST /refunds", risk(verb.RiskHigh), proves("get_order"))), []string{"read_back"}},
		"another read-back":                     {nothing, same(defined("charge", "POST /charges", proves("search"))), []string{"read_back"}},
		"no read-back":                          {nothing, same(defined("charge", "POST /charges")), []string{"read_back"}},
		"the same read-back":                    {nothing, same(charge), nil},
		"again with a read-back":                {nothing, same(defined("pay", "POST /payments", risk(verb.RiskHigh), proves("get_order"))), []string{"read_back", "arguments"}},
		"new, with a read-back":                 {nothing, same(defined("create", "POST /orders", proves("get_order"))), nil},
		"a normalized form":                     {nothing, with(defined("refund", "POST /refunds", risk(verb.RiskHigh), declares("normalized", "{id}"))), []string{"normalized"}},
		"a declared error":                      {nothing, with(defined("refund", "POST /refunds", risk(verb.RiskHigh), declares("error_when", ".failed"))), []string{"error_when"}},
		"new, with a normalized form":           {nothing, same(defined("create", "POST /orders", declares("normalized", "{id}"))), nil},
		"another method":                        {nothing, same(defined("put", "PUT /refunds")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			changes := compare(was, same2(tt.provider), tt.verbs).found
			for _, c := range changes {
				if c.needsUser {
					got = append(got, c.What)
					require.NotEmpty(t, c.message(would))
				}
			}
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.want == nil, refused(changes) == nil)
		})
	}
}

// planned is a verb of the plan, whose schema declares the arguments.
func planned(plan httpplan.Plan, args ...string) verb.Definition {
	plan.Method, plan.Path = "POST", "/pay"
	raw, err := json.Marshal(plan)
	if err != nil {
		panic(err)
	}
	properties := map[string]any{}
	for _, a := range args {
		properties[a] = map[string]any{}
	}
	schema, err := json.Marshal(map[string]any{"type": "object", "properties": properties})
	if err != nil {
		panic(err)
	}
	return verb.Definition{
		Name: "pay", Domain: "shop", Risk: verb.RiskMedium, Operation: verb.Write, Idempotency: verb.IdempotencyNone, Plan: raw, Schema: schema,
	}
}

// A removed argument is not said to go elsewhere.
func TestArgumentThatIsRemovedIsSaidToBeRemoved(t *testing.T) {
	t.Parallel()
	param := func(in string, names ...string) (list []httpplan.Param) {
		for _, n := range names {
			list = append(list, httpplan.Param{Arg: n, In: in, Style: httpplan.StyleSimple})
		}
		return list
	}
	was := planned(httpplan.Plan{Params: param(httpplan.InHeader, "amount", "note")}, "amount", "note")
	for name, tt := range map[string]struct {
		now          verb.Definition
		would, stood string
	}{
		"removed": {
			planned(httpplan.Plan{Params: param(httpplan.InHeader, "amount")}, "amount"), "an argument would be removed.", "an argument was removed.",
		},
		"moved": {
			planned(httpplan.Plan{Params: append(param(httpplan.InHeader, "note"), param(httpplan.InQuery, "amount")...)}, "amount", "note"),
			"an argument would go to another place of the request.", "an argument goes to another place of the request.",
		},
		"one of each": {
			planned(httpplan.Plan{Params: param(httpplan.InQuery, "amount")}, "amount"),
			"an argument would go to another place of the request.", "an argument goes to another place of the request.",
		},
	} {
		before := knew(was, false)
		before.places = placesOf(was.Plan, argsOf(was.Schema))
		found := compare(known{exists: true, baseURL: shopURL, domain: "shop", verbs: []knownVerb{before}}, Provider{BaseURL: shopURL, Domain: "shop"}, []verb.Definition{tt.now}).found
		at := slices.IndexFunc(found, func(c change) bool { return c.What == "argument" })
		require.GreaterOrEqual(t, at, 0, name)
		require.Contains(t, found[at].message(would), tt.would, name)
		require.Contains(t, found[at].message(did), tt.stood, name)
	}
}

// The report of an import that is stored says what was done, for each kind of change.
func TestStoredImportIsToldOfAsDone(t *testing.T) {
	t.Parallel()
	for _, what := range []string{
		"base_url", "auth", "domain", "rules", "overlay", "server", "servers", "platform", "removed", "renamed", "argument", "arguments", "mask", "method", "path",
		"risk_level", "operation_type", "idempotency", "read_back", "normalized", "error_when", "comparison", "schema",
		string(argdiff.Removed), string(argdiff.Retyped), string(argdiff.Required), string(argdiff.Added), string(argdiff.Optional),
	} {
		for _, verb := range []string{"", "pay"} {
			for _, before := range []string{"", "a"} {
				c := change{What: what, Verb: verb, Route: "POST /pay", Pointer: "/x", Before: before, After: "b"}
				require.NotRegexp(t, `would|the import changes`, c.message(did), what)
				require.NotRegexp(t, ` was .* and is |changed it`, c.message(would), what)
			}
		}
	}
}

// Policies name arguments, so no key moves one to where policies would judge another.
func TestImportByKeyMovesNoArgument(t *testing.T) {
	t.Parallel()
	query := func(names ...string) (list []httpplan.Param) {
		for _, n := range names {
			list = append(list, httpplan.Param{Arg: n, In: httpplan.InQuery, Style: httpplan.StyleForm, Explode: true})
		}
		return list
	}
	header := httpplan.Param{Arg: "amount", In: httpplan.InHeader, Style: httpplan.StyleSimple}
	body := func(kind, arg string) *httpplan.Body { return &httpplan.Body{Type: "x/y", Kind: kind, Arg: arg} }
	param, member := planned(httpplan.Plan{Params: query("amount")}, "amount"), planned(httpplan.Plan{Body: body("json", "")}, "amount")
	for name, tt := range map[string]struct {
		was, now verb.Definition
		want     []string // what needs a user
	}{
		"nothing":                   {member, member, nil},
		"a new parameter":           {member, planned(httpplan.Plan{Body: body("json", ""), Params: query("x")}, "amount", "x"), nil},
		"a new member":              {member, planned(httpplan.Plan{Body: body("json", "")}, "amount", "x"), nil},
		"a new body":                {param, planned(httpplan.Plan{Params: query("amount"), Body: body("json", "")}, "amount", "x"), nil},
		"the body in one argument":  {member, planned(httpplan.Plan{Body: body("json", "body"), Params: query("amount")}, "amount", "body"), []string{"argument"}},
		"a new body in one":         {param, planned(httpplan.Plan{Params: query("amount"), Body: body("form", "body")}, "amount", "body"), []string{"argument"}},
		"into a header":             {param, planned(httpplan.Plan{Params: []httpplan.Param{header}}, "amount"), []string{"argument"}},
		"into the query":            {member, planned(httpplan.Plan{Params: query("amount")}, "amount"), []string{"argument"}},
		"under another wire name":   {param, planned(httpplan.Plan{Params: []httpplan.Param{{Arg: "amount", Name: "x", In: "query", Style: "form", Explode: true}}}, "amount"), []string{"argument"}},
		"a parameter has gone":      {param, planned(httpplan.Plan{Params: query("extra")}, "extra"), []string{"argument"}},
		"a member has gone":         {member, planned(httpplan.Plan{Body: body("json", "")}, "x"), []string{"argument"}},
		"another type of body":      {member, planned(httpplan.Plan{Body: body("form", "")}, "amount"), []string{"argument"}},
		"another method":            {param, planned(httpplan.Plan{Params: query("amount", "_method")}, "amount", "_method"), []string{"method"}},
		"another method in a body":  {member, planned(httpplan.Plan{Body: body("json", "")}, "amount", "_METHOD"), []string{"method"}},
		"another method, as before": {planned(httpplan.Plan{Params: query("_method")}, "_method"), planned(httpplan.Plan{Params: query("_method")}, "_method"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := knew(tt.was, false)
			before.places = placesOf(tt.was.Plan, argsOf(tt.was.Schema))
			was := known{exists: true, baseURL: shopURL, domain: "shop", verbs: []knownVerb{before}}
			var got []string
			for _, c := range compare(was, Provider{BaseURL: shopURL, Domain: "shop"}, []verb.Definition{tt.now}).found {
				if require.NotEmpty(t, c.message(would)); c.needsUser {
					got = append(got, c.What)
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
	fresh := compare(known{}, Provider{BaseURL: shopURL}, []verb.Definition{planned(httpplan.Plan{Params: query("_method")}, "_method")}).found
	require.Error(t, refused(fresh), "a new operation chooses no method either")
}

// What a schema marks as secret stays masked in later calls: a key cannot unmask it.
func TestImportByKeyRemovesNoMark(t *testing.T) {
	t.Parallel()
	pay := func(schema string) verb.Definition {
		d := planned(httpplan.Plan{Body: &httpplan.Body{Type: "x/y", Kind: "json"}}, "card")
		d.Schema = json.RawMessage(`{"type":"object","properties":{"card":` + schema + `}}`)
		return d
	}
	marked, plain := pay(`{"properties":{"pin":{"type":"string","x-sensitive":true}}}`), pay(`{"properties":{"pin":{"type":"string"}}}`)
	for name, tt := range map[string]struct {
		was, now verb.Definition
		want     []string
	}{
		"the same":    {marked, marked, nil},
		"a mark more": {plain, marked, nil},
		"a mark less": {marked, plain, []string{"mask"}},
		"all of it":   {marked, pay(`{"writeOnly":true}`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := knew(tt.was, false)
			before.places, before.schema = placesOf(tt.was.Plan, argsOf(tt.was.Schema)), tt.was.Schema
			changes := compare(known{exists: true, baseURL: shopURL, domain: "shop", verbs: []knownVerb{before}}, Provider{BaseURL: shopURL, Domain: "shop"}, []verb.Definition{tt.now}).found
			var got []string
			for _, c := range changes {
				if c.needsUser {
					got = append(got, c.What)
				}
			}
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.want == nil, refused(changes) == nil)
		})
	}
}

func TestFirstImportByKeyStaysAtWhatItsMethodsImply(t *testing.T) {
	t.Parallel()
	p := Provider{Slug: "shop", BaseURL: shopURL, Domain: "shop"}
	require.NoError(t, refused(compare(known{}, p, []verb.Definition{
		defined("a", "GET /a"), defined("b", "POST /b"), defined("c", "DELETE /c"), defined("d", "PUT https://up.shop.test|/d", risk(verb.RiskHigh)),
	}).found))
	err := refused(compare(known{}, p, []verb.Definition{defined("c", "DELETE /c", risk(verb.RiskLow), reads())}).found)
	f := fault.As(err)
	require.Equal(t, fault.CodeInsufficientPermissions, f.Code)
	require.Equal(t, []fault.Detail{
		{Path: "/openapi/paths", Rule: "risk_level", Message: "DELETE /c (c): risk_level is high and would be low."},
		{Path: "/openapi/paths", Rule: "operation_type", Message: "DELETE /c (c): operation_type is write and would be read."},
	}, f.Details)
	require.Error(t, refused(compare(known{platform: true}, p, nil).found), "it would hide the platform's")
}

// What cannot be compared in time is left to a user, and no list grows without bound.
func TestComparisonIsBounded(t *testing.T) {
	t.Parallel()
	was := known{exists: true, baseURL: shopURL, domain: "shop"}
	var verbs []verb.Definition
	for i := range 6_000 {
		was.verbs = append(was.verbs, knew(defined(fmt.Sprint("old", i), fmt.Sprintf("POST /old/%d", i), risk(verb.RiskHigh)), true))
		verbs = append(verbs, defined(fmt.Sprint("new", i), fmt.Sprintf("POST /new/%d", i)))
	}
	err := refused(compare(was, Provider{BaseURL: shopURL, Domain: "shop"}, verbs).found)
	require.Equal(t, "comparison", fault.As(err).Details[0].Rule)
	for i := range verbs {
		verbs[i].Risk = verb.RiskLow
	}
	require.Len(t, fault.As(refused(compare(known{}, Provider{BaseURL: shopURL}, verbs).found)).Details, maxChangesTold)
}
