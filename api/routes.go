package api

import (
	"net/http"
	"slices"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/tenant/auth"
)

// routes is the table of all endpoints. A row has the method, the path, the credentials
// that the endpoint takes, the roles of the users who may call it, the most bytes of its
// body, its handler, and the permission that a key needs. The OpenAPI document lists the
// same endpoints. Tests compare the two, and walk each row with every kind of credential
// and every role.
func (s *Server) routes() []route {
	return slices.Concat(
		s.accountRoutes(), s.actionRoutes(), s.approvalRoutes(), s.policyRoutes(), s.eventRoutes(), s.auditRoutes(), s.providerRoutes(),
		s.customerRoutes(), s.webhookRoutes(), s.killSwitchRoutes(), s.budgetRoutes(), s.mapRoutes(), s.agentRoutes(), s.messageRoutes(),
	)
}

// The groups of roles that the rows name.
func anyRole() []actor.Role { return actor.Roles() }

func deciders() []actor.Role {
	return []actor.Role{actor.RoleOwner, actor.RoleAdmin, actor.RoleApprover}
}
func admins() []actor.Role { return []actor.Role{actor.RoleOwner, actor.RoleAdmin} }
func owners() []actor.Role { return []actor.Role{actor.RoleOwner} }
func noUser() []actor.Role { return nil } // public, or for keys only

// accountRoutes are sessions, API keys and users. The domain decides whom an admin may
// invite and change, and that an owner remains.
func (s *Server) accountRoutes() []route {
	return []route{
		{http.MethodPost, "/v1/auth/signup", takesNothing, noUser(), bodyManagement, s.accounts.signUp, ""},
		{http.MethodPost, "/v1/auth/login", takesNothing, noUser(), bodyManagement, s.accounts.logIn, ""},
		{http.MethodPost, "/v1/auth/refresh", takesNothing, noUser(), bodyManagement, s.accounts.refresh, ""},
		{http.MethodPost, "/v1/auth/accept-invitation", takesNothing, noUser(), bodyManagement, s.accounts.acceptInvitation, ""},
		{http.MethodGet, "/v1/rate-limits", takesKeyOrJWT, anyRole(), 0, s.tenant.getRateLimits, ""},
		{http.MethodPut, "/v1/rate-limits", takesUser, owners(), bodyManagement, s.tenant.putRateLimits, ""},
		{http.MethodPost, "/v1/auth/resend-verification", takesNothing, noUser(), bodyManagement, s.accounts.resendVerification, ""},
		{http.MethodPost, "/v1/auth/verify-email", takesNothing, noUser(), bodyManagement, s.accounts.verifyEmail, ""},
		{http.MethodPost, "/v1/auth/forgot-password", takesNothing, noUser(), bodyManagement, s.accounts.forgotPassword, ""},
		{http.MethodPost, "/v1/auth/reset-password", takesNothing, noUser(), bodyManagement, s.accounts.resetPassword, ""},
		{http.MethodPost, "/v1/auth/change-email", takesUser, anyRole(), bodyManagement, s.accounts.changeEmail, ""},
		{http.MethodGet, "/v1/me", takesKeyOrJWT, anyRole(), 0, s.accounts.me, ""},
		{http.MethodGet, "/v1/auth/sessions", takesUser, anyRole(), 0, s.accounts.listSessions, ""},
		{http.MethodDelete, "/v1/auth/sessions", takesUser, anyRole(), 0, s.accounts.endOtherSessions, ""},
		{http.MethodDelete, "/v1/auth/sessions/{id}", takesUser, anyRole(), 0, s.accounts.endSession, ""},
		{http.MethodPost, "/v1/auth/change-password", takesUser, anyRole(), bodyManagement, s.accounts.changePassword, ""},
		{http.MethodPost, "/v1/auth/logout", takesUser, anyRole(), 0, s.accounts.logOut, ""},

		{http.MethodPost, "/v1/api-keys", takesUser, admins(), bodyManagement, repeatable[keyView](s.repeats, s.accounts.createKey, s.accounts.getKey, "id"), ""},
		{http.MethodGet, "/v1/api-keys", takesUser, admins(), 0, s.accounts.listKeys, ""},
		{http.MethodGet, "/v1/api-keys/{id}", takesUser, admins(), 0, s.accounts.getKey, ""},
		{http.MethodPatch, "/v1/api-keys/{id}", takesUser, admins(), bodyManagement, s.accounts.patchKey, ""},
		{http.MethodPost, "/v1/api-keys/{id}/rotate", takesUser, admins(), bodyManagement, repeatable[keyView](s.repeats, s.accounts.rotateKey, s.accounts.getKey, "id"), ""},
		{http.MethodPost, "/v1/api-keys/{id}/rotate-identity-secret", takesUser, admins(), bodyManagement, repeatable[keyView](s.repeats, s.accounts.rotateIdentitySecret, s.accounts.getKey, "id"), ""},
		{http.MethodDelete, "/v1/api-keys/{id}", takesUser, admins(), 0, s.accounts.revokeKey, ""},

		{http.MethodPost, "/v1/users", takesUser, admins(), bodyManagement, repeatable[invitedView](s.repeats, s.accounts.inviteUser, s.accounts.getInvited, "id"), ""},
		{http.MethodGet, "/v1/users", takesUser, anyRole(), 0, s.accounts.listUsers, ""},
		{http.MethodGet, "/v1/users/{id}", takesUser, anyRole(), 0, s.accounts.getUser, ""},
		{http.MethodPatch, "/v1/users/{id}", takesUser, admins(), bodyManagement, s.accounts.patchUser, ""},
		{http.MethodDelete, "/v1/users/{id}", takesUser, admins(), 0, s.accounts.removeUser, ""},
		{http.MethodPost, "/v1/users/{id}/invite", takesUser, admins(), 0, repeatable[invitedView](s.repeats, s.accounts.inviteUserAgain, s.accounts.getInvited, "id"), ""},
	}
}

// actionRoutes run verbs and show the runs. A key sees and cancels only its own executions.
func (s *Server) actionRoutes() []route {
	return []route{
		{http.MethodPost, runPath, takesKey, noUser(), bodyRun, s.actions.runAction, auth.PermActionsRun},
		{http.MethodPost, "/v1/runtime/governance/evaluate", takesKey, noUser(), bodyRun, s.actions.evaluate, auth.PermActionsRun},

		{http.MethodGet, "/v1/results/{id}", takesKeyOrJWT, anyRole(), 0, s.actions.getResult, auth.PermActionsRun},

		{http.MethodGet, "/v1/executions", takesKeyOrJWT, anyRole(), 0, s.executions.listExecutions, ""},
		{http.MethodGet, "/v1/executions/{id}", takesKeyOrJWT, anyRole(), 0, s.executions.getExecution, ""},
		{http.MethodGet, "/v1/executions/{id}/files/{file}", takesKeyOrJWT, anyRole(), 0, s.actions.getFile, ""},
		{http.MethodGet, "/v1/executions/{id}/events", takesKeyOrJWT, anyRole(), 0, s.executions.listExecutionEvents, ""},
		{http.MethodGet, "/v1/executions/{id}/graph", takesKeyOrJWT, anyRole(), 0, s.maps.getExecutionGraph, ""},
		{http.MethodGet, "/v1/executions/{id}/stream", takesKeyOrJWT, anyRole(), 0, s.executions.streamExecution, ""},
		{http.MethodGet, "/v1/executions/{id}/changes", takesKeyOrJWT, anyRole(), 0, s.executions.listChanges, ""},
		{http.MethodPost, "/v1/executions/{id}/changes/decide", takesUser, deciders(), bodyRun, s.executions.decideChanges, ""},
		{http.MethodPost, "/v1/executions/{id}/cancel", takesKeyOrJWT, deciders(), 0, s.executions.cancelExecution, ""},
		{http.MethodPost, "/v1/executions/{id}/pause", takesUser, deciders(), 0, s.maps.controlMap(Executions.Pause), ""},
		{http.MethodPost, "/v1/executions/{id}/resume", takesUser, deciders(), 0, s.maps.controlMap(Executions.Resume), ""},
		{http.MethodPost, "/v1/executions/{id}/retry", takesUser, deciders(), bodyRun, repeatable[mapExecution](s.repeats, s.maps.retryMap, s.executions.getExecution, "id"), ""},
		{http.MethodPost, "/v1/executions/{id}/signal", takesUser, deciders(), bodyManagement, repeatable[mapExecution](s.repeats, s.maps.signalMap, s.executions.getExecution, "id"), ""},
		{http.MethodPost, "/v1/executions/{id}/resolve", takesUser, admins(), bodyRun, s.executions.resolveExecution, ""},
	}
}

// approvalRoutes are approvals and grants. Whether this user may decide this approval
// depends on the policies that hold the call.
func (s *Server) approvalRoutes() []route {
	return []route{
		{http.MethodGet, "/v1/approvals", takesKeyOrJWT, anyRole(), 0, s.approvals.listApprovals, auth.PermApprovalsManage},
		{http.MethodGet, "/v1/approvals/counts", takesKeyOrJWT, anyRole(), 0, s.approvals.countApprovals, auth.PermApprovalsManage},
		{http.MethodPost, "/v1/approvals/batch", takesUser, anyRole(), bodyRun, s.approvals.decideApprovals, ""},
		{http.MethodGet, "/v1/approvals/{id}", takesKeyOrJWT, anyRole(), 0, s.approvals.getApproval, auth.PermApprovalsManage},
		{http.MethodPost, "/v1/approvals/{id}/approve", takesUser, anyRole(), bodyRun, s.approvals.approve, ""},
		{http.MethodPost, "/v1/approvals/{id}/reject", takesUser, anyRole(), bodyRun, s.approvals.reject, ""},

		{http.MethodPost, "/v1/grants", takesUser, deciders(), bodyManagement, repeatable[grantView](s.repeats, s.approvals.createGrant, s.approvals.getGrant, "id"), ""},
		{http.MethodGet, "/v1/grants", takesKeyOrJWT, anyRole(), 0, s.approvals.listGrants, auth.PermApprovalsManage},
		{http.MethodGet, "/v1/grants/{id}", takesKeyOrJWT, anyRole(), 0, s.approvals.getGrant, auth.PermApprovalsManage},
		{http.MethodPatch, "/v1/grants/{id}", takesUser, deciders(), bodyManagement, s.approvals.patchGrant, ""},
		{http.MethodDelete, "/v1/grants/{id}", takesUser, deciders(), 0, s.approvals.revokeGrant, ""},
	}
}

// policyRoutes are policies and masking.
func (s *Server) policyRoutes() []route {
	return []route{
		{http.MethodPost, "/v1/policies", takesKeyOrJWT, admins(), bodyManagement, repeatable[policyDetail](s.repeats, s.policies.createPolicy, s.policies.getPolicy, "id"), auth.PermPoliciesManage},
		{http.MethodGet, "/v1/policies", takesKeyOrJWT, anyRole(), 0, s.policies.listPolicies, auth.PermPoliciesManage},
		{http.MethodGet, "/v1/policies/{id}", takesKeyOrJWT, anyRole(), 0, s.policies.getPolicy, auth.PermPoliciesManage},
		{http.MethodPut, "/v1/policies/{id}", takesKeyOrJWT, admins(), bodyManagement, s.policies.putPolicy, auth.PermPoliciesManage},
		{http.MethodPatch, "/v1/policies/{id}", takesKeyOrJWT, admins(), bodyManagement, s.policies.patchPolicy, auth.PermPoliciesManage},
		{http.MethodDelete, "/v1/policies/{id}", takesKeyOrJWT, admins(), 0, s.policies.deletePolicy, auth.PermPoliciesManage},
		{http.MethodGet, "/v1/policies/{id}/versions", takesKeyOrJWT, anyRole(), 0, s.policies.listPolicyVersions, auth.PermPoliciesManage},
		{http.MethodPost, "/v1/policies/{id}/versions/{version}/restore", takesKeyOrJWT, admins(), 0, s.policies.restorePolicy, auth.PermPoliciesManage},
		{http.MethodGet, "/v1/policies/{id}/coverage", takesKeyOrJWT, anyRole(), 0, s.policies.policyCoverage, auth.PermPoliciesManage},
		{http.MethodPost, "/v1/policies/simulate", takesKeyOrJWT, admins(), bodyManagement, s.policies.simulatePolicy, auth.PermPoliciesManage},

		{http.MethodGet, "/v1/governance/masking", takesKeyOrJWT, anyRole(), 0, s.policies.getMasking, auth.PermPoliciesManage},
		{http.MethodPut, "/v1/governance/masking", takesKeyOrJWT, admins(), bodyManagement, s.policies.putMasking, auth.PermPoliciesManage},
	}
}

// eventRoutes are the events that webhooks and streams are told.
func (s *Server) eventRoutes() []route {
	return []route{
		{http.MethodGet, "/v1/events", takesKeyOrJWT, anyRole(), 0, s.records.listEvents, auth.PermEventsRead},
		{http.MethodPost, "/v1/events", takesKey, noUser(), bodyManagement, s.records.sendEvent, auth.PermEventsSend},
		{http.MethodGet, "/v1/events/stream", takesKeyOrJWT, anyRole(), 0, s.records.streamEvents, auth.PermEventsRead},
		{http.MethodGet, "/v1/webhooks/event-types", takesKeyOrJWT, anyRole(), 0, s.records.listEventTypes, auth.PermWebhooksManage},
		{http.MethodGet, "/v1/events/{id}", takesKeyOrJWT, anyRole(), 0, s.records.getEvent, auth.PermEventsRead},
	}
}

// webhookRoutes are webhooks and their deliveries.
func (s *Server) webhookRoutes() []route {
	const one, delivery = "/v1/webhooks/{id}", "/v1/webhooks/{id}/deliveries/{delivery}"
	return []route{
		{http.MethodPost, "/v1/webhooks", takesKeyOrJWT, admins(), bodyManagement, repeatable[webhookView](s.repeats, s.tenant.createWebhook, s.tenant.getWebhook, "id"), auth.PermWebhooksManage},
		{http.MethodGet, "/v1/webhooks", takesKeyOrJWT, anyRole(), 0, s.tenant.listWebhooks, auth.PermWebhooksManage},
		{http.MethodGet, one, takesKeyOrJWT, anyRole(), 0, s.tenant.getWebhook, auth.PermWebhooksManage},
		{http.MethodPatch, one, takesKeyOrJWT, admins(), bodyManagement, s.tenant.patchWebhook, auth.PermWebhooksManage},
		{http.MethodDelete, one, takesKeyOrJWT, admins(), 0, s.tenant.deleteWebhook, auth.PermWebhooksManage},
		{http.MethodPost, one + "/rotate-secret", takesKeyOrJWT, admins(), bodyManagement, repeatable[webhookView](s.repeats, s.tenant.rotateWebhookSecret, s.tenant.getWebhook, "id"), auth.PermWebhooksManage},
		{http.MethodPost, one + "/test", takesKeyOrJWT, admins(), 0, s.tenant.testWebhook, auth.PermWebhooksManage},
		{http.MethodPost, one + "/recover", takesKeyOrJWT, admins(), bodyManagement, s.tenant.recoverDeliveries, auth.PermWebhooksManage},
		{http.MethodGet, one + "/deliveries", takesKeyOrJWT, anyRole(), 0, s.tenant.listDeliveries, auth.PermWebhooksManage},
		{http.MethodGet, delivery, takesKeyOrJWT, anyRole(), 0, s.tenant.getDelivery, auth.PermWebhooksManage},
		{http.MethodPost, delivery + "/redeliver", takesKeyOrJWT, admins(), 0, s.tenant.redeliver, auth.PermWebhooksManage},
	}
}

// auditRoutes are the audit trail.
func (s *Server) auditRoutes() []route {
	return []route{
		{http.MethodGet, "/v1/audit", takesKeyOrJWT, admins(), 0, s.records.listAudit, auth.PermAuditManage},
		{http.MethodGet, "/v1/audit/verify", takesKeyOrJWT, admins(), 0, s.records.verifyAudit, auth.PermAuditManage},
		{http.MethodGet, "/v1/audit/export", takesKeyOrJWT, admins(), 0, s.records.exportAudit, auth.PermAuditManage},
		{http.MethodGet, "/v1/audit/keys", takesKeyOrJWT, admins(), 0, s.records.listAuditKeys, auth.PermAuditManage},
	}
}

// providerRoutes are providers, their verbs and the credentials for them.
func (s *Server) providerRoutes() []route {
	return []route{
		{http.MethodGet, "/v1/runtime/actions/catalog", takesKey, noUser(), 0, s.providers.listVerbs, auth.PermActionsCatalog},
		{http.MethodGet, "/v1/runtime/actions/catalog/{verb}", takesKey, noUser(), 0, s.providers.getVerb, auth.PermActionsCatalog},

		{http.MethodPost, "/v1/providers", takesKeyOrJWT, admins(), bodyUpload, unlessPreview(s.providers.previewImport, repeatable[importedView](s.repeats, s.providers.importProvider, s.providers.getImported, "slug")), auth.PermProvidersManage},
		{http.MethodGet, "/v1/providers", takesKeyOrJWT, anyRole(), 0, s.providers.listProviders, auth.PermProvidersManage},
		{http.MethodGet, "/v1/providers/{slug}", takesKeyOrJWT, anyRole(), 0, s.providers.getProvider, auth.PermProvidersManage},
		{http.MethodPatch, "/v1/providers/{slug}", takesKeyOrJWT, admins(), bodyManagement, s.providers.patchProvider, auth.PermProvidersManage},
		{http.MethodGet, "/v1/providers/{slug}/document", takesKeyOrJWT, anyRole(), 0, s.providers.getProviderDocument, auth.PermProvidersManage},
		{http.MethodGet, "/v1/providers/{slug}/verbs", takesUser, anyRole(), 0, s.providers.listProviderVerbs, ""},
		{http.MethodPatch, "/v1/providers/{slug}/verbs/{name}", takesUser, admins(), bodyManagement, s.providers.trustVerb, ""},
		{http.MethodPost, "/v1/providers/{slug}/verbs/{name}/accept", takesUser, admins(), bodyManagement, s.providers.acceptVerb, ""},
		{http.MethodPost, "/v1/providers/{slug}/enable", takesUser, admins(), 0, s.providers.enableProvider, ""},
		{http.MethodPost, "/v1/providers/{slug}/disable", takesUser, admins(), 0, s.providers.disableProvider, ""},
		{http.MethodDelete, "/v1/providers/{slug}", takesUser, admins(), 0, s.providers.deleteProvider, ""},

		{http.MethodPost, "/v1/credentials", takesKeyOrJWT, admins(), bodyManagement, repeatable[credentialView](s.repeats, s.providers.createCredential, s.providers.getCredential, "id"), auth.PermCredentialsManage},
		{http.MethodGet, "/v1/credentials", takesKeyOrJWT, anyRole(), 0, s.providers.listCredentials, auth.PermCredentialsManage},
		{http.MethodGet, "/v1/credentials/{id}", takesKeyOrJWT, anyRole(), 0, s.providers.getCredential, auth.PermCredentialsManage},
		{http.MethodPatch, "/v1/credentials/{id}", takesKeyOrJWT, admins(), bodyManagement, s.providers.patchCredential, auth.PermCredentialsManage},
		{http.MethodDelete, "/v1/credentials/{id}", takesKeyOrJWT, admins(), 0, s.providers.deleteCredential, auth.PermCredentialsManage},
		{http.MethodPost, "/v1/credentials/{id}/validate", takesKeyOrJWT, admins(), 0, s.providers.validateCredential, auth.PermCredentialsManage},
		{http.MethodPost, "/v1/credentials/{id}/rotate", takesKeyOrJWT, admins(), bodyManagement, repeatable[credentialView](s.repeats, s.providers.rotateCredential, s.providers.getCredential, "id"), auth.PermCredentialsManage},
	}
}

// customerRoutes are the customers. A key needs no permission to create one and to read one
// that it can name.
func (s *Server) customerRoutes() []route {
	return []route{
		{http.MethodPost, "/v1/customers", takesServerKeyOrJWT, admins(), bodyManagement, repeatable[customerView](s.repeats, s.customers.putCustomer, s.customers.getCustomer, "id"), ""},
		{http.MethodGet, "/v1/customers", takesServerKeyOrJWT, anyRole(), 0, s.customers.listCustomers, auth.PermCustomersManage},
		{http.MethodGet, "/v1/customers/{id}", takesServerKeyOrJWT, anyRole(), 0, s.customers.getCustomer, ""},
		{http.MethodPatch, "/v1/customers/{id}", takesServerKeyOrJWT, admins(), bodyManagement, s.customers.patchCustomer, auth.PermCustomersManage},
		{http.MethodDelete, "/v1/customers/{id}", takesServerKeyOrJWT, admins(), 0, s.customers.eraseCustomer, auth.PermCustomersManage},
		{http.MethodGet, "/v1/customers/{id}/erasure", takesServerKeyOrJWT, anyRole(), 0, s.customers.getErasure, auth.PermCustomersManage},
		{http.MethodGet, "/v1/customers/{id}/export", takesServerKeyOrJWT, admins(), 0, s.customers.exportCustomer, auth.PermCustomersManage},
		{http.MethodPost, "/v1/customers/{id}/merge", takesServerKeyOrJWT, admins(), bodyManagement, s.customers.mergeCustomer, auth.PermCustomersManage},
		{http.MethodGet, "/v1/customers/{id}/memory", takesServerKeyOrJWT, anyRole(), 0, s.customers.listFacts, auth.PermCustomersManage},
		{http.MethodPost, "/v1/customers/{id}/memory", takesServerKeyOrJWT, admins(), bodyManagement, repeatable[customerFact](s.repeats, s.customers.createFact, s.customers.getFact, "fact_id"), auth.PermCustomersManage},
		{http.MethodGet, "/v1/customers/{id}/memory/{fact_id}", takesServerKeyOrJWT, anyRole(), 0, s.customers.getFact, auth.PermCustomersManage},
		{http.MethodPatch, "/v1/customers/{id}/memory/{fact_id}", takesServerKeyOrJWT, admins(), bodyManagement, s.customers.patchFact, auth.PermCustomersManage},
		{http.MethodDelete, "/v1/customers/{id}/memory/{fact_id}", takesServerKeyOrJWT, admins(), 0, s.customers.deleteFact, auth.PermCustomersManage},
	}
}

// budgetRoutes bound what a month may cost. A key never changes them.
func (s *Server) budgetRoutes() []route {
	return []route{
		{http.MethodGet, "/v1/budgets", takesUser, anyRole(), 0, s.tenant.getBudgets, ""},
		{http.MethodPut, "/v1/budgets", takesUser, admins(), bodyManagement, s.tenant.putBudgets, ""},
	}
}

// killSwitchRoutes stop calls at once. A key never does.
func (s *Server) killSwitchRoutes() []route {
	return []route{
		{http.MethodPost, "/v1/model-providers", takesUser, admins(), bodyManagement, repeatable[modelProviderView](s.repeats, s.providers.createModelProvider, s.providers.getModelProvider, "id"), ""},
		{http.MethodGet, "/v1/model-providers", takesUser, anyRole(), 0, s.providers.listModelProviders, ""},
		{http.MethodGet, "/v1/model-providers/{id}", takesUser, anyRole(), 0, s.providers.getModelProvider, ""},
		{http.MethodPatch, "/v1/model-providers/{id}", takesUser, admins(), bodyManagement, s.providers.patchModelProvider, ""},
		{http.MethodDelete, "/v1/model-providers/{id}", takesUser, admins(), 0, s.providers.deleteModelProvider, ""},
		{http.MethodPost, "/v1/kill-switch", takesUser, admins(), bodyManagement, repeatable[killSwitchView](s.repeats, s.tenant.setKillSwitch, s.tenant.getKillSwitch, "id"), ""},
		{http.MethodGet, "/v1/kill-switch", takesUser, anyRole(), 0, s.tenant.listKillSwitches, ""},
		{http.MethodGet, "/v1/kill-switch/{id}", takesUser, anyRole(), 0, s.tenant.getKillSwitch, ""},
		{http.MethodDelete, "/v1/kill-switch/{id}", takesUser, admins(), 0, s.tenant.liftKillSwitch, ""},
	}
}

// messageRoutes are the messages to agents and their sessions. Only keys write messages, and only
// people take over.
func (s *Server) messageRoutes() []route {
	const session = "/v1/agents/{id}/sessions/{sid}"
	return []route{
		{http.MethodPost, "/v1/agents/{id}/message", takesKey, noUser(), bodyRun, s.agents.sendMessage, auth.PermAgentsMessage},
		{http.MethodPost, "/v1/agents/{id}/goals", takesKey, noUser(), bodyRun, s.agents.pursueGoal, auth.PermAgentsMessage},
		{http.MethodPut, "/v1/executions/{id}/feedback", takesKeyOrJWT, deciders(), bodyManagement, s.agents.rateReply, ""},

		{http.MethodGet, "/v1/agents/{id}/sessions", takesKeyOrJWT, anyRole(), 0, s.agents.listAgentSessions, auth.PermAgentsManage},
		{http.MethodGet, session, takesKeyOrJWT, anyRole(), 0, s.agents.getAgentSession, auth.PermAgentsManage},
		{http.MethodDelete, session, takesKeyOrJWT, admins(), 0, s.agents.deleteAgentSession, auth.PermAgentsManage},
		{http.MethodGet, session + "/messages", takesKeyOrJWT, anyRole(), 0, s.agents.listSessionMessages, auth.PermAgentsManage},
		{http.MethodPost, session + "/takeover", takesUser, deciders(), 0, s.agents.takeOverSession, ""},
		{http.MethodPost, session + "/reply", takesUser, deciders(), bodyManagement, repeatable[agentSession](s.repeats, s.agents.replyInSession, s.agents.getAgentSession, "sid"), ""},
		{http.MethodPost, session + "/handback", takesUser, deciders(), 0, s.agents.handBackSession, ""},
	}
}

// mapRoutes are the Maps and their versions. A definition leads to calls, so maps:manage goes with
// no permission that governs calls; see account.
func (s *Server) mapRoutes() []route {
	const one = "/v1/maps/{id}"
	return []route{
		{http.MethodPost, "/v1/maps", takesKeyOrJWT, admins(), bodyDefinition, repeatable[mapDetail](s.repeats, s.maps.createMap, s.maps.getMap, "id"), auth.PermMapsManage},
		{http.MethodGet, "/v1/maps", takesKeyOrJWT, anyRole(), 0, s.maps.listMaps, auth.PermMapsManage},
		{http.MethodPost, "/v1/maps/validate", takesKeyOrJWT, anyRole(), bodyDefinition, s.maps.validateMap, auth.PermMapsManage},
		{http.MethodGet, one, takesKeyOrJWT, anyRole(), 0, s.maps.getMap, auth.PermMapsManage},
		{http.MethodPut, one, takesKeyOrJWT, admins(), bodyDefinition, s.maps.putMap, auth.PermMapsManage},
		{http.MethodDelete, one, takesKeyOrJWT, admins(), 0, s.maps.deleteMap, auth.PermMapsManage},
		{http.MethodGet, one + "/versions", takesKeyOrJWT, anyRole(), 0, s.maps.listMapVersions, auth.PermMapsManage},
		{http.MethodGet, one + "/versions/{version}", takesKeyOrJWT, anyRole(), 0, s.maps.getMapVersion, auth.PermMapsManage},
		{http.MethodPost, one + "/publish", takesKeyOrJWT, admins(), bodyManagement, s.maps.publishMap, auth.PermMapsManage},
		{http.MethodPost, one + "/trigger", takesTrigger, anyRole(), bodyRun, s.maps.triggerMap, ""},
		{http.MethodGet, one + "/graph", takesKeyOrJWT, anyRole(), 0, s.maps.getMapGraph, auth.PermMapsManage},
	}
}

// agentRoutes are the agents and their versions. A definition leads to calls, so agents:manage goes
// with no permission that governs calls; see account.
func (s *Server) agentRoutes() []route {
	const one, version = "/v1/agents/{id}", "/v1/agents/{id}/versions/{version}"
	return []route{
		{http.MethodPost, "/v1/agents", takesKeyOrJWT, admins(), bodyDefinition, repeatable[agentDetail](s.repeats, s.agents.createAgent, s.agents.getAgent, "id"), auth.PermAgentsManage},
		{http.MethodGet, "/v1/agents", takesKeyOrJWT, anyRole(), 0, s.agents.listAgents, auth.PermAgentsManage},
		{http.MethodGet, one, takesKeyOrJWT, anyRole(), 0, s.agents.getAgent, auth.PermAgentsManage},
		{http.MethodPatch, one, takesKeyOrJWT, admins(), bodyDefinition, s.agents.patchAgent, auth.PermAgentsManage},
		{http.MethodDelete, one, takesKeyOrJWT, admins(), 0, s.agents.deleteAgent, auth.PermAgentsManage},
		{http.MethodGet, one + "/versions", takesKeyOrJWT, anyRole(), 0, s.agents.listAgentVersions, auth.PermAgentsManage},
		{http.MethodGet, version, takesKeyOrJWT, anyRole(), 0, s.agents.getAgentVersion, auth.PermAgentsManage},
		{http.MethodPost, version + "/publish", takesKeyOrJWT, admins(), 0, s.agents.publishAgentVersion, auth.PermAgentsManage},
		{http.MethodGet, version + "/diff", takesKeyOrJWT, anyRole(), 0, s.agents.diffAgentVersion, auth.PermAgentsManage},
	}
}
