package governance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/test/oracle"
	"agentruntime/test/rig"
)

// world is a tenant that is connected to a bank of its own.
type world struct {
	*rig.Tenant

	name string
	t    *testing.T
	s    *rig.Stack
	bank *bank
	// permitted: a permitted user has made high-risk verbs harmless, so their effects need
	// no approval.
	permitted bool
	// leaves: the stack ends with its test, which checks it for the last time itself.
	leaves bool
}

// newWorld signs a tenant up on the shared stack and connects its bank.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := emptyWorld(t, sharedDev().For(t))
	w.connect(bankPaths())
	return w
}

func emptyWorld(t *testing.T, s *rig.Stack) *world {
	t.Helper()
	w := &world{name: t.Name(), t: t, s: s, bank: newBank(), Tenant: s.NewTenant(rig.Address())}
	t.Cleanup(func() {
		w.bank.letGo()
		if w.leaves {
			return
		}
		for _, problem := range w.unapproved() {
			t.Error(problem)
		}
	})
	worlds.Lock()
	defer worlds.Unlock()
	worlds.list = append(worlds.list, w)
	return w
}

// member is a further user of the tenant.
func (w *world) member(role string) (c *rig.Client, id string) {
	w.t.Helper()
	return w.User.NewUser(w.t, rig.Address(), role)
}

// key makes an API key with these permissions.
func (w *world) key(permissions ...string) (c *rig.Client, id string) {
	w.t.Helper()
	made := w.User.NewKey(w.t, permissions...)
	return w.User.With(made.Key, ""), made.ID
}

// m is a JSON object.
type m = map[string]any

// policy makes one and returns its id.
func (w *world) policy(body m) string {
	w.t.Helper()
	return w.User.NewPolicy(w.t, body)
}

// rule is a policy of an action for a verb.
func rule(name, action, verb string) m { return rig.Policy(name, action, verb, nil) }

// gate makes a policy that holds the calls of the verb.
func (w *world) gate(verb string) string { return w.policy(rule("gate", "require_approval", verb)) }

// with returns the object with more members.
func with(p, more m) m {
	out := maps.Clone(p)
	maps.Copy(out, more)
	return out
}

// evaluated is what tests read of an evaluation.
type evaluated struct {
	Decision         string `json:"decision"`
	Reason           string `json:"reason"`
	RiskLevel        string `json:"risk_level"`
	ApprovalRequired bool   `json:"approval_required"`
	PolicyName       string `json:"policy_name"`
	PolicyMatched    string `json:"policy_matched"`
	Details          struct {
		ShadowDecision string `json:"shadow_decision"`
	} `json:"details"`
}

func (w *world) evaluate(verb string, args any) evaluated {
	w.t.Helper()
	var e evaluated
	w.Runtime.Do(http.MethodPost, "/v1/runtime/governance/evaluate", m{"verb": verb, "args": args}).Data(w.t, &e)
	return e
}

// send calls run with a body of the test's own.
func (w *world) send(body any, headers ...string) rig.Answer {
	return w.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", body, headers...)
}

// hold makes a call that has to be held and returns its approval.
func (w *world) hold(verb string, args m, executionID string) (approvalID string) {
	w.t.Helper()
	e := refused(w.t, w.Runtime.Run(verb, args, executionID), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	require.Equal(w.t, "pending_approval", e.Error.Decision)
	require.NotEmpty(w.t, e.Error.ApprovalID)
	return e.Error.ApprovalID
}

func refused(t *testing.T, a rig.Answer, status int, code string) rig.Envelope {
	t.Helper()
	require.NoError(t, a.Err)
	e := a.Envelope(t)
	require.Equal(t, status, a.Status, "%s", a.Body)
	require.False(t, e.Success)
	require.Equal(t, code, e.Error.Code, "%s", a.Body)
	return e
}

func succeeded(t *testing.T, a rig.Answer) rig.RunData {
	t.Helper()
	require.NoError(t, a.Err)
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	var d rig.RunData
	a.Data(t, &d)
	return d
}

func (w *world) approve(id string) rig.Answer { return w.User.Decide(id, "approve", nil) }
func (w *world) reject(id string) rig.Answer  { return w.User.Decide(id, "reject", nil) }

// approval is what tests read of an approval.
type approval struct {
	ID           string          `json:"id"`
	Kind         string          `json:"kind"`
	ExecutionID  string          `json:"execution_id"`
	Status       string          `json:"status"`
	Outcome      *string         `json:"outcome"`
	Verb         string          `json:"verb"`
	Args         json.RawMessage `json:"args"`
	PolicyName   string          `json:"policy_name"`
	SupersededBy *string         `json:"superseded_by"`
	ClosedReason string          `json:"closed_reason"`
	Request      json.RawMessage `json:"request"`
	Approvals    struct{ Have, Need int }
	Decisions    []struct {
		UserID   *string `json:"user_id"`
		Decision string  `json:"decision"`
	} `json:"decisions"`
}

func (w *world) approval(id string) approval {
	w.t.Helper()
	var a approval
	w.User.Do(http.MethodGet, "/v1/approvals/"+id, nil).Data(w.t, &a)
	return a
}

// limit is generous: it is what a loaded machine may take, not what it does.
const limit = 30 * time.Second

func (w *world) awaitApproval(id, status string) {
	w.t.Helper()
	rig.Until(w.t, limit, id+" is "+status, func() bool { return w.approval(id).Status == status })
}

// status is that of an execution.
func (w *world) status(executionID string) string {
	w.t.Helper()
	var e struct{ Status string }
	w.User.Do(http.MethodGet, "/v1/executions/"+url.PathEscape(executionID), nil).Data(w.t, &e)
	return e.Status
}

func (w *world) awaitStatus(executionID, status string) {
	w.t.Helper()
	rig.Until(w.t, limit, executionID+" is "+status, func() bool { return w.status(executionID) == status })
}

// record is what tests read of an audit record.
type record struct {
	Action    string          `json:"action"`
	ActorType string          `json:"actor_type"`
	ActorID   string          `json:"actor_id"`
	Verb      string          `json:"verb"`
	Decision  string          `json:"decision"`
	Outcome   string          `json:"outcome"`
	SubjectID string          `json:"subject_id"`
	Input     json.RawMessage `json:"input"`
	Details   json.RawMessage `json:"details"`
}

// audit lists the records that the query selects, the oldest first.
func (w *world) audit(query string) []record {
	w.t.Helper()
	list, err := pages[record](w.User, "/v1/audit?"+query)
	require.NoError(w.t, err)
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list
}

// actions names what was done. Calls that changed nothing, which are counted, are left out:
// they are written up to a second later.
func actions(list []record) []string {
	var names []string
	for _, r := range list {
		if !strings.Contains(string(r.Details), `"count":`) {
			names = append(names, r.Action)
		}
	}
	return names
}

// pages reads a list to its end.
func pages[T any](c *rig.Client, path string) ([]T, error) {
	var list []T
	cursor := ""
	for {
		a := c.Do(http.MethodGet, path+"&limit=100"+cursor, nil)
		var page struct {
			Data       []T
			Pagination struct {
				HasMore    bool   `json:"has_more"`
				NextCursor string `json:"next_cursor"`
			}
		}
		if a.Err != nil || a.Status != http.StatusOK {
			return nil, fmt.Errorf("%s: HTTP %d: %s %w", path, a.Status, a.Body, a.Err)
		}
		if err := json.Unmarshal(a.Body, &page); err != nil {
			return nil, err
		}
		list = append(list, page.Data...)
		if !page.Pagination.HasMore {
			return list, nil
		}
		cursor = "&cursor=" + url.QueryEscape(page.Pagination.NextCursor)
	}
}

// unapproved lists the calls that the bank carried out although they needed an approval
// that they did not have.
func (w *world) unapproved() []string {
	if w.permitted {
		return nil
	}
	var effects []oracle.Effect
	for _, r := range w.bank.all() {
		if r.verb != refusedVerb {
			effects = append(effects, oracle.Effect{Verb: r.verb, Args: r.args, Read: strings.HasSuffix(r.verb, "_read")})
		}
	}
	// A test's own context has ended when it looks for the last time.
	f, err := oracle.Read(context.Background(), oracle.Database{URL: w.s.DatabaseURL, VaultKeys: w.s.VaultKeys()}, w.ID)
	if err != nil {
		return []string{err.Error()}
	}
	return oracle.Approved(f, effects, highRisk, nil)
}

// highRisk tells the bank's high-risk verbs by their names.
func highRisk(verb string) bool {
	return strings.HasPrefix(verb, slug+":high_") || verb == deleteThing
}

// id is an execution id that no other call uses.
func id() string { return uuid.NewString() }
