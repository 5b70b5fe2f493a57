package vault

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/tink-crypto/tink-go/v2/aead/subtle"

	"agentruntime/internal/base/fault"
)

// KMS wraps and unwraps data keys under key-encryption keys that never leave it.
// The additional data must be the same in both calls. Implementations are safe
// for concurrent use. An error that wraps ErrNotOpened is for good. Any other error says that
// the KMS cannot be reached now, and callers of the vault get SERVICE_UNAVAILABLE.
type KMS interface {
	// Current returns the id of the key that Wrap uses now.
	Current() string
	// Wrap seals dataKey under the current key and names that key.
	Wrap(ctx context.Context, dataKey, additionalData []byte) (keyID string, wrapped []byte, err error)
	// Unwrap opens what Wrap sealed under the key keyID, which may be an older one.
	Unwrap(ctx context.Context, keyID string, wrapped, additionalData []byte) ([]byte, error)
}

// keyBytes is the length of key-encryption and data keys: AES-256.
const keyBytes = 32

var keyIDPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ErrNotOpened says that a data key does not open, however often it is tried.
var ErrNotOpened = errors.New("vault: the data key does not open")

// errUnknownKey says that a row was sealed under a key that is not configured.
var errUnknownKey = fmt.Errorf("%w: the key-encryption key is not configured", ErrNotOpened)

// remote is a KMS whose outages are faults of their own.
type remote struct{ KMS }

func (k remote) Wrap(ctx context.Context, dataKey, additionalData []byte) (keyID string, wrapped []byte, err error) {
	keyID, wrapped, err = k.KMS.Wrap(ctx, dataKey, additionalData)
	return keyID, wrapped, away(err)
}

func (k remote) Unwrap(ctx context.Context, keyID string, wrapped, additionalData []byte) ([]byte, error) {
	dataKey, err := k.KMS.Unwrap(ctx, keyID, wrapped, additionalData)
	return dataKey, away(err)
}

// away returns SERVICE_UNAVAILABLE for an error of a KMS that may be gone the next time.
func away(err error) error {
	if err == nil || errors.Is(err, ErrNotOpened) || errors.Is(err, context.Canceled) {
		return err
	}
	f := fault.New(fault.CodeServiceUnavailable, "The key management service cannot be reached. Repeat the call.").Because(err)
	f.Retryable = true
	return f
}

// LocalKMS keeps its key-encryption keys in memory, for a machine without a cloud KMS.
// The first key seals; every key opens.
type LocalKMS struct {
	current string
	keys    map[string]*subtle.AESGCM
}

// NewLocalKMS reads keys as "id:base64", one per line or separated by commas,
// 32 bytes each; blank lines and lines that begin with # are skipped. The first
// is the current one: rotate by putting a new key in front and keeping the old.
func NewLocalKMS(keys string) (*LocalKMS, error) {
	k := &LocalKMS{keys: map[string]*subtle.AESGCM{}}
	for i, line := range strings.FieldsFunc(keys, func(r rune) bool { return r == '\n' || r == ',' }) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := k.add(line); err != nil {
			return nil, fmt.Errorf("vault: key-encryption key %d: %w", i+1, err)
		}
	}
	if k.current == "" {
		return nil, errors.New("vault: no key-encryption key")
	}
	return k, nil
}

// add takes one "id:base64" entry. Its errors never repeat the entry.
func (k *LocalKMS) add(entry string) error {
	id, encoded, ok := strings.Cut(entry, ":")
	if !ok || !keyIDPattern.MatchString(id) {
		return errors.New(`want "id:base64" with an id of letters, digits, dots, hyphens and underscores`)
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(raw) != keyBytes {
		return fmt.Errorf("want %d bytes in standard base64", keyBytes)
	}
	if _, taken := k.keys[id]; taken {
		return errors.New("the id is used twice")
	}
	cipher, err := subtle.NewAESGCM(raw)
	if err != nil {
		return errors.New("the key is not usable")
	}
	k.keys[id] = cipher
	if k.current == "" {
		k.current = id
	}
	return nil
}

// Current implements KMS.
func (k *LocalKMS) Current() string { return k.current }

// Wrap implements KMS.
func (k *LocalKMS) Wrap(_ context.Context, dataKey, additionalData []byte) (string, []byte, error) {
	wrapped, err := k.keys[k.current].Encrypt(dataKey, additionalData)
	if err != nil {
		return "", nil, fmt.Errorf("vault: wrap a data key: %w", err)
	}
	return k.current, wrapped, nil
}

// Unwrap implements KMS.
func (k *LocalKMS) Unwrap(_ context.Context, keyID string, wrapped, additionalData []byte) ([]byte, error) {
	cipher, ok := k.keys[keyID]
	if !ok {
		return nil, errUnknownKey
	}
	dataKey, err := cipher.Decrypt(wrapped, additionalData)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotOpened, err)
	}
	return dataKey, nil
}
