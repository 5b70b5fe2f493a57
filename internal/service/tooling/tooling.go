// Package tooling writes verbs of the catalog as tools for chat models, and chooses those that an agent
// is offered in a turn. It keeps what it has written, and tenants take turns, because a schema that is
// made to be costly takes long. The API calls it, and the turns of agents. It stores nothing.
package tooling

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/base/bytelru"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/turns"
	"agentruntime/internal/provider/catalog"
)

// Bounds. Stripe's largest schema takes 5 ms, and 500 of its verbs 0.3 s.
const (
	keptBytes  = 16 << 20
	writeTime  = 10 * time.Second
	slots      = 2
	wait       = 10 * time.Second
	each       = 16
	most       = 256
	retryLater = 5 * time.Second
	// keptHead is about what an entry takes beside its schema.
	keptHead = 200
)

// Form says what tools are asked for.
type Form struct {
	Format tooldef.Format
	// Budget is how many bytes the schema of the arguments may have, 0 for any number.
	Budget int
}

// Tool is a verb as a tool.
type Tool struct {
	// Definition is encoded as the format has it.
	Definition any
	// Omits says what of the verb's schema it does not have; nil where it has all of it.
	Omits []string
}

type key struct {
	hash catalog.Hash
	form Form
}

// Service writes tools. It is safe for concurrent use.
type Service struct {
	turns *turns.Turns
	kept  *bytelru.Cache[key, tooldef.Parameters]
}

// New returns a service that has written nothing yet.
func New() (*Service, error) {
	kept, err := bytelru.New[key, tooldef.Parameters](keptBytes)
	return &Service{turns: turns.New(turns.Config{Slots: slots, Share: 1, Wait: wait, Each: each, Most: most}), kept: kept}, err
}

// Tools returns a tool for each verb, in their order. SERVICE_UNAVAILABLE where the tenant's turn does
// not come in time, or writing takes too long.
func (s *Service) Tools(ctx context.Context, tenant uuid.UUID, verbs []catalog.Verb, form Form) ([]Tool, error) {
	tools := make([]Tool, len(verbs))
	var missing []int
	for i, v := range verbs {
		p, known := s.kept.Get(key{v.SchemaHash, form})
		if !known {
			missing = append(missing, i)
			continue
		}
		tools[i] = tool(v, form, p)
	}
	if len(missing) == 0 {
		return tools, nil
	}
	err := s.eachInTurn(ctx, tenant, len(missing), func(i int) {
		v := verbs[missing[i]]
		tools[missing[i]] = tool(v, form, s.write(v.SchemaHash, v.Schema, form))
	})
	if err != nil {
		return nil, err
	}
	return tools, nil
}

// turn waits for a turn of the tenant and returns what gives it back.
func (s *Service) turn(ctx context.Context, tenant uuid.UUID) (free func(), err error) {
	free, err = s.turns.Take(ctx, tenant.String())
	if errors.Is(err, turns.ErrBusy) || errors.Is(err, turns.ErrCrowded) {
		return nil, later("Many tool definitions are being written. Repeat the call later.")
	}
	return free, err
}

// eachInTurn calls write for each of n schemas, in a turn of the tenant and in bounded time.
func (s *Service) eachInTurn(ctx context.Context, tenant uuid.UUID, n int, write func(i int)) error {
	free, err := s.turn(ctx, tenant)
	if err != nil {
		return err
	}
	defer free()
	began := time.Now()
	for i := range n {
		if time.Since(began) > writeTime {
			return later("Writing the tool definitions took too long. Repeat the call: it goes on from here. Or ask for fewer.")
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		write(i)
	}
	return nil
}

func (s *Service) write(hash catalog.Hash, schema json.RawMessage, form Form) tooldef.Parameters {
	p, err := tooldef.ParametersOf(schema, form.Format, form.Budget)
	if err != nil {
		p = tooldef.Nothing()
	}
	s.kept.Add(key{hash, form}, p, len(p.Schema)+keptHead, nil)
	return p
}

func tool(v catalog.Verb, form Form, p tooldef.Parameters) Tool {
	of := tooldef.Verb{Name: v.Name, Description: v.Description, Operation: v.Operation, Idempotency: v.Idempotency, Risk: v.Risk}
	return Tool{Definition: of.Tool(form.Format, p), Omits: p.Omits}
}

func later(message string) error {
	f := fault.New(fault.CodeServiceUnavailable, message)
	f.Retryable, f.RetryAfter = true, retryLater
	return f
}
