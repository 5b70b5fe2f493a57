package approvals

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"agentruntime/test/rig"
)

// callLimit is how long the test waits for one answer. It is short, because the part
// that should answer may be dead.
const callLimit = 4 * time.Second

// person is a user of the tenant.
type person struct {
	id, email, role string
	client          *rig.Client
}

// world is a tenant of a running service, and what the test knows of it.
type world struct {
	t        *testing.T
	stack    *rig.Stack
	desk     *desk
	temporal client.Client
	tenant   string
	owner    *person
	people   []*person // the owner first
	key      *rig.Client
	keyID    string
	past     history
	// policies and grants that were made, and are not known to be gone.
	policies, grants []string
	edition          int
	serial           int
	calls            []call
	credential       string
	// acked are the decisions that the service said it has counted.
	acked []ack
	// cancelled are executions that the service said it has cancelled.
	cancelled []string
	// dead are the parts that were killed, and away how many moves more they stay it.
	dead   []string
	away   int
	broken []string
	// said is what happened, in order.
	said []string
}

// call is an execution id with what was asked under it.
type call struct {
	id, verb string
	amount   int
	dryRun   bool
}

// ack is a decision that was answered as counted.
type ack struct{ approval, user, decision string }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, stack: sharedStack().For(t), desk: newDesk(t)}
	// Without our codec: a signal needs none, and what the test asks for is not encrypted.
	c, err := client.Dial(client.Options{HostPort: w.stack.TemporalAddress, Logger: quiet{}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	w.temporal = c
	tenant := w.stack.NewTenant("owner-" + uuid.NewString() + "@example.com")
	tenant.Connect(t, "desk", w.desk.url, document(0), "", nil)
	w.owner = &person{email: tenant.Email, role: "owner", client: w.bounded(tenant.User)}
	w.people = []*person{w.owner}
	w.owner.id, w.tenant = tenant.OwnerID, tenant.ID
	w.past.note(roleOf(w.owner.id), "owner", time.Now(), true)
	w.key, w.keyID = w.bounded(tenant.Runtime), tenant.RuntimeKeyID
	require.True(t, w.connect())
	for _, role := range []string{"admin", "approver", "approver", "member"} {
		require.NotNil(t, w.invite(role))
	}
	return w
}

// quiet drops what the SDK says.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

func (w *world) bounded(c *rig.Client) *rig.Client {
	own := *c
	h := rig.NewHTTP()
	h.Timeout = callLimit
	own.HTTP = h
	return &own
}

// say notes what happened; a failed test prints it.
func (w *world) say(format string, args ...any) {
	w.said = append(w.said, fmt.Sprintf("%s %s", time.Now().Format("05.000"), fmt.Sprintf(format, args...)))
}

// outcome is an answer in a word. A bug of ours is never a good one.
func (w *world) outcome(a rig.Answer) string {
	if strings.Contains(string(a.Body), "INTERNAL_ERROR") {
		w.broken = append(w.broken, "answered with INTERNAL_ERROR: "+string(a.Body))
	}
	switch {
	case a.Err != nil:
		return "no answer"
	case a.Status < 300:
		return strconv.Itoa(a.Status)
	}
	_, rest, _ := strings.Cut(string(a.Body), `"code":"`)
	code, _, _ := strings.Cut(rest, `"`)
	return fmt.Sprint(a.Status, " ", code)
}

// sure reports whether the answer tells what has become of a change: it was made, or
// refused.
func sure(a rig.Answer) bool { return a.Err == nil && a.Status < 500 }

func done(a rig.Answer) bool { return a.Err == nil && a.Status < 300 }

// change makes a change of what approvals hang on, and notes it in the past.
func (w *world) change(a func() rig.Answer, key, value string) rig.Answer {
	began := time.Now()
	answer := a()
	if done(answer) || !sure(answer) {
		w.past.note(key, value, began, done(answer))
	}
	return answer
}

func roleOf(user string) string { return "role " + user }
func policyOf(id string) string { return "policy " + id }

// invite makes a user of the role, who joins.
func (w *world) invite(role string) *person {
	w.serial++
	p := &person{email: fmt.Sprintf("%s-%d-%s@example.com", role, w.serial, uuid.NewString()[:8]), role: role}
	var made rig.Invitation
	a := w.owner.client.Invite(p.email, role)
	w.say("invite %s: %s", role, w.outcome(a))
	if !done(a) {
		return nil
	}
	a.Data(w.t, &made)
	p.id = made.ID
	began := time.Now()
	joined := w.owner.client.Accept(made.Token)
	w.past.note(roleOf(p.id), role, began, done(joined))
	if !done(joined) {
		return nil
	}
	p.client = w.owner.client.Joined(w.t, joined)
	w.people = append(w.people, p)
	return p
}

// connect stores a new credential for the provider.
func (w *world) connect() bool {
	a := w.owner.client.Do(http.MethodPost, "/v1/credentials", map[string]any{
		"provider": "desk", "type": "bearer", "label": "state machine", "data": map[string]string{"token": "t"},
	})
	w.say("new credential: %s", w.outcome(a))
	if !done(a) {
		return false
	}
	var made struct{ ID string }
	a.Data(w.t, &made)
	w.credential = made.ID
	return true
}

// newKey replaces the runtime key.
func (w *world) newKey() bool {
	a := w.owner.client.MakeKey(map[string]any{"name": "runtime", "permissions": rig.RuntimePermissions()})
	w.say("new key: %s", w.outcome(a))
	if !done(a) {
		return false
	}
	var made rig.Key
	a.Data(w.t, &made)
	w.key, w.keyID = w.key.With(made.Key, ""), made.ID
	return true
}

// run calls; a call with an id that was used before repeats it.
func (w *world) run(c call) {
	args := map[string]any{"id": c.id}
	if c.verb != verbPeek {
		args["amount"] = c.amount
	}
	a := w.key.Do(http.MethodPost, "/v1/runtime/actions/run",
		map[string]any{"verb": c.verb, "args": args, "execution_id": c.id, "dryRun": c.dryRun}, "Prefer: wait=2")
	w.say("call %s %s dry=%v: %s", c.id, c.verb, c.dryRun, w.outcome(a))
}

// newCall is a call that was not made yet.
func (w *world) newCall(verb string, amount int, dryRun bool) call {
	w.serial++
	c := call{id: fmt.Sprintf("run-%d", w.serial), verb: verb, amount: amount, dryRun: dryRun}
	w.calls = append(w.calls, c)
	return c
}

// approval is what the test reads of GET /v1/approvals.
type approval struct {
	ID          string
	Status      string
	ExecutionID string `json:"execution_id"`
	WorkflowID  string `json:"workflow_id"`
	Outcome     *string
	EditedFrom  *string   `json:"edited_from"`
	ExpiresAt   time.Time `json:"expires_at"`
}

// pending lists what waits for a decision, as the API shows it; nothing where it does
// not answer.
func (w *world) pending() []approval {
	a := w.owner.client.Do(http.MethodGet, "/v1/approvals?status=pending&limit=100", nil)
	var list []approval
	if done(a) {
		a.Data(w.t, &list)
	}
	return list
}

func (w *world) approval(id string) (got approval) {
	w.t.Helper()
	w.owner.client.Do(http.MethodGet, "/v1/approvals/"+id, nil).Data(w.t, &got)
	return got
}

// decide has p approve or reject; edited is nil for the arguments as they are.
func (w *world) decide(p *person, approvalID, decision string, edited any) rig.Answer {
	body := map[string]any{"reason": "the state machine says so"}
	if edited != nil {
		body["edited_args"] = edited
	}
	a := p.client.Decide(approvalID, decision, body)
	w.say("%s %ss %s (edited: %v): %s", p.email[:12], decision, approvalID, edited != nil, w.outcome(a))
	if done(a) {
		w.acked = append(w.acked, ack{approvalID, p.id, decision})
	}
	return a
}

// policy describes a policy in the few ways in which those of the test differ.
type policy struct {
	verb, action, onTimeout string
	required, timeout       int
	approvers               []map[string]string
	self, disabled          bool
}

func (p policy) body(name string) map[string]any {
	more := map[string]any{"enabled": !p.disabled}
	if p.action == "require_approval" {
		more["approval"] = map[string]any{
			"required": p.required, "timeout": p.timeout, "on_timeout": p.onTimeout, "approvers": p.approvers, "self_approval": p.self,
		}
	}
	return rig.Policy(name, p.action, p.verb, more)
}

// holds names the verbs that the policy holds or blocks, in the past's words.
func (p policy) holds() string {
	switch {
	case p.disabled:
		return ""
	case p.action == "require_approval":
		return "hold " + p.verb
	case p.action == "block":
		return "block " + p.verb
	default:
		return ""
	}
}

// roles are approvers by role.
func roles(list ...string) (out []map[string]string) {
	for _, r := range list {
		out = append(out, map[string]string{"type": "role", "value": r})
	}
	return out
}

// addPolicy returns the id, "" where it was not made.
func (w *world) addPolicy(p policy) string {
	w.serial++
	began := time.Now()
	a := w.owner.client.Do(http.MethodPost, "/v1/policies", p.body(fmt.Sprintf("policy %d", w.serial)))
	w.say("new policy %+v: %s", p, w.outcome(a))
	if !done(a) {
		return ""
	}
	var made struct{ ID string }
	a.Data(w.t, &made)
	w.past.note(policyOf(made.ID), p.holds(), began, true)
	w.policies = append(w.policies, made.ID)
	return made.ID
}
