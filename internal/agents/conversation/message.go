package conversation

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/failpoint"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/strictjson"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
)

// Request is a message to an agent.
type Request struct {
	AgentID uuid.UUID
	Message string
	// SessionID is the caller's name of the session; "" for a message that is in none.
	SessionID string
	// Key is that of the header Idempotency-Key; "" where there is none.
	Key string
	// CustomerID and Identity say who writes, Mode what the key does with them.
	CustomerID string
	Identity   json.RawMessage
	Mode       string
	// IdentitySecrets are those of the key, sealed: where there are some, IdentityHash vouches for the
	// customer.
	IdentitySecrets []string
	IdentityHash    string
	Metadata        json.RawMessage // an object
	// Streamed: a caller reads the reply while it is written.
	Streamed bool
	// Goal is what a goal is given beside its text, Message; nil for a message.
	Goal *Goal
	// Wait is how long to wait for the reply, at most Config.MaxWait; nil means Config.DefaultWait.
	Wait *time.Duration

	call *Call // of another execution
}

// Outcome is the answer to a message.
type Outcome struct {
	Turn Turn
	// Cached: an earlier message of the same key made the turn, and this one only reads it.
	Cached bool
}

// claim is a row to be claimed, by the names of its columns; claim_turn reads it.
type claim struct {
	ID           uuid.UUID       `json:"id"`
	ExecutionID  string          `json:"execution_id"`
	AgentID      uuid.UUID       `json:"agent_id"`
	Version      int32           `json:"version"`
	Conversation uuid.UUID       `json:"conversation"`
	Identity     json.RawMessage `json:"identity,omitempty"`
	Customer     *uuid.UUID      `json:"customer"`
	CustomerName *string         `json:"customer_name"`
	KeyID        *uuid.UUID      `json:"key_id"`
	RequestID    string          `json:"request_id"`
	SourceAddr   string          `json:"source_addr"`
	WorkflowID   string          `json:"workflow_id"`
	Streamed     bool            `json:"streamed"`
	Kind         flow.Kind       `json:"kind"`
	Goal         *string         `json:"goal,omitempty"`
	Remembers    bool            `json:"remembers,omitempty"`

	ParentID       *string          `json:"parent_id,omitempty"`
	Step           *string          `json:"step,omitempty"`
	CallerWorkflow *string          `json:"caller_workflow,omitempty"`
	Chain          *agentloop.Chain `json:"chain,omitempty"`
}

// Outcomes of claim_turn.
const (
	claimWorking  = "working"
	claimQueued   = "queued"
	claimHeld     = "held"
	claimBusy     = "busy"
	claimCustomer = "customer"
	claimErased   = "erased"
	claimGone     = "gone"
	claimExisting = "existing"
)

// identityAnonymous is the identity_mode of keys whose messages have no customer.
const identityAnonymous = "anonymous"

const (
	// claimTries is how often a claim is made that lost a race for its key.
	claimTries = 4
	// goneTries is how often the customer of a message is looked for who was erased before the claim. The
	// second try makes another customer of the same identifiers; the third is in reserve.
	goneTries = 3
	// queuedMost is how many messages of a session wait for their turn.
	queuedMost = 20
	// governanceApproved is the governance status of a turn of which nothing was held or refused.
	governanceApproved = "approved"
)

// Begin claims a turn and starts its workflow, where it is its turn in the session. One that an
// earlier message of the same key claimed is returned as it is. A fault refuses the message.
func (s *Service) Begin(ctx context.Context, who actor.Actor, req Request) (Outcome, error) {
	if err := s.d.Customers.Check(ctx, who, req); err != nil {
		return Outcome{}, err
	}
	agent, err := s.d.Agents.Agent(ctx, who.TenantID, req.AgentID, 0)
	if err != nil {
		return Outcome{}, err
	}
	if agent.Paused {
		return s.repeated(ctx, who, req)
	}
	if req.Goal != nil && agent.Definition.ExecutionMode != agentdef.Goal {
		return Outcome{}, fault.New(fault.CodeConflict, "The agent takes no goals: its executionMode is not goal.")
	}
	t, outcome, err := s.claimFor(ctx, who, agent, req)
	if err != nil {
		return Outcome{}, err
	}
	switch outcome {
	case claimWorking:
		if err := s.start(ctx, t, agent); err != nil {
			return Outcome{Turn: t}, notStarted(t, err)
		}
	case claimHeld, claimQueued:
	default:
		return Outcome{Turn: t, Cached: true}, nil
	}
	return Outcome{Turn: t}, nil
}

// claimFor claims a turn for the customer that the message names.
func (s *Service) claimFor(ctx context.Context, who actor.Actor, agent Agent, req Request) (t Turn, outcome string, err error) {
	for range goneTries {
		writer, err := s.d.Customers.Writer(ctx, who, req)
		if err != nil {
			return t, "", err
		}
		if t, outcome, err = s.claim(ctx, who, agent, writer, req); outcome != claimGone {
			return t, outcome, err
		}
	}
	return t, "", fault.New(fault.CodeCustomerNotFound, "The customer of the message was erased.")
}

// repeated returns the turn that an earlier message of the same key has claimed of a paused agent, which
// takes no other messages.
func (s *Service) repeated(ctx context.Context, who actor.Actor, req Request) (Outcome, error) {
	paused := fault.New(fault.CodeConflict, "The agent is paused, so it takes no messages.")
	if req.Key == "" {
		return Outcome{}, paused
	}
	id, err := s.q.TurnOfKey(ctx, s.d.DB.Tenant(who.TenantID), dbsqlc.TurnOfKeyParams{TenantID: who.TenantID, AgentID: req.AgentID, Key: req.Key})
	switch {
	case db.IsNoRows(err):
		return Outcome{}, paused
	case err != nil:
		return Outcome{}, fmt.Errorf("conversation: the message of a key: %w", err)
	}
	t, err := s.sameAs(ctx, who.TenantID, id, req)
	return Outcome{Turn: t, Cached: true}, err
}

// sameAs returns the turn of a key. The error is IDEMPOTENCY_KEY_REUSED where its message had another
// body.
func (s *Service) sameAs(ctx context.Context, tenant, id uuid.UUID, req Request) (Turn, error) {
	t, err := s.read(ctx, flow.TurnRef{TenantID: tenant, ID: id})
	if err != nil {
		return t, err
	}
	key, err := s.d.Keys.Key(ctx, tenant)
	if err != nil {
		return t, fmt.Errorf("conversation: %w", err)
	}
	canonical, err := fingerprint(req)
	if err != nil {
		return t, fault.New(fault.CodeInvalidJSON, err.Error())
	}
	if !hmac.Equal(t.fingerprint, key.Digest(canonical)) {
		f := fault.New(fault.CodeIdempotencyKeyReused, "The message of this Idempotency-Key has another body.")
		f.ExecutionID = t.ExecutionID
		return t, f
	}
	return t, nil
}

// Message is Begin, and waits for the reply, at most req.Wait.
func (s *Service) Message(ctx context.Context, who actor.Actor, req Request) (Outcome, error) {
	wait := s.cfg.DefaultWait
	if req.Wait != nil {
		wait = min(*req.Wait, s.cfg.MaxWait)
	}
	until := s.d.Now().Add(wait)
	out, err := s.Begin(ctx, who, req)
	if err != nil {
		return out, err
	}
	out.Turn, err = s.Await(ctx, out.Turn, until)
	if fault.HasCode(err, fault.CodeExecutionNotFound) {
		return out, fault.New(fault.CodeConflict, "The session was deleted before this call was answered, and the message with it.")
	}
	return out, err
}

// notStarted answers a message whose workflow could not be started. The sweeper starts it later.
func notStarted(t Turn, cause error) error {
	f := fault.New(fault.CodeServiceUnavailable, "The workflow engine cannot be reached. The message stands and is answered once the engine is back: "+
		"read GET /v1/executions/{id}, or cancel it there.").Because(cause)
	f.ExecutionID, f.Retryable = t.ExecutionID, true
	return f
}

// fingerprint is what a repeat of a message must have in common with it.
func fingerprint(req Request) ([]byte, error) {
	body := map[string]any{"message": req.Message, "session_id": req.SessionID, "customer_id": req.CustomerID}
	if req.Goal != nil {
		body["goal"] = req.Goal
	}
	for name, raw := range map[string]json.RawMessage{"identity": req.Identity, "metadata": req.Metadata} {
		if len(raw) > 0 {
			body[name] = raw
		}
	}
	return strictjson.Canonical(mustJSON(body))
}

// executionIDOf returns the execution_id of the turn with the id.
func executionIDOf(id uuid.UUID) string { return "exec_" + id.String() }

// claim takes the key of the message and its place in the session, or finds the turn that has the
// key.
func (s *Service) claim(ctx context.Context, who actor.Actor, agent Agent, writer *Writer, req Request) (t Turn, outcome string, err error) {
	key, err := s.d.Keys.Key(ctx, who.TenantID)
	if err != nil {
		return t, "", fmt.Errorf("conversation: claim: %w", err)
	}
	canonical, err := fingerprint(req)
	if err != nil {
		return t, "", fault.New(fault.CodeInvalidJSON, err.Error())
	}
	id := uuid.Must(uuid.NewV7())
	row := claim{
		ID: id, ExecutionID: executionIDOf(id), AgentID: req.AgentID, Version: agent.Version, Conversation: uuid.Must(uuid.NewV7()),
		CustomerName: db.Optional(req.CustomerID), KeyID: who.KeyID(), RequestID: who.RequestID, SourceAddr: who.SourceAddr,
		WorkflowID: flow.TurnWorkflowID(flow.TurnRef{TenantID: who.TenantID, ID: id}), Streamed: req.Streamed,
	}
	if writer != nil && writer.ID != uuid.Nil {
		row.Customer = &writer.ID
		if len(writer.Ignored) > 0 {
			row.Identity = mustJSON(map[string]any{"ignored": writer.Ignored})
		}
	}
	now := s.d.Now()
	t = Turn{
		ID: id, TenantID: who.TenantID, ExecutionID: row.ExecutionID, AgentID: row.AgentID, Version: row.Version, Conversation: row.Conversation, SessionID: req.SessionID,
		State: Working, Status: StatusRunning, Message: req.Message, Metadata: req.Metadata, Identity: row.Identity, Customer: row.Customer, CustomerName: req.CustomerID,
		KeyID: row.KeyID, RequestID: row.RequestID, SourceAddr: row.SourceAddr, WorkflowID: row.WorkflowID, Governance: governanceApproved,
		Streamed: req.Streamed, BegunAt: &now, UpdatedAt: now, fingerprint: key.Digest(canonical),
	}
	// Another agent gets a message and nothing else of the conversation, and a Map reads none of it.
	row.Remembers = req.call == nil && req.Mode != identityAnonymous && agent.Definition.Memory.Customer != agentdef.MemoryOff && agent.Definition.ExecutionMode != agentdef.WorkflowOnly
	if req.call != nil {
		req.call.note(&row, &t)
	}
	req.noteGoal(agent.Definition, key, &row, &t)
	p := dbsqlc.ClaimTurnParams{
		TenantID: who.TenantID, Key: db.Optional(req.Key), Call: mustJSON(row), Message: key.Seal(t.place(datakey.TurnMessage), []byte(req.Message)),
		Fingerprint: t.fingerprint, Metadata: req.Metadata, SessionID: db.Optional(req.SessionID), Most: queuedMost,
		Reject: agent.Definition.Concurrency == agentdef.Reject, Now: now,
	}
	if agent.Definition.ExecutionMode == agentdef.WorkflowOnly {
		p.Most, p.Reject = 0, true // its Map runs once at a time, and one that waits for people runs too
	}
	var claimed dbsqlc.ClaimTurnRow
	for range claimTries {
		if claimed, err = s.claimOnce(ctx, who, key, p, t, req); !db.IsRaced(err) {
			break
		}
	}
	if err != nil {
		return t, "", fmt.Errorf("conversation: claim: %w", err)
	}
	failpoint.Hit("after_turn_claim", id)
	if claimed.Customer != uuid.Nil {
		t.Customer = &claimed.Customer
	}
	t.Conversation = claimed.Conversation
	switch claimed.Outcome {
	case claimWorking:
		return t, claimed.Outcome, nil
	case claimQueued:
		t.State, t.BegunAt = Queued, nil
		return t, claimed.Outcome, nil
	case claimHeld:
		t, err = s.read(ctx, t.Ref())
		return t, claimed.Outcome, err
	case claimBusy, claimCustomer, claimErased:
		return t, "", notClaimed(claimed.Outcome, agent.Definition)
	case claimGone:
		return t, claimGone, nil
	}
	t, err = s.sameAs(ctx, who.TenantID, claimed.Turn, req)
	return t, claimed.Outcome, err
}

// notClaimed says why the session takes no message now.
func notClaimed(outcome string, d *agentdef.Definition) *fault.Error {
	var f *fault.Error
	switch outcome {
	case claimCustomer:
		return fault.New(fault.CodeConflict, "The session belongs to another customer. Another customer takes another session_id.")
	case claimErased:
		f = fault.New(fault.CodeConflict, "The customer of this session was erased, and the session is being deleted. Take another session_id, or send the message again later.")
	default:
		f = fault.New(fault.CodeSessionBusy, "")
		f.RetryAfter = time.Second
		if d.ExecutionMode == agentdef.WorkflowOnly {
			f.Message = "The workflow of this session is at work and asks nothing."
		} else if d.Concurrency != agentdef.Reject {
			f.Message = fmt.Sprintf("%d messages of this session wait already.", queuedMost)
		}
	}
	f.Retryable = true
	return f
}

// claimOnce is one try of a claim. A new turn has an audit record, and counts in its quotas. One in a
// session that a person has taken over is only noted.
func (s *Service) claimOnce(ctx context.Context, who actor.Actor, key *datakey.Key, p dbsqlc.ClaimTurnParams, t Turn, req Request) (dbsqlc.ClaimTurnRow, error) {
	first := &db.Batch{}
	claimed := db.Queue(first, s.q.ClaimTurn, p)
	named := t.Customer != nil
	rooms := s.rooms
	if who.Visited {
		rooms = s.visited
	}
	var counted []func()
	err := s.d.DB.ReadAndWrite(ctx, who.TenantID, first, func() (*db.Batch, error) {
		b := &db.Batch{}
		if req.Mode == identityAnonymous && claimed.Value.Customer != uuid.Nil && claimed.Value.Outcome != claimExisting {
			claimed.Value.Outcome = claimCustomer // nobody without a name goes on with what a customer has said
		}
		if len(req.IdentitySecrets) > 0 && !named && claimed.Value.Customer != uuid.Nil && claimed.Value.Outcome != claimExisting {
			// Otherwise, who guesses a session_id could read on in another customer's session.
			return nil, fault.New(fault.CodeIdentityRequired, "The session belongs to a customer: say which one, with identity_hash.")
		}
		switch claimed.Value.Outcome {
		case claimHeld:
			t.Conversation = claimed.Value.Conversation
			s.queueEntries(b, key, t, Entry{Kind: KindCustomer, Message: agentloop.Customer(t.Message)})
			if t.Customer = nil; claimed.Value.Customer != uuid.Nil {
				t.Customer = &claimed.Value.Customer
			}
			event.Queue(b, event.Event{TenantID: t.TenantID, About: aboutTurn(t), Key: key, Body: event.SessionSaid{
				MessageID: t.ID.String(), From: string(KindCustomer), Message: t.Message,
			}})
		case claimWorking, claimQueued:
		default:
			return nil, nil //nolint:nilnil // a refused message changes nothing, and neither does a repeat
		}
		if claimed.Value.Conversation == t.Conversation { // only a new session can be one too many
			counted = append(counted, rooms.sessions.Queue(b, who.TenantID))
		}
		counted = append(counted, rooms.open.Queue(b, who.TenantID))
		if by := req.call; by != nil {
			who = by.queue(b, s, t)
		}
		rec := audit.Change(who, audit.AgentMessaged, audit.SubjectAgent, t.AgentID.String()).With(map[string]any{"version": t.Version, "metadata": t.Metadata})
		rec.ExecutionID, rec.SessionID = t.ExecutionID, db.Optional(t.SessionID)
		audit.Queue(b, rec)
		return b, nil
	})
	if err == nil {
		for _, done := range counted {
			done()
		}
	}
	return claimed.Value, err
}

// asks returns the model that replies for an agent.
func asks(agent Agent) string {
	m := agent.Definition.Models.Worker
	if p := agent.Definition.Models.Planner; p != nil && agent.Definition.ExecutionMode == agentdef.Goal {
		m = p
	}
	return m.Provider + ":" + m.Model
}

// startLater is start for a turn that was claimed before.
func (s *Service) startLater(ctx context.Context, t Turn) error {
	agent, err := s.d.Agents.Agent(ctx, t.TenantID, t.AgentID, t.Version)
	if err != nil {
		return s.start(ctx, t, Agent{}) // the turn finds out
	}
	return s.start(ctx, t, agent)
}

// startLimit is the time limit of one attempt to reach the workflow engine.
const startLimit = 10 * time.Second

// start starts the workflow of a turn, or tells it that it is its turn again. It does not depend on
// the caller. Operators read the name of the agent and of the model that replies, where they are known.
func (s *Service) start(ctx context.Context, t Turn, agent Agent) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	if t.Replies > 0 {
		_, err := s.d.Engine.Nudge(ctx, t.WorkflowID)
		return err
	}
	in := flow.TurnInput{TurnRef: t.Ref(), Parent: t.callerWorkflow}
	name := ""
	if agent.Definition != nil {
		in.Asks, name = asks(agent), agent.Definition.Name
	}
	return s.d.Engine.StartTurn(ctx, in, t.WorkflowID, flow.Listing{
		Kind: t.Kind, Tenant: t.TenantID, Execution: t.ExecutionID, Subject: t.AgentID.String(), Name: name,
		Details: flow.ExecutionDetails(s.cfg.PublicURL, t.ExecutionID),
	})
}

// Await waits until the turn has a reply or has ended, at most until the given time, and returns it
// as it is then.
func (s *Service) Await(ctx context.Context, t Turn, until time.Time) (Turn, error) {
	if t.answered() {
		return t, nil
	}
	w := s.hub.Join(t.ID, 1)
	defer s.hub.Leave(t.ID, w)
	deadline := time.NewTimer(time.Until(until))
	defer deadline.Stop()
	poll := time.NewTicker(s.cfg.PollEvery)
	defer poll.Stop()
	for last := false; ; {
		select {
		case now := <-w.C:
			return now, nil
		case <-poll.C:
		case <-deadline.C:
			last = true
		case <-ctx.Done():
			return t, context.Cause(ctx)
		}
		row, err := s.q.AwaitedTurn(ctx, s.d.DB.Tenant(t.TenantID), dbsqlc.AwaitedTurnParams{TenantID: t.TenantID, ID: t.ID})
		if err == nil && (last || row.Replies > 0 || State(row.State) == Ended) {
			t, err = s.read(ctx, t.Ref())
			if err == nil {
				return t, nil
			}
			last = true
		}
		if db.IsNoRows(err) { // its session was deleted
			return t, fault.New(fault.CodeExecutionNotFound, "")
		}
		if err != nil && (last || !fault.HasCode(err, fault.CodeServiceUnavailable)) {
			return t, fmt.Errorf("conversation: await: %w", err)
		}
	}
}
