// Package datakey encrypts the texts of a tenant's rows under the tenant's data key.
// internal/provider/vault makes and opens the key. internal/action/run seals and opens rows
// with it, internal/action/policy opens them, and internal/record/event and internal/tenant/webhook
// seal and open their bodies and secrets. The package reads no database and never logs.
package datakey

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Bytes is the length of a data key: AES-256.
const Bytes = 32

// marker begins every sealed text. No JSON document begins so. A text without it was stored
// before rows were sealed.
const marker = "s1."

// errClosed says that a text does not open: another key, another place, or a changed text.
var errClosed = errors.New("datakey: the stored text does not open under the tenant's key")

// Key is the data key of one tenant. It is immutable and safe for concurrent use. It prints as
// a placeholder.
type Key struct {
	secret []byte
	digest []byte
}

// New returns the key made of Bytes secret bytes. It keeps a copy of them.
func New(secret []byte) (*Key, error) {
	if len(secret) != Bytes {
		return nil, fmt.Errorf("datakey: a data key has %d bytes, not %d", Bytes, len(secret))
	}
	return &Key{secret: slices.Clone(secret), digest: derive(secret, "agentruntime.digest.v1")}, nil
}

// Place is where a sealed text belongs. A text that is copied to another place does not open.
type Place struct {
	Tenant uuid.UUID
	Row    uuid.UUID
	Field  Field
}

// Field is a sealed column of a row.
type Field string

// The sealed fields. Both packages that read a field name it by its constant.
const (
	RunArgs       Field = "runs.args"
	RunEditedArgs Field = "runs.edited_args"
	RunResult     Field = "runs.result"
	EventBody     Field = "events.body"
	MapPayload    Field = "map_executions.payload"
	MapOutput     Field = "map_executions.output"
	MapError      Field = "map_executions.error"
	MapUndoing    Field = "map_executions.compensation"
	MapState      Field = "map_executions.state"
	MapAgain      Field = "map_executions.again"
	MapStepInput  Field = "map_steps.input"
	MapStepOutput Field = "map_steps.output"
	MapStepError  Field = "map_steps.error"
	MapValue      Field = "map_values.body"
	MapSignal     Field = "map_signals.data"
	ModelAsked    Field = "model_calls.asked"
	ModelAnswer   Field = "model_calls.answer"
	ModelError    Field = "model_calls.error"
	ModelRuling   Field = "model_calls.ruling"
	MapEdit       Field = "approval_decisions.edited_args"
	MapResponse   Field = "approval_decisions.response"
	KeyIdentity   Field = "api_keys.identity_secret"
	WebhookSecret Field = "webhooks.secret"
	WebhookAnswer Field = "webhook_attempts.answer"

	RunProviderError Field = "runs.provider_error"
	RunResultNote    Field = "runs.result_note"
	RunFilePart      Field = "run_file_parts.content"
	RunLookups       Field = "runs.lookups"

	ConversationEntry Field = "conversation_entries.body"
	SummaryBody       Field = "conversation_summaries.body"
	TurnMessage       Field = "turns.message"
	TurnReply         Field = "turns.reply"
	TurnError         Field = "turns.error"
	TurnHits          Field = "turns.hits"
	TurnGoal          Field = "turns.goal"
	TurnOutcome       Field = "turns.outcome"
	TurnMemory        Field = "turns.memory"
	CustomerFact      Field = "customer_facts.body"
	TurnAsked         Field = "turn_answers.asked"
	TurnAnswer        Field = "turn_answers.answer"
	TurnAnswerError   Field = "turn_answers.error"
	TurnFeedback      Field = "turn_feedback.comment"
	TurnStream        Field = "turn_stream.body"
)

// info encodes the place: the field has its length before it, and the ids have fixed lengths.
// So no two places encode alike.
func (p Place) info() []byte {
	out := make([]byte, 0, 64+len(p.Field))
	out = append(out, "agentruntime.seal.v1"...)
	out = binary.BigEndian.AppendUint16(out, uint16(len(p.Field)))
	out = append(out, p.Field...)
	out = append(out, p.Tenant[:]...)
	return append(out, p.Row[:]...)
}

// cipherFor derives the key of one place. So each key seals few texts, and a random nonce of 96
// bits is safe for them. Under one key for a tenant's whole life it would not be.
func (k *Key) cipherFor(info []byte) cipher.AEAD {
	derived := derive(k.secret, string(info))
	defer clear(derived)
	block, err := aes.NewCipher(derived)
	if err != nil {
		panic(err) // the length is a constant
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // the block is AES
	}
	return aead
}

// derive returns a key of Bytes bytes for one purpose.
func derive(secret []byte, info string) []byte {
	out, err := hkdf.Expand(sha256.New, secret, info, Bytes)
	if err != nil {
		panic(err) // the length is a constant
	}
	return out
}

// SealBytes is Seal for a column of bytes, which takes no encoding.
func (k *Key) SealBytes(p Place, plain []byte) []byte {
	info := p.info()
	aead := k.cipherFor(info)
	return aead.Seal(make([]byte, 0, len(plain)+aead.Overhead()), nil, plain, info) //nolint:gosec // see Seal
}

// OpenBytes reverses SealBytes.
func (k *Key) OpenBytes(p Place, stored []byte) ([]byte, error) {
	info := p.info()
	plain, err := k.cipherFor(info).Open(nil, nil, stored, info)
	if err != nil {
		return nil, errClosed
	}
	return plain, nil
}

// Seal returns the text as the database stores it: AES-256-GCM in base64, behind a marker.
func (k *Key) Seal(p Place, text []byte) string {
	info := p.info()
	aead := k.cipherFor(info)
	// The cipher draws the nonce itself, and takes none.
	sealed := aead.Seal(make([]byte, 0, len(text)+aead.Overhead()), nil, text, info) //nolint:gosec // see above
	out := make([]byte, len(marker)+base64.RawStdEncoding.EncodedLen(len(sealed)))
	copy(out, marker)
	base64.RawStdEncoding.Encode(out[len(marker):], sealed)
	return string(out)
}

// Open reverses Seal. A text without the marker opens as it is: some statements write texts that say nothing of
// a call, as the reset of a stream and what was erased. The error says only that the text does not open.
func (k *Key) Open(p Place, stored string) ([]byte, error) {
	encoded, sealed := strings.CutPrefix(stored, marker)
	if !sealed {
		return []byte(stored), nil
	}
	raw, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errClosed
	}
	info := p.info()
	text, err := k.cipherFor(info).Open(raw[:0], nil, raw, info)
	if err != nil {
		return nil, errClosed
	}
	return text, nil
}

// Sealed reports whether a stored text is sealed.
func Sealed(stored string) bool { return strings.HasPrefix(stored, marker) }

// Digest returns the HMAC-SHA-256 of the value under a key of the tenant. Without the tenant's
// key nobody can try values against it.
func (k *Key) Digest(value []byte) []byte {
	mac := hmac.New(sha256.New, k.digest)
	mac.Write(value)
	return mac.Sum(nil)
}

// Format implements fmt.Formatter, so that no verb reaches the bytes.
func (k *Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[key]")) }

// MarshalJSON implements json.Marshaler.
func (k *Key) MarshalJSON() ([]byte, error) { return []byte(`"[key]"`), nil }

// LogValue implements slog.LogValuer.
func (k *Key) LogValue() slog.Value { return slog.StringValue("[key]") }
