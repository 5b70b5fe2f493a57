//go:build conformance

package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

const decisions = "/v1/approvals"

// approvals holds calls, and lets people decide them, edit them or let them be.
func (j *journey) approvals() {
	gate := j.policy(requires("Two", "gated:pay", object{"required": 2, "reason_required": true, "timeout": 3600}))
	j.quorum()
	j.rejections()
	j.edits()
	j.batches()
	j.drop(gate)
	j.closings()
	j.dryRuns()
	j.unanswered()
	j.listed()
}

// quorum has a call approved by two people, which one of them cannot be alone.
func (j *journey) quorum() {
	call := pay("gated", "held-1", 1)
	held := j.hold(call)
	require.Equal(j.t, held, j.hold(call), "a repeat waits for the same")
	j.becomes("/v1/executions/held-1", "pending_approval")
	j.post(j.approver, 200, held+"/approve", object{"reason": "r"})
	j.refused(j.approver, 409, "CONFLICT", http.MethodPost, held+"/approve", nil)
	j.refused(j.member, 403, "APPROVER_NOT_ELIGIBLE", http.MethodPost, held+"/approve", nil)
	j.refused(j.member, 403, "APPROVER_NOT_ELIGIBLE", http.MethodPost, held+"/reject", object{"reason": "r"})
	j.refused(j.key, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, held+"/approve", nil)
	j.refused(j.key, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, held+"/reject", nil)
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, held+"/approve", object{"edited_args": []int{1}})
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, held+"/approve", object{"edited_arguments": object{}})
	j.get(j.member, 200, held)
	j.post(j.user, 200, held+"/approve", nil)
	j.post(j.key, 200, run, call)
	j.becomes(held, "approved")
	j.becomes("/v1/executions/held-1", "executed")
	for _, what := range []string{"/approve", "/reject"} {
		j.refused(j.user, 409, "APPROVAL_NOT_PENDING", http.MethodPost, held+what, object{"reason": "r"})
		j.refused(j.user, 404, "APPROVAL_NOT_FOUND", http.MethodPost, decisions+"/appr_"+nobodys+what, nil)
	}
	j.refused(j.user, 404, "APPROVAL_NOT_FOUND", http.MethodGet, decisions+"/appr_"+nobodys, nil)
}

func (j *journey) rejections() {
	call := pay("gated", "held-2", 1)
	held := j.hold(call)
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, held+"/reject", nil)
	j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, held+"/reject", object{"why": "r"})
	j.post(j.user, 200, held+"/reject", object{"reason": "Not today."})
	j.becomes(held, "rejected")
	j.becomes("/v1/executions/held-2", "rejected")
	j.refused(j.key, 403, "GOVERNANCE_BLOCKED", http.MethodPost, run, call)
	j.refused(j.key, 403, "GOVERNANCE_BLOCKED", http.MethodPost, run, pay("gated", "held-2", 2))
	call = pay("gated", "held-4", 1)
	again := j.hold(call)
	require.NotEqual(j.t, held, again, "another id asks again")
	j.post(j.user, 200, "/v1/executions/held-4/cancel", nil)
	j.becomes(again, "cancelled")
	j.becomes("/v1/executions/held-4", "cancelled")
	j.refused(j.key, 409, "CONFLICT", http.MethodPost, run, call)

	// One more policy holds the call before a user decides.
	held = j.hold(pay("gated", "held-3", 1))
	changing := j.policy(requires("Changing", "gated:pay", object{}))
	j.post(j.user, 200, held+"/approve", nil)
	j.becomes(held, "superseded")
	var left struct {
		SupersededBy string `json:"superseded_by"`
	}
	j.call(j.user, 200, http.MethodGet, held, nil).Data(j.t, &left)
	j.post(j.user, 200, decisions+"/"+left.SupersededBy+"/reject", object{"reason": "r"})
	j.drop(changing)
}

// edits puts other arguments in the place of a held call's.
func (j *journey) edits() {
	large := rule("Large", "block", "gated:pay")
	large["conditions"] = []object{condition("args.amount", "greater", 1000)}
	closed := j.policy(large)
	call := pay("gated", "edited-1", 1)
	held := j.hold(call)
	edit := func(args object) object { return object{"reason": "r", "edited_args": args} }
	j.refused(j.user, 403, "GOVERNANCE_BLOCKED", http.MethodPost, held+"/approve", edit(object{"amount": 1001}))
	j.refused(j.user, 422, "INVALID_ARGS", http.MethodPost, held+"/approve", edit(object{"amount": 1, "more": 1}))
	var next struct {
		ID         string
		EditedFrom string `json:"edited_from"`
	}
	j.post(j.user, 200, held+"/approve", edit(object{"amount": 2})).Data(j.t, &next)
	require.Equal(j.t, held, decisions+"/"+next.EditedFrom)
	j.becomes(held, "superseded")
	edited := decisions + "/" + next.ID
	j.refused(j.user, 403, "APPROVER_NOT_ELIGIBLE", http.MethodPost, edited+"/approve", nil)
	j.post(j.approver, 200, edited+"/approve", nil)
	j.post(j.second, 200, edited+"/approve", nil)
	j.post(j.key, 200, run, call)
	j.becomes("/v1/executions/edited-1", "executed")
	j.drop(closed)
}

func (j *journey) batches() {
	const batch = decisions + "/batch"
	id := func(held string) string { return held[len(decisions)+1:] }
	one, two := id(j.hold(pay("gated", "batch-1", 1))), id(j.hold(pay("gated", "batch-2", 1)))
	decided := func(id, decision string) object { return object{"id": id, "decision": decision, "reason": "r"} }
	var got struct {
		Results []struct {
			Status string
			Error  struct{ Code string }
		}
	}
	body := object{"decisions": []object{decided(one, "approve"), decided(two, "reject"), decided("appr_"+nobodys, "reject")}}
	j.post(j.user, 200, batch, body).Data(j.t, &got)
	require.Len(j.t, got.Results, 3)
	require.Equal(j.t, "pending", got.Results[0].Status)
	require.Equal(j.t, "rejected", got.Results[1].Status)
	require.Equal(j.t, "APPROVAL_NOT_FOUND", got.Results[2].Error.Code)
	j.post(j.member, 200, batch, object{"decisions": []object{decided(one, "approve"), decided(two, "approve")}})
	j.post(j.user, 200, batch, object{"decisions": []object{decided(one, "reject")}})
	for _, list := range [][]object{{}, {decided(one, "perhaps")}, {decided(one, "reject"), decided(one, "reject")}, {{"id": one}}} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodPost, batch, object{"decisions": list})
	}
	j.refused(j.key, 403, "INSUFFICIENT_PERMISSIONS", http.MethodPost, batch, body)
}

// closings takes away what a held call needs, and edits it then: the hosts of its
// credential, the credential, its provider. The service checks by itself every few
// seconds whether held calls can still be sent. If it was faster, the test starts again.
func (j *journey) closings() {
	n := 0
	for _, c := range []struct {
		status   int
		code     string
		takeAway func(slug, credential string) rig.Answer
	}{
		{422, "URL_NOT_ALLOWED", func(_, credential string) rig.Answer {
			return j.user.Do(http.MethodPatch, "/v1/credentials/"+credential, object{"allowed_hosts": []string{"api.example.com"}})
		}},
		{424, "PROVIDER_NOT_CONNECTED", func(_, credential string) rig.Answer {
			return j.user.Do(http.MethodDelete, "/v1/credentials/"+credential, nil)
		}},
		{404, "VERB_NOT_FOUND", func(slug, _ string) rig.Answer {
			return j.user.Do(http.MethodDelete, "/v1/providers/"+slug, nil)
		}},
	} {
		rig.Until(j.t, time.Minute, "an edit meets "+c.code, func() bool {
			n++
			slug := fmt.Sprintf("closing-%d", n)
			credential := j.gatedProvider(slug)
			gate := j.policy(requires("Closing", slug+":pay", object{}))
			held := j.hold(pay(slug, slug, 1))
			require.Equal(j.t, 200, c.takeAway(slug, credential).Status)
			a := j.user.Do(http.MethodPost, held+"/approve", object{"edited_args": object{"amount": 2}})
			if a.Status == http.StatusConflict {
				return false
			}
			require.Equal(j.t, c.status, a.Status, "%s", a.Body)
			require.Equal(j.t, c.code, a.Code(j.t))
			j.refused(j.key, c.status, c.code, http.MethodPost, run, pay(slug, slug+"-more", 1))
			j.drop(gate)
			return true
		})
	}
	j.becomes(fmt.Sprintf("/v1/executions/closing-%d", n), "failed") // by itself: its provider is gone
}

// dryRuns decides about requests that were intercepted, in both ways.
func (j *journey) dryRuns() {
	for id, what := range map[string]string{"dry-1": "/approve", "dry-2": "/reject"} {
		call := pay("gated", id, 1)
		call["metadata"] = object{"dry_run": true}
		var dry rig.RunData
		j.post(j.key, 200, run, call).Data(j.t, &dry)
		require.Equal(j.t, "intercepted", dry.Status)
		j.get(j.user, 200, decisions+"/"+dry.ApprovalID)
		j.get(j.user, 200, "/v1/executions/"+id)
		j.post(j.user, 200, decisions+"/"+dry.ApprovalID+what, nil)
		j.becomes("/v1/executions/"+id, map[string]string{"/approve": "executed", "/reject": "intercepted"}[what])
		j.post(j.key, 200, run, call)
	}
	blocked := object{"verb": "gated:wipe", "args": object{}, "execution_id": "dry-3", "dryRun": true}
	j.refused(j.key, 403, "GOVERNANCE_BLOCKED", http.MethodPost, run, blocked)
	j.refused(j.key, 400, "VALIDATION_ERROR", http.MethodPost, run, object{"verb": "gated:pay", "args": object{"amount": 1}, "dryRun": "yes"})
}

// unanswered lets the time of an approval pass, and turns to others with another.
func (j *journey) unanswered() {
	gate := j.policy(requires("Brief", "gated:pay", object{"timeout": 1}))
	held := j.hold(pay("gated", "expired-1", 1))
	j.becomes(held, "expired")
	j.becomes("/v1/executions/expired-1", "expired")
	j.refused(j.user, 409, "APPROVAL_NOT_PENDING", http.MethodPost, held+"/approve", nil)
	j.drop(gate)
	onlyThey := object{"timeout": 4, "on_timeout": "escalate", "approvers": []object{{"type": "role", "value": "approver"}}}
	gate = j.policy(requires("Escalates", "gated:pay", onlyThey))
	held = j.hold(pay("gated", "escalated-1", 1))
	j.refused(j.user, 403, "APPROVER_NOT_ELIGIBLE", http.MethodPost, held+"/reject", nil)
	rig.Until(j.t, 20*time.Second, "the owner may decide", func() bool {
		var got struct {
			EscalatedAt json.RawMessage `json:"escalated_at"`
		}
		j.call(j.user, 200, http.MethodGet, held, nil).Data(j.t, &got)
		return string(got.EscalatedAt) != "null"
	})
	j.post(j.user, 200, held+"/reject", nil)
	j.drop(gate)
}

func (j *journey) listed() {
	queries := []string{
		"", "?limit=1", "?verb=gated:pay&risk_level=medium", "?provider=gated&kind=dry_run", "?execution_id=held-1", "?policy_id=" + nobodys,
		"?from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z", "?kind=block",
	}
	for _, status := range []string{"approved", "rejected", "expired", "cancelled", "superseded", "blocked"} {
		list := j.call(j.member, 200, http.MethodGet, decisions+"?status="+status, nil)
		var found []object
		list.Data(j.t, &found)
		require.NotEmpty(j.t, found, status)
	}
	for _, query := range append(queries, "?status=pending") {
		j.get(j.user, 200, decisions+query)
	}
	for _, query := range []string{"limit=0", "status=open", "kind=x", "risk_level=x", "policy_id=x", "from=yesterday", "cursor=!"} {
		j.refused(j.user, 400, "VALIDATION_ERROR", http.MethodGet, decisions+"?"+query, nil)
	}
	j.refused(j.user, 400, "INVALID_VERB", http.MethodGet, decisions+"?verb=none", nil)
	j.get(j.member, 200, decisions+"/counts")
	for _, status := range []string{"executed", "failed", "blocked", "intercepted", "rejected", "expired", "cancelled"} {
		j.get(j.user, 200, "/v1/executions?status="+status)
	}
}
