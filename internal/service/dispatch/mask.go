package dispatch

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"agentruntime/internal/action/policy"
	"agentruntime/internal/action/run"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/redact"
	"agentruntime/internal/kernel/verb"
)

// Mask implements run.Targets. The importer keeps no schema of answers. So results and metadata
// are masked by their names and by what the tenant wants masked. So are the arguments of a verb
// that is gone from the catalog, because its schema is unknown.
func (d *Dispatcher) Mask(ctx context.Context, tenant uuid.UUID, name verb.Name, texts run.Texts) run.Texts {
	args := redact.NewMasker(nil)
	var masks policy.Masks
	t, err := d.target(ctx, tenant, name, "")
	switch {
	case err == nil:
		args, masks = t.artefacts.masker, t.policies.Masks()
	case fault.HasCode(err, fault.CodeVerbNotFound):
		masks = d.masks(ctx, tenant)
	default:
		masks = policy.MaskAll()
	}
	return run.Texts{
		Args:     masked(args.Also(masks.Paths(policy.PartArgs, name)...), texts.Args),
		Metadata: masked(redact.NewMasker(nil).Also(masks.Paths(policy.PartMetadata, name)...), texts.Metadata),
		Result:   masked(redact.NewMasker(nil).Also(masks.Paths(policy.PartResult, name)...), texts.Result),
	}
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
