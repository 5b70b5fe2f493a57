package chain

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
)

// KeyID returns the id of a public key: the first 16 hex digits of its SHA-256. Two
// processes with the same key so always use the same id.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// Key is a public key as GET /v1/audit/keys shows it.
type Key struct {
	KID       string `json:"kid"`
	Alg       string `json:"alg"`        // EdDSA
	PublicKey string `json:"public_key"` // base64 of the 32 bytes of an Ed25519 key
}

// Keys are the public keys that verify signatures, by their ids.
type Keys map[string]ed25519.PublicKey

// Add adds a key under its id.
func (k Keys) Add(key ed25519.PublicKey) { k[KeyID(key)] = key }

// List returns the keys as they are published, in the order of their ids.
func (k Keys) List() []Key {
	list := make([]Key, 0, len(k))
	for kid, key := range k {
		list = append(list, Key{KID: kid, Alg: "EdDSA", PublicKey: base64.StdEncoding.EncodeToString(key)})
	}
	slices.SortFunc(list, func(a, b Key) int {
		if a.KID < b.KID {
			return -1
		}
		return 1
	})
	return list
}

// verify reports whether the key kid is known, and whether it signed text.
func (k Keys) verify(kid string, text, signature []byte) (known, good bool) {
	key, known := k[kid]
	return known, known && ed25519.Verify(key, text, signature)
}

// ParseKeys reads the answer of GET /v1/audit/keys, with or without its envelope. It
// returns an error for text that is not JSON, for a bad key, and where there is no key.
func ParseKeys(text []byte) (Keys, error) {
	var doc struct {
		Keys []Key `json:"keys"`
		Data struct {
			Keys []Key `json:"keys"`
		} `json:"data"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, errors.New("the key file is not JSON")
	}
	keys := Keys{}
	for _, k := range append(doc.Keys, doc.Data.Keys...) {
		raw, err := base64.StdEncoding.DecodeString(k.PublicKey)
		if err != nil || len(raw) != ed25519.PublicKeySize || k.Alg != "EdDSA" {
			return nil, errors.New("the key file has a key that is not base64 of an Ed25519 public key with alg EdDSA")
		}
		if k.KID != KeyID(raw) {
			return nil, errors.New("the key file names a key by an id that is not its own")
		}
		keys.Add(raw)
	}
	if len(keys) == 0 {
		return nil, errors.New("the key file has no keys: it is the answer of GET /v1/audit/keys")
	}
	return keys, nil
}

// Signer signs checkpoints and exports.
type Signer struct {
	kid string
	key ed25519.PrivateKey
}

// NewSigner returns the signer with an Ed25519 seed. It returns an error unless the seed
// has 32 bytes.
func NewSigner(seed []byte) (*Signer, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, errors.New("chain: the seed of the signing key must have 32 bytes")
	}
	s := &Signer{key: ed25519.NewKeyFromSeed(seed)}
	s.kid = KeyID(s.Public())
	return s, nil
}

// Public returns the key that verifies the signatures.
func (s *Signer) Public() ed25519.PublicKey {
	public, _ := s.key.Public().(ed25519.PublicKey)
	return public
}

// KID returns the id of the key, see KeyID.
func (s *Signer) KID() string { return s.kid }
