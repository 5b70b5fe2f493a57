package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/verb"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/record/quota"
)

// credential is an API key or a user's token.
type credential struct{ key, token string }

// login is what a benchmark reads of a log-in.
type login struct {
	Token string `json:"token"`
	User  struct {
		TenantID uuid.UUID `json:"tenantId"`
	} `json:"user"`
}

// logIn returns the token of a user and the id of the tenant.
func (b *benchmark) logIn(ctx context.Context, email, password string) (credential, uuid.UUID, error) {
	var in login
	err := b.post(ctx, credential{}, "/v1/auth/login", map[string]string{"email": email, "password": password}, &in)
	return credential{token: in.Token}, in.User.TenantID, err
}

// newKey makes an API key.
func (b *benchmark) newKey(ctx context.Context, user credential, permissions ...string) (credential, error) {
	var made struct {
		Key string `json:"key"`
	}
	err := b.post(ctx, user, "/v1/api-keys", map[string]any{"name": "bench", "permissions": permissions}, &made)
	return credential{key: made.Key}, err
}

// prepare makes the tenants, keys and catalogs.
func (b *benchmark) prepare(ctx context.Context) error {
	owner, tenantID, err := b.logIn(ctx, b.service.Email, b.service.Password)
	if err != nil {
		return err
	}
	if b.manager, err = b.newKey(ctx, owner, "credentials:manage"); err != nil {
		return err
	}
	if b.big, err = b.largeTenant(ctx); err != nil {
		return err
	}
	if err := b.fill(ctx, tenantID, smallCatalog); err != nil {
		return err
	}
	if err := b.action(ctx, 0); err != nil {
		return err
	}
	raw, err := b.call(ctx, http.MethodGet, "/v1/credentials", b.manager, nil, http.StatusOK)
	if err != nil {
		return err
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &list); err != nil || len(list.Data) == 0 {
		return errors.New("bench: the tenant has no credential to read")
	}
	b.stored = list.Data[0].ID
	if err := b.makeAgents(ctx, owner); err != nil {
		return err
	}
	return b.publish(ctx, owner, "")
}

// publish makes the Map that is measured: a read, a value of it, a decision, a write and a variable.
// more are further members of its definition.
func (b *benchmark) publish(ctx context.Context, owner credential, more string) error {
	definition := `{"schema_version":"1","name":"Bench",` + more + `"steps":[
		{"id":"order","type":"verb","verb":"` + b.service.Provider + `:get_order","args":{"order_id":"${trigger_data.order_id}"}},
		{"id":"amount","type":"transform","expr":"${steps.order.output.amount}"},
		{"id":"sort","type":"switch","cases":[{"when":"${steps.amount.output > 1000}","steps":[
			{"id":"again","type":"verb","verb":"` + b.service.Provider + `:create_order","args":{
				"customer_id":"${steps.order.output.customer_id}","amount":"${steps.amount.output}","currency":"eur"}}]}]},
		{"id":"keep","type":"set","assign":{"made":"${steps.again.output.id}"}}],"output":"${vars.made}"}`
	var made struct {
		ID string `json:"id"`
	}
	err := b.post(ctx, owner, "/v1/maps?publish=true", json.RawMessage(definition), &made)
	b.trigger = "/v1/maps/" + made.ID + "/trigger"
	return err
}

// mapOfFive runs the Map to its end.
func (b *benchmark) mapOfFive(ctx context.Context, _ int64) error {
	body := []byte(`{"session_id":"` + uuid.NewString() + `","payload":{"order_id":"ord_1001"}}`)
	_, err := b.call(ctx, http.MethodPost, b.trigger, b.runtime, body, http.StatusOK)
	return err
}

func (b *benchmark) largeTenant(ctx context.Context) (credential, error) {
	email, password := "large@example.com", uuid.NewString()
	if err := b.post(ctx, credential{}, "/v1/auth/signup", map[string]string{"email": email, "password": password}, nil); err != nil {
		return credential{}, err
	}
	owner, tenantID, err := b.logIn(ctx, email, password)
	if err != nil {
		return credential{}, err
	}
	key, err := b.newKey(ctx, owner, "actions:run", "actions:catalog")
	if err != nil {
		return credential{}, err
	}
	return key, b.fill(ctx, tenantID, b.Verbs)
}

// fill gives a tenant n verbs, 500 to a provider.
func (b *benchmark) fill(ctx context.Context, tenantID uuid.UUID, n int) error {
	pool, err := db.Open(ctx, db.Config{URL: b.service.DatabaseURL, MaxConns: 2})
	if err != nil {
		return err
	}
	defer pool.Close()
	quotas, err := quota.New(map[string]int64{string(quota.Verbs): int64(2 * n), string(quota.Catalog): int64(2 * n)})
	if err != nil {
		return err
	}
	c, err := catalog.New(catalog.Deps{DB: pool, Quotas: quotas})
	if err != nil {
		return err
	}
	const each = 500
	schema := json.RawMessage(`{"type":"object","properties":{"id":{"type":"string","description":"Which one."},"amount":{"type":"integer"}},"required":["id"]}`)
	for p := range n / each {
		verbs := make([]verb.Definition, each)
		for i := range verbs {
			verbs[i] = verb.Definition{
				Name: fmt.Sprintf("verb_%04d", i), Domain: fmt.Sprintf("domain_%d", i%20), Description: "Does one thing to one of them.",
				Risk: verb.RiskMedium, Operation: verb.Write, Idempotency: verb.IdempotencyNone, Schema: schema, Plan: json.RawMessage(`{}`),
			}
		}
		_, err := c.Replace(ctx, actor.OperatorAt(tenantID, "benchmark"), catalog.Provider{
			Slug: fmt.Sprintf("provider%03d", p), Name: "Provider", Domain: "bench", BaseURL: "https://example.com", AuthType: "bearer", Auth: json.RawMessage(`{"type":"bearer"}`),
		}, verbs)
		if err != nil {
			return err
		}
	}
	return nil
}

// action runs a write of the sandbox: governed, sent, recorded.
func (b *benchmark) action(ctx context.Context, i int64) error {
	id := uuid.NewString()
	if i == 0 {
		id = "bench-fence"
	}
	_, err := b.call(ctx, http.MethodPost, "/v1/runtime/actions/run", b.runtime, b.order(id), http.StatusOK)
	return err
}

// fenceHit repeats a call that has run.
func (b *benchmark) fenceHit(ctx context.Context, _ int64) error {
	_, err := b.call(ctx, http.MethodPost, "/v1/runtime/actions/run", b.runtime, b.order("bench-fence"), http.StatusOK)
	return err
}

func (b *benchmark) order(id string) []byte {
	return []byte(`{"verb":"` + b.service.Provider + `:create_order","args":{"customer_id":"cus_1001","amount":1999,"currency":"eur"},"execution_id":"` + id + `"}`)
}

func (b *benchmark) evaluate(ctx context.Context, _ int64) error {
	body := []byte(`{"verb":"` + b.service.Provider + `:create_refund","args":{"order_id":"ord_1001","amount":100}}`)
	_, err := b.call(ctx, http.MethodPost, "/v1/runtime/governance/evaluate", b.runtime, body, http.StatusOK)
	return err
}

// bareGet is an authenticated GET of one row: two round trips, as a fence hit and
// an evaluation have.
func (b *benchmark) bareGet(ctx context.Context, _ int64) error {
	_, err := b.call(ctx, http.MethodGet, "/v1/credentials/"+b.stored, b.manager, nil, http.StatusOK)
	return err
}

func (b *benchmark) page(who credential) Op {
	return func(ctx context.Context, _ int64) error {
		_, err := b.call(ctx, http.MethodGet, "/v1/runtime/actions/catalog?limit=100", who, nil, http.StatusOK)
		return err
	}
}

// post sends body and reads the data of the answer into out, unless that is nil.
func (b *benchmark) post(ctx context.Context, who credential, path string, body, out any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	raw, err := b.call(ctx, http.MethodPost, path, who, text, http.StatusOK, http.StatusCreated)
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(raw, &struct {
		Data any `json:"data"`
	}{out})
}

// call returns the body of an answer with one of the wanted statuses.
func (b *benchmark) call(ctx context.Context, method, path string, who credential, body []byte, want ...int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, b.service.APIURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return b.send(req, who, want...)
}

// send is call for a request.
func (b *benchmark) send(req *http.Request, who credential, want ...int) ([]byte, error) {
	if who.key != "" {
		req.Header.Set("X-API-Key", who.key)
	}
	if who.token != "" {
		req.Header.Set("Authorization", "Bearer "+who.token)
	}
	if req.ContentLength > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := b.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && !slices.Contains(want, resp.StatusCode) {
		err = fmt.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, resp.Status, raw)
	}
	return raw, err
}
