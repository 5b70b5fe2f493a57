package models

import (
	"maps"
	"sync"

	"github.com/google/uuid"

	"agentruntime/internal/kernel/agentdef"
)

// mostHabits bounds the memory of habits; beyond it all are forgotten, which costs a refusal more for
// each model.
const mostHabits = 10_000

// habits remembers which optional fields a server has refused for a model. Each process has its own: a
// refusal tells each of them.
type habits struct {
	mu      sync.Mutex
	without map[habit]map[string]bool
}

type habit struct {
	tenant          uuid.UUID
	provider, model string
}

// of returns the fields that are left out.
func (h *habits) of(tenant uuid.UUID, choice agentdef.Model) map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.without[habit{tenant, choice.Provider, choice.Model}]
}

// learn remembers refused fields, and reports whether any of them is new.
func (h *habits) learn(tenant uuid.UUID, choice agentdef.Model, refused []string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := habit{tenant, choice.Provider, choice.Model}
	known := maps.Clone(h.without[key]) // the one of before is read by requests
	before := len(known)
	for _, field := range refused {
		if known == nil {
			known = map[string]bool{}
		}
		known[field] = true
	}
	if len(known) == before {
		return false
	}
	if h.without == nil || len(h.without) >= mostHabits {
		h.without = map[habit]map[string]bool{}
	}
	h.without[key] = known
	return true
}
