package access

// decidedOfAgents is the part of decided that is about agents and their sessions, and about verbs
// that agents name.
func decidedOfAgents() map[string]endpoint {
	return map[string]endpoint{
		"POST /v1/api-keys/{id}/rotate-identity-secret": {userOnly, admins, "", "/v1/api-keys/" + someID + "/rotate-identity-secret", "{}", noAPIKey},

		"POST /v1/providers/{slug}/enable":              {userOnly, admins, "", "/v1/providers/none/enable", "", noProvider},
		"POST /v1/providers/{slug}/disable":             {userOnly, admins, "", "/v1/providers/none/disable", "", noProvider},
		"PATCH /v1/providers/{slug}/verbs/{name}":       {userOnly, admins, "", "/v1/providers/none/verbs/get", `{"trust":"external"}`, noProvider},
		"POST /v1/providers/{slug}/verbs/{name}/accept": {userOnly, admins, "", "/v1/providers/none/verbs/get/accept", "", noProvider},

		"POST /v1/agents":                                 {either, admins, "agents:manage", "/v1/agents", "{}", badBody},
		"GET /v1/agents":                                  {either, anyRole, "agents:manage", "/v1/agents", "", "200 "},
		"GET /v1/agents/{id}":                             {either, anyRole, "agents:manage", "/v1/agents/" + someID, "", noAgent},
		"PATCH /v1/agents/{id}":                           {either, admins, "agents:manage", "/v1/agents/" + someID, `{"name":"a"}`, noAgent},
		"DELETE /v1/agents/{id}":                          {either, admins, "agents:manage", "/v1/agents/" + someID, "", noAgent},
		"GET /v1/agents/{id}/versions":                    {either, anyRole, "agents:manage", "/v1/agents/" + someID + "/versions", "", noAgent},
		"GET /v1/agents/{id}/versions/{version}":          {either, anyRole, "agents:manage", "/v1/agents/" + someID + "/versions/1", "", noAgent},
		"POST /v1/agents/{id}/versions/{version}/publish": {either, admins, "agents:manage", "/v1/agents/" + someID + "/versions/1/publish", "", noAgent},
		"GET /v1/agents/{id}/versions/{version}/diff":     {either, anyRole, "agents:manage", "/v1/agents/" + someID + "/versions/1/diff", "", noAgent},

		"GET /v1/agents/{id}/sessions":                 {either, anyRole, "agents:manage", "/v1/agents/" + someID + "/sessions", "", noAgent},
		"GET /v1/agents/{id}/sessions/{sid}":           {either, anyRole, "agents:manage", "/v1/agents/" + someID + "/sessions/none", "", noAgent},
		"DELETE /v1/agents/{id}/sessions/{sid}":        {either, admins, "agents:manage", "/v1/agents/" + someID + "/sessions/none", "", noAgent},
		"GET /v1/agents/{id}/sessions/{sid}/messages":  {either, anyRole, "agents:manage", "/v1/agents/" + someID + "/sessions/none/messages", "", noAgent},
		"POST /v1/agents/{id}/sessions/{sid}/takeover": {userOnly, deciders, "", "/v1/agents/" + someID + "/sessions/none/takeover", "", noAgent},
		"POST /v1/agents/{id}/sessions/{sid}/reply":    {userOnly, deciders, "", "/v1/agents/" + someID + "/sessions/none/reply", `{"message":"Hello"}`, noAgent},
		"POST /v1/agents/{id}/sessions/{sid}/handback": {userOnly, deciders, "", "/v1/agents/" + someID + "/sessions/none/handback", "", noAgent},
		"PUT /v1/executions/{id}/feedback":             {either, deciders, "", "/v1/executions/none/feedback", `{"rating":"up"}`, noExecution},
	}
}
