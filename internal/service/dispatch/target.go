package dispatch

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/google/uuid"

	"agentruntime/internal/action/circuit"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/base/taint"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/vault"
)

// target is a verb of a tenant, ready to be judged and called.
type target struct {
	d         *Dispatcher
	tenant    uuid.UUID
	meta      catalog.Meta
	auth      credential.Auth
	artefacts *artefacts
	// credential is nil where there is none; missing says why.
	credential *vault.Sealed
	missing    *fault.Error
	// presents are the schemes whose secrets the call has to send, none where it needs none.
	// connected says that the credential has them.
	presents  []verb.Scheme
	connected bool
	// policyVersion is what the tenant's policies were at when the verb was read;
	// policies are of that version or a later one, nil where there are none.
	policyVersion int64
	policies      *policy.Set
	masker        *redact.Masker
	// switches are the kill switches that may cover the call.
	switches []governance.KillSwitch
	// gate is the circuit of the provider.
	gate circuit.Gate
	// secrets are the values in the arguments of the call that the tenant has stored as secrets.
	secrets map[string]bool
	// customer is the record of the call's customer, and customerNames the texts that name them;
	// nil where the call has no customer, or one that the tenant has no record of.
	customer      json.RawMessage
	customerNames []string
	// grantWork is what judging the conditions of all grants may take, nil before the first.
	grantWork *governance.Work
}

// Risk implements run.Target.
func (t *target) Risk() verb.Risk { return t.meta.Risk }

// Operation implements run.Target.
func (t *target) Operation() verb.Operation { return t.meta.Operation }

// Idempotency implements run.Target.
func (t *target) Idempotency() verb.Idempotency { return t.meta.Idempotency }

// ReadBack returns how a call of the verb is looked up at the provider once its outcome is
// unknown, nil where the verb's document declares nothing.
func (t *target) ReadBack() *verb.ReadBack { return t.artefacts.head.ReadBack }

// Normalizer implements run.Target.
func (t *target) Normalizer() string { return t.artefacts.head.Normalized }

// CredentialID implements run.Target.
func (t *target) CredentialID() *uuid.UUID {
	if len(t.presents) == 0 || t.credential == nil {
		return nil
	}
	return &t.credential.ID
}

// CredentialName implements run.Target.
func (t *target) CredentialName() (kind, label string) {
	if t.CredentialID() == nil {
		return "", ""
	}
	return string(t.credential.Type), t.credential.Label
}

// SchemaHash implements run.Target. Two verbs with one schema can still be two requests.
func (t *target) SchemaHash() []byte {
	h := sha256.New()
	h.Write(t.meta.SchemaHash[:])
	h.Write(t.meta.PlanHash[:])
	fmt.Fprintf(h, "%q %q %q %q", t.meta.BaseURL, t.auth.Type, t.auth.In, t.auth.Name)
	return h.Sum(nil)
}

// Judge implements run.Target.
func (t *target) Judge(ctx context.Context, args json.RawMessage, about governance.Context) (governance.Verdict, error) {
	if q := t.meta.Quarantine; q != nil {
		return governance.QuarantineVerdict(t.meta.Name, *q), nil
	}
	c := t.Call(args, about)
	c.Done = ctx.Done()
	if err := t.count(ctx, &c); err != nil {
		return governance.Verdict{}, err
	}
	v := t.policies.Judge().Evaluate(c)
	if ctx.Err() != nil {
		return governance.Verdict{}, context.Cause(ctx)
	}
	return v, nil
}

// Trusts implements run.Target. Places are of the result: nobody knows what is where in an error, or in a
// header.
func (t *target) Trusts(result json.RawMessage, wrapped string, whole bool) bool {
	if whole {
		return t.meta.Trusted && !taint.Contains(result, wrapped, t.meta.Taint)
	}
	return t.meta.Trusted && len(t.meta.Taint) == 0
}

// Quarantined implements run.Target.
func (t *target) Quarantined() bool { return t.meta.Quarantine != nil }

// count reads what the windows of the call contain: nothing where it is in none.
func (t *target) count(ctx context.Context, c *governance.Call) error {
	if c.Windows = t.policies.Judge().Windows(*c); c.Windows == nil {
		return nil
	}
	key, err := t.d.deps.Vault.Key(ctx, t.tenant)
	if err != nil {
		return fmt.Errorf("dispatch: %w", err)
	}
	return t.d.deps.Policies.Count(ctx, t.tenant, key, c.Windows, c.Context.RunID)
}

// StoppedBy implements run.Target.
func (t *target) StoppedBy(about governance.Context) *governance.KillSwitch {
	return governance.StoppedBy(t.switches, t.meta.Name, about.AgentID)
}

// Circuit implements run.Target.
func (t *target) Circuit() circuit.Gate { return t.gate }

// Answer implements policy.Subject.
func (t *target) Answer(ctx context.Context) (json.RawMessage, error) {
	return t.d.deps.Catalog.Answer(ctx, t.tenant, t.meta.Name)
}

// Call implements policy.Subject.
func (t *target) Call(args json.RawMessage, about governance.Context) governance.Call {
	if about.Customer == nil { // a simulation reads the record with each run
		about.Customer = t.customer
	}
	if about.CustomerNames == nil {
		about.CustomerNames = t.customerNames
	}
	if about.Now.IsZero() { // that of a simulation is the time of the run
		about.Now = t.d.deps.Now()
	}
	risk, operation := t.meta.Risk, t.meta.Operation
	if !t.meta.Egress {
		about.UnnamedAddress = ""
	}
	// The owner of an address learns what a call says there. So where others than the tenant and the customer
	// may have led a model to it, the call is a write, and the policies for these judge it.
	if about.UnnamedAddress != "" {
		if operation = verb.Write; risk == verb.RiskLow {
			risk = verb.RiskMedium
		}
	}
	return governance.Call{
		Verb: t.meta.Name, Domain: t.meta.Domain, Risk: risk, Operation: operation, Args: args,
		Fields: t.artefacts.fields, Masked: func() json.RawMessage { return t.Mask(args) }, Context: about,
	}
}

// Meets implements run.Target.
func (t *target) Meets(conditions []governance.Condition, args json.RawMessage, about governance.Context) bool {
	if t.grantWork == nil {
		t.grantWork = governance.NewWork()
	}
	compiled, err := governance.CompileConditions(conditions)
	return err == nil && compiled.Met(t.Call(args, about), t.grantWork)
}

// CustomerNames implements run.Target.
func (t *target) CustomerNames() []string { return t.customerNames }

// PolicyVersion implements run.Target. The policies may be newer than what was read of the verb, for
// example whose words its results are: then the gate is closed, and the call is judged again.
func (t *target) PolicyVersion() int64 { return min(t.policyVersion, t.policies.Judge().Version()) }

// Read implements run.Target.
func (t *target) Read() run.Read {
	r := run.Read{ProviderAt: &t.meta.ProviderAt}
	if t.CredentialID() != nil {
		r.CredentialAt = &t.credential.UpdatedAt
	}
	return r
}

// Check implements run.Target.
func (t *target) Check(args json.RawMessage) []fault.Detail { return t.artefacts.schema.Validate(args) }

// Mask implements run.Target.
func (t *target) Mask(args json.RawMessage) json.RawMessage {
	return redact.MaskValues(masked(t.masker, args), t.secrets)
}

// MaskResult implements run.Target. The importer keeps no schema of answers; see Dispatcher.Mask.
func (t *target) MaskResult(result json.RawMessage) json.RawMessage {
	return redact.MaskValues(byName(t.policies.Masks(), policy.PartResult, t.meta.Name, result), t.secrets)
}

// Prepare implements run.Target: it builds the request and opens the credential.
func (t *target) Prepare(ctx context.Context, args json.RawMessage) (run.Call, error) {
	req, err := t.artefacts.plan.Prepare(t.meta.BaseURL, args)
	if err != nil {
		return nil, err
	}
	c := &call{t: t, req: req}
	if f := t.Connected(); f != nil {
		return nil, f
	}
	if len(t.presents) == 0 {
		return c, nil
	}
	if err := t.mayGo(req.Address()); err != nil {
		return nil, err
	}
	secret, err := t.d.deps.Vault.Resolve(ctx, t.tenant, *t.credential)
	if err != nil {
		return nil, err
	}
	c.secret = secret
	if err := t.apply(req, secret); err != nil {
		if f := fault.As(err); f != nil {
			return nil, f
		}
		return nil, fault.New(fault.CodeProviderNotConnected, "The stored credential cannot be put into a request of this provider. Replace it.")
	}
	return c, nil
}

// mayGo checks the address against where the credential may be sent.
func (t *target) mayGo(address string) error {
	to, err := url.Parse(address)
	if err != nil {
		return fault.New(fault.CodeURLNotAllowed, "The address of the call is not valid.")
	}
	return t.credential.MaySend(to)
}
