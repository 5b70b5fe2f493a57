package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
)

// secretPrefix begins a secret whose rest is the key in base64, as Standard Webhooks has it.
const secretPrefix = "whsec_"

// Bytes of a generated key, and characters of a supplied secret.
const (
	secretBytes = 32
	secretMost  = 256
)

// secret signs the deliveries of a webhook.
type secret struct {
	text string // as the tenant knows it
	key  []byte
}

func newSecret() secret {
	key := make([]byte, secretBytes)
	_, _ = rand.Read(key) // never fails
	return secret{secretPrefix + base64.StdEncoding.EncodeToString(key), key}
}

// parseSecret returns the secret of a supplied text. The error is VALIDATION_ERROR, and repeats
// nothing of the text.
func parseSecret(text string) (secret, error) {
	if n := utf8.RuneCountInString(text); n < 1 || n > secretMost {
		return secret{}, fault.Invalid("/secret", "length", "secret has 1 to 256 characters.")
	}
	encoded, standard := strings.CutPrefix(text, secretPrefix)
	if !standard {
		return secret{text, []byte(text)}, nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) == 0 {
		return secret{}, fault.Invalid("/secret", "format", "A secret that begins with whsec_ goes on with a key in base64.")
	}
	return secret{text, key}, nil
}

func (s secret) seal(key *datakey.Key, tenant, webhook uuid.UUID) string {
	return key.Seal(secretPlace(tenant, webhook), []byte(s.text))
}

func openSecret(key *datakey.Key, tenant, webhook uuid.UUID, stored string) (secret, error) {
	text, err := key.Open(secretPlace(tenant, webhook), stored)
	if err != nil {
		return secret{}, err
	}
	return parseSecret(string(text))
}

func secretPlace(tenant, webhook uuid.UUID) datakey.Place {
	return datakey.Place{Tenant: tenant, Row: webhook, Field: datakey.WebhookSecret}
}

// sign returns the headers of a delivery: those of Standard Webhooks, with one signature for each
// secret, and X-Webhook-Signature, for receivers that can only verify an HMAC of the body. That
// one has the first secret's signature only, because such receivers compare the whole value.
func sign(id string, at time.Time, body []byte, secrets []secret) http.Header {
	stamp := strconv.FormatInt(at.Unix(), 10)
	var signatures []string
	for _, s := range secrets {
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac(s.key, id, ".", stamp, ".", string(body))))
	}
	return http.Header{
		"Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {strings.Join(signatures, " ")},
		"X-Webhook-Signature": {"sha256=" + hex.EncodeToString(mac([]byte(secrets[0].text), string(body)))},
	}
}

func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}
