package engine

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"agentruntime/internal/base/flow"
)

// Metadata of an encrypted payload.
const (
	encodingKey       = "encoding"
	encodingEncrypted = "binary/encrypted"
	keyIDKey          = "encryption-key-id"
)

// codec encrypts every payload with AES-256-GCM before it reaches Temporal.
type codec struct {
	id   string
	aead cipher.AEAD
	// summaries are those that are always the same, as JSON.
	summaries map[string]bool
}

func newCodec(id string, key []byte) (*codec, error) {
	if len(key) != 32 || id == "" {
		return nil, fmt.Errorf("engine: the codec needs a key id and a key of 32 bytes, not %d", len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("engine: codec: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("engine: codec: %w", err)
	}
	summaries := map[string]bool{}
	for _, text := range flow.Summaries() {
		summaries[`"`+text+`"`] = true
	}
	return &codec{id: id, aead: aead, summaries: summaries}, nil
}

// Encode implements converter.PayloadCodec.
func (c *codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if c.readable(p) {
			out[i] = p
			continue
		}
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("engine: encode payload: %w", err)
		}
		nonce := make([]byte, c.aead.NonceSize(), c.aead.NonceSize()+len(plain)+c.aead.Overhead())
		if _, err := rand.Read(nonce); err != nil {
			return nil, fmt.Errorf("engine: encode payload: %w", err)
		}
		out[i] = &commonpb.Payload{
			Metadata: map[string][]byte{encodingKey: []byte(encodingEncrypted), keyIDKey: []byte(c.id)},
			Data:     c.aead.Seal(nonce, nonce, plain, []byte(c.id)),
		}
	}
	return out, nil
}

// Decode implements converter.PayloadCodec.
func (c *codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if string(p.GetMetadata()[encodingKey]) != encodingEncrypted {
			out[i] = p
			continue
		}
		if id := string(p.GetMetadata()[keyIDKey]); id != c.id {
			return nil, fmt.Errorf("engine: the payload was encrypted with key %q, which this process does not have", id)
		}
		if len(p.GetData()) < c.aead.NonceSize() {
			return nil, errors.New("engine: the payload is incomplete")
		}
		nonce, sealed := p.GetData()[:c.aead.NonceSize()], p.GetData()[c.aead.NonceSize():]
		plain, err := c.aead.Open(nil, nonce, sealed, []byte(c.id))
		if err != nil {
			return nil, fmt.Errorf("engine: decode payload: %w", err)
		}
		inner := &commonpb.Payload{}
		if err := proto.Unmarshal(plain, inner); err != nil {
			return nil, fmt.Errorf("engine: decode payload: %w", err)
		}
		out[i] = inner
	}
	return out, nil
}

// summaryPattern matches the summaries of flow that name something: verb and risk level, the type
// of an event, or an approval. Without a key, operators can read only these and the fixed ones.
var summaryPattern = regexp.MustCompile(`^"(?:[a-z0-9_-]+:[a-z0-9_-]+ · (?:low|medium|high)?` +
	`|delivers [a-z_]+(?:\.[a-z_]+)*\.(?:[a-z_]+|\*) to a webhook` +
	`|waits for appr_[0-9a-f-]{36} · decide it at /v1/approvals/appr_[0-9a-f-]{36} · the signal reject stops the call)"$`)

// readable reports whether a payload is a summary. Inputs and results of workflows and
// activities are structs, never a bare text, so none of them can look like one.
func (c *codec) readable(p *commonpb.Payload) bool {
	return string(p.GetMetadata()[encodingKey]) == converter.MetadataEncodingJSON && len(p.GetData()) < 400 &&
		(c.summaries[string(p.GetData())] || summaryPattern.Match(p.GetData()))
}

func newConverter(c *codec) converter.DataConverter {
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), c)
}
