// Package facts keeps what is remembered of customers from one session to the next: facts, each with
// where it is from and when it was used. The API and internal/service/answering call it. It asks no
// model: what is to be remembered, others decide.
package facts

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/recall"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/idempotency"
	"agentruntime/internal/record/quota"
)

// Source says how a fact came to be.
type Source string

// The sources.
const (
	ByTool Source = "tool" // a model called tool:memory_write
	Auto   Source = "auto" // it was found in a message after the reply
	ByAPI  Source = "api"  // a user or a key wrote it
)

// Fact is something that is remembered of a customer.
type Fact struct {
	recall.Fact
	TenantID uuid.UUID
	Customer uuid.UUID
	Source   Source
	// Author is who wrote it: agent:<id>, key:<id> or user:<id>.
	Author string
	// AgentID, SessionID and ExecutionID say in which message it was said; nil and "" for none.
	AgentID     *uuid.UUID
	SessionID   string
	ExecutionID string
	// Supersedes is the fact whose place it took, SupersededBy the one that took its place.
	Supersedes   *uuid.UUID
	SupersededBy *uuid.UUID
	SupersededAt *time.Time
	UpdatedAt    time.Time
	UsedAt       *time.Time
}

// Keys finds the data key of a tenant.
type Keys interface {
	Key(ctx context.Context, tenant uuid.UUID) (*datakey.Key, error)
}

// Deps are the collaborators; all are required but Now and Quotas.
type Deps struct {
	DB     *db.Pool
	Keys   Keys
	Quotas quota.Limits
	Now    func() time.Time
}

// Service keeps the facts of all tenants. It is safe for concurrent use.
type Service struct {
	d    Deps
	q    *dbsqlc.Queries
	room *quota.Room
}

// New checks the collaborators.
func New(d Deps) (*Service, error) {
	if d.DB == nil || d.Keys == nil {
		return nil, errors.New("facts: a database and keys are required")
	}
	d.Now = db.Clock(d.Now)
	return &Service{d: d, q: dbsqlc.New(), room: d.Quotas.Room(quota.Facts, d.Now)}, nil
}

// NewFact is a fact to be written.
type NewFact struct {
	// ID makes a repeat find what it has written; uuid.Nil for one that is new at each call.
	ID      uuid.UUID
	Text    string
	Profile bool
	Tainted bool
	Source  Source
	// Supersedes is the fact whose place it takes; nil for none. A tainted fact takes the place of a
	// tainted one only; otherwise both stay in use.
	Supersedes  *uuid.UUID
	AgentID     *uuid.UUID
	SessionID   string
	ExecutionID string
}

// Outcomes of write_fact.
const (
	outcomeWritten  = "written"
	outcomeBeside   = "beside"
	outcomeChanged  = "changed"
	outcomeCustomer = "customer"
	outcomeFact     = "fact"
	outcomeFull     = "full"
)

// row is a fact to be written, by the names of its columns; write_fact reads it.
type row struct {
	ID          uuid.UUID  `json:"id"`
	Body        string     `json:"body"`
	Digest      string     `json:"digest"`
	Profile     bool       `json:"profile"`
	Tainted     bool       `json:"tainted"`
	Source      Source     `json:"source"`
	Author      string     `json:"author"`
	AgentID     *uuid.UUID `json:"agent_id"`
	SessionID   *string    `json:"session_id"`
	ExecutionID *string    `json:"execution_id"`
	Supersedes  *uuid.UUID `json:"supersedes"`
}

// Write remembers a fact of the customer that the reference names. What looks like a secret in it is
// masked before. It returns the id of the fact; written is false where a fact in use has the same text,
// or where it is a repeat. The one with the same text then joins the profile and supersedes, as was asked
// for. It refuses with CUSTOMER_NOT_FOUND, QUOTA_EXCEEDED and VALIDATION_ERROR.
func (s *Service) Write(ctx context.Context, who actor.Actor, reference string, in NewFact) (id uuid.UUID, written bool, err error) {
	text, err := checked(in.Text)
	if err != nil {
		return id, false, err
	}
	key, err := s.d.Keys.Key(ctx, who.TenantID)
	if err != nil {
		return id, false, fmt.Errorf("facts: %w", err)
	}
	if in.ID == uuid.Nil {
		in.ID = uuid.Must(uuid.NewV7())
	}
	raw, err := json.Marshal(row{
		ID: in.ID, Body: key.Seal(place(who.TenantID, in.ID), []byte(text)), Digest: `\x` + hex.EncodeToString(digest(key, text)), Profile: in.Profile && !in.Tainted,
		Tainted: in.Tainted, Source: in.Source, Author: who.String(), AgentID: in.AgentID, SessionID: db.Optional(in.SessionID),
		ExecutionID: db.Optional(in.ExecutionID), Supersedes: in.Supersedes,
	})
	if err != nil {
		return id, false, fmt.Errorf("facts: %w", err)
	}
	first := &db.Batch{}
	got := db.Queue(first, s.q.WriteFact, dbsqlc.WriteFactParams{
		TenantID: who.TenantID, Reference: reference, Fact: raw, Most: int32(s.d.Quotas.Most(quota.CustomerFacts)), Now: s.d.Now(),
	})
	counted := func() {}
	err = s.d.DB.ReadAndWrite(ctx, who.TenantID, first, func() (*db.Batch, error) {
		b, action, details := &db.Batch{}, audit.FactWritten, map[string]any{"fact_id": got.Value.Fact, "supersedes": in.Supersedes, "source": in.Source}
		switch got.Value.Outcome {
		case outcomeWritten:
			written = true
		case outcomeBeside:
			written, details["supersedes"], details["beside"] = true, nil, in.Supersedes
		case outcomeChanged:
			action, details["profile"] = audit.FactChanged, in.Profile
		default:
			return nil, s.refusal(got.Value.Outcome)
		}
		idempotency.Queue(ctx, b, got.Value.Fact.String())
		if written {
			counted = s.room.Queue(b, who.TenantID)
		}
		rec := audit.Change(who, action, audit.SubjectCustomer, got.Value.Customer.String())
		if in.ExecutionID != "" {
			rec.ExecutionID = in.ExecutionID
		}
		audit.Queue(b, rec.With(details))
		return b, nil
	})
	if err != nil {
		return id, false, fmt.Errorf("facts: write: %w", err)
	}
	counted()
	return got.Value.Fact, written, nil
}

// refusal returns why a fact is not written; nil where it is there already.
func (s *Service) refusal(outcome string) error {
	switch outcome {
	case outcomeCustomer:
		return fault.New(fault.CodeCustomerNotFound, "")
	case outcomeFact:
		return fault.Invalid("/supersedes", "reference", "supersedes names no fact of the customer that is in use.")
	case outcomeFull:
		return fault.Newf(fault.CodeQuotaExceeded, "The customer has reached the quota %s: at most %d facts in use. Supersede or delete some.",
			quota.CustomerFacts, s.d.Quotas.Most(quota.CustomerFacts))
	}
	return nil
}

// checked returns a text as it is stored.
func checked(text string) (string, error) {
	switch text = strings.TrimSpace(text); {
	case text == "":
		return "", fault.Invalid("/text", "required", "text has at least one character that is no space.")
	case len(text) > recall.MaxText:
		return "", fault.Invalid("/text", "maxLength", fmt.Sprintf("text has at most %d bytes.", recall.MaxText))
	case strings.ContainsRune(text, 0):
		return "", fault.Invalid("/text", "format", "text contains no NUL.")
	}
	return redact.Text(text), nil
}

func place(tenant, id uuid.UUID) datakey.Place {
	return datakey.Place{Tenant: tenant, Row: id, Field: datakey.CustomerFact}
}

func digest(key *datakey.Key, text string) []byte {
	return key.Digest([]byte("customer_fact:" + recall.Canonical(text)))
}

// open reads a row with its text.
func open(key *datakey.Key, r dbsqlc.CustomerFact) (Fact, error) {
	text, err := key.Open(place(r.TenantID, r.ID), r.Body)
	if err != nil {
		return Fact{}, fmt.Errorf("facts: %s: %w", r.ID, err)
	}
	return Fact{
		Fact:     recall.Fact{ID: r.ID, Text: string(text), Profile: r.Profile, Tainted: r.Tainted, At: r.CreatedAt.UTC()},
		TenantID: r.TenantID, Customer: r.Customer, Source: Source(r.Source), Author: r.Author, AgentID: r.AgentID, SessionID: db.Text(r.SessionID),
		ExecutionID: db.Text(r.ExecutionID), Supersedes: r.Supersedes, SupersededBy: r.SupersededBy, SupersededAt: db.UTC(r.SupersededAt),
		UpdatedAt: r.UpdatedAt.UTC(), UsedAt: db.UTC(r.UsedAt),
	}, nil
}

// openAll reads rows with their texts.
func (s *Service) openAll(ctx context.Context, tenant uuid.UUID, rows []dbsqlc.CustomerFact) ([]Fact, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	key, err := s.d.Keys.Key(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("facts: %w", err)
	}
	list := make([]Fact, len(rows))
	for i, r := range rows {
		if list[i], err = open(key, r); err != nil {
			return nil, err
		}
	}
	return list, nil
}
