package dispatch

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/action/run"
	"agentruntime/internal/provider/credential"
)

// Caller makes the calls of one kind of plan. Dispatch has one for each kind and chooses by
// what the plan of the verb names.
type Caller interface {
	// Compile reads a stored plan. It is called once per verb and process.
	Compile(plan json.RawMessage) (Plan, error)
}

// Plan is a compiled plan. It is safe for concurrent use.
type Plan interface {
	// Prepare builds the request of a call, without the credential. Arguments that cannot be
	// put into a request are INVALID_ARGS.
	Prepare(baseURL string, args json.RawMessage) (Request, error)
	// Preview is the request of masked arguments as a human reads it.
	Preview(baseURL string, masked json.RawMessage) json.RawMessage
}

// Request is one request, ready but for its credential.
type Request interface {
	// Address is the URL that the request goes to. Dispatch applies a credential only where
	// that may be sent there.
	Address() string
	// Apply puts the secret where the provider expects it. An error never shows the secret.
	Apply(auth credential.Auth, secret credential.Secret) error
	// Send makes exactly one attempt.
	Send(ctx context.Context, a Attempt) run.Answer
}

// Attempt bounds one attempt.
type Attempt struct {
	Timeout time.Duration
	// Read says that the call has no effect.
	Read bool
	// KeyHeader and Key are set where the provider takes an idempotency key.
	KeyHeader, Key string
	// Clean takes the credential out of what came back, in the forms that a provider may
	// echo it in. It comes before everything else that looks at the body.
	Clean func(body []byte) []byte
	// Leaks reports whether a part of a file has the credential in it. It is nil where files are not
	// stored.
	Leaks func(part []byte) bool
	// MayBegin is asked right before the first byte leaves; nil where the attempt may begin.
	MayBegin func() bool
	// Tenant is whose share of the memory for large answers the attempt takes.
	Tenant uuid.UUID
}
