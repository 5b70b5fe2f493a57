package vault

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
	"github.com/tink-crypto/tink-go/v2/aead/subtle"
)

// fieldData is the one sealed field of a credential today; the name is part of
// the additional data so that a second field can never be swapped with it.
const fieldData = "data"

// binding is what a sealed value belongs to. It is authenticated at both layers:
// a row that is copied to another tenant, credential, field or version does not
// open.
type binding struct {
	tenant     uuid.UUID
	credential uuid.UUID
	field      string
	version    int32
}

// layer separates the two uses of one binding.
type layer string

const (
	layerKey  layer = "key"  // the data key under the key-encryption key
	layerData layer = "data" // the secret under the data key
)

// additionalData encodes the binding for a layer. Every part has a fixed length
// or is length-prefixed, so no two bindings encode alike.
func (b binding) additionalData(l layer) []byte {
	out := []byte("agentruntime.vault.v1")
	for _, s := range []string{string(l), b.field} {
		out = binary.BigEndian.AppendUint16(out, uint16(len(s)))
		out = append(out, s...)
	}
	out = append(out, b.tenant[:]...)
	out = append(out, b.credential[:]...)
	return binary.BigEndian.AppendUint32(out, uint32(b.version))
}

// envelope is a sealed value as the database keeps it.
type envelope struct {
	kekID      string
	wrappedKey []byte
	ciphertext []byte
}

// seal encrypts plaintext under a fresh data key and wraps that key.
func seal(ctx context.Context, kms KMS, b binding, plaintext []byte) (envelope, error) {
	dataKey := make([]byte, keyBytes)
	if _, err := rand.Read(dataKey); err != nil {
		return envelope{}, fmt.Errorf("vault: make a data key: %w", err)
	}
	defer clear(dataKey)
	cipher, err := subtle.NewAESGCM(dataKey)
	if err != nil {
		return envelope{}, fmt.Errorf("vault: use a data key: %w", err)
	}
	ciphertext, err := cipher.Encrypt(plaintext, b.additionalData(layerData))
	if err != nil {
		return envelope{}, fmt.Errorf("vault: seal: %w", err)
	}
	id, wrapped, err := kms.Wrap(ctx, dataKey, b.additionalData(layerKey))
	if err != nil {
		return envelope{}, err
	}
	return envelope{kekID: id, wrappedKey: wrapped, ciphertext: ciphertext}, nil
}

// open reverses seal. The error never says more than that the value did not open.
func open(ctx context.Context, kms KMS, b binding, e envelope) ([]byte, error) {
	dataKey, err := kms.Unwrap(ctx, e.kekID, e.wrappedKey, b.additionalData(layerKey))
	if err != nil {
		return nil, err
	}
	defer clear(dataKey)
	cipher, err := subtle.NewAESGCM(dataKey)
	if err != nil {
		return nil, fmt.Errorf("vault: use a data key: %w", err)
	}
	plaintext, err := cipher.Decrypt(e.ciphertext, b.additionalData(layerData))
	if err != nil {
		return nil, fmt.Errorf("vault: open: %w", err)
	}
	return plaintext, nil
}
