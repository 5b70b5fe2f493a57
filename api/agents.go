package api

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/roster"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
)

// Agents is what the endpoints of agents need of the domain.
type Agents interface {
	Create(ctx context.Context, who actor.Actor, d *agentdef.Definition) (roster.Record, error)
	Change(ctx context.Context, who actor.Actor, id uuid.UUID, p roster.Patch, expect fault.Expect[int32]) (roster.Record, error)
	Publish(ctx context.Context, who actor.Actor, id uuid.UUID, number int32) (roster.Record, error)
	Delete(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[int32]) error
	Get(ctx context.Context, tenant, id uuid.UUID) (roster.Record, error)
	List(ctx context.Context, tenant uuid.UUID, f roster.Filter) (page []roster.Agent, more bool, err error)
	Stored(ctx context.Context, tenant, id uuid.UUID, number int32) (roster.Stored, error)
	Versions(ctx context.Context, tenant, id uuid.UUID, before int32, limit int) (page []roster.Stored, more bool, err error)
}

// Advice tells the author of an agent what they may not have meant.
type Advice interface {
	Warnings(ctx context.Context, tenant uuid.UUID, d *agentdef.Definition) []fault.Detail
}

// agentRecord is an agent without its definition.
type agentRecord struct {
	ID               uuid.UUID     `json:"id"`
	Status           roster.Status `json:"status"`
	Version          int32         `json:"version"`
	PublishedVersion int32         `json:"published_version"`
	PublishedAt      time.Time     `json:"published_at"`
	PublishedBy      string        `json:"published_by"`
	CreatedAt        time.Time     `json:"created_at"`
	CreatedBy        string        `json:"created_by"`
	UpdatedAt        time.Time     `json:"updated_at"`
	UpdatedBy        string        `json:"updated_by"`
}

// agentView is an agent in a list. Name and version are those of its newest version.
type agentView struct {
	agentRecord

	Name string `json:"name"`
}

// agentDetail is an agent with the definition of its newest version.
type agentDetail struct {
	agentRecord
	agentdef.Definition
	// Warnings are advice as of now.
	Warnings []fault.Detail `json:"warnings"`
	repeatMark
}

func recordAgent(a roster.Agent) agentRecord {
	return agentRecord{
		ID: a.ID, Status: a.Status, Version: a.Newest, PublishedVersion: a.Published, PublishedAt: a.PublishedAt, PublishedBy: a.PublishedBy,
		CreatedAt: a.CreatedAt, CreatedBy: a.CreatedBy, UpdatedAt: a.UpdatedAt, UpdatedBy: a.UpdatedBy,
	}
}

// answerAgent answers with an agent, and its revision as the ETag. Warnings change without it.
func (h *agentHandlers) answerAgent(ctx context.Context, tenant uuid.UUID, rec roster.Record) wire.Reply {
	detail := agentDetail{agentRecord: recordAgent(rec.Agent), Definition: *rec.Definition, Warnings: h.advice.Warnings(ctx, tenant, rec.Definition)}
	return wire.Reply{Data: detail, Header: http.Header{"Etag": {wire.VersionTag(rec.Revision)}}}
}

func (h *agentHandlers) createAgent(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	d, err := agentdef.Read(c.Body())
	if err != nil {
		return wire.Reply{}, err
	}
	rec, err := h.agents.Create(ctx, c.Actor, d)
	if err != nil {
		return wire.Reply{}, err
	}
	return answerCreated(h.answerAgent(ctx, c.Actor.TenantID, rec), "/v1/agents", rec.ID), nil
}

func (h *agentHandlers) getAgent(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	rec, err := h.agents.Get(ctx, c.Actor.TenantID, c.ID())
	if err != nil {
		return wire.Reply{}, err
	}
	return h.answerAgent(ctx, c.Actor.TenantID, rec), nil
}

// agentPatch reads the members of the definition and the status out of the body.
func agentPatch(c *wire.Call) (p roster.Patch, err error) {
	publish, err := c.QueryBool("publish")
	if err != nil {
		return p, err
	}
	p.Publish = publish != nil && *publish
	members := map[string]json.RawMessage{}
	if err := c.DecodeExact(&members); err != nil {
		return p, err
	}
	if members == nil {
		return p, fault.Invalid("", "type", "must be an object")
	}
	if raw, given := members["status"]; given {
		if p.Status, err = agentStatus(raw); err != nil {
			return p, err
		}
		delete(members, "status")
	}
	if len(members) > 0 {
		p.Members, err = json.Marshal(members)
	}
	return p, err
}

func agentStatus(raw json.RawMessage) (roster.Status, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		for _, known := range []roster.Status{roster.Active, roster.Paused} {
			if strings.EqualFold(text, string(known)) {
				return known, nil
			}
		}
	}
	return "", fault.Invalid("/status", "enum", near.Enum("status", roster.Status(text), roster.Active, roster.Paused))
}

func (h *agentHandlers) patchAgent(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	p, err := agentPatch(c)
	if err != nil {
		return wire.Reply{}, err
	}
	rec, err := h.agents.Change(ctx, c.Actor, c.ID(), p, wire.Expect(c, wire.VersionTag))
	if err != nil {
		return wire.Reply{}, err
	}
	return h.answerAgent(ctx, c.Actor.TenantID, rec), nil
}

func (h *agentHandlers) deleteAgent(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return wire.DeletedUnless(h.agents.Delete(ctx, c.Actor, c.ID(), wire.Expect(c, wire.VersionTag)))
}

func (h *agentHandlers) listAgents(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var f roster.Filter
	var err error
	if f.Limit, f.Before, err = c.PageByID(); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	f.Status = wire.QueryOneOf(&v, c, "status", roster.Active, roster.Paused)
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	agents, more, err := h.agents.List(ctx, c.Actor.TenantID, f)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.ListByID(f.Limit, agents, more, func(a roster.Agent) agentView { return agentView{recordAgent(a), a.Name} }, func(a roster.Agent) uuid.UUID { return a.ID }), nil
}

// agentVersionView is a version in a list.
type agentVersionView struct {
	AgentID uuid.UUID `json:"agent_id"`
	definitionVersion
}

// agentVersionDetail is a version with its definition.
type agentVersionDetail struct {
	agentVersionView

	Definition json.RawMessage `json:"definition"`
}

func viewAgentVersion(v roster.Stored) agentVersionView {
	return agentVersionView{AgentID: v.AgentID, definitionVersion: definitionVersion{
		Version: v.Number, Name: v.Name, Status: statusOfVersion(v.Current), Size: v.Size, Digest: hex.EncodeToString(v.Digest),
		CreatedAt: v.CreatedAt, CreatedBy: v.CreatedBy, PublishedAt: v.PublishedAt, PublishedBy: v.PublishedBy,
	}}
}

func (h *agentHandlers) listAgentVersions(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return listVersions(ctx, c, h.agents.Versions, viewAgentVersion, func(v roster.Stored) int32 { return v.Number })
}

// agentVersion returns the version that the path names.
func (h *agentHandlers) agentVersion(ctx context.Context, c *wire.Call) (roster.Stored, error) {
	number, err := pathVersion(c, fault.CodeAgentNotFound)
	if err != nil {
		return roster.Stored{}, err
	}
	return h.agents.Stored(ctx, c.Actor.TenantID, c.ID(), number)
}

func (h *agentHandlers) getAgentVersion(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	v, err := h.agentVersion(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(agentVersionDetail{viewAgentVersion(v), v.Source}), nil
}

func (h *agentHandlers) publishAgentVersion(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	number, err := pathVersion(c, fault.CodeAgentNotFound)
	if err != nil {
		return wire.Reply{}, err
	}
	rec, err := h.agents.Publish(ctx, c.Actor, c.ID(), number)
	if err != nil {
		return wire.Reply{}, err
	}
	return h.answerAgent(ctx, c.Actor.TenantID, rec), nil
}

// agentDiff is how a version differs from another one.
type agentDiff struct {
	AgentID uuid.UUID             `json:"agent_id"`
	Version int32                 `json:"version"`
	Against int32                 `json:"against"`
	Changes []agentdef.Difference `json:"changes"`
}

// diffAgentVersion compares with the published version where the call names none.
func (h *agentHandlers) diffAgentVersion(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	against, err := queryVersion(c, "against")
	if err != nil {
		return wire.Reply{}, err
	}
	after, err := h.agentVersion(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	if against == 0 {
		against = after.Published
	}
	before, err := h.agents.Stored(ctx, c.Actor.TenantID, c.ID(), against)
	if err != nil {
		return wire.Reply{}, err
	}
	old, err := agentdef.Decode(before.Source)
	if err != nil {
		return wire.Reply{}, err
	}
	current, err := agentdef.Decode(after.Source)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(agentDiff{AgentID: after.AgentID, Version: after.Number, Against: before.Number, Changes: agentdef.Diff(old, current)}), nil
}
