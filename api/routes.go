package api

import (
	"net/http"

	"agentruntime/internal/auth"
)

// routes is the whole surface: every endpoint with the credential and the permission
// it takes, and the most bytes of its body. The OpenAPI document lists the same ones;
// tests compare the two and walk each row with every kind of credential.
func (s *Server) routes() []route {
	const (
		get, post, patch, del = http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete

		anyone, user, key, both = takesNothing, takesUser, takesKey, takesKeyOrJWT

		small, run, upload = bodyManagement, bodyRun, bodyUpload
	)
	const (
		canRun    = auth.PermActionsRun
		canList   = auth.PermActionsCatalog
		providers = auth.PermProvidersManage
		vault     = auth.PermCredentialsManage
		approvals = auth.PermApprovalsManage
	)
	rt := func(method, path string, takes takes, body int64, handle handlerFunc, perms ...string) route {
		return route{method: method, path: path, takes: takes, perms: perms, body: body, handle: handle}
	}
	return []route{
		rt(post, "/v1/auth/signup", anyone, small, s.signUp),
		rt(post, "/v1/auth/login", anyone, small, s.logIn),
		rt(post, "/v1/auth/refresh", anyone, small, s.refresh),
		rt(post, "/v1/auth/logout", user, 0, s.logOut),

		rt(post, "/v1/api-keys", user, small, s.createKey),
		rt(get, "/v1/api-keys", user, 0, s.listKeys),
		rt(del, "/v1/api-keys/{id}", user, 0, s.revokeKey),

		rt(get, "/v1/runtime/actions/catalog", key, 0, s.listVerbs, canList),
		rt(get, "/v1/runtime/actions/catalog/{verb}", key, 0, s.getVerb, canList),
		rt(post, "/v1/runtime/actions/run", key, run, s.runAction, canRun),
		rt(post, "/v1/runtime/governance/evaluate", key, run, s.evaluate, canRun),

		// A key sees and cancels its own executions only.
		rt(get, "/v1/executions", both, 0, s.listExecutions),
		rt(get, "/v1/executions/{id}", both, 0, s.getExecution),
		rt(post, "/v1/executions/{id}/cancel", both, 0, s.cancelExecution),
		rt(post, "/v1/executions/{id}/resolve", user, run, s.resolveExecution),

		rt(get, "/v1/approvals/{id}", both, 0, s.getApproval, approvals),

		rt(post, "/v1/providers", both, upload, s.importProvider, providers),
		rt(get, "/v1/providers", both, 0, s.listProviders, providers),
		rt(get, "/v1/providers/{slug}", both, 0, s.getProvider, providers),
		rt(del, "/v1/providers/{slug}", both, 0, s.deleteProvider, providers),

		rt(post, "/v1/credentials", both, small, s.createCredential, vault),
		rt(get, "/v1/credentials", both, 0, s.listCredentials, vault),
		rt(get, "/v1/credentials/{id}", both, 0, s.getCredential, vault),
		rt(patch, "/v1/credentials/{id}", both, small, s.patchCredential, vault),
		rt(del, "/v1/credentials/{id}", both, 0, s.deleteCredential, vault),
		rt(post, "/v1/credentials/{id}/validate", both, 0, s.validateCredential, vault),
		rt(post, "/v1/credentials/{id}/rotate", both, small, s.rotateCredential, vault),
	}
}
