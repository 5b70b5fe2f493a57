package datadir

import (
	"fmt"
	"path/filepath"
)

// keyBytes is the size of every key: AES-256, HMAC-SHA-256 and an Ed25519 seed
// all take 32 bytes.
const keyBytes = 32

// Secrets are the keys of one development installation.
type Secrets struct {
	KEK     []byte `json:"-"` // wraps the data keys of the vault
	Pepper  []byte `json:"-"` // of the API keys' HMAC
	JWTSeed []byte `json:"-"` // Ed25519 seed of the JWT signer
	Codec   []byte `json:"-"` // of the payload codec in Temporal

	AuditSeed []byte `json:"-"` // Ed25519 seed of the audit trail's signer
}

// String keeps the keys out of logs.
func (Secrets) String() string { return "[redacted]" }

// LoadOrCreateSecrets returns the keys kept below dir/keys, in files that only
// their owner may read. Each is made once: data encrypted with it outlives the
// process, so a damaged file is an error and never replaced.
func LoadOrCreateSecrets(dir string) (Secrets, error) {
	var s Secrets
	for _, key := range []struct {
		name string
		into *[]byte
	}{
		{"kek", &s.KEK},
		{"pepper", &s.Pepper},
		{"jwt", &s.JWTSeed},
		{"codec", &s.Codec},
		{"audit", &s.AuditSeed},
	} {
		secret, err := Secret(filepath.Join(dir, "keys", key.name), keyBytes)
		if err != nil {
			return Secrets{}, fmt.Errorf("development keys: %w", err)
		}
		*key.into = secret
	}
	return s, nil
}
