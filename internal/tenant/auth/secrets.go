package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash/crc32"
	"strings"

	"github.com/google/uuid"
)

// KeyPrefix begins each API key, and no token.
const KeyPrefix = "ark_"

const (
	keyRandom   = 30 // base62 characters: 178 bits
	keyChecksum = 6  // base62 characters are enough for any CRC-32
	keyLength   = len(KeyPrefix) + keyRandom + keyChecksum

	refreshPrefix = "art_"
	refreshRandom = 32 // bytes
	refreshLength = len(refreshPrefix) + 43

	invitationPrefix = "ari_"
	invitationRandom = 32 // bytes

	mailPrefix = "arm_"
	mailLength = len(mailPrefix) + 43

	// MinPepper is the least length of the pepper in bytes: that of the hash.
	MinPepper = sha256.Size
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Secrets mints API keys and refresh tokens and hashes what callers present. The
// database stores the hashes only; without the pepper they say nothing, even of a
// guess.
type Secrets struct{ pepper []byte }

// NewSecrets returns Secrets under a pepper of at least MinPepper bytes, which
// must not be in the database.
func NewSecrets(pepper []byte) (*Secrets, error) {
	if len(pepper) < MinPepper {
		return nil, errors.New("auth: the pepper has less than 32 bytes")
	}
	return &Secrets{pepper: append([]byte(nil), pepper...)}, nil
}

// digest separates the purposes, so that a hash of one kind is never one of another.
func (s *Secrets) digest(purpose, value string) []byte {
	mac := hmac.New(sha256.New, s.pepper)
	mac.Write([]byte(purpose))
	mac.Write([]byte{0})
	mac.Write([]byte(value))
	return mac.Sum(nil)
}

// NewKey mints an API key: the secret, shown once; the preview that listings
// show; and the hash that is stored.
func (s *Secrets) NewKey() (secret, preview string, hash []byte) {
	body := KeyPrefix + randomBase62(keyRandom)
	secret = body + checksum(body)
	preview = secret[:len(KeyPrefix)+4] + "…" + secret[len(secret)-4:]
	return secret, preview, s.digest("api_key", secret)
}

// KeyHash returns the hash to look a presented key up by, and false where its form
// or checksum shows that it was mistyped and cannot exist.
func (s *Secrets) KeyHash(secret string) ([]byte, bool) {
	if len(secret) != keyLength || !strings.HasPrefix(secret, KeyPrefix) {
		return nil, false
	}
	body := secret[:len(KeyPrefix)+keyRandom]
	if strings.Trim(body[len(KeyPrefix):], base62) != "" || checksum(body) != secret[len(body):] {
		return nil, false
	}
	return s.digest("api_key", secret), true
}

// NewRefreshToken mints a refresh token and the hash that is stored.
func (s *Secrets) NewRefreshToken() (secret string, hash []byte) {
	var raw [refreshRandom]byte
	_, _ = rand.Read(raw[:]) // documented to never fail
	secret = refreshPrefix + base64.RawURLEncoding.EncodeToString(raw[:])
	return secret, s.digest("refresh_token", secret)
}

// RefreshTokenHash returns the hash to look a presented refresh token up by, and
// false where its form shows that it cannot exist.
func (s *Secrets) RefreshTokenHash(secret string) ([]byte, bool) {
	if len(secret) != refreshLength || !strings.HasPrefix(secret, refreshPrefix) {
		return nil, false
	}
	return s.digest("refresh_token", secret), true
}

// NewInvitationToken mints the token of an invitation and the hash that is stored.
func (s *Secrets) NewInvitationToken() (secret string, hash []byte) {
	var raw [invitationRandom]byte
	_, _ = rand.Read(raw[:]) // documented to never fail
	secret = invitationPrefix + base64.RawURLEncoding.EncodeToString(raw[:])
	return secret, s.InvitationHash(secret)
}

// InvitationHash returns the hash to look a presented invitation token up by. One
// that cannot exist is looked up like any other.
func (s *Secrets) InvitationHash(secret string) []byte { return s.digest("invitation", secret) }

// MailToken returns the token of a mail and the hash that is stored. It is the same whenever it
// is made of the id, so a mail that is sent again has the same link. Without the pepper nobody can
// make it.
func (s *Secrets) MailToken(mail uuid.UUID) (secret string, hash []byte) {
	secret = mailPrefix + base64.RawURLEncoding.EncodeToString(s.digest("token of a mail", mail.String()))
	return secret, s.digest("mail_token", secret)
}

// MailTokenHash returns the hash to look a presented token of a mail up by, and false where its
// form shows that it cannot exist.
func (s *Secrets) MailTokenHash(secret string) ([]byte, bool) {
	if len(secret) != mailLength || !strings.HasPrefix(secret, mailPrefix) {
		return nil, false
	}
	return s.digest("mail_token", secret), true
}

// MailedInvitation is MailToken for an invitation. InvitationHash finds it.
func (s *Secrets) MailedInvitation(mail uuid.UUID) (secret string, hash []byte) {
	secret = invitationPrefix + base64.RawURLEncoding.EncodeToString(s.digest("invitation of a mail", mail.String()))
	return secret, s.InvitationHash(secret)
}

// Subject returns what failures, and mails, of a kind are counted under. It is a keyed hash: what people
// mistype into the field of an address, passwords too, cannot be read from it.
func (s *Secrets) Subject(kind, of string) []byte { return s.digest("failures of "+kind, of) }

// randomBase62 draws n characters without bias.
func randomBase62(n int) string {
	const fair = 256 - 256%len(base62) // bytes from here on would favour the first characters
	out := make([]byte, 0, n)
	var buf [64]byte
	for {
		_, _ = rand.Read(buf[:]) // documented to never fail
		for _, b := range buf {
			if int(b) >= fair {
				continue
			}
			out = append(out, base62[int(b)%len(base62)])
			if len(out) == n {
				return string(out)
			}
		}
	}
}

func checksum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	var out [keyChecksum]byte
	for i := keyChecksum - 1; i >= 0; i-- {
		out[i] = base62[sum%uint32(len(base62))]
		sum /= uint32(len(base62))
	}
	return string(out[:])
}
