package conversation

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/datakey"
	"agentruntime/internal/kernel/recall"
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

// ReadsUntrusted reports whether the model reads a fact in the answer that others than the tenant may have
// made an agent write.
func (a Answer) ReadsUntrusted() bool {
	tainted := func(c recall.Chosen) bool { return c.Tainted }
	return a.Frame != nil && slices.ContainsFunc(a.Frame.Remembered, tainted) || slices.ContainsFunc(a.Recalled, tainted)
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
