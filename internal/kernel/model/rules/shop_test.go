package rules_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/model"
)

// shopVerbs returns the verbs of the demo shop, as the document that the service imports has them.
func shopVerbs(t *testing.T) (tools []model.Tool, writes map[string]bool) {
	t.Helper()
	doc, err := shopDocument()
	require.NoError(t, err)
	writes = map[string]bool{}
	for _, path := range doc.Paths.InMatchingOrder() {
		for method, op := range doc.Paths.Find(path).Operations() {
			schema := map[string]any{"type": "object"}
			props, required := map[string]any{}, []string{}
			for _, p := range op.Parameters {
				if p.Value.In == "header" {
					continue
				}
				props[p.Value.Name] = schemaOf(t, p.Value.Schema, p.Value.Description)
				if p.Value.Required {
					required = append(required, p.Value.Name)
				}
			}
			if op.RequestBody != nil {
				body := op.RequestBody.Value.Content.Get("application/json").Schema.Value
				for name, p := range body.Properties {
					props[name] = schemaOf(t, p, "")
				}
				required = append(required, body.Required...)
			}
			schema["properties"], schema["required"] = props, required
			text, err := json.Marshal(schema)
			require.NoError(t, err)
			name := "shop:" + snake(op.OperationID)
			writes[name] = method != "GET"
			operation := "write"
			if method == "GET" {
				operation = "read"
			}
			tools = append(tools, model.Tool{Name: name, Description: op.Summary + ". " + op.Description, Schema: text, Operation: operation})
		}
	}
	slices.SortFunc(tools, func(a, b model.Tool) int { return strings.Compare(a.Name, b.Name) })
	return tools, writes
}

// shopDocument is read once.
var shopDocument = sync.OnceValues(func() (*openapi3.T, error) {
	raw, err := os.ReadFile("../../../dev/sandbox/openapi.json")
	if err != nil {
		return nil, err
	}
	return openapi3.NewLoader().LoadFromData(raw)
})

func schemaOf(t *testing.T, ref *openapi3.SchemaRef, description string) map[string]any {
	t.Helper()
	raw, err := ref.Value.MarshalJSON()
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, json.Unmarshal(raw, &out))
	if description != "" {
		out["description"] = description
	}
	return out
}

func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// counter is the shop as far as the tests need it: it answers calls from its state.
type counter struct {
	things map[string][]map[string]any // by their kind, newest first
	log    []string                    // the writes
}

func newCounter() *counter {
	order := func(id, customer, status string, amount int) map[string]any {
		return map[string]any{"id": id, "customer_id": customer, "status": status, "amount": amount, "currency": "eur", "created_at": "2026-11-01T00:00:00Z"}
	}
	customer := func(id, name, email string) map[string]any {
		return map[string]any{"id": id, "name": name, "email": email, "phone": ""}
	}
	return &counter{things: map[string][]map[string]any{
		"order": {
			order("ord_1005", "cus_1002", "cancelled", 1500), order("ord_1003", "cus_1002", "pending", 2500), order("ord_1006", "cus_1001", "pending", 700),
			order("ord_1001", "cus_1001", "paid", 4999), order("ord_1002", "cus_1001", "shipped", 12900),
		},
		"customer": {customer("cus_1002", "Bruno Silva", "bruno@example.com"), customer("cus_1001", "Ada Keller", "ada@example.com")},
		"ticket":   {{"id": "tic_1001", "customer_id": "cus_1001", "subject": "The lamp flickers", "status": "open"}},
		"refund":   {}, "message": {},
	}}
}

// call answers a call as a governed run does: a status, and a result or an error.
func (c *counter) call(verb string, args map[string]any) (status string, result any, failed map[string]any) {
	act, kind, _ := strings.Cut(strings.TrimPrefix(verb, "shop:"), "_")
	if act == "list" {
		found := []map[string]any{}
		for _, one := range c.things[strings.TrimSuffix(kind, "s")] {
			fits := true
			for name, want := range args {
				if name == "status" || name == "customer_id" || name == "email" || name == "order_id" {
					fits = fits && one[name] == want
				}
			}
			if fits {
				found = append(found, one)
			}
		}
		return "executed", map[string]any{"data": found, "total": len(found), "has_more": false}, nil
	}
	if act == "create" || act == "send" {
		made := map[string]any{"id": fmt.Sprintf("%s_%d", kind[:3], 2000+len(c.log))}
		maps.Copy(made, args)
		for name := range made {
			if kind, isID := strings.CutSuffix(name, "_id"); isID && c.one(kind, made[name]) == nil {
				return "failed", nil, map[string]any{"code": "PROVIDER_REJECTED", "detail": "there is no " + kind}
			}
		}
		c.things[kind] = append([]map[string]any{made}, c.things[kind]...)
		return c.wrote(verb, args, made)
	}
	one := c.one(kind, args[kind+"_id"])
	if one == nil {
		return "failed", nil, map[string]any{"code": "PROVIDER_REJECTED", "detail": "there is no such " + kind}
	}
	switch {
	case act == "cancel" && one["status"] != "pending":
		return "failed", nil, map[string]any{"code": "PROVIDER_REJECTED", "detail": "a " + fmt.Sprint(one["status"]) + " order cannot be cancelled"}
	case act == "cancel":
		one["status"] = "cancelled"
	case act == "close":
		one["status"] = "closed"
	case act == "update":
		maps.Copy(one, args)
	}
	if act == "get" {
		return "executed", one, nil
	}
	return c.wrote(verb, args, one)
}

func (c *counter) one(kind string, id any) map[string]any {
	for _, one := range c.things[kind] {
		if one["id"] == id {
			return one
		}
	}
	return nil
}

func (c *counter) wrote(verb string, args map[string]any, result any) (string, any, map[string]any) {
	var said []string
	for _, name := range slices.Sorted(maps.Keys(args)) {
		said = append(said, fmt.Sprintf("%s=%v", name, args[name]))
	}
	c.log = append(c.log, strings.TrimPrefix(verb, "shop:")+" "+strings.Join(said, " "))
	return "executed", result, nil
}
