package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/circuit"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/vault"
)

// read fills the target with what the database has of the verb, in one round trip. A verb of
// the platform takes one more.
func (d *Dispatcher) read(ctx context.Context, t *target, name verb.Name, by run.Account, args json.RawMessage) error {
	b := &db.Batch{}
	own := catalog.QueueOwnMeta(b, t.tenant, name)
	secrets, err := d.queueSecrets(ctx, b, t.tenant, args)
	if err != nil {
		return err
	}
	newest := vault.QueueNewest(b, t.tenant, name.Provider, by.Customer, by.Credential)
	version := policy.QueueVersion(b, t.tenant)
	switches := db.Queue(b, dbsqlc.New().KillSwitchesOver, dbsqlc.KillSwitchesOverParams{TenantID: t.tenant, Provider: name.Provider, Verb: name.Verb})
	over := db.Queue(b, dbsqlc.New().CircuitOver, dbsqlc.CircuitOverParams{TenantID: t.tenant, Provider: name.Provider})
	var about *db.Answer[dbsqlc.CustomerOfCallRow]
	if by.Customer != "" {
		about = db.Queue(b, dbsqlc.New().CustomerOfCall, dbsqlc.CustomerOfCallParams{TenantID: t.tenant, Reference: by.Customer})
	}
	if err := d.deps.DB.Send(ctx, t.tenant, b); err != nil {
		return fmt.Errorf("dispatch: read %s: %w", name, err)
	}
	t.secrets, t.policyVersion = secrets(), version()
	if err := json.Unmarshal(switches.Value, &t.switches); err != nil {
		return fmt.Errorf("dispatch: the kill switches over %s: %w", name, err)
	}
	if t.gate, err = circuit.ReadGate(over.Value); err != nil {
		return err
	}
	if about != nil {
		t.forCustomer(about.Value.Customer, about.Value.Names)
	}
	if err := t.connect(newest()); err != nil {
		return err
	}
	meta, found := own()
	return t.describe(ctx, name, meta, found)
}

// answer is what the SQL function call_target returns. Own is nil where no digests were asked
// about.
type answer struct {
	Verb          json.RawMessage `json:"verb"`
	Credential    json.RawMessage `json:"credential"`
	PolicyVersion int64           `json:"policy_version"`
	Customer      json.RawMessage `json:"customer"`
	CustomerNames []string        `json:"customer_names"`
	Own           [][]byte        `json:"own"`

	KillSwitches []governance.KillSwitch `json:"kill_switches"`
	Circuit      json.RawMessage         `json:"circuit"`
}

// TargetRead implements run.Targets. It costs no round trip once verb and policies have been
// compiled. A verb of the platform takes one, and so do arguments that may contain a secret of
// the tenant, where the read did not ask for those.
func (d *Dispatcher) TargetRead(
	ctx context.Context, tenant uuid.UUID, name verb.Name, by run.Account, args, read json.RawMessage,
) (run.Target, error) {
	t, err := d.targetRead(ctx, tenant, name, by, args, read)
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (d *Dispatcher) targetRead(ctx context.Context, tenant uuid.UUID, name verb.Name, by run.Account, args, read json.RawMessage) (*target, error) {
	t := &target{d: d, tenant: tenant}
	err := t.take(ctx, name, by, args, read)
	if err == nil {
		err = t.complete(ctx)
	}
	if errors.Is(err, catalog.ErrReplaced) {
		return d.target(ctx, tenant, name, by, args)
	}
	return t, err
}

// Digests implements run.Targets.
func (d *Dispatcher) Digests(key *datakey.Key, args json.RawMessage) [][]byte {
	return vault.Digests(key, ownCandidates(args))
}

// take is read of what was read before.
func (t *target) take(ctx context.Context, name verb.Name, by run.Account, args, read json.RawMessage) error {
	var a answer
	if err := json.Unmarshal(read, &a); err != nil {
		return fmt.Errorf("dispatch: what was read of %s: %w", name, err)
	}
	meta, found, err := catalog.ReadMeta(name, a.Verb)
	if err != nil {
		return err
	}
	if t.secrets, err = t.d.secretsOf(ctx, t.tenant, args, a.Own); err != nil {
		return err
	}
	t.policyVersion, t.switches = a.PolicyVersion, a.KillSwitches
	if t.gate, err = circuit.ReadGate(a.Circuit); err != nil {
		return err
	}
	t.forCustomer(a.Customer, a.CustomerNames)
	if err := t.connect(vault.ReadNewest(a.Credential, by.Credential)); err != nil {
		return err
	}
	return t.describe(ctx, name, meta, found)
}

// forCustomer sets whom the call is for. record is null where the tenant has no such customer.
func (t *target) forCustomer(record json.RawMessage, names []string) {
	if t.customerNames = names; string(record) != "null" {
		t.customer = record
	}
}

// secretsOf returns which values of the arguments are secrets of the tenant. found are their
// digests, nil where they were not looked up.
func (d *Dispatcher) secretsOf(ctx context.Context, tenant uuid.UUID, args json.RawMessage, found [][]byte) (map[string]bool, error) {
	var none map[string]bool
	if found != nil && len(found) == 0 {
		return none, nil
	}
	values := ownCandidates(args)
	if len(values) == 0 {
		return none, nil
	}
	key, err := d.deps.Vault.Key(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	if found != nil {
		return vault.OwnOf(key, values, found), nil
	}
	b := &db.Batch{}
	own := vault.QueueOwn(b, tenant, key, values)
	if err := d.deps.DB.Send(ctx, tenant, b); err != nil {
		return nil, fmt.Errorf("dispatch: the secrets of a tenant: %w", err)
	}
	return own(), nil
}

// connect sets the credential, or the refusal that says why there is none. The error is any
// other.
func (t *target) connect(sealed vault.Sealed, err error) error {
	if err == nil {
		t.credential = &sealed
		return nil
	}
	if t.missing = fault.As(err); t.missing == nil {
		return err
	}
	return nil
}

// describe sets the verb: the tenant's own where it was found, otherwise the platform's.
func (t *target) describe(ctx context.Context, name verb.Name, own catalog.Meta, found bool) (err error) {
	if t.meta = own; !found {
		if t.meta, err = t.d.deps.Catalog.Meta(ctx, t.tenant, name); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(t.meta.Auth, &t.auth); err != nil {
		return fmt.Errorf("dispatch: the provider's auth: %w", err)
	}
	return nil
}

// complete adds the compiled verb and the policies: from memory, otherwise with one round trip
// each. catalog.ErrReplaced.
func (t *target) complete(ctx context.Context) (err error) {
	if t.artefacts, err = t.d.compiled.Load(ctx, t.tenant, t.meta); err != nil {
		return err
	}
	if t.policies, err = t.d.deps.Policies.Load(ctx, t.tenant, t.policyVersion); err != nil {
		return err
	}
	t.choose()
	t.masker = t.artefacts.masker.Also(t.policies.Masks().Paths(policy.PartArgs, t.meta.Name)...)
	return nil
}
