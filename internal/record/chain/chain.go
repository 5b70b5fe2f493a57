// Package chain is the form of the audit trail outside of the database: the text of a
// record, the hash chain over these texts, the signatures, and the verifier of an exported
// file. internal/record/audit writes with it, and `agentruntime audit verify` reads with it.
// It does no I/O of its own and knows no database. docs/operate/audit.md describes the form for
// other implementations.
package chain

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/google/uuid"
)

// Domain separation: a hash or signature made for one purpose is not valid for another. A
// new version of the form gets new strings.
const (
	genesisDomain    = "agentruntime-audit-genesis-v1\n"
	checkpointDomain = "agentruntime-audit-checkpoint-v1\n"
	trailerDomain    = "agentruntime-audit-export-v1\n"
)

// Hash is a SHA-256 digest.
type Hash [sha256.Size]byte

// String returns the digest in lower-case hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// HashOf returns the digest in b. It returns false unless b has 32 bytes.
func HashOf(b []byte) (h Hash, ok bool) {
	if len(b) != len(h) {
		return h, false
	}
	copy(h[:], b)
	return h, true
}

// Genesis returns the hash before a tenant's first record.
func Genesis(tenant uuid.UUID) Hash {
	return sha256.Sum256([]byte(genesisDomain + tenant.String()))
}

// Leaf returns the hash of a record's text.
func Leaf(text []byte) Hash { return sha256.Sum256(text) }

// Link returns the hash of the chain after a leaf.
func Link(prev, leaf Hash) Hash {
	var both [2 * sha256.Size]byte
	copy(both[:sha256.Size], prev[:])
	copy(both[sha256.Size:], leaf[:])
	return sha256.Sum256(both[:])
}
