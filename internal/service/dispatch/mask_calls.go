package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/provider/catalog"
)

// MaskCalls implements execution.Arguments. It reads the verbs, the tenant's masks and the secrets that
// may be in the arguments in one round trip. It makes none for values of which none can be a secret.
// Where the trip fails, all values are masked.
func (d *Dispatcher) MaskCalls(ctx context.Context, tenant uuid.UUID, calls []execution.ShownCall) (known bool) {
	if len(calls) == 0 {
		return true
	}
	m, err := d.callMasks(ctx, tenant, calls)
	if err != nil {
		d.deps.Log.WarnContext(ctx, "the verbs of calls cannot be read, so all values are masked", "error", err)
		m = &callMasks{masks: policy.MaskAll()}
	}
	for i := range calls {
		m.mask(&calls[i])
	}
	return err == nil
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
		for _, r := range c.Results {
			if name, err := verb.Parse(r.Verb); err == nil && c.DryRun {
				names[name] = true
			}
		}
		for _, text := range append(slices.Clone(c.Values), c.Args) {
			if text != nil {
				args = append(args, text)
			}
		}
	}
	all, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("dispatch: arguments of calls: %w", err)
	}
	made := slices.ContainsFunc(calls, func(c execution.ShownCall) bool { return c.Values == nil })
	if !made && len(ownCandidates(all)) == 0 {
		return &callMasks{artefacts: map[verb.Name]*artefacts{}}, nil // nothing in the values can be a secret
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
	if c.Values != nil {
		m.maskValues(c.Values)
		return
	}
	name, err := verb.Parse(c.Verb)
	masks := m.masks
	if err != nil {
		masks = policy.MaskAll()
	}
	masker := redact.NewMasker(nil)
	if known := m.artefacts[name]; known != nil {
		masker = known.masker
	}
	probed, is := m.probed(name)
	if !is {
		probed = policy.MaskAll().Paths(policy.PartResult, name)
	}
	results := c.Results
	if results == nil {
		results = []execution.ResultIn{{Verb: c.Verb}}
	}
	hide := func(by *redact.Masker, text *json.RawMessage) {
		*text = redact.MaskValues(masked(by, *text), m.secrets)
	}
	by := redact.NewMasker(nil)
	hide(masker.Also(masks.Paths(policy.PartArgs, name)...), &c.Args)
	hide(by.Also(m.within(results, c.DryRun)...), &c.Result)
	hide(by.Also(probed...), &c.Before)
	hide(by.Also(probed...), &c.After)
}

// maskValues hides the secrets that the tenant has stored in values of no call. Where those are not
// known, nothing of the values is shown.
func (m *callMasks) maskValues(values []json.RawMessage) {
	for i, value := range values {
		if m.artefacts == nil && value != nil {
			// As an item: paths lead to what is in a value, and not to a value that is only a text.
			item := masked(redact.NewMasker(nil).Also(policy.MaskAll().Paths(policy.PartArgs, verb.Name{})...), slices.Concat([]byte{'['}, value, []byte{']'}))
			value = bytes.TrimSpace(item[1 : len(item)-1])
		}
		values[i] = redact.MaskValues(value, m.secrets)
	}
}

// probed returns the paths of what is masked in what the read-back of a verb reads, and whether the
// verb has one.
func (m *callMasks) probed(name verb.Name) (paths [][]string, is bool) {
	known := m.artefacts[name]
	if known == nil || known.head.ReadBack == nil {
		return nil, false
	}
	read := verb.Name{Provider: name.Provider, Verb: known.head.ReadBack.Verb}
	return m.masks.Paths(policy.PartResult, read), true
}

// within returns the paths of what is masked in a value that has results of calls in it. In a dry run
// the result of a write is what its read-back has read.
func (m *callMasks) within(results []execution.ResultIn, dryRun bool) (paths [][]string) {
	seen := map[execution.ResultIn]bool{}
	for _, r := range results {
		if seen[r] {
			continue
		}
		seen[r] = true
		name, err := verb.Parse(r.Verb)
		masks := m.masks
		if err != nil || dryRun && m.artefacts[name] == nil {
			masks = policy.MaskAll()
		}
		all := masks.Paths(policy.PartResult, name)
		if probed, _ := m.probed(name); dryRun {
			all = append(all, probed...)
		}
		for _, path := range all {
			paths = append(paths, append(slices.Repeat([]string{redact.AnyName}, r.Deep), path...))
		}
	}
	return paths
}
