package roster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/idempotency"
	"agentruntime/internal/record/quota"
)

// Create stores an agent and publishes its first version. It refuses with VALIDATION_ERROR where the
// definition names a Map that does not exist, and with QUOTA_EXCEEDED.
func (s *Service) Create(ctx context.Context, who actor.Actor, d *agentdef.Definition) (rec Record, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Record{}, fmt.Errorf("roster: make an id: %w", err)
	}
	source := d.Encode()
	err = s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if err := idempotency.Write(ctx, tx, id.String()); err != nil {
			return err
		}
		c := change{s, tx, who, id}
		if err := c.checkMaps(ctx, d, nil); err != nil {
			return err
		}
		if err := c.checkAgents(ctx, d, nil); err != nil {
			return err
		}
		by, at := who.String(), s.d.Now()
		err := s.q.InsertAgent(ctx, tx, dbsqlc.InsertAgentParams{
			ID: id, TenantID: who.TenantID, Name: d.Name, Bytes: int64(len(source)), ChangedBy: by, ChangedAt: at,
		})
		if err != nil {
			return fmt.Errorf("roster: insert: %w", err)
		}
		if err := c.insert(ctx, d, source, 1, true); err != nil {
			return err
		}
		for _, r := range []quota.Resource{quota.Agents, quota.AgentBytes} {
			if err := s.d.Quotas.Require(ctx, tx, who.TenantID, r); err != nil {
				return err
			}
		}
		if err := c.record(ctx, audit.AgentCreated, map[string]any{"version": 1, "name": d.Name}); err != nil {
			return err
		}
		rec, err = c.read(ctx)
		return err
	})
	if err != nil {
		return Record{}, err
	}
	return rec, nil
}

// Patch is a change of an agent.
type Patch struct {
	// Members is a JSON object of members of the definition, in the place of those of the newest
	// version; nil leaves the definition as it is.
	Members json.RawMessage
	// Status is "" where it stays.
	Status Status
	// Publish publishes the newest version, after the change.
	Publish bool
}

// Change changes an agent. Members that change the definition make a version of it, a draft unless
// it is published. expect is asked about the agent's revision. It refuses with AGENT_NOT_FOUND, and
// with VALIDATION_ERROR and QUOTA_EXCEEDED as Create does.
func (s *Service) Change(ctx context.Context, who actor.Actor, id uuid.UUID, p Patch, expect fault.Expect[int32]) (rec Record, err error) {
	err = s.change(ctx, who, id, expect, func(c change, a dbsqlc.Agent) error {
		if p.Members != nil {
			if a, err = c.define(ctx, a, p.Members); err != nil {
				return err
			}
		}
		if p.Publish && a.PublishedVersion != a.LatestVersion {
			if err := c.publish(ctx, a.LatestVersion, a.Name); err != nil {
				return err
			}
		}
		if p.Status != "" && p.Status != Status(a.Status) {
			if err := c.setStatus(ctx, p.Status, a.Name); err != nil {
				return err
			}
		}
		rec, err = c.read(ctx)
		return err
	})
	return rec, err
}

// Publish makes a version the one that answers messages. Where it is already, nothing changes. It
// refuses with AGENT_NOT_FOUND.
func (s *Service) Publish(ctx context.Context, who actor.Actor, id uuid.UUID, number int32) (rec Record, err error) {
	err = s.change(ctx, who, id, nil, func(c change, a dbsqlc.Agent) error {
		v, err := s.q.GetAgentVersion(ctx, c.tx, dbsqlc.GetAgentVersionParams{TenantID: who.TenantID, AgentID: id, Version: number})
		if err != nil {
			return readError(err)
		}
		if a.PublishedVersion != number {
			if err := c.publish(ctx, number, v.AgentVersion.Name); err != nil {
				return err
			}
		}
		rec, err = c.read(ctx)
		return err
	})
	return rec, err
}

// Delete ends an agent. Messages that came before go on with the versions that they pinned. expect
// is asked about the agent's revision. It refuses with AGENT_NOT_FOUND.
func (s *Service) Delete(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[int32]) error {
	return s.change(ctx, who, id, expect, func(c change, a dbsqlc.Agent) error {
		err := s.q.DeleteAgent(ctx, c.tx, dbsqlc.DeleteAgentParams{TenantID: who.TenantID, ID: id, ChangedBy: who.String(), ChangedAt: s.d.Now()})
		if err != nil {
			return fmt.Errorf("roster: delete: %w", err)
		}
		return c.record(ctx, audit.AgentDeleted, map[string]any{"version": a.LatestVersion, "name": a.Name})
	})
}

// change is a transaction that changes one agent.
type change struct {
	s   *Service
	tx  pgx.Tx
	who actor.Actor
	id  uuid.UUID
}

// change runs fn while nothing else changes the agent, after it has checked that the agent is as
// the caller expects.
func (s *Service) change(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[int32], fn func(change, dbsqlc.Agent) error) error {
	return s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		row, err := s.q.LockAgent(ctx, tx, dbsqlc.LockAgentParams{TenantID: who.TenantID, ID: id})
		if err != nil {
			return readError(err)
		}
		if err := expect.Check(row.Revision); err != nil {
			return err
		}
		return fn(change{s, tx, who, id}, row)
	})
}

// define adds the version that the members make of the newest one, and returns the agent with it. A
// definition that the newest version has already adds none.
func (c change) define(ctx context.Context, a dbsqlc.Agent, members json.RawMessage) (dbsqlc.Agent, error) {
	newest, err := c.s.q.GetAgentVersion(ctx, c.tx, dbsqlc.GetAgentVersionParams{TenantID: c.who.TenantID, AgentID: c.id})
	if err != nil {
		return a, readError(err)
	}
	before, err := agentdef.Decode(newest.AgentVersion.Definition)
	if err != nil {
		return a, fmt.Errorf("roster: %s: %w", c.id, err)
	}
	after, err := before.Change(members)
	if err != nil {
		return a, err
	}
	source := after.Encode()
	if bytes.Equal(newest.AgentVersion.Digest, digest(source)) {
		return a, nil
	}
	if err := c.checkMaps(ctx, after, before); err != nil {
		return a, err
	}
	if err := c.checkAgents(ctx, after, before); err != nil {
		return a, err
	}
	a, err = c.s.q.AddAgentVersion(ctx, c.tx, dbsqlc.AddAgentVersionParams{
		TenantID: c.who.TenantID, ID: c.id, Name: after.Name, Size: int64(len(source)), ChangedBy: c.who.String(), ChangedAt: c.s.d.Now(),
	})
	if err != nil {
		return a, fmt.Errorf("roster: add a version: %w", err)
	}
	if most := c.s.d.Quotas.Most(quota.AgentVersions); int64(a.LatestVersion) > most {
		return a, fault.Newf(fault.CodeQuotaExceeded, "The agent has reached the quota agent_versions: at most %d versions of one agent. Make another agent of its definition.", most)
	}
	if err := c.insert(ctx, after, source, a.LatestVersion, false); err != nil {
		return a, err
	}
	if err := c.s.d.Quotas.Require(ctx, c.tx, c.who.TenantID, quota.AgentBytes); err != nil {
		return a, err
	}
	changed := agentdef.Changed(before, after)
	return a, c.record(ctx, audit.AgentChanged, map[string]any{"version": a.LatestVersion, "name": a.Name, "changed": changed})
}

// checkMaps refuses Maps that do not exist. Those that the definition had before may be gone; before is nil
// for a new agent.
func (c change) checkMaps(ctx context.Context, d, before *agentdef.Definition) error {
	ids, had := mapsOf(d), []uuid.UUID{}
	if before != nil {
		had = mapsOf(before)
	}
	added := slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return slices.Contains(had, id) })
	if len(added) == 0 {
		return nil
	}
	known, err := c.s.q.KnownMaps(ctx, c.tx, dbsqlc.KnownMapsParams{TenantID: c.who.TenantID, Ids: added})
	if err != nil {
		return fmt.Errorf("roster: look for Maps: %w", err)
	}
	refusal := fault.New(fault.CodeValidation, "The definition names a Map that the tenant does not have.")
	for i, id := range ids {
		path := "/maps/" + strconv.Itoa(i)
		if i == len(d.Maps) {
			path = "/map_id"
		}
		if slices.Contains(added, id) && !slices.Contains(known, id) {
			refusal.Details = append(refusal.Details, fault.Detail{Path: path, Rule: "unknown_map", Message: "must be the id of a Map"})
		}
	}
	if len(refusal.Details) > 0 {
		return refusal
	}
	return nil
}

// mapsOf returns the Maps that a definition names, map_id last.
func mapsOf(d *agentdef.Definition) []uuid.UUID {
	ids := slices.Clone(d.Maps)
	if d.MapID != nil {
		ids = append(ids, *d.MapID)
	}
	return ids
}

func (c change) insert(ctx context.Context, d *agentdef.Definition, source []byte, number int32, published bool) error {
	by, at := c.who.String(), c.s.d.Now()
	arg := dbsqlc.InsertAgentVersionParams{
		TenantID: c.who.TenantID, AgentID: c.id, Version: number, Name: d.Name, Definition: source, Size: int32(len(source)),
		Digest: digest(source), CreatedBy: by, CreatedAt: at,
	}
	if published {
		arg.PublishedBy, arg.PublishedAt = &by, &at
	}
	if err := c.s.q.InsertAgentVersion(ctx, c.tx, arg); err != nil {
		return fmt.Errorf("roster: insert a version: %w", err)
	}
	return nil
}

func (c change) publish(ctx context.Context, number int32, name string) error {
	by, at := c.who.String(), c.s.d.Now()
	err := c.s.q.PublishAgent(ctx, c.tx, dbsqlc.PublishAgentParams{TenantID: c.who.TenantID, ID: c.id, Version: number, ChangedBy: by, ChangedAt: at})
	if err != nil {
		return fmt.Errorf("roster: publish: %w", err)
	}
	err = c.s.q.MarkAgentVersionPublished(ctx, c.tx, dbsqlc.MarkAgentVersionPublishedParams{
		TenantID: c.who.TenantID, AgentID: c.id, Version: number, ChangedBy: by, ChangedAt: at,
	})
	if err != nil {
		return fmt.Errorf("roster: note the publication: %w", err)
	}
	return c.record(ctx, audit.AgentPublished, map[string]any{"version": number, "name": name})
}

func (c change) setStatus(ctx context.Context, to Status, name string) error {
	err := c.s.q.SetAgentStatus(ctx, c.tx, dbsqlc.SetAgentStatusParams{
		TenantID: c.who.TenantID, ID: c.id, Status: string(to), ChangedBy: c.who.String(), ChangedAt: c.s.d.Now(),
	})
	if err != nil {
		return fmt.Errorf("roster: set the status: %w", err)
	}
	action := audit.AgentResumed
	if to == Paused {
		action = audit.AgentPaused
	}
	return c.record(ctx, action, map[string]any{"name": name})
}

// record writes who made the change.
func (c change) record(ctx context.Context, action audit.Action, details map[string]any) error {
	return audit.Append(ctx, c.tx, audit.Change(c.who, action, audit.SubjectAgent, c.id.String()).With(details))
}

// read returns the agent as the transaction has made it.
func (c change) read(ctx context.Context) (Record, error) {
	a, err := c.s.q.GetAgent(ctx, c.tx, dbsqlc.GetAgentParams{TenantID: c.who.TenantID, ID: c.id})
	if err != nil {
		return Record{}, readError(err)
	}
	v, err := c.s.q.GetAgentVersion(ctx, c.tx, dbsqlc.GetAgentVersionParams{TenantID: c.who.TenantID, AgentID: c.id})
	if err != nil {
		return Record{}, readError(err)
	}
	return recordOf(a, v.AgentVersion.Definition)
}
