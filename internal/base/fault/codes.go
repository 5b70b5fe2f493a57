package fault

import "net/http"

// Code is the public, stable name of a refusal (error.code in the envelope).
type Code string

// Spec is one row of the error reference.
type Spec struct {
	Code    Code
	Status  int    // HTTP status
	Message string // default public message
	When    string // for the reference in docs/reference/errors.md
}

// The codes. Table below says the status, the message and the cause of each.
const (
	CodeInvalidJSON           Code = "INVALID_JSON"
	CodeValidation            Code = "VALIDATION_ERROR"
	CodeInvalidVerb           Code = "INVALID_VERB"
	CodeInvalidIdempotencyKey Code = "INVALID_IDEMPOTENCY_KEY"

	CodeUnauthenticated    Code = "UNAUTHENTICATED"
	CodeInvalidAPIKey      Code = "INVALID_API_KEY"
	CodeAPIKeyRevoked      Code = "API_KEY_REVOKED"
	CodeAPIKeyExpired      Code = "API_KEY_EXPIRED"
	CodeInvalidToken       Code = "INVALID_TOKEN"
	CodeTokenExpired       Code = "TOKEN_EXPIRED"
	CodeInvalidCredentials Code = "INVALID_CREDENTIALS"

	CodeInsufficientPermissions Code = "INSUFFICIENT_PERMISSIONS"
	CodeAgentLocked             Code = "AGENT_LOCKED"
	CodeOriginNotAllowed        Code = "ORIGIN_NOT_ALLOWED"
	CodeIPNotAllowed            Code = "IP_NOT_ALLOWED"
	CodeGovernanceBlocked       Code = "GOVERNANCE_BLOCKED"
	CodeApproverNotEligible     Code = "APPROVER_NOT_ELIGIBLE"
	CodeQuotaExceeded           Code = "QUOTA_EXCEEDED"
	CodePlanRequired            Code = "PLAN_REQUIRED"
	CodeEmailNotVerified        Code = "EMAIL_NOT_VERIFIED"
	CodeSignupClosed            Code = "SIGNUP_CLOSED"

	CodeNotFound              Code = "NOT_FOUND"
	CodeVerbNotFound          Code = "VERB_NOT_FOUND"
	CodeProviderNotFound      Code = "PROVIDER_NOT_FOUND"
	CodeModelProviderNotFound Code = "MODEL_PROVIDER_NOT_FOUND"
	CodeDocumentNotFound      Code = "PROVIDER_DOCUMENT_NOT_FOUND"
	CodeCredentialNotFound    Code = "CREDENTIAL_NOT_FOUND"
	CodeExecutionNotFound     Code = "EXECUTION_NOT_FOUND"
	CodeFileNotFound          Code = "FILE_NOT_FOUND"
	CodeApprovalNotFound      Code = "APPROVAL_NOT_FOUND"
	CodePolicyNotFound        Code = "POLICY_NOT_FOUND"
	CodeGrantNotFound         Code = "GRANT_NOT_FOUND"
	CodeEventNotFound         Code = "EVENT_NOT_FOUND"
	CodeKillSwitchNotFound    Code = "KILL_SWITCH_NOT_FOUND"
	CodeCustomerNotFound      Code = "CUSTOMER_NOT_FOUND"
	CodeFactNotFound          Code = "FACT_NOT_FOUND"
	CodeMapNotFound           Code = "MAP_NOT_FOUND"
	CodeAgentNotFound         Code = "AGENT_NOT_FOUND"
	CodeWebhookNotFound       Code = "WEBHOOK_NOT_FOUND"
	CodeDeliveryNotFound      Code = "DELIVERY_NOT_FOUND"
	CodeAPIKeyNotFound        Code = "API_KEY_NOT_FOUND"
	CodeUserNotFound          Code = "USER_NOT_FOUND"
	CodeSessionNotFound       Code = "SESSION_NOT_FOUND"

	CodeMethodNotAllowed     Code = "METHOD_NOT_ALLOWED"
	CodePayloadTooLarge      Code = "PAYLOAD_TOO_LARGE"
	CodeUnsupportedMediaType Code = "UNSUPPORTED_MEDIA_TYPE"

	CodeApprovalNotPending  Code = "APPROVAL_NOT_PENDING"
	CodeConflict            Code = "CONFLICT"
	CodeSessionBusy         Code = "SESSION_BUSY"
	CodeExecutionUnreadable Code = "EXECUTION_UNREADABLE"
	CodeResultExpired       Code = "RESULT_EXPIRED"

	CodePreconditionFailed Code = "PRECONDITION_FAILED"

	CodeInvalidMap           Code = "INVALID_MAP"
	CodeMapFailed            Code = "MAP_FAILED"
	CodeInvalidArgs          Code = "INVALID_ARGS"
	CodeIdentityRequired     Code = "IDENTITY_REQUIRED"
	CodeProviderRejected     Code = "PROVIDER_REJECTED"
	CodeIdempotencyKeyReused Code = "IDEMPOTENCY_KEY_REUSED"
	CodeIdempotencyConflict  Code = "IDEMPOTENCY_CONFLICT"
	CodeWeakPassword         Code = "WEAK_PASSWORD"
	CodeURLNotAllowed        Code = "URL_NOT_ALLOWED"

	CodeProviderNotConnected Code = "PROVIDER_NOT_CONNECTED"
	CodeModelNotConnected    Code = "MODEL_NOT_CONNECTED"
	CodeCredentialExpired    Code = "CREDENTIAL_EXPIRED"

	CodeLoginThrottled Code = "LOGIN_THROTTLED"
	CodeRateLimited    Code = "RATE_LIMITED"
	CodeBudgetExceeded Code = "BUDGET_EXCEEDED"

	CodeInternal           Code = "INTERNAL_ERROR"
	CodeProviderError      Code = "PROVIDER_ERROR"
	CodeModelError         Code = "MODEL_ERROR"
	CodeCircuitOpen        Code = "CIRCUIT_OPEN"
	CodeServiceUnavailable Code = "SERVICE_UNAVAILABLE"
	CodeProviderTimeout    Code = "PROVIDER_TIMEOUT"
	CodeOutcomeUnknown     Code = "OUTCOME_UNKNOWN"
	CodeRunExpired         Code = "RUN_EXPIRED"
)

// Table returns the rows of the error reference in the order of docs/reference/errors.md.
func Table() []Spec {
	return []Spec{
		{CodeInvalidJSON, http.StatusBadRequest, "The request body is not acceptable JSON.", "The body is not one JSON value, or has duplicate names, bad UTF-8, NUL, too deep nesting or an unreasonable number."},
		{CodeValidation, http.StatusBadRequest, "The request is not valid.", "A parameter or body field is missing, unknown, of the wrong type or out of range; `details` names each."},
		{CodeInvalidVerb, http.StatusBadRequest, "A verb has the form provider:verb_name, for example shop:get_order.", "`verb` does not have the form `<provider>:<verb_name>`."},
		{CodeInvalidIdempotencyKey, http.StatusBadRequest, "Ids and keys are 1 to 255 visible ASCII characters.", "`execution_id`, `idempotency_key` or the `Idempotency-Key` header is malformed, or header and body name different keys."},
		{CodeUnauthenticated, http.StatusUnauthorized, "This endpoint needs a credential it accepts.", "No credential was sent, or one of a kind that the endpoint does not take."},
		{CodeInvalidAPIKey, http.StatusUnauthorized, "The API key is malformed or unknown. Check it for a slip, or log in and make one with POST /v1/api-keys.", "The key is malformed or unknown."},
		{CodeAPIKeyRevoked, http.StatusUnauthorized, "The API key has been revoked.", "The key was revoked, before the call or while it ran."},
		{CodeAPIKeyExpired, http.StatusUnauthorized, "The API key has expired.", "The key's `expires_at` has passed, or a rotation has replaced this secret and the overlap is over."},
		{CodeInvalidToken, http.StatusUnauthorized, "The token is not valid.", "The JWT or refresh token is malformed, forged, reused or belongs to a session that ended."},
		{CodeTokenExpired, http.StatusUnauthorized, "The token has expired.", "The JWT or refresh token is past its expiry. Refresh or log in again."},
		{CodeInvalidCredentials, http.StatusUnauthorized, "Email or password is wrong.", "Login failed. The answer is the same for unknown addresses."},
		{CodeInsufficientPermissions, http.StatusForbidden, "The credential lacks a permission this endpoint needs.", "The key or role lacks the named permission."},
		{CodeAgentLocked, http.StatusForbidden, "The key is locked to another agent.", "The key was created with another `agent_id`."},
		{CodeOriginNotAllowed, http.StatusForbidden, "The key may not be used from this origin.", "The request has an `Origin` that is not in the key's `allowed_origins`."},
		{CodeIPNotAllowed, http.StatusForbidden, "The key may not be used from this address.", "The caller's address is in none of the key's `allowed_ips`."},
		{CodeGovernanceBlocked, http.StatusForbidden, "Governance blocked this call.", "A policy, a kill switch or the verb's registry default blocks or holds the call, or people rejected it or let it expire; `decision`, `status` and `approval_id` say which."},
		{CodeApproverNotEligible, http.StatusForbidden, "You may not decide this approval.", "The policy names other approvers, or it is about a call that you asked for or edited yourself."},
		{CodeQuotaExceeded, http.StatusForbidden, "The tenant has as many of these as it may have.", "Creating one more would exceed a quota of the tenant; the message names the quota and its limit. A held call that would exceed one is not held, and nothing is sent."},
		{CodePlanRequired, http.StatusForbidden, "The operator of this service allows less. Ask them for more.", "A rate limit above the operator's ceiling; the details name it."},
		{CodeEmailNotVerified, http.StatusForbidden, "The email address is not verified. Open the link in the mail to it, or ask for another at POST /v1/auth/resend-verification.", "The installation requires verified addresses (REQUIRE_VERIFIED_EMAIL). The password was right."},
		{CodeSignupClosed, http.StatusForbidden, "This installation takes no new users. Its operator makes owners with `agentruntime owner create`, and allows more with SIGNUP=invite or SIGNUP=open.", "The installation takes no new users (SIGNUP=closed), or only invited ones (SIGNUP=invite). The answer is the same for known and unknown addresses."},
		{CodeNotFound, http.StatusNotFound, "No such path. /docs shows every endpoint, /openapi.json is the document.", "The path is unknown."},
		{CodeVerbNotFound, http.StatusNotFound, "No such verb in your catalog.", "The tenant's catalog has no such verb. The message says where a provider of the platform only has to be enabled."},
		{CodeProviderNotFound, http.StatusNotFound, "No such provider.", "The tenant has no provider with this slug."},
		{CodeModelProviderNotFound, http.StatusNotFound, "No such model provider.", "The id is unknown to the tenant."},
		{CodeDocumentNotFound, http.StatusNotFound, "The document of this provider is not kept.", "The provider was imported before documents were kept, or it is one of the platform's."},
		{CodeCredentialNotFound, http.StatusNotFound, "No such credential.", "The id is unknown to the tenant."},
		{CodeExecutionNotFound, http.StatusNotFound, "No such execution.", "The id is unknown to the caller."},
		{CodeFileNotFound, http.StatusNotFound, "No such file.", "The result of the execution names no file of this id."},
		{CodeApprovalNotFound, http.StatusNotFound, "No such approval.", "The id is unknown to the tenant."},
		{CodeGrantNotFound, http.StatusNotFound, "No such grant.", "The id is unknown to the tenant, or the grant ended more than 90 days ago."},
		{CodeKillSwitchNotFound, http.StatusNotFound, "No such kill switch.", "The id is unknown to the tenant, the kill switch to be lifted is lifted already, or the one to be read was lifted more than 90 days ago."},
		{CodeEventNotFound, http.StatusNotFound, "No such event.", "The id is unknown to the tenant, or the event is older than 30 days."},
		{CodeCustomerNotFound, http.StatusNotFound, "No such customer.", "The tenant has no customer with this id or `external_id`, or the customer was erased."},
		{CodeFactNotFound, http.StatusNotFound, "No such fact.", "Nothing with this id is remembered of the customer, or it was deleted."},
		{CodeMapNotFound, http.StatusNotFound, "No such Map.", "The tenant has no Map with this id, or no such version of it, or the Map was deleted."},
		{CodeAgentNotFound, http.StatusNotFound, "No such agent.", "The tenant has no agent with this id, or no such version of it, or the agent was deleted."},
		{CodeWebhookNotFound, http.StatusNotFound, "No such webhook.", "The id is unknown to the tenant."},
		{CodeDeliveryNotFound, http.StatusNotFound, "No such delivery.", "The webhook has no delivery of this event, or the event is older than 30 days."},
		{CodePolicyNotFound, http.StatusNotFound, "No such policy.", "The id is unknown to the tenant, or the policy is deleted."},
		{CodeAPIKeyNotFound, http.StatusNotFound, "No such API key.", "The id is unknown to the tenant, or the key is revoked already."},
		{CodeUserNotFound, http.StatusNotFound, "No such user.", "The id is unknown to the tenant, or the user to be changed is removed already."},
		{CodeSessionNotFound, http.StatusNotFound, "No such session.", "The id is unknown to the user, or the session has ended; or the agent has no such session."},
		{CodeMethodNotAllowed, http.StatusMethodNotAllowed, "The path does not take this method.", "See the `Allow` header."},
		{CodePayloadTooLarge, http.StatusRequestEntityTooLarge, "The request body is too large.", "64 KiB for management calls, 256 KiB for Maps and agents, 1 MiB for runs, 25 MiB for imports."},
		{CodeUnsupportedMediaType, http.StatusUnsupportedMediaType, "The request body must be application/json.", "The body has another `Content-Type`, or a content encoding."},
		{CodeApprovalNotPending, http.StatusConflict, "The approval no longer waits for a decision.", "It was decided, has expired, was cancelled, or was superseded by another."},
		{CodeConflict, http.StatusConflict, "The resource is not in a state that allows this.", "For example cancelling a run that ended, or resolving one whose outcome is known."},
		{CodeSessionBusy, http.StatusConflict, "Another message of this session is being answered.", "The agent lets no message of a session wait (`concurrency` is `reject`), or 20 wait already. Nothing was stored; write again when the one before is answered."},
		{CodeExecutionUnreadable, http.StatusConflict, "What is stored of this execution cannot be read.", "The stored arguments or result do not open under the tenant's key: the row or the key was changed or restored. A repeat, an approval or an edit needs them; reading, rejecting, cancelling and resolving do not."},
		{CodeResultExpired, http.StatusConflict, "The result of this execution is no longer kept.", "The call is a repeat of an execution that ended more than 30 days ago, or whose customer was erased. Nothing ran; `status` says how it ended. Another call takes another id."},
		{CodePreconditionFailed, http.StatusPreconditionFailed, "The resource is not as If-Match or If-None-Match expects it. Read it again.", "The `ETag` of the resource is not one that `If-Match` names, or is one that `If-None-Match` names. Nothing changed."},
		{CodeMapFailed, http.StatusUnprocessableEntity, "The execution of the Map failed.", "`execution_id` names the execution, and `details` the step and the code of its error. POST /v1/executions/{id}/retry goes on from there."},
		{CodeInvalidMap, http.StatusUnprocessableEntity, "The definition of the Map is not valid.", "`details` names all faults of the definition, each by the JSON Pointer of its place."},
		{CodeInvalidArgs, http.StatusUnprocessableEntity, "The arguments do not fit the verb's schema.", "`details` names each argument and the rule it breaks."},
		{CodeIdentityRequired, http.StatusUnprocessableEntity, "This key takes messages of known customers only. Send customer_id, or identity with an email, phone or external_id.", "The key's `identity_mode` is `required`, and the message names no customer; or the key has `identity_verification`, and `identity_hash` is missing or wrong."},
		{CodeProviderRejected, http.StatusUnprocessableEntity, "The provider refused the call.", "The provider answered 4xx (`provider_status`); `retryable` where a later call may pass."},
		{CodeIdempotencyKeyReused, http.StatusUnprocessableEntity, "This idempotency key was used for another call.", "Same key, but another verb, dry run against real, or (by the `Idempotency-Key` header, or for a step of a Map that is retried) other arguments. Nothing ran."},
		{CodeIdempotencyConflict, http.StatusUnprocessableEntity, "execution_id and idempotency_key name two different runs.", "Both were used before, for different runs. Nothing ran."},
		{CodeWeakPassword, http.StatusUnprocessableEntity, "A password needs at least 8 characters.", "The password is shorter than 8 characters."},
		{CodeURLNotAllowed, http.StatusUnprocessableEntity, "This address may not be called.", "A server or base URL that is plain http or not public."},
		{CodeProviderNotConnected, http.StatusFailedDependency, "The provider has no active credential.", "Store one with `POST /v1/credentials`, then repeat the call."},
		{CodeModelNotConnected, http.StatusFailedDependency, "No model of the agent has an active credential.", "Store one with `POST /v1/credentials`, with the provider `model:` and the name of the model provider. Then repeat the call."},
		{CodeCredentialExpired, http.StatusFailedDependency, "The provider's credential has expired.", "Replace or rotate it, then repeat the call."},
		{CodeRateLimited, http.StatusTooManyRequests, "Too many requests. Try again later.", "A window of the tenant, of its people, of the key or of the caller's address is full; see `Retry-After` and the `RateLimit` header. The request was not counted and did nothing."},
		{CodeBudgetExceeded, http.StatusTooManyRequests, "A monthly budget is used up.", "A budget of the tenant or of the key has no room for the call; see `Retry-After`. Nothing was sent, and the id may be used again."},
		{CodeLoginThrottled, http.StatusTooManyRequests, "Too many attempts. Try again later.", "Too many failed logins or bad invitations, or too many that wait, from the address; see `Retry-After`."},
		{CodeInternal, http.StatusInternalServerError, "Something failed on our side.", "A fault of ours. Quote `requestId`; a run can be repeated with the same id."},
		{CodeProviderError, http.StatusBadGateway, "The provider failed or was not understood.", "The provider answered 5xx, or its answer is not what its document says."},
		{CodeModelError, http.StatusBadGateway, "The model has not answered.", "The model refused, failed or did not answer in time, and so did those of its fallback. The message has the reason."},
		{CodeCircuitOpen, http.StatusServiceUnavailable, "The last calls of this provider failed, so no call is sent to it for a while. Nothing was sent; the id may be used again.", "The circuit of the provider is open, see `Retry-After` and docs/operate/circuits.md. Nothing was sent, and the id stays free."},
		{CodeServiceUnavailable, http.StatusServiceUnavailable, "The service cannot take the call at this moment.", "The database, the workflow engine or the key management service is not reachable. Repeat with the same id after `Retry-After`; `message` says whether a call without one was withdrawn."},
		{CodeProviderTimeout, http.StatusGatewayTimeout, "The provider did not answer in time.", "A read, or a call that provably was not sent, ran out of time."},
		{CodeOutcomeUnknown, http.StatusGatewayTimeout, "The call was sent and its outcome is not known.", "A write was sent, and not answered, answered by a gateway only, or refused after a lost answer. It is never re-sent; settle it with `POST /v1/executions/{id}/resolve`."},
		{CodeRunExpired, http.StatusGatewayTimeout, "The time of this call was over before it could be sent. Nothing was sent; the id may be used again.", "A run was not sent within `expires_in`, or within 15 minutes. It waited in a queue, for its provider, or for a worker."},
	}
}

//nolint:gochecknoglobals // an index of the table, built once, never written
var byCode = func() map[Code]Spec {
	m := map[Code]Spec{}
	for _, s := range Table() {
		m[s.Code] = s
	}
	return m
}()

// Spec returns the code's row; an unknown code has the row of INTERNAL_ERROR.
func (c Code) Spec() Spec {
	if s, ok := byCode[c]; ok {
		return s
	}
	return byCode[CodeInternal]
}
