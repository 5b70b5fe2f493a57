package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/sandbox"
)

const testKey = "shop-key-1"

// shop is a sandbox behind real HTTP.
type shop struct {
	t      *testing.T
	url    string
	client *http.Client
}

func open(t *testing.T, dir string) (*sandbox.Server, shop) {
	t.Helper()
	s, err := sandbox.New(sandbox.Config{APIKey: testKey, Dir: dir, Clock: func() time.Time {
		return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	}})
	require.NoError(t, err)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, shop{t, server.URL, server.Client()}
}

func newShop(t *testing.T) shop {
	t.Helper()
	_, sh := open(t, "")
	return sh
}

// send makes a call; header is pairs of name and value.
func (s shop) send(method, path, body string, header ...string) (int, map[string]any, http.Header) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set(sandbox.KeyHeader, testKey)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := s.client.Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	require.Equal(s.t, "application/json", res.Header.Get("Content-Type"))
	data, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	var out map[string]any
	require.NoError(s.t, json.Unmarshal(data, &out), "%s", data)
	return res.StatusCode, out, res.Header
}

func (s shop) do(status int, method, path, body string, header ...string) map[string]any {
	s.t.Helper()
	got, out, _ := s.send(method, path, body, header...)
	require.Equal(s.t, status, got, "%s %s: %v", method, path, out)
	return out
}

func (s shop) total(path string) int {
	s.t.Helper()
	return int(s.do(200, "GET", path, "")["total"].(float64))
}

func TestOrders(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	body := `{"customer_id":"cus_1001","amount":1999,"currency":"eur","items":[{"sku":"A","quantity":2}],"metadata":{"k":"v"}}`
	o := s.do(201, "POST", "/orders", body)
	require.Equal(t, "ord_1006", o["id"])
	require.Equal(t, "pending", o["status"])
	require.Equal(t, o, s.do(200, "GET", "/orders/ord_1006", ""))
	require.Equal(t, 6, s.total("/orders"))
	require.Equal(t, 3, s.total("/orders?customer_id=cus_1001"))
	require.Equal(t, 2, s.total("/orders?min_amount=10000"))

	o = s.do(200, "PATCH", "/orders/ord_1006", `{"status":"paid","note":"n","shipping_address":"a","metadata":{"x":"y"}}`)
	require.InEpsilon(t, 1999, o["amount_paid"], 0)
	require.Equal(t, "n", o["note"])
	require.Equal(t, "shipped", s.do(200, "PATCH", "/orders/ord_1006", `{"status":"shipped"}`)["status"])
	s.do(409, "PATCH", "/orders/ord_1006", `{"status":"paid"}`)
	s.do(409, "POST", "/orders/ord_1006/cancel", "")

	require.Equal(t, "cancelled", s.do(200, "POST", "/orders/ord_1003/cancel", `{"reason":"late"}`)["status"])
	s.do(409, "PATCH", "/orders/ord_1003", `{"note":"x"}`)
	require.Equal(t, "paid", s.do(201, "POST", "/orders", `{"customer_id":"cus_1001","amount":1,"currency":"usd","pay_now":true}`)["status"])
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	var ids []string
	path := "/orders?limit=2"
	for {
		p := s.do(200, "GET", path, "")
		require.InEpsilon(t, 5, p["total"], 0)
		for _, row := range p["data"].([]any) {
			ids = append(ids, row.(map[string]any)["id"].(string))
		}
		if p["has_more"] == false {
			break
		}
		path = "/orders?limit=2&starting_after=" + ids[len(ids)-1]
	}
	require.Equal(t, []string{"ord_1005", "ord_1004", "ord_1003", "ord_1002", "ord_1001"}, ids)
}

func TestCustomers(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	c := s.do(201, "POST", "/customers", `{"name":"Eve","email":"eve@example.com"}`)
	require.Equal(t, "cus_1005", c["id"])
	require.Equal(t, "no phone", s.do(200, "PATCH", "/customers/cus_1005", `{"metadata":{"a":"no phone"}}`)["metadata"].(map[string]any)["a"])
	require.Equal(t, 1, s.total("/customers?email=EVE@example.com"))
	s.do(409, "POST", "/customers", `{"name":"Eve","email":"Eve@example.com"}`)
	s.do(409, "PATCH", "/customers/cus_1005", `{"email":"ada@example.com"}`)
	s.do(409, "DELETE", "/customers/cus_1001", "")
	require.Equal(t, map[string]any{"id": "cus_1005", "deleted": true}, s.do(200, "DELETE", "/customers/cus_1005", ""))
	s.do(404, "DELETE", "/customers/cus_1005", "")
	s.do(404, "GET", "/customers/cus_1005", "")
	require.Equal(t, 4, s.total("/customers"))
}

func TestRefunds(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	r := s.do(201, "POST", "/refunds", `{"order_id":"ord_1001","amount":999,"reason":"damaged"}`)
	require.Equal(t, r, s.do(200, "GET", "/refunds/ref_1001", ""))
	e := s.do(409, "POST", "/refunds", `{"order_id":"ord_1001","amount":4001}`)
	require.Equal(t, "refund_exceeds_payment", e["error"].(map[string]any)["code"])
	require.InEpsilon(t, 4000, s.do(201, "POST", "/refunds", `{"order_id":"ord_1001"}`)["amount"], 0)
	require.Equal(t, "refunded", s.do(200, "GET", "/orders/ord_1001", "")["status"])
	s.do(409, "POST", "/refunds", `{"order_id":"ord_1001"}`)
	s.do(409, "POST", "/refunds", `{"order_id":"ord_1003"}`)
	require.Equal(t, 2, s.total("/refunds?order_id=ord_1001"))
	require.Equal(t, 0, s.total("/refunds?order_id=ord_1002"))
}

func TestTickets(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	x := s.do(201, "POST", "/tickets", `{"customer_id":"cus_1002","subject":"s","body":"b"}`)
	require.Equal(t, "normal", x["priority"])
	s.do(201, "POST", "/tickets/tic_1002/comments", `{"body":"one"}`)
	x = s.do(201, "POST", "/tickets/tic_1002/comments", `{"body":"two","author":"me"}`)
	require.Len(t, x["comments"], 2)
	require.Equal(t, "closed", s.do(200, "POST", "/tickets/tic_1002/close", `{"resolution":"done"}`)["status"])
	s.do(409, "POST", "/tickets/tic_1002/close", "")
	s.do(409, "POST", "/tickets/tic_1002/comments", `{"body":"three"}`)
	require.Equal(t, 1, s.total("/tickets?status=closed"))
	require.Equal(t, 2, s.total("/tickets?priority=normal"))
	require.Equal(t, "done", s.do(200, "GET", "/tickets/tic_1002", "")["resolution"])
}

func TestMessages(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	m := s.do(201, "POST", "/messages", `{"customer_id":"cus_1001","channel":"sms","body":"hi"}`)
	require.Equal(t, "+4915112345678", m["to"])
	s.do(422, "POST", "/messages", `{"customer_id":"cus_1002","channel":"sms","body":"hi"}`)
	require.Equal(t, 1, s.total("/messages?channel=sms"))
	require.Equal(t, 2, s.total("/messages?customer_id=cus_1001"))
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	cases := []struct {
		name, method, path, body string
		status                   int
		code, param              string
	}{
		{"no such path", "GET", "/x", "", 404, "not_found", ""},
		{"no such method", "PUT", "/orders", "", 404, "not_found", ""},
		{"no such order", "GET", "/orders/ord_1", "", 404, "order_not_found", ""},
		{"no such refund", "GET", "/refunds/x", "", 404, "refund_not_found", ""},
		{"no such ticket", "POST", "/tickets/x/close", "", 404, "ticket_not_found", ""},
		{"not JSON", "POST", "/orders", "{", 400, "invalid_json", ""},
		{"unknown field", "POST", "/orders", `{"foo":1}`, 400, "invalid_json", ""},
		{"wrong type", "POST", "/orders", `{"amount":"1"}`, 400, "invalid_type", "amount"},
		{"fraction", "POST", "/orders", `{"amount":1.5}`, 400, "invalid_type", "amount"},
		{"missing", "POST", "/orders", "", 422, "validation_failed", "customer_id"},
		{"amount zero", "POST", "/orders", `{"customer_id":"cus_1001","amount":0,"currency":"eur"}`, 422, "validation_failed", "amount"},
		{"refund of zero", "POST", "/refunds", `{"order_id":"ord_1001","amount":0}`, 422, "validation_failed", "amount"},
		{"refund of nothing known", "POST", "/refunds", `{"order_id":"x"}`, 422, "validation_failed", "order_id"},
		{"currency", "POST", "/orders", `{"customer_id":"cus_1001","amount":1,"currency":"xyz"}`, 422, "validation_failed", "currency"},
		{"customer", "POST", "/orders", `{"customer_id":"x","amount":1,"currency":"eur"}`, 422, "validation_failed", "customer_id"},
		{"item", "POST", "/orders", `{"customer_id":"cus_1001","amount":1,"currency":"eur","items":[{"sku":"a"}]}`, 422, "validation_failed", "items[0].quantity"},
		{"email", "POST", "/customers", `{"name":"x","email":"nobody"}`, 422, "validation_failed", "email"},
		{"long", "POST", "/orders/ord_1003/cancel", `{"reason":"` + strings.Repeat("x", 501) + `"}`, 422, "validation_failed", "reason"},
		{"limit", "GET", "/orders?limit=0", "", 422, "validation_failed", "limit"},
		{"status", "GET", "/orders?status=x", "", 422, "validation_failed", "status"},
		{"min_amount", "GET", "/orders?min_amount=x", "", 422, "validation_failed", "min_amount"},
		{"cursor", "GET", "/orders?starting_after=x", "", 422, "validation_failed", "starting_after"},
		{"too large", "POST", "/orders", `{"note":"` + strings.Repeat("x", 300<<10) + `"}`, 413, "too_large", ""},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := shop{t, s.url, s.client}.do(tc.status, tc.method, tc.path, tc.body)["error"].(map[string]any)
			require.Equal(t, tc.code, e["code"])
			require.NotEmpty(t, e["message"])
			if tc.param != "" {
				require.Equal(t, tc.param, e["param"])
			}
		})
	}
}

func TestAPIKey(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.do(401, "GET", "/orders", "", sandbox.KeyHeader, "")
	s.do(401, "POST", "/orders", "{}", sandbox.KeyHeader, testKey+"x")
	_, err := sandbox.New(sandbox.Config{})
	require.Error(t, err)
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	body := `{"customer_id":"cus_1001","subject":"s","body":"b"}`
	first := s.do(201, "POST", "/tickets", body, "Idempotency-Key", "k")
	status, second, header := s.send("POST", "/tickets", body, "Idempotency-Key", "k")
	require.Equal(t, 201, status)
	require.Equal(t, first, second)
	require.Equal(t, "true", header.Get("Idempotent-Replayed"))
	s.do(422, "POST", "/tickets", `{"customer_id":"cus_1002","subject":"s","body":"b"}`, "Idempotency-Key", "k")
	s.do(201, "POST", "/customers", `{"name":"x","email":"x@example.com"}`, "Idempotency-Key", "k")
	require.Equal(t, 2, s.total("/tickets"))

	// A refused call does not use the key up; an order takes none.
	s.do(422, "POST", "/tickets", `{}`, "Idempotency-Key", "k2")
	s.do(201, "POST", "/tickets", body, "Idempotency-Key", "k2")
	for range 2 {
		s.do(201, "POST", "/orders", `{"customer_id":"cus_1001","amount":1,"currency":"eur"}`, "Idempotency-Key", "k")
	}
	require.Equal(t, 7, s.total("/orders"))
}

func TestConcurrentCallsAreCounted(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 25 {
				s.do(201, "POST", "/orders", `{"customer_id":"cus_1001","amount":1,"currency":"eur"}`)
				s.do(201, "POST", "/tickets", `{"customer_id":"cus_1001","subject":"s","body":"b"}`, "Idempotency-Key", fmt.Sprint("k", n))
				s.do(200, "PATCH", "/orders/ord_1001", fmt.Sprintf(`{"note":"%d"}`, i))
			}
		})
	}
	wg.Wait()
	require.Equal(t, 5+200, s.total("/orders"))
	require.Equal(t, 1+25, s.total("/tickets"))
}

func TestShopRestartedContinues(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "shop")
	first, s := open(t, dir)
	s.do(201, "POST", "/refunds", `{"order_id":"ord_1001","amount":999}`)
	s.do(201, "POST", "/customers", `{"name":"x","email":"x@example.com"}`, "Idempotency-Key", "k")
	s.do(200, "DELETE", "/customers/cus_1005", "")
	s.do(201, "POST", "/orders", `{"customer_id":"cus_1001","amount":1,"currency":"eur"}`)
	s.do(201, "POST", "/messages", `{"customer_id":"cus_1001","channel":"email","body":"b"}`)
	s.do(201, "POST", "/tickets/tic_1001/comments", `{"body":"b"}`)
	orders := s.do(200, "GET", "/orders", "")

	// The first shop is not closed, as after kill -9, and the last line is cut.
	file, err := os.OpenFile(filepath.Join(dir, "sandbox.ndjson"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(`{"order":{"id":"ord_9`)
	require.NoError(t, err)
	require.NoError(t, file.Close())

	for range 2 { // the second time from the rewritten file
		again, s := open(t, dir)
		require.Equal(t, orders, s.do(200, "GET", "/orders", ""))
		require.Equal(t, 1, s.total("/refunds"))
		require.Equal(t, 4, s.total("/customers"))
		require.Equal(t, 2, s.total("/messages"))
		require.Len(t, s.do(200, "GET", "/tickets/tic_1001", "")["comments"], 1)
		s.do(404, "GET", "/customers/cus_1005", "")
		s.do(201, "POST", "/customers", `{"name":"x","email":"x@example.com"}`, "Idempotency-Key", "k")
		require.Equal(t, 4, s.total("/customers"), "the key is remembered")
		require.NoError(t, again.Close())
	}
	_, s = open(t, dir)
	require.Equal(t, "cus_1006", s.do(201, "POST", "/customers", `{"name":"x","email":"x@example.com"}`)["id"], "ids are not given twice")
	require.NoError(t, first.Close())
}

func TestStateFileFailures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, sh := open(t, dir)
	require.NoError(t, s.Close())
	sh.do(500, "POST", "/orders", `{"customer_id":"cus_1001","amount":1,"currency":"eur"}`)
	require.Equal(t, 5, sh.total("/orders"), "what could not be stored did not happen")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "sandbox.ndjson"), []byte("{broken\n"), 0o600))
	_, err := sandbox.New(sandbox.Config{APIKey: "k", Dir: dir})
	require.ErrorContains(t, err, "line 1")
}

func TestDocument(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	served := s.do(200, "GET", "/openapi.json", "", sandbox.KeyHeader, "")
	require.Equal(t, s.url, served["servers"].([]any)[0].(map[string]any)["url"])

	raw := sandbox.Document("https://shop.example")
	doc, err := openapi3.NewLoader().LoadFromData(raw)
	require.NoError(t, err)
	require.Equal(t, "https://shop.example", doc.Servers[0].URL)
	want := map[string]string{
		"listOrders": "GET orders", "createOrder": "POST orders", "getOrder": "GET orders", "updateOrder": "PATCH orders", "cancelOrder": "POST orders",
		"listCustomers": "GET customers", "createCustomer": "POST customers", "getCustomer": "GET customers", "updateCustomer": "PATCH customers", "deleteCustomer": "DELETE customers",
		"listRefunds": "GET refunds", "createRefund": "POST refunds", "getRefund": "GET refunds",
		"listTickets": "GET tickets", "createTicket": "POST tickets", "getTicket": "GET tickets", "commentTicket": "POST tickets", "closeTicket": "POST tickets",
		"listMessages": "GET messages", "sendMessage": "POST messages",
	}
	got := map[string]string{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			extension := op.Extensions["x-agent-runtime"].(map[string]any)
			got[op.OperationID] = method + " " + extension["domain"].(string)
			require.NotEmpty(t, op.Description, op.OperationID)
			require.Equal(t, op.OperationID == "createRefund", extension["risk_level"] == "high")
			requireServed(t, s, method, path)
		}
	}
	require.Equal(t, want, got)
}

// requireServed fails if the shop does not know the documented path and method.
func requireServed(t *testing.T, s shop, method, path string) {
	t.Helper()
	for _, id := range []string{"order_id", "customer_id", "refund_id", "ticket_id"} {
		path = strings.ReplaceAll(path, "{"+id+"}", "unknown")
	}
	_, out, _ := s.send(method, path, "")
	if e, failed := out["error"].(map[string]any); failed {
		require.NotEqual(t, "not_found", e["code"], "%s %s", method, path)
	}
}

func BenchmarkCreateOrder(b *testing.B) {
	body := []byte(`{"customer_id":"cus_1001","amount":1999,"currency":"eur","items":[{"sku":"A","quantity":2}]}`)
	for name, dir := range map[string]string{"memory": "", "file": b.TempDir()} {
		b.Run(name, func(b *testing.B) {
			s, err := sandbox.New(sandbox.Config{APIKey: testKey, Dir: dir})
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				req := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/orders", bytes.NewReader(body))
				req.Header.Set(sandbox.KeyHeader, testKey)
				w := httptest.NewRecorder()
				s.ServeHTTP(w, req)
				if w.Code != http.StatusCreated {
					b.Fatal(w.Body.String())
				}
			}
		})
	}
}
