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
	"strings"

	"github.com/google/uuid"
)

// caller calls the service with an API key or a user's token.
type caller struct {
	http    *http.Client
	service Service
	// header is the one that has the credential.
	header, credential string
}

// with is the same caller with another credential.
func (c caller) with(header, credential string) caller {
	c.header, c.credential = header, credential
	return c
}

// logIn returns the user of an address, and the id of the tenant.
func (c caller) logIn(ctx context.Context, email, password string) (caller, uuid.UUID, error) {
	var in struct {
		Token string `json:"token"`
		User  struct {
			TenantID uuid.UUID `json:"tenantId"`
		} `json:"user"`
	}
	err := c.with("", "").post(ctx, "/v1/auth/login", map[string]string{"email": email, "password": password}, &in)
	return c.with("Authorization", "Bearer "+in.Token), in.User.TenantID, err
}

// newKey returns the caller of an API key that c makes.
func (c caller) newKey(ctx context.Context, permissions ...string) (caller, error) {
	var made struct {
		Key string `json:"key"`
	}
	err := c.post(ctx, "/v1/api-keys", map[string]any{"name": "bench", "permissions": permissions}, &made)
	return c.with(keyHeader, made.Key), err
}

// create posts body and returns the id of what that has made.
func (c caller) create(ctx context.Context, path string, body any) (string, error) {
	var made struct {
		ID string `json:"id"`
	}
	err := c.post(ctx, path, body, &made)
	return made.ID, err
}

// post sends body and reads the data of the answer into out, unless that is nil.
func (c caller) post(ctx context.Context, path string, body, out any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	raw, err := c.call(ctx, http.MethodPost, path, text, nil, http.StatusOK, http.StatusCreated)
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(raw, &struct {
		Data any `json:"data"`
	}{out})
}

// call returns the body of an answer with one of the wanted statuses.
func (c caller) call(ctx context.Context, method, path string, body []byte, headers map[string]string, want ...int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.service.APIURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if c.header != "" {
		req.Header.Set(c.header, c.credential)
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
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

const (
	keyHeader = "X-API-Key"
	runPath   = "/v1/runtime/actions/run"
)

// plainAmount is an amount that no policy is about, heldAmount the one that the policy holds.
const plainAmount, heldAmount = 1999, 4242

// say posts a text to a path, which is known later, and looks for words in the answer.
func say(c *caller, path *string, text string, headers map[string]string, words ...string) Op {
	return func(ctx context.Context) error {
		raw, err := c.call(ctx, http.MethodPost, *path, []byte(text), headers, http.StatusOK)
		for _, word := range words {
			if err == nil && !strings.Contains(string(raw), word) {
				err = fmt.Errorf("POST %s: no %s in %s", *path, word, raw)
			}
		}
		return err
	}
}

func (c caller) order(id string, amount int) []byte {
	return fmt.Appendf(nil, `{"verb":"%s:create_order","args":{"customer_id":"cus_1001","amount":%d,"currency":"eur"},"execution_id":"%s"}`, c.service.Provider, amount, id)
}

func (c caller) runAs(ctx context.Context, id string) error {
	_, err := c.call(ctx, http.MethodPost, runPath, c.order(id, plainAmount), nil, http.StatusOK)
	return err
}

// run is a write of the sandbox: governed, sent, recorded.
func (b *benchmark) run(ctx context.Context) error { return b.runAs(ctx, uuid.NewString()) }

// fenceHit repeats a call that has run.
func (b *benchmark) fenceHit(ctx context.Context) error { return b.runAs(ctx, "bench-fence") }

// bareGet is an authenticated GET of one row: two round trips, as a fence hit and an evaluation have.
func (b *benchmark) bareGet(ctx context.Context) error {
	_, err := b.manager.call(ctx, http.MethodGet, "/v1/credentials/"+b.stored, nil, nil, http.StatusOK)
	return err
}

func (b *benchmark) evaluate(ctx context.Context) error {
	body := []byte(`{"verb":"` + b.service.Provider + `:create_refund","args":{"order_id":"ord_1001","amount":100}}`)
	_, err := b.call(ctx, http.MethodPost, "/v1/runtime/governance/evaluate", body, nil, http.StatusOK)
	return err
}

// mapOfFive runs the Map of five steps to its end.
func (b *benchmark) mapOfFive(ctx context.Context) error {
	body := []byte(`{"session_id":"` + uuid.NewString() + `","payload":{"order_id":"ord_1001"}}`)
	_, err := b.call(ctx, http.MethodPost, b.trigger, body, nil, http.StatusOK)
	return err
}

// hold makes a call that the policy holds, and returns its approval.
func (b *benchmark) hold(ctx context.Context) (string, error) {
	raw, err := b.call(ctx, http.MethodPost, runPath, b.order(uuid.NewString(), heldAmount), nil, http.StatusForbidden)
	if err != nil {
		return "", err
	}
	var answer struct {
		Error struct {
			ApprovalID string `json:"approval_id"`
		} `json:"error"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Error.ApprovalID == "" {
		return "", fmt.Errorf("a call was not held: %s", raw)
	}
	return answer.Error.ApprovalID, nil
}

// decide makes a call that is held, and approves it.
func (b *benchmark) decide(ctx context.Context) error {
	id, err := b.hold(ctx)
	if err != nil {
		return err
	}
	var decided struct {
		Outcome string `json:"outcome"`
	}
	err = b.owner.post(ctx, "/v1/approvals/"+id+"/approve", struct{}{}, &decided)
	if err == nil && decided.Outcome != "executed" {
		err = errors.New("an approved call is " + decided.Outcome)
	}
	return err
}
