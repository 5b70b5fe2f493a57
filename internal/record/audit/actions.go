package audit

// Action says what was done. Records store it as text and exports show it, so a value is
// never renamed.
type Action string

// The actions. Actions below says when each is written.
const (
	RunAllowed        Action = "run.allowed"
	RunNotified       Action = "run.notified"
	RunHeld           Action = "run.held"
	RunIntercepted    Action = "run.intercepted"
	RunBlocked        Action = "run.blocked"
	RunRefused        Action = "run.refused"
	RunRepeated       Action = "run.repeated"
	RunRetried        Action = "run.retried"
	RunLookedUp       Action = "run.looked_up"
	RunExecuted       Action = "run.executed"
	RunFailed         Action = "run.failed"
	RunOutcomeUnknown Action = "run.outcome_unknown"
	RunCancelled      Action = "run.cancelled"
	RunResolved       Action = "run.resolved"

	ApprovalRefused    Action = "approval.refused"
	ApprovalVoted      Action = "approval.voted"
	ApprovalApproved   Action = "approval.approved"
	ApprovalRejected   Action = "approval.rejected"
	ApprovalEdited     Action = "approval.edited"
	ApprovalEscalated  Action = "approval.escalated"
	ApprovalSuperseded Action = "approval.superseded"
	ApprovalExpired    Action = "approval.expired"
	ApprovalCancelled  Action = "approval.cancelled"

	GrantCreated Action = "grant.created"
	GrantUsed    Action = "grant.used"
	GrantUpdated Action = "grant.updated"
	GrantRevoked Action = "grant.revoked"

	KillSwitchSet    Action = "kill_switch.set"
	KillSwitchLifted Action = "kill_switch.lifted"

	CircuitOpened Action = "circuit.opened"
	CircuitClosed Action = "circuit.closed"

	PolicyCreated  Action = "policy.created"
	PolicyUpdated  Action = "policy.updated"
	PolicyDeleted  Action = "policy.deleted"
	PolicyRestored Action = "policy.restored"
	MaskingUpdated Action = "masking.updated"

	CredentialCreated Action = "credential.created" //nolint:gosec // a name, no secret
	CredentialUpdated Action = "credential.updated" //nolint:gosec // a name, no secret
	CredentialRotated Action = "credential.rotated" //nolint:gosec // a name, no secret
	CredentialDeleted Action = "credential.deleted" //nolint:gosec // a name, no secret

	ModelProviderCreated Action = "model_provider.created"
	ModelProviderUpdated Action = "model_provider.updated"
	ModelProviderDeleted Action = "model_provider.deleted"

	CustomerCreated  Action = "customer.created"
	CustomerUpdated  Action = "customer.updated"
	CustomerMerged   Action = "customer.merged"
	CustomerErased   Action = "customer.erased"
	CustomerExported Action = "customer.exported"

	CustomerErasureCompleted Action = "customer.erasure_completed"

	FactWritten Action = "customer.fact_written"
	FactChanged Action = "customer.fact_changed"
	FactDeleted Action = "customer.fact_deleted"

	MapCreated      Action = "map.created"
	MapVersionAdded Action = "map.version_added"
	MapPublished    Action = "map.published"
	MapDeleted      Action = "map.deleted"
	MapTriggered    Action = "map.triggered"
	MapRepeated     Action = "map.repeated"
	MapAsked        Action = "map.asked"
	MapEnded        Action = "map.ended"
	MapCancelled    Action = "map.cancelled"
	MapPaused       Action = "map.paused"
	MapSignalled    Action = "map.signalled"
	MapResumed      Action = "map.resumed"
	MapRetried      Action = "map.retried"

	MapChangesDecided Action = "map.changes_decided"
	MapChangesApplied Action = "map.changes_applied"

	AgentCreated   Action = "agent.created"
	AgentChanged   Action = "agent.changed"
	AgentPublished Action = "agent.published"
	AgentPaused    Action = "agent.paused"
	AgentResumed   Action = "agent.resumed"
	AgentDeleted   Action = "agent.deleted"
	AgentMessaged  Action = "agent.messaged"
	AgentReplied   Action = "agent.replied"
	AgentCancelled Action = "agent.cancelled"
	AgentRated     Action = "agent.rated"

	AgentSessionTaken    Action = "agent.session_taken_over"
	AgentSessionReplied  Action = "agent.session_replied"
	AgentSessionReturned Action = "agent.session_handed_back"
	AgentSessionDeleted  Action = "agent.session_deleted"

	ProviderImported Action = "provider.imported"
	ProviderUpdated  Action = "provider.updated"
	ProviderDeleted  Action = "provider.deleted"
	ProviderEnabled  Action = "provider.enabled"
	ProviderDisabled Action = "provider.disabled"
	VerbQuarantined  Action = "verb.quarantined"
	VerbAccepted     Action = "verb.accepted"
	VerbReleased     Action = "verb.released"

	APIKeyCreated Action = "api_key.created"
	APIKeyUpdated Action = "api_key.updated"
	APIKeyRotated Action = "api_key.rotated" //nolint:gosec // a name, no secret
	APIKeyRevoked Action = "api_key.revoked"

	APIKeyIdentityRotated Action = "api_key.identity_rotated"

	WebhookCreated      Action = "webhook.created"
	WebhookUpdated      Action = "webhook.updated"
	WebhookRotated      Action = "webhook.rotated"
	WebhookTested       Action = "webhook.tested"
	WebhookDeleted      Action = "webhook.deleted"
	WebhookDisabled     Action = "webhook.disabled"
	DeliveriesRecovered Action = "webhook.recovered"

	TenantCreated       Action = "tenant.created"
	RateLimitsUpdated   Action = "rate_limits.updated"
	BudgetsUpdated      Action = "budgets.updated"
	UserInvited         Action = "user.invited"
	UserJoined          Action = "user.joined"
	UserRoleChanged     Action = "user.role_changed"
	UserRenamed         Action = "user.renamed"
	UserRemoved         Action = "user.removed"
	UserLoggedIn        Action = "user.logged_in"
	UserLoginFailed     Action = "user.login_failed"
	UserLoggedOut       Action = "user.logged_out"
	UserSessionRevoked  Action = "user.session_revoked"
	UserSessionsEnded   Action = "user.sessions_ended"
	UserPasswordChanged Action = "user.password_changed"
	UserPasswordReset   Action = "user.password_reset"
	UserEmailVerified   Action = "user.email_verified"
	UserEmailChanging   Action = "user.email_change_requested"
	UserEmailChanged    Action = "user.email_changed"
)

// Subject is the kind of thing that a record is about besides a run; a record stores it
// with the thing's id.
type Subject string

// The subjects.
const (
	SubjectAgent      Subject = "agent"
	SubjectAPIKey     Subject = "api_key"
	SubjectApproval   Subject = "approval"
	SubjectCredential Subject = "credential"
	SubjectCustomer   Subject = "customer"
	SubjectGrant      Subject = "grant"
	SubjectKillSwitch Subject = "kill_switch"

	SubjectModelProvider Subject = "model_provider"
	SubjectMap           Subject = "map"
	SubjectMasking       Subject = "masking"
	SubjectPolicy        Subject = "policy"
	SubjectProvider      Subject = "provider"
	SubjectTenant        Subject = "tenant"
	SubjectUser          Subject = "user"
	SubjectWebhook       Subject = "webhook"
	// SubjectNone: the record is about the run that its execution_id names.
	SubjectNone Subject = ""
)

// ActionSpec is one row of the table of actions.
type ActionSpec struct {
	Action  Action
	Subject Subject
	When    string // for docs/operate/audit.md
	// Event is the public event that tells of the action; "" where none does.
	Event string
}

// Actions returns the table of actions in the order of docs/operate/audit.md. Every action that is
// written anywhere, in Go or in SQL, has a row here.
func Actions() []ActionSpec { //nolint:funlen // a table
	return []ActionSpec{
		{RunAllowed, SubjectNone, "The call was allowed and is about to be sent.", ""},
		{RunNotified, SubjectNone, "As `run.allowed`, and the tenant is to be told.", "action.notified"},
		{RunHeld, SubjectApproval, "The call waits for approval.", "approval.requested"},
		{RunIntercepted, SubjectApproval, "A dry run stopped before it was sent; its approval can be decided.", "approval.requested"},
		{RunBlocked, SubjectNone, "Governance blocked the call.", "action.blocked"},
		{RunRefused, SubjectNone, "Something else was wrong before the call was sent, or a call was refused and changed nothing.", ""},
		{RunRepeated, SubjectNone, "A call with an id that has a run was answered from that run.", ""},
		{RunRetried, SubjectNone, "An attempt did not settle the run, and another one follows.", ""},
		{RunLookedUp, SubjectNone, "A look-up of a policy read a verb, or was not made; `outcome` says why. The details name the policies and the verb of the run.", ""},
		{RunExecuted, SubjectNone, "The provider did what was asked.", "action.executed"},
		{RunFailed, SubjectNone, "The call failed.", "action.failed"},
		{RunOutcomeUnknown, SubjectNone, "The call was sent and its outcome is not known.", "action.outcome_unknown"},
		{RunCancelled, SubjectNone, "A user or a key cancelled the run.", ""},
		{RunResolved, SubjectNone, "A user, or the read-back that the verb declares, said how a run with an unknown outcome ended.", ""},

		{ApprovalRefused, SubjectApproval, "A decision was refused and does not count.", ""},
		{ApprovalVoted, SubjectApproval, "A user approved; more approvals are needed.", ""},
		{ApprovalApproved, SubjectApproval, "A user approved, and that was the last approval needed.", "approval.decided"},
		{ApprovalRejected, SubjectApproval, "A user rejected the call, or an operator did in the Temporal UI.", "approval.decided"},
		{ApprovalEdited, SubjectApproval, "A user replaced the arguments; another approval supersedes this one.", ""},
		{ApprovalEscalated, SubjectApproval, "The time was over, and the policy asks owners and admins next.", ""},
		{ApprovalSuperseded, SubjectApproval, "What was to be approved has changed.", ""},
		{ApprovalExpired, SubjectApproval, "No user decided in time.", ""},
		{ApprovalCancelled, SubjectApproval, "The call was given up before a decision: its key was revoked, or its workflow ended.", ""},

		{GrantCreated, SubjectGrant, "A user gave a standing approval.", ""},
		{GrantUsed, SubjectGrant, "A standing approval let a call through.", ""},
		{GrantUpdated, SubjectGrant, "A user let a standing approval end earlier, or for fewer uses.", ""},
		{GrantRevoked, SubjectGrant, "A user revoked a standing approval.", ""},

		{ModelProviderCreated, SubjectModelProvider, "A user named a provider of models. The details have its slug, API, address and default model.", "model_provider.created"},
		{ModelProviderUpdated, SubjectModelProvider, "A user changed the default model or the dialect of a provider of models. The details have what it is then.", "model_provider.updated"},
		{ModelProviderDeleted, SubjectModelProvider, "A user deleted a provider of models, which the details repeat.", "model_provider.deleted"},
		{KillSwitchSet, SubjectKillSwitch, "A user set a kill switch. The details have its scope, target and reason.", "kill_switch.set"},
		{KillSwitchLifted, SubjectKillSwitch, "A user lifted a kill switch, which the details repeat.", "kill_switch.lifted"},

		{CircuitOpened, SubjectProvider, "Calls of a provider failed, so none is sent to it for a while. The details have the kind of the last failure and when the next call may pass.", ""},
		{CircuitClosed, SubjectProvider, "A probe of the provider succeeded, so calls are sent again.", ""},

		{PolicyCreated, SubjectPolicy, "A policy was created.", ""},
		{PolicyUpdated, SubjectPolicy, "A policy was replaced by its next version.", ""},
		{PolicyDeleted, SubjectPolicy, "A policy was deleted; its versions stay until newer ones of the tenant need their room.", ""},
		{PolicyRestored, SubjectPolicy, "A policy returned to an earlier version, which the record names.", ""},
		{MaskingUpdated, SubjectMasking, "The masking rules were replaced.", ""},

		{CredentialCreated, SubjectCredential, "A credential was stored. The record never contains its secret.", ""},
		{CredentialUpdated, SubjectCredential, "The label, origin, hosts or status of a credential changed. An origin and hosts are there as they were and as they are.", ""},
		{CredentialRotated, SubjectCredential, "The secret of a credential was replaced.", ""},
		{CredentialDeleted, SubjectCredential, "A credential was deleted.", ""},

		{CustomerCreated, SubjectCustomer, "A customer was created. The details name the fields that were given, without their values.", "customer.created"},
		{CustomerUpdated, SubjectCustomer, "A customer changed. The details name the fields that changed, without their values.", ""},
		{CustomerExported, SubjectCustomer, "All that is stored about a customer was exported, or the export began.", ""},
		{CustomerErased, SubjectCustomer, "A customer was erased: the record is gone, and a workflow erases what else is stored.", ""},
		{CustomerErasureCompleted, SubjectCustomer, "All that was stored about the customer is erased. The details count it.", "customer.erased"},
		{CustomerMerged, SubjectCustomer, "Another customer was merged into this one. The details have its id, and name the fields that changed.", "customer.merged"},

		{FactWritten, SubjectCustomer, "A fact about the customer was remembered. The details have its id, the id of the fact that it supersedes, or beside which it stays, and where it is from, and not its text.", ""},
		{FactChanged, SubjectCustomer, "A fact about the customer was changed. The details have its id and the names of the members that changed, or what was asked for where its text was written again.", ""},
		{FactDeleted, SubjectCustomer, "A fact about the customer was deleted. The details have its id.", ""},

		{MapCreated, SubjectMap, "A Map was created with its first version. The details have its name.", ""},
		{MapVersionAdded, SubjectMap, "A Map got another version. The details have its number and name.", ""},
		{MapPublished, SubjectMap, "A version of a Map was published: triggers run it from then on. The details have its number.", ""},
		{MapTriggered, SubjectMap, "A Map was triggered. The details have the version that runs.", ""},
		{MapRepeated, SubjectMap, "A trigger with a name that has an execution was answered from that execution.", ""},
		{MapAsked, SubjectApproval, "A step of a Map asks people, or the end of a dry run about its changes. The details have the Map and the step, or how many changes there are.", "approval.requested"},
		{MapEnded, SubjectMap, "An execution of a Map ended. The details have the execution and its status.", ""},
		{MapCancelled, SubjectMap, "An execution of a Map was cancelled. The details have the execution.", ""},
		{MapSignalled, SubjectMap, "A signal was sent to an execution of a Map. The details have its name and its number.", ""},
		{MapPaused, SubjectMap, "An execution of a Map was paused: no further step begins.", ""},
		{MapResumed, SubjectMap, "A paused execution of a Map goes on.", ""},
		{MapRetried, SubjectMap, "A failed execution of a Map goes on. The details have its new attempt, the step from which, and the edited inputs, masked.", ""},
		{MapChangesDecided, SubjectMap, "A user decided about the changes of a dry run. The details have the ids of those that were approved, and count both kinds.", ""},
		{MapChangesApplied, SubjectMap, "The changes of a dry run were applied, up to the first that could not be. The details count them by status. Each applied change has the records of its run.", ""},
		{AgentMessaged, SubjectAgent, "A message was written to an agent. The details have the version that answers and the caller's metadata.", ""},
		{AgentReplied, SubjectAgent, "An agent has ended its work on a message, or waits for people. The details say why it stopped, and count the calls that were sent.", ""},
		{AgentCancelled, SubjectAgent, "The work of an agent on a message was cancelled.", ""},
		{AgentRated, SubjectAgent, "A key or a user rated the reply to a message. The details have the rating, and whether there is a comment.", ""},
		{AgentSessionTaken, SubjectAgent, "A person took over a session with an agent. The details count the messages whose answer ended by it.", ""},
		{AgentSessionReplied, SubjectAgent, "A person replied in a session that they took over. The details have the id of what they said.", ""},
		{AgentSessionReturned, SubjectAgent, "A session was handed back to its agent. The details have who had taken over.", ""},
		{AgentSessionDeleted, SubjectAgent, "A session with an agent was deleted, with all that was said in it. The details count its messages.", ""},
		{MapDeleted, SubjectMap, "A Map was deleted; its versions stay for the executions that run them.", ""},

		{AgentCreated, SubjectAgent, "An agent was created, and its first version published. The details have its name.", ""},
		{AgentChanged, SubjectAgent, "An agent got another version. The details have its number and name, and name the members that changed.", ""},
		{AgentPublished, SubjectAgent, "Another version of an agent was published: it answers messages from then on. The details have its number.", ""},
		{AgentPaused, SubjectAgent, "An agent was paused: it takes no messages.", ""},
		{AgentResumed, SubjectAgent, "A paused agent takes messages again.", ""},
		{AgentDeleted, SubjectAgent, "An agent was deleted; its versions stay for the messages that they answer.", ""},

		{ProviderImported, SubjectProvider, "A provider's document was imported. The details have the base URL before and after, and what changed of the verbs.", ""},
		{ProviderUpdated, SubjectProvider, "A provider got another name, domain, base URL or auth. The details name the fields, and have what the record of an import has where the document was read again.", ""},
		{ProviderDeleted, SubjectProvider, "A provider was removed from the catalog.", ""},
		{ProviderEnabled, SubjectProvider, "The tenant may call the platform's provider from now on.", ""},
		{ProviderDisabled, SubjectProvider, "The tenant may no longer call the platform's provider.", ""},
		{VerbQuarantined, SubjectProvider, "An import changed a verb that a policy, a Map or an agent names. Its calls are blocked until a user accepts it. The details have the changes and what names it.", "verb.quarantined"},
		{VerbAccepted, SubjectProvider, "A user accepted the new form of a quarantined verb. The details have what changed.", ""},
		{VerbReleased, SubjectProvider, "An import ended the quarantine of a verb. The details say whether it restored the accepted form; otherwise nothing names the verb.", ""},

		{APIKeyCreated, SubjectAPIKey, "An API key was created.", ""},
		{APIKeyUpdated, SubjectAPIKey, "An API key changed. The details have the changed fields as they are now. A migration took the permissions that lead to calls from keys that also manage what governs them.", ""},
		{APIKeyRotated, SubjectAPIKey, "An API key got another secret. The details say how long the one before is valid.", ""},
		{APIKeyIdentityRotated, SubjectAPIKey, "An API key got another identity secret. The details have until when hashes under the one before are valid.", ""},
		{APIKeyRevoked, SubjectAPIKey, "An API key was revoked.", "key.revoked"},

		{WebhookCreated, SubjectWebhook, "A webhook was created. The record never contains its secret, and of its URL only the origin.", ""},
		{WebhookUpdated, SubjectWebhook, "A webhook was changed, enabled or disabled by a caller.", ""},
		{WebhookRotated, SubjectWebhook, "A webhook was given another secret.", ""},
		{WebhookTested, SubjectWebhook, "A test event was sent to a webhook.", "webhook.test"},
		{DeliveriesRecovered, SubjectWebhook, "Deliveries of a webhook were begun again.", ""},
		{WebhookDisabled, SubjectWebhook, "The service disabled a webhook, because its receiver is gone or fails.", "webhook.disabled"},
		{WebhookDeleted, SubjectWebhook, "A webhook was deleted.", ""},

		{TenantCreated, SubjectTenant, "A user signed up.", ""},
		{RateLimitsUpdated, SubjectTenant, "An owner set the tenant's rate limits; the details have them, and those before.", ""},
		{BudgetsUpdated, SubjectTenant, "An owner or an admin set the budgets of the tenant, or of an API key, which is the subject then; the details have them, and those before.", ""},
		{UserInvited, SubjectUser, "A user was invited, or invited again.", ""},
		{UserJoined, SubjectUser, "A user accepted their invitation.", ""},
		{UserRoleChanged, SubjectUser, "The role of a user changed.", ""},
		{UserRenamed, SubjectUser, "The name of a user changed.", ""},
		{UserRemoved, SubjectUser, "A user was removed, or their invitation withdrawn.", ""},
		{UserLoggedIn, SubjectUser, "A user logged in.", ""},
		{UserLoginFailed, SubjectUser, "A login as this user failed. The actor is the system: no one has shown who they are.", ""},
		{UserLoggedOut, SubjectUser, "A user logged out.", ""},
		{UserSessionRevoked, SubjectUser, "A refresh token was used twice, so its session ended.", ""},
		{UserSessionsEnded, SubjectUser, "A user ended sessions of their own. The details say how many.", ""},
		{UserPasswordChanged, SubjectUser, "A user changed their password. The details say how many other sessions ended with it.", ""},
		{UserPasswordReset, SubjectUser, "A user set another password by the link in a mail. The details say how many sessions ended with it.", ""},
		{UserEmailVerified, SubjectUser, "A user opened the link in a mail, so the address is theirs.", ""},
		{UserEmailChanging, SubjectUser, "A user asked to change their email address.", ""},
		{UserEmailChanged, SubjectUser, "A user confirmed another email address, which is theirs from then on.", ""},
	}
}
