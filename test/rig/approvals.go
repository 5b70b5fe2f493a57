package rig

import (
	"maps"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// Policy returns the body of a policy that takes the action for one verb, or for what a
// glob of verbs matches. The members of more are added to it.
func Policy(name, action, verb string, more map[string]any) map[string]any {
	body := map[string]any{
		"name": name, "action": map[string]any{"type": action},
		"verbMatchers": []map[string]string{{"type": "verb", "value": verb}},
	}
	maps.Copy(body, more)
	return body
}

// RequireApproval returns the body of a policy that has the calls of a verb held.
// approval says who may approve, how many and how long; nil leaves the defaults.
func RequireApproval(name, verb string, approval map[string]any) map[string]any {
	if approval == nil {
		return Policy(name, "require_approval", verb, nil)
	}
	return Policy(name, "require_approval", verb, map[string]any{"approval": approval})
}

// NewPolicy makes a policy and returns its id.
func (c *Client) NewPolicy(tb testing.TB, body map[string]any) string {
	tb.Helper()
	a := c.Do(http.MethodPost, "/v1/policies", body)
	require.Equal(tb, http.StatusCreated, a.Status, "%s %v", a.Body, a.Err)
	var made struct{ ID string }
	a.Data(tb, &made)
	return made.ID
}

// ReplacePolicy replaces a policy.
func (c *Client) ReplacePolicy(id string, body map[string]any) Answer {
	return c.Do(http.MethodPut, "/v1/policies/"+id, body)
}

// Decide approves or rejects; body may be nil.
func (c *Client) Decide(approvalID, decision string, body any) Answer {
	return c.Do(http.MethodPost, "/v1/approvals/"+url.PathEscape(approvalID)+"/"+decision, body)
}
