package api

import (
	"net/http"

	"agentruntime/internal/tenant/auth"
)

// routes is the whole surface: every endpoint with the credential it takes, the roles
// of the users who may, the most bytes of its body, and the permission that a key
// needs. The OpenAPI document lists the same ones; tests compare the two and walk each
// row with every kind of credential and every role.
//
//nolint:funlen // one line per endpoint, all of them on one screen
func (s *Server) routes() []route {
	const (
		get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete

		anyone, user, key, both = takesNothing, takesUser, takesKey, takesKeyOrJWT

		small, run, upload = bodyManagement, bodyRun, bodyUpload
	)
	const (
		canRun    = auth.PermActionsRun
		canList   = auth.PermActionsCatalog
		providers = auth.PermProvidersManage
		vault     = auth.PermCredentialsManage
		approvals = auth.PermApprovalsManage
		policies  = auth.PermPoliciesManage
		trail     = auth.PermAuditManage
	)
	var (
		anyRole  = auth.Roles()
		deciders = []string{auth.RoleOwner, auth.RoleAdmin, auth.RoleApprover}
		admins   = []string{auth.RoleOwner, auth.RoleAdmin}
		noUser   []string // public, or for keys only
	)
	rt := func(method, path string, takes takes, roles []string, body int64, handle handlerFunc, perms ...string) route {
		return route{method: method, path: path, takes: takes, roles: roles, perms: perms, body: body, handle: handle}
	}
	return []route{
		rt(post, "/v1/auth/signup", anyone, noUser, small, s.signUp),
		rt(post, "/v1/auth/login", anyone, noUser, small, s.logIn),
		rt(post, "/v1/auth/refresh", anyone, noUser, small, s.refresh),
		rt(post, "/v1/auth/accept-invitation", anyone, noUser, small, s.acceptInvitation),
		rt(post, "/v1/auth/logout", user, anyRole, 0, s.logOut),

		rt(post, "/v1/api-keys", user, admins, small, s.createKey),
		rt(get, "/v1/api-keys", user, admins, 0, s.listKeys),
		rt(del, "/v1/api-keys/{id}", user, admins, 0, s.revokeKey),

		// Whom an admin may invite and change, and that an owner stays, the domain says.
		rt(post, "/v1/users", user, admins, small, s.inviteUser),
		rt(get, "/v1/users", user, anyRole, 0, s.listUsers),
		rt(get, "/v1/users/{id}", user, anyRole, 0, s.getUser),
		rt(patch, "/v1/users/{id}", user, admins, small, s.patchUser),
		rt(del, "/v1/users/{id}", user, admins, 0, s.removeUser),
		rt(post, "/v1/users/{id}/invite", user, admins, 0, s.inviteUserAgain),

		rt(get, "/v1/runtime/actions/catalog", key, noUser, 0, s.listVerbs, canList),
		rt(get, "/v1/runtime/actions/catalog/{verb}", key, noUser, 0, s.getVerb, canList),
		rt(post, "/v1/runtime/actions/run", key, noUser, run, s.runAction, canRun),
		rt(post, "/v1/runtime/governance/evaluate", key, noUser, run, s.evaluate, canRun),

		// A key sees and cancels its own executions only.
		rt(get, "/v1/executions", both, anyRole, 0, s.listExecutions),
		rt(get, "/v1/executions/{id}", both, anyRole, 0, s.getExecution),
		rt(post, "/v1/executions/{id}/cancel", both, deciders, 0, s.cancelExecution),
		rt(post, "/v1/executions/{id}/resolve", user, admins, run, s.resolveExecution),

		// Whether this user may decide this approval stands in the policies that hold the call.
		rt(get, "/v1/approvals", both, anyRole, 0, s.listApprovals, approvals),
		rt(get, "/v1/approvals/counts", both, anyRole, 0, s.countApprovals, approvals),
		rt(post, "/v1/approvals/batch", user, anyRole, run, s.decideApprovals),
		rt(get, "/v1/approvals/{id}", both, anyRole, 0, s.getApproval, approvals),
		rt(post, "/v1/approvals/{id}/approve", user, anyRole, run, s.approve),
		rt(post, "/v1/approvals/{id}/reject", user, anyRole, run, s.reject),

		rt(post, "/v1/grants", user, deciders, small, s.createGrant),
		rt(get, "/v1/grants", both, anyRole, 0, s.listGrants, approvals),
		rt(get, "/v1/grants/{id}", both, anyRole, 0, s.getGrant, approvals),
		rt(del, "/v1/grants/{id}", user, deciders, 0, s.revokeGrant),

		rt(post, "/v1/policies", both, admins, small, s.createPolicy, policies),
		rt(get, "/v1/policies", both, anyRole, 0, s.listPolicies, policies),
		rt(get, "/v1/policies/{id}", both, anyRole, 0, s.getPolicy, policies),
		rt(put, "/v1/policies/{id}", both, admins, small, s.putPolicy, policies),
		rt(del, "/v1/policies/{id}", both, admins, 0, s.deletePolicy, policies),
		rt(get, "/v1/policies/{id}/versions", both, anyRole, 0, s.listPolicyVersions, policies),
		rt(get, "/v1/policies/{id}/coverage", both, anyRole, 0, s.policyCoverage, policies),
		rt(post, "/v1/policies/simulate", both, admins, small, s.simulatePolicy, policies),
		rt(get, "/v1/governance/masking", both, anyRole, 0, s.getMasking, policies),
		rt(put, "/v1/governance/masking", both, admins, small, s.putMasking, policies),

		rt(get, "/v1/audit", both, admins, 0, s.listAudit, trail),
		rt(get, "/v1/audit/verify", both, admins, 0, s.verifyAudit, trail),
		rt(get, "/v1/audit/export", both, admins, 0, s.exportAudit, trail),
		rt(get, "/v1/audit/keys", both, admins, 0, s.listAuditKeys, trail),

		rt(post, "/v1/providers", both, admins, upload, s.importProvider, providers),
		rt(get, "/v1/providers", both, anyRole, 0, s.listProviders, providers),
		rt(get, "/v1/providers/{slug}", both, anyRole, 0, s.getProvider, providers),
		rt(del, "/v1/providers/{slug}", both, admins, 0, s.deleteProvider, providers),

		rt(post, "/v1/credentials", both, admins, small, s.createCredential, vault),
		rt(get, "/v1/credentials", both, anyRole, 0, s.listCredentials, vault),
		rt(get, "/v1/credentials/{id}", both, anyRole, 0, s.getCredential, vault),
		rt(patch, "/v1/credentials/{id}", both, admins, small, s.patchCredential, vault),
		rt(del, "/v1/credentials/{id}", both, admins, 0, s.deleteCredential, vault),
		rt(post, "/v1/credentials/{id}/validate", both, admins, 0, s.validateCredential, vault),
		rt(post, "/v1/credentials/{id}/rotate", both, admins, small, s.rotateCredential, vault),
	}
}
