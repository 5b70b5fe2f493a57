package models

import (
	"maps"
	"sync"

	"github.com/google/uuid"

	"agentruntime/internal/models/model"
	"agentruntime/internal/models/modelprovider"
)

const (
	// mostHabits bounds the memory of habits; beyond it all are forgotten, which costs a refusal more for
	// each model.
	mostHabits = 10_000
	// mostLeftOut is how many times an answer is asked for again because of refused fields. A
	// request has five optional fields at most.
	mostLeftOut = 5
)

// habits remembers which optional fields a server has refused for a model. Each process has its own: a
// refusal tells each of them.
type habits struct {
	mu      sync.Mutex
	without map[habit]map[string]bool
}

// habit is whose request goes where, and in which form. What another server has refused says nothing, so
// the address is part of it, also where a provider of the same name had another one before.
type habit struct {
	tenant, provider uuid.UUID
	baseURL, model   string
	dialect          modelprovider.Dialect
}

// of returns the fields that are left out.
func (h *habits) of(of habit) map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.without[of]
}

// learn remembers refused fields.
func (h *habits) learn(of habit, refused []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := map[string]bool{}
	maps.Copy(known, h.without[of]) // the one of before is read by requests
	for _, field := range refused {
		known[field] = true
	}
	if h.without == nil || len(h.without) >= mostHabits {
		h.without = map[habit]map[string]bool{}
	}
	h.without[of] = known
}

// differs reports whether the next request is another one than that which was made without these fields:
// it leaves out more. Another request may have told of the refusal meanwhile, so what is known now does
// not matter.
func differs(failure *model.Error, without map[string]bool) bool {
	for _, field := range failure.Refused {
		if !without[field] {
			return true
		}
	}
	return false
}
