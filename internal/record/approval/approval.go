// Package approval owns the approvals: what people are asked, what they said, and how an
// asking ends. A domain package asks for an approval, counts decisions about it and closes
// it, each inside the transaction of its own change. The desk lists approvals and takes
// decisions from people. The package never decides what follows from a decision: the domain
// of the subject does.
package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
)

// SubjectType is the kind of thing that an approval is for. Each belongs to one domain.
// Rows store it as text, so a value is never renamed.
type SubjectType string

// The types of subjects.
const (
	// SubjectRun is a run of an action. Its subject id is the run's id.
	SubjectRun SubjectType = "run"
	// SubjectMapStep is a step of an execution of a Map. Its subject id is made of the execution's
	// id, its attempt and the step's place.
	SubjectMapStep SubjectType = "map_step"
	// SubjectMapChanges are the changes of a dry run of a Map. Its subject id is the execution's id.
	SubjectMapChanges SubjectType = "map_changes"
)

// Subject names what an approval is for.
type Subject struct {
	TenantID uuid.UUID
	Type     SubjectType
	ID       string
	// RunID is set for a run, nil for every other subject.
	RunID *uuid.UUID
	// Attempt counts how often the subject was claimed; 1 where it cannot be.
	Attempt int32
	// ExecutionID is the public name of the execution that waits.
	ExecutionID string
	// WorkflowID names the workflow that waits for the decision. It may not exist yet; ""
	// where decisions are counted without one.
	WorkflowID string
	// Driver is the kind of that workflow; "" where there is none.
	Driver flow.Driver
}

// OfRun returns the subject of a run.
func OfRun(tenant, run uuid.UUID, attempt int32, executionID, workflowID string, driver flow.Driver) Subject {
	return Subject{
		TenantID: tenant, Type: SubjectRun, ID: run.String(), RunID: &run, Attempt: attempt,
		ExecutionID: executionID, WorkflowID: workflowID, Driver: driver,
	}
}

// Binding is what an approval is bound to. Where one of these changes, the approval no longer
// counts.
type Binding struct {
	CallHash, SchemaHash []byte
	CredentialID         *uuid.UUID
	// Risk, Operation and Idempotency are those of the verb as it was asked about.
	Risk        verb.Risk
	Operation   verb.Operation
	Idempotency verb.Idempotency
}

// Edit says who edited the arguments that an approval is about.
type Edit struct {
	// From is the approval whose arguments they replaced.
	From string
	By   uuid.UUID
}

// New is an approval to ask for, or the record of a block.
type New struct {
	ID string
	Subject
	Kind       governance.ApprovalKind
	Provider   string
	Verb       string
	RiskLevel  string
	PolicyName string
	Reason     string
	// Args and Request are masked. Request is what would be sent, nil for a block.
	Args, Request json.RawMessage
	Matches       []governance.Match
	// Requester is the key or the user that called, nil where neither did.
	Requester    *actor.Caller
	Requirements []governance.Requirement
	Bound        Binding
	Edited       *Edit
	// Form is the JSON Schema of the response that is asked for; nil where none is.
	Form json.RawMessage
	// ExpiresAt is the zero time for a block.
	ExpiresAt time.Time
}

// NewID returns a new approval id.
func NewID() string { return idPrefix + uuid.Must(uuid.NewV7()).String() }

const idPrefix = "appr_"

// IDsOf is db.IDsOf for approvals.
func IDsOf(from, to *time.Time) (low, high *string) {
	text := func(id *uuid.UUID) *string {
		if id == nil {
			return nil
		}
		s := idPrefix + id.String()
		return &s
	}
	first, end := db.IDsOf(from, to)
	return text(first), text(end)
}

// Ask queues a pending approval into the transaction that stops its subject. A subject other than a
// run asks once: where another transaction has asked for it, db.IsRaced is true for the error, and
// QueueAsks reads what it asked.
func Ask(b *db.Batch, n New) { insert(b, n, governance.ApprovalPending) }

// RecordBlock queues the record of a block. It is closed from the start, and only for people
// to read.
func RecordBlock(b *db.Batch, n New) { insert(b, n, governance.ApprovalBlocked) }

func insert(b *db.Batch, n New, status governance.ApprovalStatus) {
	p := dbsqlc.InsertApprovalParams{
		ID: n.ID, TenantID: n.TenantID, SubjectType: string(n.Type), SubjectID: n.Subject.ID, WorkflowID: n.WorkflowID, Driver: string(n.Driver), RunID: n.RunID,
		ExecutionID: n.ExecutionID, Status: string(status), Kind: string(n.Kind), Attempt: n.Attempt, Provider: n.Provider, Verb: n.Verb,
		Args: string(n.Args), RiskLevel: n.RiskLevel, PolicyName: n.PolicyName, Reason: n.Reason, RequesterKind: string(actor.Key),
		Explanation: encode(n.Matches), Request: n.Request, Requirements: encode(n.Requirements), PolicyIds: []uuid.UUID{},
		CallHash: n.Bound.CallHash, SchemaHash: n.Bound.SchemaHash, CredentialID: n.Bound.CredentialID,
		OperationType: db.Optional(string(n.Bound.Operation)), Idempotency: db.Optional(string(n.Bound.Idempotency)), Form: n.Form,
	}
	if n.Requester != nil {
		p.Requester, p.RequesterKind = &n.Requester.ID, string(n.Requester.Kind)
	}
	if !n.ExpiresAt.IsZero() {
		p.ExpiresAt = &n.ExpiresAt
	}
	for _, r := range n.Requirements {
		if r.PolicyID != nil {
			p.PolicyIds = append(p.PolicyIds, *r.PolicyID)
		}
	}
	if p.CallHash == nil {
		p.CallHash, p.SchemaHash = []byte{}, []byte{}
	}
	if n.Edited != nil {
		p.EditedFrom, p.EditedBy = &n.Edited.From, &n.Edited.By
	}
	db.QueueExec(b, dbsqlc.New().InsertApproval, p)
}

// encode returns the JSON of a list of this package's stored forms, [] for none. These types
// always encode.
func encode[T any](list []T) []byte {
	if list == nil {
		return []byte("[]")
	}
	raw, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return raw
}

// Asked is an approval as its rows are, with the votes so far.
type Asked struct {
	ID string
	governance.Asking
	About  Subject
	Kind   governance.ApprovalKind
	Args   json.RawMessage // masked
	Reason string
	// Form is the JSON Schema of the response that is asked for; nil where none is.
	Form  json.RawMessage
	Bound Binding
	// Requester is the key or the user that called, nil where neither did.
	Requester *actor.Caller
	Edited    *Edit
	// Writers have written a text that what is asked about may be made of: a signal, an edit, a response, a
	// result. For a call they include who wrote or published the definitions of its Maps.
	Writers []uuid.UUID
}

// RequesterOf returns the requester in an approval's row, nil where it has none.
func RequesterOf(row dbsqlc.Approval) *actor.Caller {
	if row.Requester == nil {
		return nil
	}
	return &actor.Caller{Kind: actor.Kind(row.RequesterKind), ID: *row.Requester}
}

// Voter returns the user as a voter on this approval. A user who made the call with their
// own token, edited its arguments, or wrote a text of them, is marked as self. The owner of a
// key did not make the key's calls. An edit of what a step of a Map shows is one of the decisions that
// the step asks for, and sends nothing, so its author decides it. An edit of an input is none: the step
// is there to judge what comes of it.
func (a Asked) Voter(user uuid.UUID, role actor.Role) governance.Voter {
	edited := a.Kind != governance.ApprovalOfStep && a.Edited != nil && a.Edited.By == user
	writers := a.Writers
	if edited {
		writers = append(slices.Clip(writers), user)
	}
	var requester *uuid.UUID
	if a.Requester != nil {
		requester = &a.Requester.ID
	}
	return governance.NewVoter(user, role, requester, writers)
}

// Reading is an approval that a batch reads.
type Reading struct {
	rows  *db.Answer[dbsqlc.Approval]
	votes *db.Answer[[]dbsqlc.VotesRow]
}

// QueueRead adds statements to a batch that read an approval and its votes.
func QueueRead(b *db.Batch, tenant uuid.UUID, id string) Reading {
	q := dbsqlc.New()
	return Reading{
		rows:  db.Queue(b, q.ApprovalRow, dbsqlc.ApprovalRowParams{TenantID: tenant, ID: id}),
		votes: db.Queue(b, q.Votes, dbsqlc.VotesParams{TenantID: tenant, ApprovalID: id}),
	}
}

// Asked returns what the batch read, once it was sent.
func (r Reading) Asked() (Asked, error) { return asked(r.rows.Value, r.votes.Value) }

func asked(row dbsqlc.Approval, votes []dbsqlc.VotesRow) (Asked, error) {
	a := Asked{
		ID: row.ID, Kind: governance.ApprovalKind(row.Kind), Args: json.RawMessage(row.Args), Requester: RequesterOf(row),
		Reason: row.Reason, Form: row.Form, Writers: row.Writers,
		About: Subject{
			TenantID: row.TenantID, Type: SubjectType(row.SubjectType), ID: row.SubjectID, RunID: row.RunID, Attempt: row.Attempt,
			ExecutionID: row.ExecutionID, WorkflowID: row.WorkflowID,
		},
		Bound: Binding{
			CallHash: row.CallHash, SchemaHash: row.SchemaHash, CredentialID: row.CredentialID, Risk: verb.Risk(row.RiskLevel),
			Operation: verb.Operation(db.Text(row.OperationType)), Idempotency: verb.Idempotency(db.Text(row.Idempotency)),
		},
	}
	a.Status, a.Escalated = governance.ApprovalStatus(row.Status), row.EscalatedAt != nil
	if row.ExpiresAt != nil {
		a.ExpiresAt = *row.ExpiresAt
	}
	if row.EditedBy != nil && row.EditedFrom != nil {
		a.Edited = &Edit{From: *row.EditedFrom, By: *row.EditedBy}
	}
	for _, v := range votes {
		a.Votes = append(a.Votes, a.Voter(*v.UserID, actor.Role(v.Role)))
	}
	if err := json.Unmarshal(row.Requirements, &a.Requirements); err != nil {
		return Asked{}, fmt.Errorf("approval: requirements of %s: %w", row.ID, err)
	}
	return a, nil
}

// Wrote queues that a user has written a text that an execution goes on with, "" for none. They
// count as a requester of its later approvals, and of those of what waits for it and of what it starts.
func Wrote(b *db.Batch, tenant uuid.UUID, executionID string, user *uuid.UUID) {
	if executionID != "" && user != nil {
		db.QueueExec(b, dbsqlc.New().AddWriter, dbsqlc.AddWriterParams{TenantID: tenant, ExecutionID: executionID, Writer: *user})
	}
}

// AskRow is how the question of a subject other than a run stands.
type AskRow = dbsqlc.AsksOfMapRow

// QueueAsks adds a statement to a batch that reads how the questions of subjects of one type stand. One
// that an edit has replaced is left out.
func QueueAsks(b *db.Batch, tenant uuid.UUID, of SubjectType, subjects []string) *db.Answer[[]AskRow] {
	return db.Queue(b, dbsqlc.New().AsksOfMap, dbsqlc.AsksOfMapParams{TenantID: tenant, SubjectType: string(of), Subjects: subjects})
}

// LastEdit returns who edited the subject's arguments last, nil where nobody did. They stay
// the editor in every later approval of the same arguments.
func LastEdit(ctx context.Context, tx dbsqlc.DBTX, s Subject) (*Edit, error) {
	rows, err := dbsqlc.New().LastEdit(ctx, tx, dbsqlc.LastEditParams{
		TenantID: s.TenantID, SubjectType: string(s.Type), SubjectID: s.ID, Attempt: s.Attempt,
	})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &Edit{From: *rows[0].EditedFrom, By: *rows[0].EditedBy}, nil
}
