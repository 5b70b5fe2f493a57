package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/sandbox"
)

const (
	devEmail     = "dev@example.com"
	shopProvider = "shop"
)

// tenant is the development tenant as the data directory remembers it.
type tenant struct {
	TenantID   string `json:"tenant_id"`
	Email      string `json:"email"`
	Password   string `json:"password"`
	RuntimeKey string `json:"runtime_key"`
	AgentKey   string `json:"agent_key"`
	// MapID is that of the demo Map of the shop.
	MapID string `json:"map_id"`
	// AgentID is that of the demo agent of the shop, GoalAgentID of the one that works towards goals, and
	// WorkflowAgentID of the one that works by a Map.
	AgentID         string `json:"agent_id"`
	GoalAgentID     string `json:"goal_agent_id"`
	WorkflowAgentID string `json:"workflow_agent_id"`
	// ShopKey is the shop's key that the vault has.
	ShopKey string `json:"shop_key"`
}

// seed makes the development tenant by the same calls that anyone would make, or
// finds that it is there already, and points its provider at the sandbox. What it
// makes up is written down before it is used, so a kill at any moment loses nothing.
func (s *stack) seed(ctx context.Context, shopURL string) error {
	path := filepath.Join(s.data, "tenant.json")
	t, err := readTenant(path)
	if err != nil {
		return err
	}
	if t.Email == "" {
		t.Email, t.Password = devEmail, rand.Text()
		if err := writeFile(path, t); err != nil {
			return err
		}
	}
	c := &client{base: s.ready.APIURL}
	if err := c.enter(ctx, &t); err != nil {
		return fmt.Errorf("make the development tenant: %w", err)
	}
	if err := c.makeKeys(ctx, &t); err != nil {
		return fmt.Errorf("make the development keys: %w", err)
	}
	if shopURL != "" {
		if err := s.connectShop(ctx, c, &t, shopURL); err != nil {
			return fmt.Errorf("connect the sandbox: %w", err)
		}
		if err := c.makeMap(ctx, &t); err != nil {
			return fmt.Errorf("make the demo Map: %w", err)
		}
		if err := c.makeAgents(ctx, &t); err != nil {
			return fmt.Errorf("make the demo agents: %w", err)
		}
	}
	s.ready.tenant = t
	return writeFile(path, t)
}

// connectShop imports the shop's document, whose address changes with each
// start, and stores its key unless the vault has it.
func (s *stack) connectShop(ctx context.Context, c *client, t *tenant, shopURL string) error {
	err := c.post(ctx, "/v1/providers", map[string]any{
		"slug": shopProvider, "name": "Sandbox shop", "domain": "commerce",
		"base_url": shopURL, "openapi": json.RawMessage(sandbox.Document(shopURL)),
	}, nil)
	if err != nil {
		return err
	}
	if err := c.trustShop(ctx); err != nil {
		return err
	}
	key, err := s.sandboxKey()
	if err != nil || t.ShopKey == key {
		return err
	}
	err = c.post(ctx, "/v1/credentials", map[string]any{
		"provider": shopProvider, "type": "api_key", "label": "sandbox", "data": map[string]string{"key": key},
	}, nil)
	t.ShopKey = key
	return err
}

// strangersWrite are the places in results of the shop that have what its customers write. All else is
// the shop's own: its people enter names and addresses of mail, as in most shops.
func strangersWrite() map[string][]string {
	order, ticket := []string{"/note", "/shipping_address"}, []string{"/subject", "/body", "/comments/*/body"}
	places := map[string][]string{
		"list_orders": {"/data/*/note", "/data/*/shipping_address"}, "list_customers": {"/data/*/metadata"},
		"list_tickets": {"/data/*/subject", "/data/*/body", "/data/*/comments/*/body"},
	}
	for _, verb := range []string{"get_order", "create_order", "update_order", "cancel_order"} {
		places[verb] = order
	}
	for _, verb := range []string{"get_customer", "create_customer", "update_customer"} {
		places[verb] = []string{"/metadata"}
	}
	for _, verb := range []string{"get_ticket", "create_ticket", "comment_ticket", "close_ticket"} {
		places[verb] = ticket
	}
	return places
}

// trustShop says that results of the shop are the tenant's own words, but for what strangers write.
func (c *client) trustShop(ctx context.Context) error {
	for verb, places := range strangersWrite() {
		if err := c.send(ctx, http.MethodPatch, "/v1/providers/"+shopProvider+"/verbs/"+verb, map[string]any{"taint": places}, nil); err != nil {
			return err
		}
	}
	return c.send(ctx, http.MethodPatch, "/v1/providers/"+shopProvider, map[string]any{"trust": "own"}, nil)
}

func readTenant(path string) (tenant, error) {
	var t tenant
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return t, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	if err != nil {
		return t, fmt.Errorf("read the development tenant: %w; delete %s to make it again", err, path)
	}
	return t, nil
}

// client calls the API of this process as its users do.
type client struct {
	base  string
	token string
}

// logIn gets a token for a tenant that was made before.
func (c *client) logIn(ctx context.Context, t *tenant) error {
	var login struct {
		Token string `json:"token"`
		User  struct {
			TenantID string `json:"tenantId"`
		} `json:"user"`
	}
	in := map[string]string{"email": t.Email, "password": t.Password}
	err := c.post(ctx, "/v1/auth/login", in, &login)
	if refused := (*refusal)(nil); errors.As(err, &refused) && refused.code == fault.CodeEmailNotVerified {
		if err := c.verify(ctx, t.Email); err != nil {
			return fmt.Errorf("verify %s, as REQUIRE_VERIFIED_EMAIL asks for: %w", t.Email, err)
		}
		err = c.post(ctx, "/v1/auth/login", in, &login)
	}
	if err != nil {
		return err
	}
	c.token, t.TenantID = login.Token, login.User.TenantID
	return nil
}

// enter logs in, after a sign-up where the tenant is not there yet. Its id is known since the
// first login. A login before the sign-up would leave a refusal in the log of the first start.
func (c *client) enter(ctx context.Context, t *tenant) error {
	if t.TenantID != "" && c.logIn(ctx, t) == nil {
		return nil
	}
	err := c.post(ctx, "/v1/auth/signup", map[string]string{"email": t.Email, "password": t.Password, "name": "Development"}, nil)
	if err != nil {
		return err
	}
	if err := c.logIn(ctx, t); err != nil {
		return fmt.Errorf("%w (if the database knows %s by another password, delete the data directory to start again)", err, t.Email)
	}
	return nil
}

// makeKeys makes one key of each kind unless they are there.
func (c *client) makeKeys(ctx context.Context, t *tenant) error {
	for _, key := range []struct {
		into        *string
		name        string
		permissions []string
	}{
		{&t.RuntimeKey, "Runtime key", []string{"actions:run", "actions:catalog"}},
		{&t.AgentKey, "Agent key", []string{"agents:message"}},
	} {
		if *key.into != "" {
			continue
		}
		var made struct {
			Key string `json:"key"`
		}
		if err := c.post(ctx, "/v1/api-keys", map[string]any{"name": key.name, "permissions": key.permissions}, &made); err != nil {
			return err
		}
		*key.into = made.Key
	}
	return nil
}

// askedAbove is the amount in cents above which the demo Map asks people.
const askedAbove = 10_000

// grantDays is for how long the refunds of the demo Map are approved in advance: as long as a grant
// may last. Later they are held too.
const grantDays = 90

// makeMap makes the demo Map unless it is there, and what opens its refunds: a policy by which people
// approve large ones, and a grant that approves those of the Map in advance, because the Map asks itself.
// Smaller refunds stay blocked. The tenant has one user, who publishes the Map and gives the grant: hence
// self_approval.
func (c *client) makeMap(ctx context.Context, t *tenant) error {
	if t.MapID != "" {
		return c.closeOpenGrants(ctx, t.MapID)
	}
	verb := shopProvider + ":create_refund"
	var made struct {
		ID string `json:"id"`
	}
	if err := c.post(ctx, "/v1/maps?publish=true", json.RawMessage(sandbox.RefundMap()), &made); err != nil {
		return err
	}
	err := c.post(ctx, "/v1/policies", map[string]any{
		"name": "Large refunds are approved", "verbMatchers": []any{map[string]any{"type": "verb", "value": verb}},
		"conditions": largeRefunds(), "action": map[string]any{"type": "require_approval"}, "approval": map[string]any{"self_approval": true},
	}, nil)
	if err != nil {
		return err
	}
	if err := c.grantRefunds(ctx, made.ID); err != nil {
		return err
	}
	t.MapID = made.ID
	return nil
}

// largeRefunds are the conditions of those that people approve.
func largeRefunds() []any {
	return []any{map[string]any{"field": "args.amount", "operator": "greater", "value": askedAbove}}
}

// demoGrant is the reason of the demo's grant. A later start finds the grant by it.
const demoGrant = "The demo Map asks a person before it refunds."

// grantRefunds approves large refunds of the Map in advance.
func (c *client) grantRefunds(ctx context.Context, mapID string) error {
	return c.post(ctx, "/v1/grants", map[string]any{
		"verb": shopProvider + ":create_refund", "map_id": mapID, "conditions": largeRefunds(), "max_uses": 1000,
		"expires_at": time.Now().AddDate(0, 0, grantDays).Add(-time.Hour).UTC().Format(time.RFC3339), "reason": demoGrant,
	}, nil)
}

// closeOpenGrants puts the grant of the Map in the place of grants of the demo that name no Map: an earlier
// release gave one, and now it would let refunds by a key through, and none of the Map.
func (c *client) closeOpenGrants(ctx context.Context, mapID string) error {
	var grants []struct {
		ID     string  `json:"id"`
		MapID  *string `json:"map_id"`
		Reason string  `json:"reason"`
	}
	if err := c.send(ctx, http.MethodGet, "/v1/grants?usable=true&limit=100&verb="+shopProvider+":create_refund", nil, &grants); err != nil {
		return err
	}
	open := false
	for _, g := range grants {
		if g.MapID != nil || g.Reason != demoGrant {
			continue
		}
		if err := c.send(ctx, http.MethodDelete, "/v1/grants/"+g.ID, nil, nil); err != nil {
			return err
		}
		open = true
	}
	if !open {
		return nil
	}
	return c.grantRefunds(ctx, mapID)
}

// makeAgents makes the demo agents unless they are there, and before the first a policy by which people
// approve the refunds that agents ask for.
func (c *client) makeAgents(ctx context.Context, t *tenant) error {
	if t.AgentID == "" {
		err := c.post(ctx, "/v1/policies", map[string]any{
			"name": "Refunds of agents are approved", "verbMatchers": []any{map[string]any{"type": "verb", "value": shopProvider + ":create_refund"}},
			"conditions": []any{map[string]any{"field": "agent_id", "operator": "exists"}}, "action": map[string]any{"type": "require_approval"}, "approval": map[string]any{"self_approval": true},
		}, nil)
		if err != nil {
			return err
		}
	}
	var order struct {
		ID string `json:"id"`
	}
	if t.WorkflowAgentID == "" {
		if err := c.post(ctx, "/v1/maps?publish=true", json.RawMessage(sandbox.OrderMap()), &order); err != nil {
			return err
		}
	}
	tools := map[string]any{"allow": []string{shopProvider + ":*", "tool:*"}, "deny": []string{shopProvider + ":delete_*"}}
	for _, agent := range []struct {
		into *string
		body map[string]any
	}{
		{&t.AgentID, map[string]any{
			"name":         "Shop assistant",
			"instructions": "You help the customers of a shop with their orders. Be brief.",
			"tools":        tools,
			"sops": []any{map[string]any{
				"slug": "refund", "title": "Refunds", "when": "The customer wants money back.", "keywords": []string{"refund", "money back"},
				"action": "Read the order first. Refund only what was paid. A person approves it.",
			}},
		}},
		{&t.GoalAgentID, map[string]any{
			"name":          "Shop errands",
			"executionMode": "goal",
			"instructions":  "You do errands for the people of a shop.",
			"tools":         tools,
		}},
		{&t.WorkflowAgentID, map[string]any{
			"name": "Shop orders", "executionMode": "workflow_only", "map_id": order.ID, "instructions": "You tell customers of a shop of their orders.", "tools": tools,
		}},
	} {
		if *agent.into != "" {
			continue
		}
		var made struct {
			ID string `json:"id"`
		}
		if err := c.post(ctx, "/v1/agents", agent.body, &made); err != nil {
			return err
		}
		*agent.into = made.ID
	}
	return nil
}

// refusal is an answer of 400 or above.
type refusal struct {
	code fault.Code
	text string
}

func (r *refusal) Error() string { return r.text }

// post sends body and reads `data` of the envelope into out, unless that is nil.
func (c *client) post(ctx context.Context, path string, body, out any) error {
	return c.send(ctx, http.MethodPost, path, body, out)
}

func (c *client) send(ctx context.Context, method, path string, body, out any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := (&http.Client{}).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err = io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode >= http.StatusBadRequest {
		var envelope struct {
			Error struct {
				Code fault.Code `json:"code"`
			} `json:"error"`
		}
		_ = json.Unmarshal(text, &envelope) // what is none has no code
		return &refusal{envelope.Error.Code, fmt.Sprintf("%s %s: %s: %s", method, path, res.Status, text)}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, &struct {
		Data any `json:"data"`
	}{out})
}
