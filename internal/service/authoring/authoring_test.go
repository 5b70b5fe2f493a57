package authoring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/maps/definition"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/models/model"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/service/authoring"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// desk is a tenant with a catalog, on a database whose round trips are counted.
type desk struct {
	*authoring.Service
	t        *testing.T
	db       testkit.DB
	who      actor.Actor
	catalog  *catalog.Catalog
	policies *policy.Service
	maps     *definition.Service
	trips    tripCounter
}

// noModels is a tenant that has connected no language model.
type noModels struct{}

// ForMaps implements authoring.Models.
func (noModels) ForMaps(context.Context, uuid.UUID, model.Purpose) (agentdef.Model, error) {
	return agentdef.Model{Provider: agentdef.BuiltIn, Model: agentdef.Rules}, nil
}

// tripCounter counts the round trips to Postgres.
type tripCounter struct{ n atomic.Int64 }

// TraceQueryStart implements pgx.QueryTracer.
func (c *tripCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (c *tripCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (c *tripCounter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.n.Add(1)
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (c *tripCounter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (c *tripCounter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

const refundSchema = `{"type":"object","required":["order_id","amount"],"additionalProperties":false,"properties":{
	"order_id":{"type":"string"},"amount":{"type":"integer","minimum":1},
	"lines":{"type":"array","items":{"type":"object","required":["id"],"properties":{"id":{"type":"integer"}}}}}}`

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, db: testkit.Database(t)}
	pool, err := db.Open(t.Context(), db.Config{URL: d.db.AppURL, Tracer: &d.trips})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d.catalog, err = catalog.New(catalog.Deps{DB: pool})
	require.NoError(t, err)
	sets, err := policy.NewSets(pool)
	require.NoError(t, err)
	d.policies, err = policy.New(policy.Deps{DB: pool, Subjects: struct{ policy.Subjects }{}, Keys: struct{ policy.Keys }{}})
	require.NoError(t, err)
	d.maps, err = definition.New(definition.Deps{DB: pool})
	require.NoError(t, err)
	d.Service, err = authoring.New(authoring.Deps{DB: pool, Catalog: d.catalog, Policies: sets, Maps: d.maps, Models: noModels{}})
	require.NoError(t, err)
	d.who = d.tenant()
	d.provider("shop", "none", verbOf("get_order", verb.RiskLow, `{"type":"object"}`), verbOf("refund", verb.RiskMedium, refundSchema), verbOf("wipe", verb.RiskHigh, `{"type":"object"}`))
	d.provider("closed", "bearer", verbOf("list", verb.RiskLow, `{"type":"object"}`))
	return d
}

// tenant adds a tenant and returns a user of it.
func (d *desk) tenant() actor.Actor {
	d.t.Helper()
	id := uuid.Must(uuid.NewV7())
	_, err := d.db.Tenant(id).Exec(d.t.Context(), "INSERT INTO tenants (id, name) VALUES ($1, 'shop')", id)
	require.NoError(d.t, err)
	return actor.Actor{Kind: actor.User, TenantID: id, ID: uuid.Must(uuid.NewV7()), Role: actor.RoleOwner, RequestID: "req", SourceAddr: "192.0.2.1"}
}

// author is the user of the tenant, who may read the catalog.
func (d *desk) author() authoring.Caller { return authoring.Caller{Actor: d.who, ReadsCatalog: true} }

func verbOf(name string, risk verb.Risk, schema string) verb.Definition {
	return verb.Definition{Name: name, Domain: "commerce", Risk: risk, Operation: verb.Write, Idempotency: verb.IdempotencyNone, Schema: []byte(schema), Plan: []byte(`{}`)}
}

func (d *desk) provider(slug, auth string, verbs ...verb.Definition) {
	d.t.Helper()
	_, err := d.catalog.Replace(d.t.Context(), d.who, catalog.Provider{
		Slug: slug, Name: slug, Domain: "commerce", BaseURL: "https://shop.example.com", AuthType: "none", Auth: []byte(`{"type":"` + auth + `"}`), Imported: len(verbs),
	}, verbs)
	require.NoError(d.t, err)
	_, err = d.db.Tenant(d.who.TenantID).Exec(d.t.Context(), "UPDATE providers SET auth_type = $2 WHERE tenant_id = $1 AND slug = $3", d.who.TenantID, auth, slug)
	require.NoError(d.t, err)
}

// source is a definition with these steps.
func source(steps ...string) json.RawMessage {
	return json.RawMessage(`{"schema_version":"1","name":"m","steps":[` + strings.Join(steps, ",") + `]}`)
}

// call is a step that calls a verb.
func call(name, args string) string {
	return fmt.Sprintf(`{"id":"s","type":"verb","verb":%q,"args":%s}`, name, args)
}

// said writes faults as "path rule".
func said(list []mapdef.Fault) []string {
	out := []string{}
	for _, f := range list {
		out = append(out, f.Path+" "+f.Rule)
	}
	return out
}

func TestCallsAreCheckedAgainstTheCatalog(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	block := policy.Draft{
		Name: "Large", Matchers: []governance.Matcher{{Type: governance.MatchVerb, Value: "shop:refund"}}, Action: "block",
		Conditions: []governance.Condition{{Field: "args.amount", Operator: governance.OpGreater, Value: json.RawMessage("500")}},
	}
	_, _, err := d.policies.Create(t.Context(), d.who, block)
	require.NoError(t, err)
	hold := policy.Draft{Name: "Ask", Matchers: []governance.Matcher{{Type: governance.MatchVerb, Value: "shop:get_order"}}, Action: "require_approval"}
	_, _, err = d.policies.Create(t.Context(), d.who, hold)
	require.NoError(t, err)

	const good = `"order_id":"o","amount":5`
	for name, c := range map[string]struct {
		step             string
		errors, warnings []string
	}{
		"in order":                     {call("shop:refund", "{"+good+"}"), nil, nil},
		"unknown verb":                 {call("shop:refnud", "{}"), []string{"/steps/0/verb unknown_verb"}, nil},
		"no arguments at all":          {`{"id":"s","type":"verb","verb":"shop:refund"}`, []string{"/steps/0/args/amount required", "/steps/0/args/order_id required"}, []string{"/steps/0 governance_block"}},
		"argument missing":             {call("shop:refund", `{"order_id":"o"}`), []string{"/steps/0/args/amount required"}, []string{"/steps/0 governance_block"}},
		"argument unknown":             {call("shop:refund", `{`+good+`,"amuont":1}`), []string{"/steps/0/args/amuont unknown_field"}, nil},
		"argument of another type":     {call("shop:refund", `{"order_id":7,"amount":5}`), []string{"/steps/0/args/order_id type"}, nil},
		"made by an expression":        {call("shop:refund", `{"order_id":"${trigger_data.id}","amount":5}`), nil, nil},
		"one of another type besides":  {call("shop:refund", `{"order_id":"${trigger_data.id}","amount":"5"}`), []string{"/steps/0/args/amount type"}, []string{"/steps/0 governance_block"}},
		"expression with a fault":      {call("shop:refund", `{"order_id":"${steps.a.outputs.id}","amount":5}`), []string{"/steps/0/args/order_id expression"}, nil},
		"expression never closed":      {call("shop:refund", `{"order_id":"${trigger_data.id","amount":"5"}`), []string{"/steps/0/args/amount type", "/steps/0/args/order_id expression"}, []string{"/steps/0 governance_block"}},
		"one fault, one missing":       {call("shop:refund", `{"order_id":"${"}`), []string{"/steps/0/args/amount required", "/steps/0/args/order_id expression"}, []string{"/steps/0 governance_block"}},
		"all by one with a fault":      {call("shop:refund", `"${trigger_data"`), []string{"/steps/0/args expression"}, []string{"/steps/0 governance_block"}},
		"fault within a list":          {call("shop:refund", `{`+good+`,"lines":[{"id":"${"},{}]}`), []string{"/steps/0/args/lines/0/id expression", "/steps/0/args/lines/1/id required"}, nil},
		"unknown, by one with a fault": {call("shop:refund", `{`+good+`,"amuont":"${"}`), []string{"/steps/0/args/amuont expression", "/steps/0/args/amuont unknown_field"}, nil},
		"unknown, by an expression":    {call("shop:refund", `{`+good+`,"amuont":"${trigger_data.x}"}`), []string{"/steps/0/args/amuont unknown_field"}, nil},
		"retry of a sent write": {
			`{"id":"s","type":"verb","verb":"shop:refund","args":{` + good + `},"retry":{"max_attempts":2,"retry_on":["RATE_LIMITED","PROVIDER_TIMEOUT"]}}`,
			[]string{"/steps/0/retry/retry_on/1 retry"},
			nil,
		},
		"item made by an expression":   {call("shop:refund", `{`+good+`,"lines":["${trigger_data.line}",{"id":"x"},{"id":"${1}"},{}]}`), []string{"/steps/0/args/lines/1/id type", "/steps/0/args/lines/3/id required"}, nil},
		"all made by an expression":    {call("shop:refund", `"${trigger_data}"`), nil, []string{"/steps/0 governance_block"}},
		"blocked by a policy":          {call("shop:refund", `{"order_id":"o","amount":501}`), nil, []string{"/steps/0 governance_block"}},
		"perhaps blocked":              {call("shop:refund", `{"order_id":"o","amount":"${trigger_data.amount}"}`), nil, []string{"/steps/0 governance_block"}},
		"held":                         {call("shop:get_order", `{}`), nil, []string{"/steps/0 governance_hold"}},
		"blocked by the risk":          {call("shop:wipe", `{}`), nil, []string{"/steps/0 governance_block"}},
		"not connected":                {call("closed:list", `{}`), nil, []string{"/steps/0/verb not_connected"}},
		"tools of an agent":            {`{"id":"s","type":"agent","goal":"g","tools":["shop:refund","shop:none","shop:no*"]}`, nil, []string{"/steps/0/tools/1 unknown_tool", "/steps/0/type no_language_model"}},
		"a compensation":               {`{"id":"s","type":"verb","verb":"shop:refund","args":{` + good + `},"compensate":{"verb":"shop:none","args":{}}}`, []string{"/steps/0/compensate/verb unknown_verb"}, nil},
		"within a block":               {`{"id":"b","type":"switch","cases":[{"when":"${true}","steps":[` + call("shop:none", "{}") + `]}]}`, []string{"/steps/0/cases/0/steps/0/verb unknown_verb"}, nil},
		"a form that is wrong as well": {`{"id":"s","type":"verb","verb":"shop:none","args":{},"surely":1}`, []string{"/steps/0/surely unknown_field", "/steps/0/verb unknown_verb"}, nil},
	} {
		r, err := d.Validate(t.Context(), d.author(), source(c.step))
		require.NoError(t, err, name)
		require.ElementsMatch(t, c.errors, said(r.Errors), "%s: %v", name, r.Errors)
		require.ElementsMatch(t, c.warnings, said(r.Warnings), "%s: %v", name, r.Warnings)
	}
	r, err := d.Validate(t.Context(), d.author(), source(call("shop:refund", `{"order_id":"o","amount":501}`)))
	require.NoError(t, err)
	require.Contains(t, r.Warnings[0].Message, "would block", "the arguments are known")
	r, err = d.Validate(t.Context(), d.author(), source(call("shop:refund", `{"order_id":"o","amount":"${trigger_data.amount}"}`)))
	require.NoError(t, err)
	require.Contains(t, r.Warnings[0].Message, "may block")
	r, err = d.Validate(t.Context(), authoring.Caller{Actor: d.tenant(), ReadsCatalog: true}, source(call("shop:get_order", `{}`)))
	require.NoError(t, err)
	require.Equal(t, []string{"/steps/0/verb unknown_verb"}, said(r.Errors), "another tenant has no such verb")
}

func TestUnknownVerbOfAMapIsToldNearNames(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const plain = "must be a verb of the catalog. GET /v1/runtime/actions/catalog lists the verbs that it has."
	said := func(who authoring.Caller, steps ...string) (list []string, trips int64) {
		before := d.trips.n.Load()
		r, err := d.Validate(t.Context(), who, source(steps...))
		require.NoError(t, err)
		for _, f := range r.Errors {
			require.Equal(t, "unknown_verb", f.Rule)
			list = append(list, f.Message)
		}
		return list, d.trips.n.Load() - before
	}
	step := func(id, name string) string {
		return fmt.Sprintf(`{"id":%q,"type":"verb","verb":%q,"args":{}}`, id, name)
	}
	typo := step("a", "shop:get_ordr")
	list, _ := said(d.author(), typo)
	require.Equal(t, []string{plain + " Did you mean shop:get_order?"}, list)
	list, _ = said(d.author(), step("a", "elsewhere:nothing_alike"))
	require.Equal(t, []string{plain + " There is no provider elsewhere in it."}, list)
	list, blind := said(authoring.Caller{Actor: d.who}, typo)
	require.Equal(t, []string{plain}, list, "the key may not read the catalog")

	_, err := d.Create(t.Context(), d.author(), source(typo), false)
	require.True(t, fault.HasCode(err, fault.CodeInvalidMap), "%v", err)
	details := fault.As(err).Details
	require.Len(t, details, 1)
	require.Equal(t, fault.Detail{Path: "/steps/0/verb", Rule: "unknown_verb", Message: plain + " Did you mean shop:get_order?"}, details[0])

	var steps []string
	for i := range 20 {
		steps = append(steps, step(fmt.Sprintf("s%d", i), fmt.Sprintf("shop:get_order%d", i/2)))
	}
	list, trips := said(d.author(), steps...)
	require.Len(t, list, 20)
	for i, message := range list {
		require.Equal(t, i < 6, strings.Contains(message, "Did you mean shop:get_order?"), "only of the first three names: %d %s", i, message)
	}
	require.EqualValues(t, 6, trips-blind, "two for each of the first three names: verbs and providers")
}

// A definition of 200 calls of as many verbs takes as few round trips as one call.
func TestDefinitionOfManyCallsCostsFewTrips(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var verbs []verb.Definition
	var steps []string
	for i := range 198 {
		name := fmt.Sprintf("v%d", i)
		verbs = append(verbs, verbOf(name, verb.RiskLow, fmt.Sprintf(`{"type":"object","properties":{"a%d":{"type":"string"}}}`, i)))
		steps = append(steps, fmt.Sprintf(`{"id":"s%d","type":"verb","verb":"many:%s","args":{}}`, i, name))
	}
	d.provider("many", "none", verbs...)
	_, _, err := d.policies.Create(t.Context(), d.who, policy.Draft{Name: "Ask", Matchers: []governance.Matcher{{Type: governance.MatchVerb, Value: "many:v7"}}, Action: "require_approval"})
	require.NoError(t, err)
	for _, id := range []string{"one", "two"} {
		rec, err := d.maps.Create(t.Context(), d.who, draft(t, source()), true)
		require.NoError(t, err)
		steps = append(steps, fmt.Sprintf(`{"id":%q,"type":"map","map_id":%q}`, id, rec.ID))
	}
	user := uuid.New()
	_, err = d.db.Tenant(d.who.TenantID).Exec(t.Context(), "INSERT INTO users (id, tenant_id, email, password_hash, name, role, created_at, joined_at) VALUES ($1, $2, 'a@example.com', '', '', 'owner', now(), now())", user, d.who.TenantID)
	require.NoError(t, err)
	steps[0] = fmt.Sprintf(`{"id":"ask","type":"approval","title":"Go?","approvers":[{"type":"user","value":%q}]}`, user)
	for _, want := range []struct {
		trips int64
		what  string
	}{{4, "the Maps and users, the verbs, their schemas and the policies in one each"}, {2, "schemas and policies are in memory"}} {
		before := d.trips.n.Load()
		r, err := d.Validate(t.Context(), d.author(), source(steps...))
		require.NoError(t, err)
		require.Empty(t, r.Errors)
		require.Equal(t, []string{"/steps/7 governance_hold"}, said(r.Warnings))
		require.Equal(t, want.trips, d.trips.n.Load()-before, want.what)
	}
}

func draft(t *testing.T, text json.RawMessage) definition.Draft {
	t.Helper()
	read, faults := mapdef.Read(text)
	require.Empty(t, faults)
	return definition.Draft{Definition: read, Source: text}
}

func TestMapWhoseVerbIsGoneIsWarnedOfAndNotPublished(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c, err := d.Create(t.Context(), d.author(), source(call("shop:refund", `{"order_id":"o","amount":5}`)), false)
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	require.NoError(t, d.catalog.DeleteProvider(t.Context(), d.who, "shop", nil))
	c, err = d.Get(t.Context(), d.who.TenantID, c.ID)
	require.NoError(t, err)
	require.Equal(t, []string{"/steps/0/verb unknown_verb"}, said(c.Warnings))
	_, err = d.Publish(t.Context(), d.who, c.ID, 0)
	require.True(t, fault.HasCode(err, fault.CodeInvalidMap), "%v", err)
	d.provider("shop", "none", verbOf("refunds", verb.RiskLow, `{"type":"object"}`))
	_, err = d.Publish(t.Context(), d.who, c.ID, 0)
	require.True(t, fault.HasCode(err, fault.CodeInvalidMap), "%v", err)
	require.NotContains(t, fault.As(err).Details[0].Message, "Did you mean", "the verb was there once, so its name is no slip")
	_, err = d.Publish(t.Context(), d.who, c.ID, 2)
	require.True(t, fault.HasCode(err, fault.CodeMapNotFound), "%v", err)
	_, err = d.Replace(t.Context(), d.author(), uuid.New(), json.RawMessage("{}"), false, nil)
	require.True(t, fault.HasCode(err, fault.CodeMapNotFound), "before its faults: %v", err)
}

// A long name above many arguments is not written once for each of them: that took seconds.
func TestLongNamesOfArgumentsCostLittle(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	name := strings.Repeat("n", 100_000)
	source := fmt.Sprintf(`{"schema_version":"1","name":"x","steps":[{"id":"a","type":"verb","verb":"shop:refund",
		"args":{"order_id":"${trigger_data.id}","amount":1,%q:[%s"${trigger_data.x}"]}}]}`, name, strings.Repeat("0,", 60_000))
	r, err := d.Validate(t.Context(), d.author(), []byte(source))
	require.NoError(t, err, "it is checked in time")
	require.NotEmpty(t, r.Errors, "the verb has no such argument")
	for _, f := range r.Errors {
		require.Equal(t, "unknown_field", f.Rule, f.Message)
	}
}
