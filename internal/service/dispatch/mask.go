package dispatch

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/vault"
)

// Mask implements run.Targets. The importer keeps no schema of answers. So results and metadata
// are masked by their names and by what the tenant wants masked. So are the arguments of a verb
// that is gone from the catalog, because its schema is unknown.
func (d *Dispatcher) Mask(ctx context.Context, tenant uuid.UUID, name verb.Name, texts run.Texts) run.Texts {
	t, err := d.target(ctx, tenant, name, run.Account{}, texts.Args)
	return d.maskBy(ctx, tenant, name, texts, t, err)
}

// MaskRead implements run.Targets.
func (d *Dispatcher) MaskRead(ctx context.Context, tenant uuid.UUID, name verb.Name, by run.Account, texts run.Texts, read json.RawMessage) run.Texts {
	t, err := d.targetRead(ctx, tenant, name, by, texts.Args, read)
	return d.maskBy(ctx, tenant, name, texts, t, err)
}

// maskBy masks the texts by their verb; err says why it could not be read.
func (d *Dispatcher) maskBy(ctx context.Context, tenant uuid.UUID, name verb.Name, texts run.Texts, t *target, err error) run.Texts {
	var masks policy.Masks
	switch {
	case err == nil:
		masks = t.policies.Masks()
		texts.Args = t.Mask(texts.Args)
	case fault.HasCode(err, fault.CodeVerbNotFound):
		masks = d.masks(ctx, tenant)
		texts.Args = d.MaskOwn(ctx, tenant, byName(masks, policy.PartArgs, name, texts.Args))
	default:
		masks = policy.MaskAll()
		texts.Args = byName(masks, policy.PartArgs, name, texts.Args)
	}
	texts.Metadata = byName(masks, policy.PartMetadata, name, texts.Metadata)
	texts.Result = byName(masks, policy.PartResult, name, texts.Result)
	return texts
}

// byName masks a part of a run without a schema.
func byName(masks policy.Masks, part policy.Part, name verb.Name, text json.RawMessage) json.RawMessage {
	return masked(redact.NewMasker(nil).Also(masks.Paths(part, name)...), text)
}

// MaskMetadata implements run.Targets.
func (d *Dispatcher) MaskMetadata(ctx context.Context, tenant uuid.UUID) func(verb.Name, json.RawMessage) json.RawMessage {
	masks, maskers := d.masks(ctx, tenant), map[verb.Name]*redact.Masker{}
	return func(name verb.Name, metadata json.RawMessage) json.RawMessage {
		m, known := maskers[name]
		if !known {
			m = redact.NewMasker(nil).Also(masks.Paths(policy.PartMetadata, name)...)
			maskers[name] = m
		}
		return masked(m, metadata)
	}
}

// masks returns the tenant's masks. Where they cannot be read, everything is masked.
func (d *Dispatcher) masks(ctx context.Context, tenant uuid.UUID) policy.Masks {
	masks, err := d.deps.Policies.Masks(ctx, tenant)
	if err != nil {
		d.deps.Log.WarnContext(ctx, "the masks of a tenant cannot be read, so all values are masked", "error", err)
		return policy.MaskAll()
	}
	return masks
}

func masked(m *redact.Masker, text json.RawMessage) json.RawMessage {
	if text == nil {
		return nil
	}
	out, _ := m.Mask(text)
	return out
}

// MaskOwn implements policy.Subjects. It returns the arguments with the tenant's own stored
// secrets hidden. Where they cannot be looked up, every value that may be one is hidden.
func (d *Dispatcher) MaskOwn(ctx context.Context, tenant uuid.UUID, args json.RawMessage) json.RawMessage {
	b := &db.Batch{}
	secrets, err := d.queueSecrets(ctx, b, tenant, args)
	if err == nil && b.Len() > 0 {
		err = d.deps.DB.Send(ctx, tenant, b)
	}
	if err == nil {
		return redact.MaskValues(args, secrets())
	}
	d.deps.Log.WarnContext(ctx, "the secrets of a tenant cannot be looked up, so all long values are masked", "error", err)
	all := map[string]bool{}
	for _, value := range ownCandidates(args) {
		all[value] = true
	}
	return redact.MaskValues(args, all)
}

// QueueOwn implements execution.Arguments.
func (d *Dispatcher) QueueOwn(ctx context.Context, b *db.Batch, tenant uuid.UUID, value json.RawMessage) (func() json.RawMessage, error) {
	secrets, err := d.queueSecrets(ctx, b, tenant, value)
	if err != nil {
		return nil, err
	}
	return func() json.RawMessage { return redact.MaskValues(value, secrets()) }, nil
}

func ownCandidates(args json.RawMessage) []string {
	return redact.Values(args, vault.LeastOwn, vault.MostOwn)
}

// queueSecrets adds the question which values in the arguments are secrets of the tenant.
// Arguments without a value that may be one ask nothing.
func (d *Dispatcher) queueSecrets(ctx context.Context, b *db.Batch, tenant uuid.UUID, args json.RawMessage) (func() map[string]bool, error) {
	values := ownCandidates(args)
	if len(values) == 0 {
		return func() map[string]bool { return nil }, nil
	}
	key, err := d.deps.Vault.Key(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	return vault.QueueOwn(b, tenant, key, values), nil
}
