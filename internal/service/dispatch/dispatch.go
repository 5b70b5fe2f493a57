// Package dispatch is where catalog, vault and the callers of plans meet. It finds a verb
// with everything that a call of it needs, and makes the call. Credentials are opened here,
// inside the activity that sends, and what comes back is cleared of them before anyone else
// sees it. The run domain calls it through its interface Targets.
package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/action/run"
	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/base/schemagraph"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/vault"
)

// compiledBytes is how much memory the verbs take that a process keeps ready. One of Stripe's
// larger ones takes about 200 KB; most take a tenth of it. The largest that can be imported
// takes 10 MB.
const compiledBytes = 64 << 20

// planFactor is how many bytes a compiled plan takes for one of its text.
const planFactor = 8

// Config has the values of a Dispatcher.
type Config struct {
	// Timeout bounds one attempt at a provider.
	Timeout time.Duration
}

// Programs evaluates the programs of verbs.
type Programs interface {
	// For returns the sandbox of one party, so that none takes all.
	For(party string) expression.Sandbox
}

// Deps are the collaborators; all are required but Programs and Now.
type Deps struct {
	DB       *db.Pool
	Catalog  *catalog.Catalog
	Vault    *vault.Vault
	Policies *policy.Sets
	Callers  map[verb.PlanKind]Caller
	Programs Programs // nil where only small programs are evaluated
	Log      *slog.Logger
	Now      func() time.Time // nil is time.Now
}

// Dispatcher finds and calls verbs.
type Dispatcher struct {
	deps     Deps
	cfg      Config
	compiled *catalog.Compiled[*artefacts]
}

// artefacts are a verb's schema and plan in the form that calls use.
type artefacts struct {
	schema *argschema.Schema
	plan   Plan
	head   verb.PlanHead
	masker *redact.Masker
	fields *governance.Fields
	graph  *schemagraph.Graph
	// errorWhen finds errors in answers; nil where the verb declares none.
	errorWhen *expression.Program
}

// New checks the collaborators.
func New(cfg Config, d Deps) (*Dispatcher, error) {
	if d.DB == nil || d.Catalog == nil || d.Vault == nil || d.Policies == nil || len(d.Callers) == 0 || d.Log == nil || cfg.Timeout <= 0 {
		return nil, errors.New("dispatch: database, catalog, vault, policies, callers, log and a timeout are required")
	}
	d.Now = db.Clock(d.Now)
	dispatcher := &Dispatcher{deps: d, cfg: cfg}
	var err error
	dispatcher.compiled, err = catalog.NewCompiled(d.Catalog, compiledBytes, dispatcher.compile)
	return dispatcher, err
}

// compile reads a verb's schema and plan. What calls the plan is chosen by its kind. A schema
// that is too complex, stored before it would have been refused, refuses every call.
func (d *Dispatcher) compile(schema, plan json.RawMessage) (*artefacts, int, error) {
	s, err := argschema.Compile(schema)
	if errors.Is(err, argschema.ErrTooComplex) {
		s, err = argschema.Unjudged(), nil
	}
	if err != nil {
		return nil, 0, err
	}
	head, err := verb.HeadOf(plan)
	if err != nil {
		return nil, 0, err
	}
	caller, ok := d.deps.Callers[head.Kind]
	if !ok {
		return nil, 0, fmt.Errorf("dispatch: no caller for plans of kind %q", head.Kind)
	}
	p, err := caller.Compile(plan)
	if err != nil {
		return nil, 0, err
	}
	errorWhen, err := program(head.ErrorWhen)
	if err != nil {
		return nil, 0, err
	}
	graph := schemagraph.Read(schema)
	a := &artefacts{schema: s, plan: p, head: head, masker: redact.MaskerOf(graph), fields: governance.FieldsOf(graph), graph: graph, errorWhen: errorWhen}
	return a, s.Size() + graph.Size() + planFactor*len(plan), nil
}

// replacedTries is how often a verb that an import replaces at that moment is read again.
const replacedTries = 3

// Target finds a verb with its credential, and the tenant's policies as they stand, in
// one round trip once verb and policies have been compiled. A verb of the platform takes
// one more. VERB_NOT_FOUND where the
// tenant has none of the name.
func (d *Dispatcher) Target(ctx context.Context, tenant uuid.UUID, name verb.Name, by run.Account, args json.RawMessage) (run.Target, error) {
	return d.target(ctx, tenant, name, by, args)
}

// Check returns what is wrong with arguments by the schema of the verb that is named. The error is
// VERB_NOT_FOUND where the tenant has none of the name.
func (d *Dispatcher) Check(ctx context.Context, tenant uuid.UUID, name string, args json.RawMessage) ([]fault.Detail, error) {
	parsed, err := verb.Parse(name)
	if err != nil {
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	t, err := d.target(ctx, tenant, parsed, run.Account{}, args)
	if err != nil {
		return nil, err
	}
	return t.Check(args), nil
}

// Named returns the arguments with the names that the verb has for them, where some have names that
// only its tool has. The error is VALIDATION_ERROR where an argument is there by both names. Of a verb
// that is not known they stay as they are.
func (d *Dispatcher) Named(ctx context.Context, tenant uuid.UUID, name verb.Name, args json.RawMessage) (json.RawMessage, error) {
	if !tooldef.MayBeGiven(args) {
		return args, nil
	}
	t, err := d.target(ctx, tenant, name, run.Account{}, args)
	switch {
	case fault.HasCode(err, fault.CodeVerbNotFound):
		return args, nil
	case err != nil:
		return nil, err
	}
	return tooldef.Back(t.artefacts.graph, args)
}

// Subject implements policy.Subjects.
func (d *Dispatcher) Subject(ctx context.Context, tenant uuid.UUID, name verb.Name) (policy.Subject, error) {
	return d.target(ctx, tenant, name, run.Account{}, nil)
}

func (d *Dispatcher) target(ctx context.Context, tenant uuid.UUID, name verb.Name, by run.Account, args json.RawMessage) (*target, error) {
	for range replacedTries {
		t := &target{d: d, tenant: tenant}
		if err := d.read(ctx, t, name, by, args); err != nil {
			return nil, err
		}
		if err := t.complete(ctx); !errors.Is(err, catalog.ErrReplaced) {
			return t, err
		}
	}
	return nil, fmt.Errorf("dispatch: %s is replaced over and over", name)
}
