package httpcall_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/provider/httpcall"
	"agentruntime/internal/provider/httpplan"
	"agentruntime/internal/provider/openapi"
)

const benchDocument = `{"openapi":"3.0.3","info":{"title":"Shop"},"servers":[{"url":"https://api.shop.example/v1/"}],"paths":{"/orders/{id}/refunds":{"post":{"operationId":"create_refund",
	"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"}},{"name":"expand","in":"query","schema":{"type":"array","items":{"type":"string"}}},
		{"name":"Idempotency-Key","in":"header","schema":{"type":"string"}}],
	"requestBody":{"required":true,"content":{"application/json":{"schema":{"type":"object","required":["amount","currency"],"properties":{
		"amount":{"type":"integer","minimum":1},"currency":{"type":"string","enum":["usd","eur"]},"reason":{"type":"string","maxLength":500},
		"lines":{"type":"array","items":{"$ref":"#/components/schemas/Line"}}}}}}}}}},
	"components":{"schemas":{"Line":{"type":"object","required":["sku"],"properties":{"sku":{"type":"string"},"quantity":{"type":"integer","minimum":1}}}}}}`

const benchArgs = `{"id":"ord_1","expand":["customer","lines"],"amount":1999,"currency":"eur","reason":"damaged","lines":[{"sku":"A-1","quantity":2},{"sku":"B-2","quantity":1}]}`

func benchVerb(b *testing.B) (httpplan.Plan, *argschema.Schema) {
	b.Helper()
	im, err := openapi.Import(b.Context(), openapi.ImportInput{Slug: "shop", Document: json.RawMessage(benchDocument)})
	require.NoError(b, err)
	plan, err := httpplan.Parse(im.Verbs[0].Plan)
	require.NoError(b, err)
	schema, err := argschema.Compile(im.Verbs[0].Schema)
	require.NoError(b, err)
	require.Empty(b, schema.Validate(json.RawMessage(benchArgs)))
	return plan, schema
}

func BenchmarkValidate(b *testing.B) {
	_, schema := benchVerb(b)
	b.ReportAllocs()
	for b.Loop() {
		if details := schema.Validate(json.RawMessage(benchArgs)); details != nil {
			b.Fatal(details)
		}
	}
}

func BenchmarkBuildRequest(b *testing.B) {
	plan, _ := benchVerb(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := httpcall.BuildRequest(plan, base, json.RawMessage(benchArgs)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCall is what one run pays here: plan and schema compiled before.
func BenchmarkCall(b *testing.B) {
	plan, schema := benchVerb(b)
	b.ReportAllocs()
	for b.Loop() {
		if details := schema.Validate(json.RawMessage(benchArgs)); details != nil {
			b.Fatal(details)
		}
		if _, err := httpcall.BuildRequest(plan, base, json.RawMessage(benchArgs)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPrepare is reading a stored plan and compiling a schema, once per verb
// and process.
func BenchmarkPrepare(b *testing.B) {
	im, err := openapi.Import(b.Context(), openapi.ImportInput{Slug: "shop", Document: json.RawMessage(benchDocument)})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := httpplan.Parse(im.Verbs[0].Plan); err != nil {
			b.Fatal(err)
		}
		if _, err := argschema.Compile(im.Verbs[0].Schema); err != nil {
			b.Fatal(err)
		}
	}
}
