package definition

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/maps/mapdef"
)

// The rules of what a definition names besides Maps, in faults.
const (
	ruleUnknownAgent = "unknown_agent"
	ruleUnknownUser  = "unknown_user"
)

// Finding is what is found about a definition by what it names of the tenant's.
type Finding struct {
	Errors, Warnings []mapdef.Fault
	MapType          mapdef.MapType
}

// Check looks at what a definition names of the tenant's: whether there are such agents and users, and of
// the Maps that it starts whether they exist, start this one again, are nested too deep, and are published.
// self is the Map of the definition, uuid.Nil for a new one. It costs a round trip where the definition
// names any.
func (s *Service) Check(ctx context.Context, tenant, self uuid.UUID, d *mapdef.Definition) (Finding, error) {
	return s.check(tenant, self, d, func(b *db.Batch) error { return s.d.DB.Send(ctx, tenant, b) })
}

func (s *Service) check(tenant, self uuid.UUID, d *mapdef.Definition, send func(*db.Batch) error) (Finding, error) {
	found := Finding{MapType: typeOf(d.HasModel())}
	b := &db.Batch{}
	judges := []func(){s.queueAgents(b, tenant, d, &found), s.queueApprovers(b, tenant, d, &found), s.queueStarts(b, tenant, self, d, &found)}
	if b.Len() == 0 {
		return found, nil
	}
	if err := send(b); err != nil {
		return found, fmt.Errorf("definition: what a definition names: %w", err)
	}
	for _, judge := range judges {
		judge()
	}
	return found, nil
}

// named is something of the tenant's that a definition names by its id.
type named struct {
	id      uuid.UUID
	pointer string
}

// namedBy returns what the steps of a definition name. An id that is no UUID is a fault of its form.
func namedBy(d *mapdef.Definition, of func(s *mapdef.Step, add func(id, pointer string))) (list []named, ids []uuid.UUID) {
	add := func(text, pointer string) {
		if id, err := uuid.Parse(text); err == nil {
			list, ids = append(list, named{id, pointer}), append(ids, id)
		}
	}
	see := func(s *mapdef.Step) { of(s, add) }
	mapdef.Walk(d.Steps, see)
	mapdef.Walk(d.OnFailure, see)
	return list, ids
}

// queueAgents adds the question which agents that steps name the tenant has. The function notes the
// others.
func (s *Service) queueAgents(b *db.Batch, tenant uuid.UUID, d *mapdef.Definition, f *Finding) func() {
	list, ids := namedBy(d, func(s *mapdef.Step, add func(id, pointer string)) {
		if do, is := s.Do.(*mapdef.DoAgent); is && do.AgentID != "" {
			add(do.AgentID, s.Pointer+"/agent_id")
		}
	})
	if len(list) == 0 {
		return func() {}
	}
	known := db.Queue(b, s.q.KnownAgents, dbsqlc.KnownAgentsParams{TenantID: tenant, Ids: ids})
	return func() { f.missing(list, known.Value, ruleUnknownAgent, "an agent") }
}

// queueApprovers adds the question which users that approval steps name the tenant has. The function notes
// the others: nobody could ever give what they shall give.
func (s *Service) queueApprovers(b *db.Batch, tenant uuid.UUID, d *mapdef.Definition, f *Finding) func() {
	list, ids := namedBy(d, func(s *mapdef.Step, add func(id, pointer string)) {
		do, is := s.Do.(*mapdef.DoApproval)
		if !is {
			return
		}
		for i, a := range do.Approvers {
			if a.Type == governance.ApproverUser {
				add(a.Value, s.Pointer+"/approvers/"+strconv.Itoa(i)+"/value")
			}
		}
	})
	if len(list) == 0 {
		return func() {}
	}
	known := db.Queue(b, s.q.TenantUsers, dbsqlc.TenantUsersParams{TenantID: tenant, Ids: ids})
	return func() { f.missing(list, known.Value, ruleUnknownUser, "a user") }
}

// missing notes what a definition names and the tenant does not have.
func (f *Finding) missing(list []named, known []uuid.UUID, rule, what string) {
	for _, one := range list {
		if !slices.Contains(known, one.id) {
			f.unknown(one.pointer, rule, what)
		}
	}
}

// unknown notes an id of nothing of the tenant's.
func (f *Finding) unknown(path, rule, what string) {
	f.Errors = append(f.Errors, mapdef.Fault{Path: path, Rule: rule, Message: "must be the id of " + what + " of the tenant"})
}
