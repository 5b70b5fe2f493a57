package roster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/base/fault"
)

// The rules of agents that call agents, in faults.
const (
	ruleUnknownAgent = "unknown_agent"
	ruleAgentCycle   = "agent_cycle"
	ruleAgentDepth   = "agent_depth"
)

// Callable is an agent that others may call, as it is published.
type Callable struct {
	ID      uuid.UUID
	Version int32
	Name    string
	Status  Status
	// Instructions are its first 400 characters.
	Instructions string
}

// PublishedOf returns agents that can be called, in the order of the ids. One that is deleted is left
// out. It costs one round trip.
func (s *Service) PublishedOf(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) (list []Callable, err error) {
	rows, err := s.q.PublishedAgents(ctx, s.d.DB.Tenant(tenant), dbsqlc.PublishedAgentsParams{TenantID: tenant, Ids: ids})
	if err != nil {
		return nil, fmt.Errorf("roster: published agents: %w", err)
	}
	for _, id := range ids {
		for _, row := range rows {
			if row.ID == id {
				list = append(list, Callable{ID: id, Version: row.Version, Name: row.Name, Status: Status(row.Status), Instructions: row.Instructions})
			}
		}
	}
	return list, nil
}

// checkAgents refuses agents that do not exist, that lead back to this one, and too many in a row, as
// they are published now. before is the version before; nil for none. What it named is not looked at
// again unless it leads back.
func (c change) checkAgents(ctx context.Context, d, before *agentdef.Definition) error {
	ids := d.Tools.Agents()
	if len(ids) == 0 || before != nil && slices.Equal(ids, before.Tools.Agents()) {
		return nil
	}
	calls := map[uuid.UUID][]uuid.UUID{}
	next := ids
	for range agentdef.MaxAgentDepth {
		if next = slices.DeleteFunc(slices.Clone(next), func(id uuid.UUID) bool { return calls[id] != nil }); len(next) == 0 {
			break
		}
		rows, err := c.s.q.AgentsCalled(ctx, c.tx, dbsqlc.AgentsCalledParams{TenantID: c.who.TenantID, Ids: next})
		if err != nil {
			return fmt.Errorf("roster: look for agents: %w", err)
		}
		next = nil
		for _, row := range rows {
			var tools agentdef.Tools
			if err := json.Unmarshal(row.Tools, &tools); err != nil {
				return fmt.Errorf("roster: tools of %s: %w", row.ID, err)
			}
			calls[row.ID] = append([]uuid.UUID{}, tools.Agents()...)
			next = append(next, calls[row.ID]...)
		}
	}
	refusal := fault.New(fault.CodeValidation, "tools names an agent that cannot be called.")
	for i, entry := range d.Tools.Allow {
		id, named := agentdef.AgentOf(entry)
		if !named || !slices.Contains(ids, id) {
			continue
		}
		var rule, message string
		switch _, known := calls[id]; {
		case id == c.id || reaches(calls, id, c.id, agentdef.MaxAgentDepth):
			rule, message = ruleAgentCycle, "must not lead back to this agent: an agent cannot call itself, directly or through others"
		case !known:
			rule, message = ruleUnknownAgent, "must be agent: and the id of an agent"
		case height(calls, id) >= agentdef.MaxAgentDepth:
			rule, message = ruleAgentDepth, "must not nest deeper: at most "+strconv.Itoa(agentdef.MaxAgentDepth)+" agents may call each other in a row, this one included"
		default:
			continue
		}
		refusal.Details = append(refusal.Details, fault.Detail{Path: "/tools/allow/" + strconv.Itoa(i), Rule: rule, Message: message})
	}
	if len(refusal.Details) > 0 {
		return refusal
	}
	return nil
}

// reaches reports whether an agent leads to another one within so many calls.
func reaches(calls map[uuid.UUID][]uuid.UUID, from, to uuid.UUID, within int) bool {
	return within > 0 && slices.ContainsFunc(calls[from], func(id uuid.UUID) bool { return id == to || reaches(calls, id, to, within-1) })
}

// height returns how many agents there are in the longest row from one on, itself included; at most as
// many as are looked at.
func height(calls map[uuid.UUID][]uuid.UUID, from uuid.UUID) int {
	return heightWithin(calls, from, agentdef.MaxAgentDepth)
}

func heightWithin(calls map[uuid.UUID][]uuid.UUID, from uuid.UUID, within int) (n int) {
	if within == 0 {
		return 0
	}
	for _, id := range calls[from] {
		n = max(n, heightWithin(calls, id, within-1))
	}
	return n + 1
}
