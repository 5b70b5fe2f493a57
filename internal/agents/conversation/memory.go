package conversation

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/recall"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/taint"
)

// Memory is what a turn has read and written of what is remembered of its customer.
type Memory struct {
	Used    []FactUsed    `json:"used,omitempty"`
	Written []FactWritten `json:"written,omitempty"`
	// Learned: what the message says was looked for after the reply.
	Learned bool `json:"learned,omitempty"`
}

// FactUsed is a fact that a model has read, with the reason.
type FactUsed struct {
	ID    uuid.UUID  `json:"id"`
	Why   recall.Why `json:"why"`
	Words []string   `json:"words,omitempty"`
	Text  string     `json:"text"`
}

// FactWritten is a fact that a turn has led to. By is the source of the fact.
type FactWritten struct {
	ID   uuid.UUID `json:"id"`
	By   string    `json:"by"`
	Text string    `json:"text"`
}

// Use notes facts that a model reads, each once.
func (m *Memory) Use(chosen []recall.Chosen) {
	for _, c := range chosen {
		known := false
		for _, u := range m.Used {
			known = known || u.ID == c.ID
		}
		if !known {
			m.Used = append(m.Used, FactUsed{ID: c.ID, Why: c.Why, Words: c.Words, Text: c.Text})
		}
	}
}

// Write notes a fact that was written, once.
func (m *Memory) Write(f FactWritten) {
	for _, w := range m.Written {
		if w.ID == f.ID {
			return
		}
	}
	m.Written = append(m.Written, f)
}

// UntrustedFacts returns the facts that the model reads in the answer, as sources of a taint, which
// others than the tenant may have made an agent write.
func (a Answer) UntrustedFacts() (sources []string) {
	chosen := a.Recalled
	if a.Frame != nil {
		chosen = slices.Concat(a.Frame.Remembered, a.Recalled)
	}
	for _, c := range chosen {
		if c.Tainted {
			sources = append(sources, taint.Fact(c.ID.String()))
		}
	}
	return sources
}

// NoteMemory stores what a turn has read and written, apart from its answers.
func (s *Service) NoteMemory(ctx context.Context, w Work, m Memory) error {
	err := s.q.NoteTurnMemory(ctx, s.d.DB.Tenant(w.Turn.TenantID), dbsqlc.NoteTurnMemoryParams{
		TenantID: w.Turn.TenantID, ID: w.Turn.ID, Memory: w.key.Seal(w.Turn.place(datakey.TurnMemory), mustJSON(m)),
	})
	if err != nil {
		return fmt.Errorf("conversation: note what was remembered: %w", err)
	}
	return nil
}

// AgentOf sets the version of the agent that a turn has pinned, also where the turn has ended.
func (s *Service) AgentOf(ctx context.Context, w *Work) (err error) {
	w.Agent, err = s.d.Agents.Agent(ctx, w.Turn.TenantID, w.Turn.AgentID, w.Turn.Version)
	return err
}
