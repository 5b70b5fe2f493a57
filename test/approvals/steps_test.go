package approvals

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentruntime/test/rig"
)

// Parts of the service that can be killed, in the order in which they are restarted.
func parts() []string { return []string{"postgres", "temporal", "worker", "api"} }

// step is one move of a sequence. What a, b and c mean is the move's business; they
// choose among what there is at the time.
type step struct {
	kind    string
	a, b, c int
}

func (s step) String() string { return fmt.Sprintf("%s(%d,%d,%d)", s.kind, s.a, s.b, s.c) }

// move is what a step does.
type move struct {
	do     func(w *world, s step)
	weight int
}

// moves are all there are, with how often they come.
func moves() map[string]move {
	return map[string]move{
		"call":             {(*world).stepCall, 20},
		"repeat":           {(*world).stepRepeat, 4},
		"approve":          {(*world).stepApprove, 14},
		"edit":             {(*world).stepEdit, 3},
		"reject":           {(*world).stepReject, 3},
		"batch":            {(*world).stepBatch, 2},
		"expire":           {(*world).stepExpire, 3},
		"signal":           {(*world).stepSignal, 2},
		"cancel workflow":  {(*world).stepCancelWorkflow, 1},
		"terminate":        {(*world).stepTerminate, 1},
		"cancel":           {(*world).stepCancel, 2},
		"revoke key":       {(*world).stepRevokeKey, 1},
		"credential":       {(*world).stepCredential, 2},
		"new policy":       {(*world).stepNewPolicy, 2},
		"change policy":    {(*world).stepChangePolicy, 2},
		"delete policy":    {(*world).stepDeletePolicy, 1},
		"import":           {(*world).stepImport, 1},
		"grant":            {(*world).stepGrant, 2},
		"revoke grant":     {(*world).stepRevokeGrant, 1},
		"change role":      {(*world).stepChangeRole, 2},
		"remove user":      {(*world).stepRemoveUser, 1},
		"kill":             {(*world).stepKill, 3},
		"approve and kill": {(*world).stepApproveAndKill, 4},
		"race":             {(*world).stepRace, 8},
	}
}

// sequences makes sequences of n steps.
func sequences(n int) *rapid.Generator[[]step] {
	all := moves()
	var kinds []string
	for kind, m := range all {
		kinds = append(kinds, slices.Repeat([]string{kind}, m.weight)...)
	}
	slices.Sort(kinds)
	one := rapid.Custom(func(t *rapid.T) step {
		number := rapid.IntRange(0, 999)
		return step{kinds[even(t, len(kinds))], number.Draw(t, "a"), even(t, 1000), even(t, 1000)}
	})
	return rapid.SliceOfN(one, n, n)
}

// even draws a number below n, all as often: rapid's own numbers are small ones above
// all, and its choices the first.
func even(t *rapid.T, n int) int {
	sum := sha256.Sum256(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "even"))
	return int(binary.BigEndian.Uint32(sum[:]) % uint32(n))
}

// choose returns the nth of the list, counted round.
func choose[T any](list []T, n int) (one T, some bool) {
	if len(list) == 0 {
		return one, false
	}
	return list[n%len(list)], true
}

func (w *world) stepCall(s step) {
	verb, _ := choose([]string{verbChange, verbRefund, verbWipe, verbChange, verbRefund, verbPeek}, s.a)
	w.run(w.newCall(verb, s.b, s.c%4 == 0))
}

func (w *world) stepRepeat(s step) {
	if c, some := choose(w.calls, s.a); some {
		w.run(c)
	}
}

func (w *world) stepApprove(s step) {
	if a, some := choose(w.pending(), s.a); some {
		p, _ := choose(w.people, s.b)
		w.decide(p, a.ID, "approve", nil)
	}
}

func (w *world) stepEdit(s step) {
	if a, some := choose(w.pending(), s.a); some {
		p, _ := choose(w.people, s.b)
		w.decide(p, a.ID, "approve", map[string]any{"id": a.ExecutionID, "amount": s.c + 1000})
	}
}

func (w *world) stepReject(s step) {
	if a, some := choose(w.pending(), s.a); some {
		p, _ := choose(w.people, s.b)
		w.decide(p, a.ID, "reject", nil)
	}
}

func (w *world) stepBatch(s step) {
	p, _ := choose(w.people, s.a)
	var list []map[string]string
	for i, a := range w.pending() {
		decision, _ := choose([]string{"approve", "approve", "reject"}, s.b+i)
		list = append(list, map[string]string{"id": a.ID, "decision": decision, "reason": "all at once"})
	}
	if len(list) == 0 {
		return
	}
	answer := p.client.Do(http.MethodPost, "/v1/approvals/batch", map[string]any{"decisions": list})
	w.say("%s decides %d at once: %s", p.email[:12], len(list), w.outcome(answer))
	if !done(answer) {
		return
	}
	var got struct {
		Results []struct {
			ID      string
			Success bool
		}
	}
	answer.Data(w.t, &got)
	for i, r := range got.Results {
		if r.Success {
			w.acked = append(w.acked, ack{r.ID, p.id, list[i]["decision"]})
		}
	}
}

// stepExpire waits until an approval whose time is short has been left.
func (w *world) stepExpire(s step) {
	soon := slices.DeleteFunc(w.pending(), func(a approval) bool { return time.Until(a.ExpiresAt) > expireSoon })
	a, some := choose(soon, s.a)
	if !some || len(w.dead) > 0 {
		return
	}
	began := time.Now()
	rig.Until(w.t, settleLimit, a.ID+" is left by its time", func() bool {
		return !slices.ContainsFunc(w.pending(), func(p approval) bool { return p.ID == a.ID && time.Until(p.ExpiresAt) <= 0 }) && time.Now().After(a.ExpiresAt)
	})
	w.say("waited %s for the time of %s", time.Since(began).Round(time.Millisecond), a.ID)
}

// ofPending says something to the workflow of a run that waits.
func (w *world) ofPending(s step, what string, say func(workflowID string) error) {
	if a, some := choose(w.pending(), s.a); some {
		w.say("%s of %s: %v", what, a.ID, say(a.WorkflowID))
	}
}

func (w *world) stepSignal(s step) {
	w.ofPending(s, "signal", func(id string) error {
		return w.bounded1(func(c ctx) error { return w.temporal.SignalWorkflow(c, id, "", "reject", nil) })
	})
}

func (w *world) stepCancelWorkflow(s step) {
	w.ofPending(s, "cancellation at Temporal", func(id string) error {
		return w.bounded1(func(c ctx) error { return w.temporal.CancelWorkflow(c, id, "") })
	})
}

func (w *world) stepTerminate(s step) {
	w.ofPending(s, "termination at Temporal", func(id string) error {
		return w.bounded1(func(c ctx) error { return w.temporal.TerminateWorkflow(c, id, "", "the state machine says so") })
	})
}

func (w *world) stepCancel(s step) {
	c, some := choose(w.calls, s.a)
	if list := w.pending(); len(list) > 0 && s.b%2 == 0 {
		a, _ := choose(list, s.a)
		c, some = call{id: a.ExecutionID}, true
	}
	if !some {
		return
	}
	a := w.owner.client.Do(http.MethodPost, "/v1/executions/"+c.id+"/cancel", nil)
	w.say("cancel %s: %s", c.id, w.outcome(a))
	if done(a) {
		w.cancelled = append(w.cancelled, c.id)
	}
}

func (w *world) stepRevokeKey(step) {
	a := w.owner.client.Do(http.MethodDelete, "/v1/api-keys/"+w.keyID, nil)
	w.say("revoke the key: %s", w.outcome(a))
	w.newKey()
}

func (w *world) stepCredential(s step) {
	if s.a%3 > 0 {
		a := w.owner.client.Do(http.MethodDelete, "/v1/credentials/"+w.credential, nil)
		w.say("delete the credential: %s", w.outcome(a))
	}
	if s.a%3 < 2 || s.b%2 == 0 {
		w.connect()
	}
}

// drawn makes a policy of the numbers of a step.
func (w *world) drawn(s step) policy {
	p := policy{required: 1 + s.b%2, timeout: 1 + s.c%3, self: s.c%2 == 0}
	p.verb, _ = choose([]string{verbChange, verbRefund, verbWipe, verbChange, verbRefund, verbWipe, "desk:*"}, s.a)
	p.action, _ = choose([]string{"require_approval", "require_approval", "require_approval", "require_approval", "notify", "block", "allow"}, s.b)
	p.onTimeout, _ = choose([]string{"reject", "escalate"}, s.c)
	p.approvers, _ = choose([][]map[string]string{
		roles("owner", "admin", "approver"), roles("approver", "owner"), {{"type": "user", "value": w.people[s.a%len(w.people)].id}},
	}, s.c)
	return p
}

func (w *world) stepNewPolicy(s step) {
	if len(w.policies) < maxPolicies {
		w.addPolicy(w.drawn(s))
	}
}

func (w *world) stepChangePolicy(s step) {
	id, some := choose(w.policies, s.b)
	if !some {
		return
	}
	p := w.drawn(s)
	p.disabled = s.c%5 == 0
	a := w.change(func() rig.Answer {
		return w.owner.client.ReplacePolicy(id, p.body("policy "+id))
	}, policyOf(id), p.holds())
	w.say("change policy %s to %+v: %s", id, p, w.outcome(a))
}

func (w *world) stepDeletePolicy(s step) {
	id, some := choose(w.policies, s.a)
	if !some || len(w.policies) < 2 {
		return
	}
	a := w.change(func() rig.Answer { return w.owner.client.Do(http.MethodDelete, "/v1/policies/"+id, nil) }, policyOf(id), "")
	w.say("delete policy %s: %s", id, w.outcome(a))
	if done(a) {
		w.policies = slices.DeleteFunc(w.policies, func(p string) bool { return p == id })
	}
}

func (w *world) stepImport(step) {
	w.edition++
	a := w.owner.client.Do(http.MethodPost, "/v1/providers",
		map[string]any{"slug": "desk", "name": "desk", "domain": "test", "base_url": w.desk.url, "openapi": document(w.edition % 3)})
	w.say("import edition %d: %s", w.edition%3, w.outcome(a))
}

func (w *world) stepGrant(s step) {
	verb, _ := choose([]string{verbChange, verbRefund, verbWipe}, s.a)
	p, _ := choose(w.people, s.b)
	began := time.Now()
	a := p.client.Do(http.MethodPost, "/v1/grants", map[string]any{
		"verb": verb, "max_uses": 1 + s.c%2, "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "reason": "the state machine says so",
	})
	w.say("%s grants %s: %s", p.email[:12], verb, w.outcome(a))
	if done(a) {
		var made struct{ ID string }
		a.Data(w.t, &made)
		w.past.note("grant "+made.ID, "standing", began, true)
		w.grants = append(w.grants, made.ID)
	}
}

func (w *world) stepRevokeGrant(s step) {
	if id, some := choose(w.grants, s.a); some {
		a := w.change(func() rig.Answer { return w.owner.client.Do(http.MethodDelete, "/v1/grants/"+id, nil) }, "grant "+id, "revoked")
		w.say("revoke grant %s: %s", id, w.outcome(a))
	}
}

func (w *world) stepChangeRole(s step) {
	p, some := choose(w.people[1:], s.a)
	if !some {
		return
	}
	role, _ := choose([]string{"admin", "approver", "member"}, s.b)
	a := w.change(func() rig.Answer {
		return w.owner.client.Do(http.MethodPatch, "/v1/users/"+p.id, map[string]string{"role": role})
	}, roleOf(p.id), role)
	w.say("%s becomes %s: %s", p.email[:12], role, w.outcome(a))
}

func (w *world) stepRemoveUser(s step) {
	p, some := choose(w.people[1:], s.a)
	if !some {
		return
	}
	a := w.change(func() rig.Answer { return w.owner.client.Do(http.MethodDelete, "/v1/users/"+p.id, nil) }, roleOf(p.id), "")
	w.say("remove %s: %s", p.email[:12], w.outcome(a))
	if done(a) {
		w.people = slices.DeleteFunc(w.people, func(q *person) bool { return q == p })
		w.invite("approver")
	}
}

func (w *world) stepKill(s step) {
	part, _ := choose(parts(), s.a)
	w.kill(part)
	w.away = s.b % mostAway
}

// mostAway bounds how many moves are made while a part is dead.
const mostAway = 5

// make makes a move, and has the dead come back when they have been away for as many.
func (w *world) make(s step) {
	moves()[s.kind].do(w, s)
	if w.away--; w.away < 0 {
		w.restart()
	}
}

// stepApproveAndKill kills a part while an approval is on its way.
func (w *world) stepApproveAndKill(s step) {
	a, some := choose(w.pending(), s.a)
	part, _ := choose(parts(), s.b)
	if !some {
		return
	}
	answer := make(chan rig.Answer, 1)
	go func() {
		answer <- w.owner.client.Decide(a.ID, "approve", map[string]string{"reason": "quickly"})
	}()
	// The kill falls at some moment of the milliseconds that a decision takes.
	select {
	case early := <-answer:
		answer <- early
	case <-time.After(time.Duration(s.c%40) * time.Millisecond):
	}
	w.kill(part)
	w.restart()
	got := <-answer
	w.say("the owner approved %s while %s was killed: %s", a.ID, part, w.outcome(got))
	if done(got) {
		w.acked = append(w.acked, ack{a.ID, w.owner.id, "approve"})
	}
}

func (w *world) kill(part string) {
	if slices.Contains(w.dead, part) {
		return
	}
	w.say("kill %s", part)
	w.stack.Parts[part].KillTree(w.t)
	w.dead = append(w.dead, part)
}

// restart starts all that is dead.
func (w *world) restart() {
	if len(w.dead) == 0 {
		return
	}
	for _, part := range parts() {
		if slices.Contains(w.dead, part) {
			w.stack.Restart(part)
			w.say("restarted %s", part)
		}
	}
	w.dead = nil
	w.stack.AwaitAPI()
}

// begin gives the tenant a policy for each verb.
func (w *world) begin() {
	for _, p := range []policy{
		{verb: verbChange, action: "require_approval", required: 1, timeout: 3, onTimeout: "reject", approvers: roles("owner", "approver"), self: true},
		{verb: verbRefund, action: "require_approval", required: 2, timeout: 3, onTimeout: "escalate", approvers: roles("owner", "admin", "approver")},
		{verb: verbWipe, action: "require_approval", required: 1, timeout: 3, onTimeout: "reject", approvers: roles("owner", "admin")},
	} {
		require.NotEmpty(w.t, w.addPolicy(p))
	}
}
