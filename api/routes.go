package api

import (
	"net/http"
	"slices"

	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/tenant/auth"
)

// routes is the table of all endpoints. A row has the method, the path, the credentials
// that the endpoint takes, the roles of the users who may call it, the most bytes of its
// body, its handler, and the permission that a key needs. The OpenAPI document lists the
// same endpoints. Tests compare the two, and walk each row with every kind of credential
// and every role.
func (s *Server) routes() []route {
	return slices.Concat(s.accountRoutes(), s.actionRoutes(), s.approvalRoutes(), s.policyRoutes(), s.auditRoutes(), s.providerRoutes())
}

// The groups of roles that the rows name.
func anyRole() []actor.Role { return actor.Roles() }

func deciders() []actor.Role {
	return []actor.Role{actor.RoleOwner, actor.RoleAdmin, actor.RoleApprover}
}
func admins() []actor.Role { return []actor.Role{actor.RoleOwner, actor.RoleAdmin} }
func noUser() []actor.Role { return nil } // public, or for keys only

// accountRoutes are sessions, API keys and users. The domain decides whom an admin may
// invite and change, and that an owner remains.
func (s *Server) accountRoutes() []route {
	return []route{
		{http.MethodPost, "/v1/auth/signup", takesNothing, noUser(), bodyManagement, s.signUp, ""},
		{http.MethodPost, "/v1/auth/login", takesNothing, noUser(), bodyManagement, s.logIn, ""},
		{http.MethodPost, "/v1/auth/refresh", takesNothing, noUser(), bodyManagement, s.refresh, ""},
		{http.MethodPost, "/v1/auth/accept-invitation", takesNothing, noUser(), bodyManagement, s.acceptInvitation, ""},
		{http.MethodPost, "/v1/auth/logout", takesUser, anyRole(), 0, s.logOut, ""},

		{http.MethodPost, "/v1/api-keys", takesUser, admins(), bodyManagement, s.createKey, ""},
		{http.MethodGet, "/v1/api-keys", takesUser, admins(), 0, s.listKeys, ""},
		{http.MethodDelete, "/v1/api-keys/{id}", takesUser, admins(), 0, s.revokeKey, ""},

		{http.MethodPost, "/v1/users", takesUser, admins(), bodyManagement, s.inviteUser, ""},
		{http.MethodGet, "/v1/users", takesUser, anyRole(), 0, s.listUsers, ""},
		{http.MethodGet, "/v1/users/{id}", takesUser, anyRole(), 0, s.getUser, ""},
		{http.MethodPatch, "/v1/users/{id}", takesUser, admins(), bodyManagement, s.patchUser, ""},
		{http.MethodDelete, "/v1/users/{id}", takesUser, admins(), 0, s.removeUser, ""},
		{http.MethodPost, "/v1/users/{id}/invite", takesUser, admins(), 0, s.inviteUserAgain, ""},
	}
}

// actionRoutes run verbs and show the runs. A key sees and cancels only its own executions.
func (s *Server) actionRoutes() []route {
	return []route{
		{http.MethodPost, runPath, takesKey, noUser(), bodyRun, s.runAction, auth.PermActionsRun},
		{http.MethodPost, "/v1/runtime/governance/evaluate", takesKey, noUser(), bodyRun, s.evaluate, auth.PermActionsRun},

		{http.MethodGet, "/v1/executions", takesKeyOrJWT, anyRole(), 0, s.listExecutions, ""},
		{http.MethodGet, "/v1/executions/{id}", takesKeyOrJWT, anyRole(), 0, s.getExecution, ""},
		{http.MethodPost, "/v1/executions/{id}/cancel", takesKeyOrJWT, deciders(), 0, s.cancelExecution, ""},
		{http.MethodPost, "/v1/executions/{id}/resolve", takesUser, admins(), bodyRun, s.resolveExecution, ""},
	}
}

// approvalRoutes are approvals and grants. Whether this user may decide this approval
// depends on the policies that hold the call.
func (s *Server) approvalRoutes() []route {
	return []route{
		{http.MethodGet, "/v1/approvals", takesKeyOrJWT, anyRole(), 0, s.listApprovals, auth.PermApprovalsManage},
		{http.MethodGet, "/v1/approvals/counts", takesKeyOrJWT, anyRole(), 0, s.countApprovals, auth.PermApprovalsManage},
		{http.MethodPost, "/v1/approvals/batch", takesUser, anyRole(), bodyRun, s.decideApprovals, ""},
		{http.MethodGet, "/v1/approvals/{id}", takesKeyOrJWT, anyRole(), 0, s.getApproval, auth.PermApprovalsManage},
		{http.MethodPost, "/v1/approvals/{id}/approve", takesUser, anyRole(), bodyRun, s.approve, ""},
		{http.MethodPost, "/v1/approvals/{id}/reject", takesUser, anyRole(), bodyRun, s.reject, ""},

		{http.MethodPost, "/v1/grants", takesUser, deciders(), bodyManagement, s.createGrant, ""},
		{http.MethodGet, "/v1/grants", takesKeyOrJWT, anyRole(), 0, s.listGrants, auth.PermApprovalsManage},
		{http.MethodGet, "/v1/grants/{id}", takesKeyOrJWT, anyRole(), 0, s.getGrant, auth.PermApprovalsManage},
		{http.MethodDelete, "/v1/grants/{id}", takesUser, deciders(), 0, s.revokeGrant, ""},
	}
}

// policyRoutes are policies and masking.
func (s *Server) policyRoutes() []route {
	return []route{
		{http.MethodPost, "/v1/policies", takesKeyOrJWT, admins(), bodyManagement, s.createPolicy, auth.PermPoliciesManage},
		{http.MethodGet, "/v1/policies", takesKeyOrJWT, anyRole(), 0, s.listPolicies, auth.PermPoliciesManage},
		{http.MethodGet, "/v1/policies/{id}", takesKeyOrJWT, anyRole(), 0, s.getPolicy, auth.PermPoliciesManage},
		{http.MethodPut, "/v1/policies/{id}", takesKeyOrJWT, admins(), bodyManagement, s.putPolicy, auth.PermPoliciesManage},
		{http.MethodDelete, "/v1/policies/{id}", takesKeyOrJWT, admins(), 0, s.deletePolicy, auth.PermPoliciesManage},
		{http.MethodGet, "/v1/policies/{id}/versions", takesKeyOrJWT, anyRole(), 0, s.listPolicyVersions, auth.PermPoliciesManage},
		{http.MethodGet, "/v1/policies/{id}/coverage", takesKeyOrJWT, anyRole(), 0, s.policyCoverage, auth.PermPoliciesManage},
		{http.MethodPost, "/v1/policies/simulate", takesKeyOrJWT, admins(), bodyManagement, s.simulatePolicy, auth.PermPoliciesManage},

		{http.MethodGet, "/v1/governance/masking", takesKeyOrJWT, anyRole(), 0, s.getMasking, auth.PermPoliciesManage},
		{http.MethodPut, "/v1/governance/masking", takesKeyOrJWT, admins(), bodyManagement, s.putMasking, auth.PermPoliciesManage},
	}
}

// auditRoutes are the audit trail.
func (s *Server) auditRoutes() []route {
	return []route{
		{http.MethodGet, "/v1/audit", takesKeyOrJWT, admins(), 0, s.listAudit, auth.PermAuditManage},
		{http.MethodGet, "/v1/audit/verify", takesKeyOrJWT, admins(), 0, s.verifyAudit, auth.PermAuditManage},
		{http.MethodGet, "/v1/audit/export", takesKeyOrJWT, admins(), 0, s.exportAudit, auth.PermAuditManage},
		{http.MethodGet, "/v1/audit/keys", takesKeyOrJWT, admins(), 0, s.listAuditKeys, auth.PermAuditManage},
	}
}

// providerRoutes are providers, their verbs and the credentials for them.
func (s *Server) providerRoutes() []route {
	return []route{
		{http.MethodGet, "/v1/runtime/actions/catalog", takesKey, noUser(), 0, s.listVerbs, auth.PermActionsCatalog},
		{http.MethodGet, "/v1/runtime/actions/catalog/{verb}", takesKey, noUser(), 0, s.getVerb, auth.PermActionsCatalog},

		{http.MethodPost, "/v1/providers", takesKeyOrJWT, admins(), bodyUpload, s.importProvider, auth.PermProvidersManage},
		{http.MethodGet, "/v1/providers", takesKeyOrJWT, anyRole(), 0, s.listProviders, auth.PermProvidersManage},
		{http.MethodGet, "/v1/providers/{slug}", takesKeyOrJWT, anyRole(), 0, s.getProvider, auth.PermProvidersManage},
		{http.MethodDelete, "/v1/providers/{slug}", takesUser, admins(), 0, s.deleteProvider, ""},

		{http.MethodPost, "/v1/credentials", takesKeyOrJWT, admins(), bodyManagement, s.createCredential, auth.PermCredentialsManage},
		{http.MethodGet, "/v1/credentials", takesKeyOrJWT, anyRole(), 0, s.listCredentials, auth.PermCredentialsManage},
		{http.MethodGet, "/v1/credentials/{id}", takesKeyOrJWT, anyRole(), 0, s.getCredential, auth.PermCredentialsManage},
		{http.MethodPatch, "/v1/credentials/{id}", takesKeyOrJWT, admins(), bodyManagement, s.patchCredential, auth.PermCredentialsManage},
		{http.MethodDelete, "/v1/credentials/{id}", takesKeyOrJWT, admins(), 0, s.deleteCredential, auth.PermCredentialsManage},
		{http.MethodPost, "/v1/credentials/{id}/validate", takesKeyOrJWT, admins(), 0, s.validateCredential, auth.PermCredentialsManage},
		{http.MethodPost, "/v1/credentials/{id}/rotate", takesKeyOrJWT, admins(), bodyManagement, s.rotateCredential, auth.PermCredentialsManage},
	}
}
