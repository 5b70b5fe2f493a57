package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/kernel/redact"
	"agentruntime/internal/kernel/verb"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/provider/catalog"
)

// MaskCalls implements execution.Arguments. It reads the verbs, the tenant's masks and the secrets that
// may be in the arguments in one round trip. Where that fails, all values are masked.
func (d *Dispatcher) MaskCalls(ctx context.Context, tenant uuid.UUID, calls []execution.ShownCall) {
	if len(calls) == 0 {
		return
	}
	m, err := d.callMasks(ctx, tenant, calls)
	if err != nil {
		d.deps.Log.WarnContext(ctx, "the verbs of calls cannot be read, so all values are masked", "error", err)
		m = &callMasks{masks: policy.MaskAll()}
	}
	for i := range calls {
		m.mask(&calls[i])
	}
}

// callMasks is what hides the texts of calls of a tenant.
type callMasks struct {
	masks policy.Masks
	// secrets are the values in the arguments that the tenant has stored as secrets.
	secrets map[string]bool
	// artefacts has the verbs of the calls that are in the catalog.
	artefacts map[verb.Name]*artefacts
}

func (d *Dispatcher) callMasks(ctx context.Context, tenant uuid.UUID, calls []execution.ShownCall) (*callMasks, error) {
	names, args := map[verb.Name]bool{}, []json.RawMessage{}
	for _, c := range calls {
		if name, err := verb.Parse(c.Verb); err == nil {
			names[name] = true
		}
		if c.Args != nil {
			args = append(args, c.Args)
		}
	}
	all, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("dispatch: arguments of calls: %w", err)
	}
	b := &db.Batch{}
	many := catalog.QueueMany(b, tenant, slices.Collect(maps.Keys(names)))
	version := policy.QueueVersion(b, tenant)
	secrets, err := d.queueSecrets(ctx, b, tenant, all)
	if err != nil {
		return nil, err
	}
	if err := d.deps.DB.Send(ctx, tenant, b); err != nil {
		return nil, fmt.Errorf("dispatch: read the verbs of calls: %w", err)
	}
	policies, err := d.deps.Policies.Load(ctx, tenant, version())
	if err != nil {
		return nil, err
	}
	m := &callMasks{masks: policies.Masks(), secrets: secrets(), artefacts: map[verb.Name]*artefacts{}}
	for name, seen := range many() {
		if m.artefacts[name], err = d.compiled.Load(ctx, tenant, seen.Meta); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// mask masks the texts of a call. Those of a verb that is gone from the catalog are masked by their
// names and by the tenant's masks. What its read-back has read is masked whole: nobody knows by which
// verb it was read.
func (m *callMasks) mask(c *execution.ShownCall) {
	name, err := verb.Parse(c.Verb)
	masks := m.masks
	if err != nil {
		masks = policy.MaskAll()
	}
	masker, probed := redact.NewMasker(nil), redact.NewMasker(nil)
	known := m.artefacts[name]
	if known != nil {
		masker = known.masker
	}
	if known != nil && known.head.ReadBack != nil {
		read := verb.Name{Provider: name.Provider, Verb: known.head.ReadBack.Verb}
		probed = probed.Also(masks.Paths(policy.PartResult, read)...)
	} else {
		probed = probed.Also(policy.MaskAll().Paths(policy.PartResult, name)...)
	}
	hide := func(by *redact.Masker, text *json.RawMessage) {
		*text = redact.MaskValues(masked(by, *text), m.secrets)
	}
	hide(masker.Also(masks.Paths(policy.PartArgs, name)...), &c.Args)
	if c.Results == nil {
		hide(redact.NewMasker(nil).Also(masks.Paths(policy.PartResult, name)...), &c.Result)
	} else {
		hide(redact.NewMasker(nil).Also(m.within(c.Results)...), &c.Result)
	}
	hide(probed, &c.Before)
	hide(probed, &c.After)
}

// within returns the paths of what is masked in a value that has results of calls in it.
func (m *callMasks) within(results []execution.ResultIn) (paths [][]string) {
	seen := map[execution.ResultIn]bool{}
	for _, r := range results {
		if seen[r] {
			continue
		}
		seen[r] = true
		name, err := verb.Parse(r.Verb)
		masks := m.masks
		if err != nil {
			masks = policy.MaskAll()
		}
		for _, path := range masks.Paths(policy.PartResult, name) {
			paths = append(paths, append(slices.Repeat([]string{redact.AnyName}, r.Deep), path...))
		}
	}
	return paths
}
