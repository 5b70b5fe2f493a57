//go:build conformance

package conformance

import "net/http"

// goals gives agents goals, and reads and cancels what becomes of them.
func (j *journey) goals() {
	writer := j.writer
	agent, message := j.talks("builtin", "scripted", object{"executionMode": "goal", "concurrency": "reject", "completion_criteria": []any{object{"id": "c", "description": "It is there"}}})
	path := agent + "/goals"
	goal := object{
		"goal": "Find the thing", "completion_criteria": []any{object{"id": "c", "description": "It is there", "check": "${ any(.facts[]; .status == \"executed\") }"}},
		"limits": object{"goal_steps": 3, "tokens": 100000, "money_micros": 1000000, "wall_clock": "1m"}, "session_id": "g-1", "customer_id": "g-customer", "metadata": object{"why": "test"},
	}
	look := object{"goal": "Look"}
	var made struct {
		ExecutionID string `json:"execution_id"`
	}
	j.post(writer, 200, path, goal, "Idempotency-Key: g-1").Data(j.t, &made)
	j.post(writer, 200, path, goal, "Idempotency-Key: g-1")
	j.post(writer, 200, path, object{"goal": "Look", "identity": object{"email": "g@example.com"}})
	j.post(writer, 200, message, object{"message": "Look"})
	j.refused(writer, 422, "IDEMPOTENCY_KEY_REUSED", http.MethodPost, path, look, "Idempotency-Key: g-1")
	j.refused(writer, 400, "INVALID_IDEMPOTENCY_KEY", http.MethodPost, path, goal, "Idempotency-Key: a b")
	for _, body := range []object{
		{},
		{"goal": "Look", "colour": "red"},
		{"goal": "Look", "limits": object{"goal_steps": 101}},
		{"goal": "Look", "limits": object{"wall_clock": "2h"}},
		{"goal": "Look", "metadata": object{"dryRun": true}, "session_id": "g-1"},
		{"goal": "Look", "dryRun": "true"},
		{"goal": "Look", "completion_criteria": []any{object{"id": "c", "description": "d", "check": ".facts"}}},
	} {
		j.refused(writer, 400, "VALIDATION_ERROR", http.MethodPost, path, body)
	}
	j.post(writer, 200, path, object{"goal": "Look", "dryRun": true}).Data(j.t, &made)
	j.get(writer, 200, executionsPath+made.ExecutionID+"/changes")
	j.refused(j.user, 409, "CONFLICT", http.MethodPost, executionsPath+made.ExecutionID+"/changes/decide", object{"approve": "all"})
	j.refused(writer, 409, "CONFLICT", http.MethodPost, path, object{"goal": "Look", "session_id": "g-1", "customer_id": "g-other"})
	j.refused(writer, 404, "AGENT_NOT_FOUND", http.MethodPost, agentsPath+"/"+nobodys+"/goals", goal)
	j.refused(j.agent, 403, "AGENT_LOCKED", http.MethodPost, path, goal)
	asks, _ := j.newKey(object{"name": "asks for whom", "permissions": []string{"agents:message"}, "identity_mode": "required"})
	j.refused(asks, 422, "IDENTITY_REQUIRED", http.MethodPost, path, look)
	j.refused(writer, 502, "MODEL_ERROR", http.MethodPost, path, object{"goal": "break down"})

	slow := j.post(writer, 202, path, object{"goal": "take your time", "session_id": "g-2"}, "Prefer: wait=0").Header.Get("Location")
	j.refused(writer, 409, "SESSION_BUSY", http.MethodPost, path, object{"goal": "Look", "session_id": "g-2"})
	j.get(writer, 200, slow)
	j.post(writer, 200, slow+"/cancel", nil)
	j.get(j.user, 200, executionsPath+made.ExecutionID)
	j.get(j.user, 200, executionsPath+made.ExecutionID+"?prompts=true")
	j.get(writer, 200, executionsPath+made.ExecutionID+"/stream")
	for _, query := range []string{"", "&status=failed&limit=1", "&session_id=g-1"} {
		j.get(j.user, 200, "/v1/executions?kind=goal"+query)
	}

	_, unconnected := j.talks("nobody", "m", object{"executionMode": "goal"})
	j.refused(writer, 424, "MODEL_NOT_CONNECTED", http.MethodPost, unconnected[:len(unconnected)-len("message")]+"goals", look)
	budget := object{"model_tokens": 1, "money_micros": nil, "write_calls": nil}
	poor, id := j.newKey(object{"name": "poor in goals", "permissions": []string{"agents:message"}})
	budget["key_id"] = id
	j.call(j.user, 200, http.MethodPut, "/v1/budgets", budget)
	j.refused(poor, 429, "BUDGET_EXCEEDED", http.MethodPost, path, look)
	budget["model_tokens"] = nil
	j.call(j.user, 200, http.MethodPut, "/v1/budgets", budget)
	j.call(j.user, 200, http.MethodPatch, agent, object{"status": "paused"})
	j.refused(writer, 409, "CONFLICT", http.MethodPost, path, look)
	j.drop(agent)
}
