package account

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"agentruntime/internal/base/fault"
)

// The cost of argon2id, from the OWASP password storage cheat sheet: 19 MiB, two
// passes, one lane. A stored hash names its own, so these may change.
const (
	argonMemory  = 19 * 1024 // KiB
	argonTime    = 2
	argonThreads = 1
	argonSalt    = 16 // bytes
	argonKey     = 32 // bytes
)

const (
	minPassword = 8    // characters
	maxPassword = 1024 // bytes
)

// passwords hashes and compares. Login and sign-up call it once each, whether the
// address is known or not; the tests count that.
type passwords interface {
	hash(password string) string
	// matches compares with a stored hash; "" stands for the hash of nobody and
	// costs the same.
	matches(password, stored string) (bool, error)
}

// argon2id keeps the hash of nobody, to be compared with where there is no user.
type argon2id struct{ nobody string }

func newArgon2id() argon2id {
	return argon2id{nobody: argon2id{}.hash(rand.Text())}
}

func (argon2id) hash(password string) string {
	salt := make([]byte, argonSalt)
	_, _ = rand.Read(salt) // documented to never fail
	key := argon2.IDKey([]byte(password), salt, argonTime, argonMemory, argonThreads, argonKey)
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonThreads,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(key))
}

func (a argon2id) matches(password, stored string) (bool, error) {
	known := stored != ""
	if !known {
		stored = a.nobody
	}
	p, err := parsePHC(stored)
	if err != nil {
		return false, err
	}
	got := argon2.IDKey([]byte(password), p.salt, p.time, p.memory, p.threads, uint32(len(p.key)))
	return subtle.ConstantTimeCompare(got, p.key) == 1 && known, nil
}

// phc is a stored hash taken apart.
type phc struct {
	memory, time uint32
	threads      uint8
	salt, key    []byte
}

var errStoredHash = errors.New("account: a stored password hash is not argon2id as we write it")

func parsePHC(stored string) (phc, error) {
	var p phc
	var version int
	parts := strings.Split(stored, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" {
		return phc{}, errStoredHash
	}
	if _, err := fmt.Sscanf(parts[2], "v=%d", &version); err != nil || version != argon2.Version {
		return phc{}, errStoredHash
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.memory, &p.time, &p.threads); err != nil || p.time == 0 || p.threads == 0 {
		return phc{}, errStoredHash
	}
	var saltErr, keyErr error
	p.salt, saltErr = base64.RawStdEncoding.DecodeString(parts[4])
	p.key, keyErr = base64.RawStdEncoding.DecodeString(parts[5])
	if saltErr != nil || keyErr != nil || len(p.key) < 16 {
		return phc{}, errStoredHash
	}
	return p, nil
}

// checkNewPassword enforces the only two rules on content.
func checkNewPassword(password string) error {
	if err := checkPasswordSize(password); err != nil {
		return err
	}
	if utf8.RuneCountInString(password) < minPassword {
		return fault.New(fault.CodeWeakPassword, "")
	}
	return nil
}

func checkPasswordSize(password string) error {
	if len(password) > maxPassword {
		return fault.Invalid("/password", "maxLength", "password has at most 1024 bytes.")
	}
	return nil
}
