// Package authoring takes the definition of a Map into the tenant's Maps. It reads the
// definition, checks it against the catalog, the policies, the connected providers and the other
// Maps, and stores it. The API calls it. It runs no Map and calls no provider.
package authoring

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/bytelru"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/turns"
	"agentruntime/internal/maps/definition"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/models/model"
	"agentruntime/internal/provider/catalog"
)

// Deps are the collaborators of a Service; all are required.
type Deps struct {
	DB       *db.Pool
	Catalog  *catalog.Catalog
	Policies *policy.Sets
	Maps     *definition.Service
	Models   Models
}

// Models says which model steps ask. internal/service/models implements it.
type Models interface {
	ForMaps(ctx context.Context, tenant uuid.UUID, purpose model.Purpose) (agentdef.Model, error)
}

// Bounds of checks. One takes milliseconds, and seconds only for a definition or for schemas that
// are made to be costly.
const (
	checkTime  = 10 * time.Second
	checkSlots = 2
	checkWait  = 10 * time.Second
	checksEach = 16
	checksMost = 256
	retryLater = 5 * time.Second
	// schemaBytes is how much memory the compiled schemas take that a process keeps.
	schemaBytes = 16 << 20
)

// Service checks and stores definitions. It is safe for concurrent use.
type Service struct {
	d       Deps
	turns   *turns.Turns
	schemas *bytelru.Cache[catalog.Hash, *schema]
}

// New checks the collaborators.
func New(d Deps) (*Service, error) {
	if d.DB == nil || d.Catalog == nil || d.Policies == nil || d.Maps == nil || d.Models == nil {
		return nil, errors.New("authoring: database, catalog, policies, Maps and models are required")
	}
	cache, err := bytelru.New[catalog.Hash, *schema](schemaBytes)
	return &Service{
		d: d, turns: turns.New(turns.Config{Slots: checkSlots, Share: 1, Wait: checkWait, Each: checksEach, Most: checksMost}), schemas: cache,
	}, err
}

// Report is all that can be said about a definition.
type Report struct {
	// Errors are why the definition cannot be stored. Warnings are advice as of now.
	Errors, Warnings []mapdef.Fault
	MapType          mapdef.MapType
}

// Checked is a stored Map with the warnings about its newest version as of now.
type Checked struct {
	definition.Record
	Warnings []mapdef.Fault
}

// Caller is who has a definition checked.
type Caller struct {
	actor.Actor

	// ReadsCatalog: the caller may list the verbs of the tenant. Faults name near ones only then.
	// Get and Publish name none: their verbs were there once, so that no name is a slip.
	ReadsCatalog bool
}

// Validate returns all that can be said about a definition, which it does not store. Tenants take
// turns; SERVICE_UNAVAILABLE where none comes in time, or the check takes too long.
func (s *Service) Validate(ctx context.Context, who Caller, source json.RawMessage) (r Report, err error) {
	err = s.inTurn(ctx, who.TenantID, func(ctx context.Context) error {
		_, r, err = s.look(ctx, who, uuid.Nil, source)
		return err
	})
	return r, err
}

// Create checks a definition and stores it as a Map, which it publishes where publish is set. It
// refuses with INVALID_MAP, which names all faults, with QUOTA_EXCEEDED, and as Validate does.
func (s *Service) Create(ctx context.Context, who Caller, source json.RawMessage, publish bool) (c Checked, err error) {
	return s.store(ctx, who, uuid.Nil, source, func(ctx context.Context, d definition.Draft) (definition.Record, error) {
		return s.d.Maps.Create(ctx, who.Actor, d, publish)
	})
}

// Replace checks a definition and adds it to a Map as its newest version, which it publishes where
// publish is set. It refuses with MAP_NOT_FOUND, with what expect returns, and as Create does.
func (s *Service) Replace(
	ctx context.Context, who Caller, id uuid.UUID, source json.RawMessage, publish bool, expect fault.Expect[int32],
) (c Checked, err error) {
	if err := s.d.Maps.Exists(ctx, who.TenantID, id); err != nil {
		return Checked{}, err // before its faults: a definition for a Map that is not there is not looked at
	}
	return s.store(ctx, who, id, source, func(ctx context.Context, d definition.Draft) (definition.Record, error) {
		return s.d.Maps.Replace(ctx, who.Actor, id, d, publish, expect)
	})
}

func (s *Service) store(
	ctx context.Context, who Caller, self uuid.UUID, source json.RawMessage, store func(context.Context, definition.Draft) (definition.Record, error),
) (c Checked, err error) {
	var d *mapdef.Definition
	var r Report
	err = s.inTurn(ctx, who.TenantID, func(ctx context.Context) error {
		d, r, err = s.look(ctx, who, self, source)
		return err
	})
	switch {
	case err != nil:
		return Checked{}, err
	case len(r.Errors) > 0:
		return Checked{}, definition.Invalid(r.Errors)
	}
	rec, err := store(ctx, definition.Draft{Definition: d, Source: source})
	return Checked{Record: rec, Warnings: r.Warnings}, err
}

// Publish makes a version of a Map the one that triggers run, the newest one for 0. It is checked
// again, because verbs may be gone since it was stored. It refuses with MAP_NOT_FOUND and as Create
// does.
func (s *Service) Publish(ctx context.Context, who actor.Actor, id uuid.UUID, number int32) (c Checked, err error) {
	v, err := s.d.Maps.Version(ctx, who.TenantID, id, number)
	if err != nil {
		return Checked{}, err
	}
	return s.store(ctx, Caller{Actor: who}, id, v.Source, func(ctx context.Context, d definition.Draft) (definition.Record, error) {
		return s.d.Maps.Publish(ctx, who, id, v.Number, d)
	})
}

// Get returns a Map with its newest version and what is said about that as of now; MAP_NOT_FOUND.
// A fault that came later, such as a verb that is gone, is among the warnings.
func (s *Service) Get(ctx context.Context, tenant, id uuid.UUID) (Checked, error) {
	rec, err := s.d.Maps.Get(ctx, tenant, id)
	if err != nil {
		return Checked{}, err
	}
	c := Checked{Record: rec}
	err = s.inTurn(ctx, tenant, func(ctx context.Context) error {
		_, r, err := s.look(ctx, Caller{Actor: actor.Actor{TenantID: tenant}}, id, rec.Version.Source)
		c.Warnings = slices.Concat(r.Errors, r.Warnings)
		return err
	})
	return c, err
}

// inTurn runs a check when its turn comes, for a bounded time.
func (s *Service) inTurn(ctx context.Context, tenant uuid.UUID, check func(context.Context) error) error {
	free, err := s.turns.Take(ctx, tenant.String())
	if errors.Is(err, turns.ErrBusy) || errors.Is(err, turns.ErrCrowded) {
		return later("Many definitions are being checked. Repeat the call later.", err)
	}
	if err != nil {
		return err
	}
	defer free()
	limited, stop := context.WithTimeout(ctx, checkTime)
	defer stop()
	err = check(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return later("The check of the definition took too long. Nothing was stored. Repeat the call later.", err)
	}
	return err
}

func later(message string, cause error) error {
	f := fault.New(fault.CodeServiceUnavailable, message).Because(cause)
	f.Retryable, f.RetryAfter = true, retryLater
	return f
}

// look reads a definition and finds all that can be said about it. The definition is of use only
// where there are no errors.
func (s *Service) look(ctx context.Context, who Caller, self uuid.UUID, source json.RawMessage) (*mapdef.Definition, Report, error) {
	d, faults := mapdef.Read(source)
	wrong, warnings := d.Check()
	r := Report{Errors: append(faults, wrong...), Warnings: warnings}
	starts, err := s.d.Maps.Check(ctx, who.TenantID, self, d)
	if err != nil {
		return nil, r, err
	}
	r.Errors, r.Warnings, r.MapType = append(r.Errors, starts.Errors...), append(r.Warnings, starts.Warnings...), starts.MapType
	if err := s.calls(ctx, who, d, &r); err != nil {
		return nil, r, err
	}
	if err := s.models(ctx, who.TenantID, d, &r); err != nil {
		return nil, r, err
	}
	mapdef.Sort(r.Errors)
	mapdef.Sort(r.Warnings)
	return d, r, nil
}

// ruleNoModel is the rule of the warning that no language model is connected.
const ruleNoModel = "no_language_model"

// models warns of the first step that asks a model where the tenant has connected none: builtin:rules
// answers then. A stored agent has a model of its own. It costs a round trip where the definition has
// such a step.
func (s *Service) models(ctx context.Context, tenant uuid.UUID, d *mapdef.Definition, r *Report) error {
	var first *mapdef.Step
	see := func(step *mapdef.Step) {
		if first != nil || step.Do == nil || !step.Do.Type().IsModel() {
			return
		}
		if agent, is := step.Do.(*mapdef.DoAgent); is && agent.AgentID != "" {
			return
		}
		first = step
	}
	mapdef.Walk(d.Steps, see)
	mapdef.Walk(d.OnFailure, see)
	if first == nil {
		return nil
	}
	choice, err := s.d.Models.ForMaps(ctx, tenant, model.Purpose(first.Do.Type()))
	if err == nil && choice.Provider == agentdef.BuiltIn && choice.Model == agentdef.Rules {
		r.Warnings = append(r.Warnings, mapdef.Fault{
			Path: first.Pointer + "/type", Rule: ruleNoModel,
			Message: "No language model is connected: builtin:rules answers, which goes by words and does no step of the type reason. Connect one with POST /v1/model-providers.",
		})
	}
	return err
}
