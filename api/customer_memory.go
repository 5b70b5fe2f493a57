package api

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/agents/recall"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/tenant/facts"
)

// Facts is what the endpoints need of what is remembered of customers.
type Facts interface {
	// Write returns the id of the fact; written is false where a fact in use has the same text.
	Write(ctx context.Context, who actor.Actor, reference string, in facts.NewFact) (id uuid.UUID, written bool, err error)
	Get(ctx context.Context, tenant uuid.UUID, reference string, id uuid.UUID) (facts.Fact, error)
	List(ctx context.Context, tenant uuid.UUID, reference string, f facts.Filter) (page []facts.Fact, more bool, err error)
	Search(ctx context.Context, tenant uuid.UUID, reference, query string, most int) ([]facts.Fact, error)
	Change(ctx context.Context, who actor.Actor, reference string, id uuid.UUID, p facts.Patch) (facts.Fact, error)
	Delete(ctx context.Context, who actor.Actor, reference string, id uuid.UUID, expect fault.Expect[facts.Fact]) error
}

// customerFact is something that is remembered of a customer.
type customerFact struct {
	ID           uuid.UUID  `json:"id"`
	CustomerID   uuid.UUID  `json:"customer_id"`
	Text         string     `json:"text"`
	Profile      bool       `json:"profile"`
	Tainted      bool       `json:"tainted"`
	Source       factSource `json:"source"`
	Supersedes   *uuid.UUID `json:"supersedes"`
	SupersededBy *uuid.UUID `json:"superseded_by"`
	SupersededAt *time.Time `json:"superseded_at"`
	UsedAt       *time.Time `json:"used_at"`
	CreatedAt    time.Time  `json:"created_at"`
	UpdatedAt    time.Time  `json:"updated_at"`

	repeatMark
}

// factSource says where a fact is from.
type factSource struct {
	Kind        facts.Source `json:"kind"`
	Author      string       `json:"author"`
	AgentID     *uuid.UUID   `json:"agent_id"`
	SessionID   *string      `json:"session_id"`
	ExecutionID *string      `json:"execution_id"`
}

func viewFact(f facts.Fact) customerFact {
	return customerFact{
		ID: f.ID, CustomerID: f.Customer, Text: f.Text, Profile: f.Profile, Tainted: f.Tainted,
		Source:     factSource{Kind: f.Source, Author: f.Author, AgentID: f.AgentID, SessionID: textOrNull(f.SessionID), ExecutionID: textOrNull(f.ExecutionID)},
		Supersedes: f.Supersedes, SupersededBy: f.SupersededBy, SupersededAt: f.SupersededAt, UsedAt: f.UsedAt, CreatedAt: f.At, UpdatedAt: f.UpdatedAt,
	}
}

// factTag does not change where a fact is only used.
func factTag(f facts.Fact) string {
	f.UsedAt = nil
	return wire.ViewTag(viewFact(f))
}

func answerFact(f facts.Fact) wire.Reply {
	return wire.Reply{Data: viewFact(f), Header: http.Header{"Etag": {factTag(f)}}}
}

type factBody struct {
	Text       *string `json:"text"`
	Profile    *bool   `json:"profile"`
	Supersedes *string `json:"supersedes"`
}

// createFact answers 201 with a new fact, and 200 with the one in use that has the same text.
func (h *customerHandlers) createFact(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b factBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	in := facts.NewFact{Text: v.Required("/text", b.Text), Source: facts.ByAPI, Profile: b.Profile != nil && *b.Profile}
	if b.Supersedes != nil {
		id, err := uuid.Parse(*b.Supersedes)
		if err != nil {
			v.Add("/supersedes", "format", "supersedes is the id of a fact.")
		}
		in.Supersedes = &id
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	id, written, err := h.facts.Write(ctx, c.Actor, c.Param("id"), in)
	if err != nil {
		return wire.Reply{}, err
	}
	f, err := h.facts.Get(ctx, c.Actor.TenantID, c.Param("id"), id)
	if err != nil {
		return wire.Reply{}, err
	}
	rep := wire.Created(c.Request.URL.EscapedPath()+"/"+id.String(), viewFact(f))
	if !written {
		rep.Status = http.StatusOK
	}
	return rep, nil
}

func (h *customerHandlers) getFact(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	f, err := h.facts.Get(ctx, c.Actor.TenantID, c.Param("id"), wire.IDOf(c.Param("fact_id")))
	if err != nil {
		return wire.Reply{}, err
	}
	return answerFact(f), nil
}

func (h *customerHandlers) listFacts(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var f facts.Filter
	var err error
	if f.Limit, f.Before, err = c.PageByID(); err != nil {
		return wire.Reply{}, err
	}
	if f.Superseded, err = c.QueryBool("superseded"); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	search := v.QueryText(c, "search")
	if search != "" && (f.Superseded != nil || f.Before != nil) {
		v.Add("query.search", "filters", "A search finds facts in use, on one page: it takes neither superseded nor cursor.")
	}
	if len(search) > recall.MaxText {
		v.Add("query.search", "maxLength", "search has at most 512 bytes.")
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	var page []facts.Fact
	more := false
	if search != "" {
		page, err = h.facts.Search(ctx, c.Actor.TenantID, c.Param("id"), search, f.Limit)
	} else {
		page, more, err = h.facts.List(ctx, c.Actor.TenantID, c.Param("id"), f)
	}
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.ListByID(f.Limit, page, more, viewFact, func(one facts.Fact) uuid.UUID { return one.ID }), nil
}

type factPatch struct {
	Text    *string `json:"text"`
	Profile *bool   `json:"profile"`
	Tainted *bool   `json:"tainted"`
}

func (h *customerHandlers) patchFact(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b factPatch
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	f, err := h.facts.Change(ctx, c.Actor, c.Param("id"), wire.IDOf(c.Param("fact_id")), facts.Patch{
		Text: b.Text, Profile: b.Profile, Tainted: b.Tainted, Expect: wire.Expect(c, factTag),
	})
	if err != nil {
		return wire.Reply{}, err
	}
	return answerFact(f), nil
}

func (h *customerHandlers) deleteFact(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	err := h.facts.Delete(ctx, c.Actor, c.Param("id"), wire.IDOf(c.Param("fact_id")), wire.Expect(c, factTag))
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.Deleted(), nil
}

// memory are the facts about the customer, superseded ones too.
func (x *customerExport) memory(ctx context.Context, put func(any) error) error {
	f := facts.Filter{Until: &x.e.At, Limit: exportPage}
	for {
		page, more, err := x.h.facts.List(ctx, x.tenant, x.e.Customer.ID.String(), f)
		if err != nil {
			return err
		}
		for _, one := range page {
			if err := put(viewFact(one)); err != nil {
				return err
			}
			f.Before = &one.ID
		}
		if !more {
			return nil
		}
	}
}
