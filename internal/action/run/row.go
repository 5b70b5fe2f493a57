package run

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/providererror"
	"agentruntime/internal/provider/resultnote"
	"agentruntime/internal/record/approval"
)

// Origin says where a run comes from and for whom it acts.
type Origin struct {
	// Kind is actor.Key or actor.User for a call over HTTP, actor.Agent or actor.Map for a
	// step of theirs.
	Kind actor.Kind `json:"origin"`
	// KeyID or UserID is the key or the user for which the run acts, also where an agent
	// or a Map makes the call for them.
	KeyID  *uuid.UUID `json:"key_id,omitempty"`
	UserID *uuid.UUID `json:"user_id,omitempty"`
	// AgentID and CustomerID are set by our own agents and Maps. A caller over HTTP names
	// theirs in the run's metadata.
	AgentID    *uuid.UUID `json:"agent_id,omitempty"`
	CustomerID *uuid.UUID `json:"customer_id,omitempty"`
	// ParentID is the execution that the run is a step of, Step the path of the step in it.
	// Both or neither are set.
	ParentID *string `json:"parent_id,omitempty"`
	Step     *string `json:"step,omitempty"`
	// WorkflowID is the workflow that drives the run, Driver its kind.
	WorkflowID string      `json:"workflow_id"`
	Driver     flow.Driver `json:"driver"`
}

// claimedCall has the small columns of a new run, by the names of the columns. claim_run
// reads it; see db/functions/claim_run.sql.
type claimedCall struct {
	Origin
	ID          uuid.UUID `json:"id"`
	ExecutionID string    `json:"execution_id"`
	Provider    string    `json:"provider"`
	Verb        string    `json:"verb"`
	DryRun      bool      `json:"dry_run"`
	SessionID   string    `json:"session_id,omitempty"`
	RequestID   string    `json:"request_id"`
	SourceAddr  string    `json:"source_addr"`
	GiveUpAt    time.Time `json:"give_up_at"`
	// Exact is no column: a run with other arguments does not answer the call.
	Exact bool `json:"exact,omitempty"`
	// Unsettled is Request.Unsettled.
	Unsettled Unsettled `json:"unsettled,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
	// ExpiresIn is in seconds.
	ExpiresIn *int32 `json:"expires_in,omitempty"`
	*claimedMark
}

// claimedMark has the columns of a new run that is marked as sending with its claim.
type claimedMark struct {
	State           State      `json:"state"`
	Sends           int32      `json:"sends"`
	CredentialID    *uuid.UUID `json:"credential_id,omitempty"`
	CredentialType  string     `json:"credential_type"`
	CredentialLabel string     `json:"credential_label"`
	// RequestHash is in hexadecimal digits, as Postgres writes bytes.
	RequestHash string  `json:"request_hash"`
	Normalizer  *string `json:"normalizer,omitempty"`
	Windowed    bool    `json:"windowed,omitempty"`
}

// Run is one run as its row is in the database.
type Run struct {
	ID          uuid.UUID
	TenantID    uuid.UUID
	ExecutionID string
	ClaimKey    string
	Attempt     int32
	State       State
	Verb        verb.Name
	Args        json.RawMessage
	Fingerprint []byte
	// Unsettled says with which writes the call is compared before it is sent; see Request.Unsettled.
	Unsettled Unsettled
	DryRun    bool
	SessionID *string
	Metadata  json.RawMessage
	Origin
	RequestID  string
	SourceAddr string
	// GiveUpAt is until when the caller waits.
	GiveUpAt time.Time
	// ExpiresAt is when the run may no longer be sent; nil where it has ended or is held.
	// ExpiresIn is the time that the caller asked for, nil where none.
	ExpiresAt *time.Time
	ExpiresIn *time.Duration
	// RequestHash is the SHA-256 of what the last attempt was made of; nil before the first.
	RequestHash  []byte
	Risk         verb.Risk
	Operation    verb.Operation
	Decision     string
	PolicyName   string
	Reason       string
	ApprovalID   *string
	CredentialID *uuid.UUID
	// CredentialType and CredentialLabel are those of the credential when the call was sent;
	// "" before.
	CredentialType, CredentialLabel string
	// Held: an approval was asked for, and nothing else releases the run.
	Held bool
	// GrantID names the standing approval that let the run through; nil where none did.
	GrantID *uuid.UUID
	// EditedArgs are the arguments with which an approver replaced Args; nil where none
	// did.
	EditedArgs json.RawMessage
	// Sends is how many attempts at the provider were begun.
	Sends int32
	// MaybeSent: the run is a write, and an attempt may have had its effect.
	MaybeSent bool
	// Result is null as JSON where the call was executed and its answer became no result; Note says why.
	Result json.RawMessage
	// Note is what is kept beside Result; empty in lists.
	Note resultnote.Note
	// Normalizer makes the normalized form of Result; "" where the verb had none when the call was
	// sent, and in lists.
	Normalizer     string
	ProviderStatus int
	// Trusted: what came back has no words of others than the tenant. Lists do not have it.
	Trusted bool
	// ProviderError is what the provider said with an answer that is no result, masked; nil where
	// it said nothing, and in lists.
	ProviderError *providererror.Error
	ErrorCode     fault.Code
	ErrorMessage  string
	ErrorDetails  []fault.Detail
	Retryable     bool
	// RetryAfter is how long the caller should wait, of a run that has ended. Of one that is
	// claimed it is the pause that follows its last attempt, from UpdatedAt on.
	RetryAfter time.Duration
	CreatedAt  time.Time
	UpdatedAt  time.Time
	SentAt     *time.Time
	FinishedAt *time.Time
	// ResolvedAt is when an unknown outcome became known, nil for any other run. ResolvedBy is
	// the user who said so, with ResolveReason; nil where the provider's answer did.
	ResolvedAt    *time.Time
	ResolvedBy    *uuid.UUID
	ResolveReason string
	// ErasedAt is when Args, EditedArgs and Result were erased; nil while they are kept.
	ErasedAt *time.Time
	// Unreadable names what is stored and does not open: "args", the edited ones included, and
	// "result". The run has none of it then, and is not sent.
	Unreadable []string
	// lookups are the answers of the look-ups that were made since the run was claimed or released.
	lookups map[string]governance.Answer
	// key seals what is written to the row; nil where it was not read or does not open.
	key *datakey.Key
	// masking is what masking the texts takes; nil where it was not read with the row.
	masking json.RawMessage
}

func (r Run) ref() flow.RunRef {
	return flow.RunRef{TenantID: r.TenantID, RunID: r.ID, Attempt: r.Attempt}
}

// ownWorkflow returns the id of the ActionRun workflow that drives the run where no other
// workflow does.
func (r Run) ownWorkflow() string { return flow.RunWorkflowID(r.TenantID, r.ClaimKey) }

// listing returns what operators find the run's workflow by, and read of it.
func (s *Service) listing(r Run) flow.Listing {
	l := flow.Listing{
		Kind: flow.KindAction, Tenant: r.TenantID, Verb: r.Verb.String(), Risk: string(r.Risk), Execution: r.ExecutionID,
		Details: flow.ExecutionDetails(s.cfg.PublicURL, r.ExecutionID),
	}
	if r.AgentID != nil {
		l.Subject = r.AgentID.String()
	}
	return l
}

// subject returns the run as the subject of an approval.
func (r Run) subject() approval.Subject {
	return approval.OfRun(r.TenantID, r.ID, r.Attempt, r.ExecutionID, r.WorkflowID, r.Driver)
}

// about returns what conditions may ask about the run besides its arguments.
func (r Run) about() governance.Context {
	c := governance.Made{
		Own: r.Kind == actor.Agent || r.Kind == actor.Map, AgentID: idText(r.AgentID), CustomerID: idText(r.CustomerID),
		SessionID: r.SessionID, KeyID: idText(r.KeyID), DryRun: r.DryRun, Metadata: r.Metadata,
	}.Context()
	c.Lookups, c.RunID = r.lookups, r.ID
	return c
}

// mapID returns the Map whose step makes the call; nil for any other call.
func (r Run) mapID() *uuid.UUID {
	id, err := uuid.Parse(db.Text(r.about().MapID))
	if err != nil {
		return nil
	}
	return &id
}

// account returns in whose name the call is made.
func (r Run) account() Account {
	return Account{Customer: db.Text(r.about().Named()), Credential: r.credential()}
}

// credential returns the credential that the step of a Map names; nil where it names none. Metadata
// of such a run is ours. That of a caller over HTTP names none, whatever is in it.
func (r Run) credential() *uuid.UUID {
	if r.Kind != actor.Map {
		return nil
	}
	var about struct {
		CredentialID *uuid.UUID `json:"credential_id"`
	}
	if json.Unmarshal(r.Metadata, &about) != nil {
		return nil
	}
	return about.CredentialID
}

// idOrNone returns the id as text, "none" for nil.
func idOrNone(id *uuid.UUID) string {
	if text := idText(id); text != nil {
		return *text
	}
	return "none"
}

func idText(id *uuid.UUID) *string {
	if id == nil {
		return nil
	}
	text := id.String()
	return &text
}

// Effective returns the arguments that are judged and sent: EditedArgs where an approver
// edited them, otherwise Args.
func (r Run) Effective() json.RawMessage {
	if r.EditedArgs != nil {
		return r.EditedArgs
	}
	return r.Args
}

// Took returns how long the run took; for a run that has not ended, how long until now.
func (r Run) Took(now time.Time) time.Duration {
	if r.FinishedAt != nil {
		now = *r.FinishedAt
	}
	return max(0, now.Sub(r.CreatedAt))
}

// withoutTexts turns a row into a Run without its sealed texts; rows do not leave the package.
func withoutTexts(r dbsqlc.Run) Run {
	out := Run{
		ID: r.ID, TenantID: r.TenantID, ExecutionID: r.ExecutionID, ClaimKey: r.ClaimKey, Attempt: r.Attempt,
		State: State(r.State), Verb: verb.Name{Provider: r.Provider, Verb: r.Verb},
		Fingerprint: r.Fingerprint, Unsettled: Unsettled(db.Text(r.Unsettled)), DryRun: r.DryRun, SessionID: r.SessionID, Metadata: r.Metadata,
		Origin: Origin{
			Kind: actor.Kind(r.Origin), KeyID: r.KeyID, UserID: r.UserID, AgentID: r.AgentID, CustomerID: r.CustomerID,
			ParentID: r.ParentID, Step: r.Step, WorkflowID: r.WorkflowID, Driver: flow.Driver(r.Driver),
		},
		RequestID: r.RequestID, SourceAddr: r.SourceAddr, GiveUpAt: r.GiveUpAt, ExpiresAt: r.ExpiresAt, RequestHash: r.RequestHash, Risk: verb.Risk(r.RiskLevel),
		Operation: verb.Operation(r.OperationType), Decision: r.Decision, PolicyName: r.PolicyName, Reason: r.Reason,
		ApprovalID: r.ApprovalID, CredentialID: r.CredentialID, CredentialType: r.CredentialType, CredentialLabel: r.CredentialLabel,
		ResolvedAt: r.ResolvedAt, ResolvedBy: r.ResolvedBy, ResolveReason: r.ResolveReason, Held: r.Held, GrantID: r.GrantID, Sends: r.Sends, MaybeSent: r.MaybeSent, ProviderStatus: int(r.ProviderStatus), Trusted: r.Trusted,
		ErrorCode: fault.Code(r.ErrorCode), ErrorMessage: r.ErrorMessage, Retryable: r.Retryable,
		RetryAfter: time.Duration(r.RetryAfterMs) * time.Millisecond,
		CreatedAt:  r.CreatedAt, UpdatedAt: r.UpdatedAt, SentAt: r.SentAt, FinishedAt: r.FinishedAt, ErasedAt: r.ErasedAt,
	}
	if r.Normalizer != nil {
		out.Normalizer = *r.Normalizer
	}
	if r.ExpiresIn != nil {
		in := time.Duration(*r.ExpiresIn) * time.Second
		out.ExpiresIn = &in
	}
	if len(r.ErrorDetails) > 0 {
		// Written by this package; a row that does not parse shows no details.
		_ = json.Unmarshal(r.ErrorDetails, &out.ErrorDetails)
	}
	return out
}

// fromListed turns a row of a list into a Run. The arguments and the result of a listed run
// are empty. EditedArgs is not nil where the run has some.
func fromListed(r dbsqlc.ListRunsRow) Run {
	var row dbsqlc.Run
	to := reflect.ValueOf(&row).Elem()
	from := reflect.ValueOf(r)
	for i := range from.NumField() {
		if field := to.FieldByName(from.Type().Field(i).Name); field.IsValid() {
			field.Set(from.Field(i))
		}
	}
	out := withoutTexts(row)
	out.Args = json.RawMessage{}
	if r.Edited {
		out.EditedArgs = json.RawMessage{}
	}
	return out
}
