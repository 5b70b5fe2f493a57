package roster

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/agentdef"
)

// Version is a version of an agent, ready to answer a message.
type Version struct {
	AgentID uuid.UUID
	Number  int32
	Name    string // of the agent, as of the read
	// Status is as of the read.
	Status Status
	// Definition is shared by all who ask for this version: it must not be changed.
	Definition *agentdef.Definition
}

// versionKey names a version. A version never changes, so nothing is ever invalidated. Number 0
// remembers which version was the published one.
type versionKey struct {
	tenant, id uuid.UUID
	number     int32
}

type compiled struct {
	number     int32
	definition *agentdef.Definition // nil in the entry of number 0
}

// definitionFactor is how many bytes a definition takes in memory for one of its text.
const definitionFactor = 4

// Version returns a version of an agent with its status, in one round trip. number 0 means the
// published one, and refuses with AGENT_NOT_FOUND where the agent is deleted. A number also finds a
// version of a deleted agent, for messages that came before. It reads the definition only where
// this process does not have it.
func (s *Service) Version(ctx context.Context, tenant, agent uuid.UUID, number int32) (Version, error) {
	kept, _ := s.compiled.Get(versionKey{tenant, agent, number})
	if number == 0 && kept.number != 0 {
		kept, _ = s.compiled.Get(versionKey{tenant, agent, kept.number})
	}
	row, err := s.q.GetAgentTurn(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetAgentTurnParams{
		TenantID: tenant, AgentID: agent, Version: number, Kept: kept.number,
	})
	if err != nil {
		return Version{}, readError(err)
	}
	if row.Version != kept.number {
		kept = compiled{number: row.Version}
		if kept.definition, err = agentdef.Decode([]byte(row.Definition)); err != nil {
			return Version{}, fmt.Errorf("roster: version %d of %s: %w", row.Version, agent, err)
		}
		s.compiled.Add(versionKey{tenant, agent, row.Version}, kept, definitionFactor*len(row.Definition), nil)
	}
	if number == 0 {
		s.compiled.Add(versionKey{tenant, agent, 0}, compiled{number: row.Version}, 0, nil)
	}
	return Version{AgentID: agent, Number: row.Version, Name: row.Name, Status: Status(row.Status), Definition: kept.definition}, nil
}
