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
	GrantRevoked Action = "grant.revoked"

	PolicyCreated  Action = "policy.created"
	PolicyUpdated  Action = "policy.updated"
	PolicyDeleted  Action = "policy.deleted"
	MaskingUpdated Action = "masking.updated"

	CredentialCreated Action = "credential.created" //nolint:gosec // a name, no secret
	CredentialUpdated Action = "credential.updated" //nolint:gosec // a name, no secret
	CredentialRotated Action = "credential.rotated" //nolint:gosec // a name, no secret
	CredentialDeleted Action = "credential.deleted" //nolint:gosec // a name, no secret

	ProviderImported Action = "provider.imported"
	ProviderDeleted  Action = "provider.deleted"
	ProviderEnabled  Action = "provider.enabled"
	ProviderDisabled Action = "provider.disabled"

	APIKeyCreated Action = "api_key.created"
	APIKeyUpdated Action = "api_key.updated"
	APIKeyRevoked Action = "api_key.revoked"

	TenantCreated      Action = "tenant.created"
	UserInvited        Action = "user.invited"
	UserJoined         Action = "user.joined"
	UserRoleChanged    Action = "user.role_changed"
	UserRenamed        Action = "user.renamed"
	UserRemoved        Action = "user.removed"
	UserLoggedIn       Action = "user.logged_in"
	UserLoginFailed    Action = "user.login_failed"
	UserLoggedOut      Action = "user.logged_out"
	UserSessionRevoked Action = "user.session_revoked"
)

// Subject is the kind of thing that a record is about besides a run; a record stores it
// with the thing's id.
type Subject string

// The subjects.
const (
	SubjectAPIKey     Subject = "api_key"
	SubjectApproval   Subject = "approval"
	SubjectCredential Subject = "credential"
	SubjectGrant      Subject = "grant"
	SubjectMasking    Subject = "masking"
	SubjectPolicy     Subject = "policy"
	SubjectProvider   Subject = "provider"
	SubjectTenant     Subject = "tenant"
	SubjectUser       Subject = "user"
	// SubjectNone: the record is about the run that its execution_id names.
	SubjectNone Subject = ""
)

// ActionSpec is one row of the table of actions.
type ActionSpec struct {
	Action  Action
	Subject Subject
	When    string // for docs/audit.md
	// Event is the public event that tells of the action; "" where none does.
	Event string
}

// Actions returns the table of actions in the order of docs/audit.md. Every action that is
// written anywhere, in Go or in SQL, has a row here.
func Actions() []ActionSpec {
	return []ActionSpec{
		{RunAllowed, SubjectNone, "The call was allowed and is about to be sent.", ""},
		{RunNotified, SubjectNone, "As `run.allowed`, and the tenant is to be told.", "action.notified"},
		{RunHeld, SubjectApproval, "The call waits for approval.", "approval.requested"},
		{RunIntercepted, SubjectApproval, "A dry run stopped before it was sent; its approval can be decided.", "approval.requested"},
		{RunBlocked, SubjectNone, "Governance blocked the call.", "action.blocked"},
		{RunRefused, SubjectNone, "Something else was wrong before the call was sent, or a call was refused and changed nothing.", ""},
		{RunRepeated, SubjectNone, "A call with an id that has a run was answered from that run.", ""},
		{RunRetried, SubjectNone, "An attempt did not settle the run, and another one follows.", ""},
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
		{GrantRevoked, SubjectGrant, "A user revoked a standing approval.", ""},

		{PolicyCreated, SubjectPolicy, "A policy was created.", ""},
		{PolicyUpdated, SubjectPolicy, "A policy was replaced by its next version.", ""},
		{PolicyDeleted, SubjectPolicy, "A policy was deleted; its versions stay.", ""},
		{MaskingUpdated, SubjectMasking, "The masking rules were replaced.", ""},

		{CredentialCreated, SubjectCredential, "A credential was stored. The record never contains its secret.", ""},
		{CredentialUpdated, SubjectCredential, "The label, origin, hosts or status of a credential changed. An origin and hosts are there as they were and as they are.", ""},
		{CredentialRotated, SubjectCredential, "The secret of a credential was replaced.", ""},
		{CredentialDeleted, SubjectCredential, "A credential was deleted.", ""},

		{ProviderImported, SubjectProvider, "A provider's document was imported. The details have the base URL before and after, and what changed of the verbs.", ""},
		{ProviderDeleted, SubjectProvider, "A provider was removed from the catalog.", ""},
		{ProviderEnabled, SubjectProvider, "The tenant may call the platform's provider from now on.", ""},
		{ProviderDisabled, SubjectProvider, "The tenant may no longer call the platform's provider.", ""},

		{APIKeyCreated, SubjectAPIKey, "An API key was created.", ""},
		{APIKeyUpdated, SubjectAPIKey, "The permissions of an API key changed. A migration took those that lead to calls from keys that also manage what governs them.", ""},
		{APIKeyRevoked, SubjectAPIKey, "An API key was revoked.", "key.revoked"},

		{TenantCreated, SubjectTenant, "A user signed up.", ""},
		{UserInvited, SubjectUser, "A user was invited, or invited again.", ""},
		{UserJoined, SubjectUser, "A user accepted their invitation.", ""},
		{UserRoleChanged, SubjectUser, "The role of a user changed.", ""},
		{UserRenamed, SubjectUser, "The name of a user changed.", ""},
		{UserRemoved, SubjectUser, "A user was removed, or their invitation withdrawn.", ""},
		{UserLoggedIn, SubjectUser, "A user logged in.", ""},
		{UserLoginFailed, SubjectUser, "A login as this user failed. The actor is the system: no one has shown who they are.", ""},
		{UserLoggedOut, SubjectUser, "A user logged out.", ""},
		{UserSessionRevoked, SubjectUser, "A refresh token was used twice, so its session ended.", ""},
	}
}
