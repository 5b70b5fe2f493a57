package openapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/verb"
)

// What a provider sends by itself is listed, and no verb comes of it.
func TestWebhooksAreEventTypes(t *testing.T) {
	t.Parallel()
	im := load(t, []byte(`{"openapi":"3.1.0","servers":[{"url":"https://api.shop.example"}],"webhooks":{
		"order.paid":{"post":{"summary":"An order was paid.","description":"More.","responses":{}}},
		"order.lost":{"$ref":"#/components/pathItems/lost"},
		"order.odd":7,"order.silent":{"post":{}}},
		"components":{"pathItems":{"lost":{"post":{"description":"An order was lost."}}}}}`))
	require.Empty(t, im.Verbs)
	require.Equal(t, []verb.EventType{
		{Name: "order.lost", Summary: "An order was lost."}, {Name: "order.odd"}, {Name: "order.paid", Summary: "An order was paid."}, {Name: "order.silent"},
	}, im.EventTypes)
	require.Equal(t, 4, im.EventTypesTotal)
	require.Equal(t, []verb.Report{{Operation: "paths", Reason: "the document has no operation that can be called, only webhooks"}}, im.Rejected)

	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf(`"w%04d":{"post":{"summary":%q}}`, i, strings.Repeat("x", 5000)))
	}
	im = load(t, []byte(`{"openapi":"3.1.0","servers":[{"url":"https://api.shop.example"}],"paths":{"/a":{"get":{}}},"webhooks":{`+strings.Join(many, ",")+`}}`))
	require.Len(t, im.EventTypes, 200)
	require.Equal(t, 1000, im.EventTypesTotal)
	require.LessOrEqual(t, len(im.EventTypes[0].Summary), 303)
	require.Empty(t, im.Rejected)
}

// An import that came to nothing says why.
func TestDocumentWithoutOperationsIsRemarkedOn(t *testing.T) {
	t.Parallel()
	im := load(t, document("3.0.0", `{"/a":{"parameters":[]}}`, ""))
	require.Equal(t, []verb.Report{{Operation: "paths", Reason: "the document has no operation that can be called"}}, im.Rejected)
}
