package event

import "time"

// The types of events about credentials.
const (
	CredentialExpiring Type = "credential.expiring"
	CredentialExpired  Type = "credential.expired"
)

// Expiry are the members of an event about the end of a credential.
type Expiry struct {
	CredentialID string    `json:"credential_id" about:"The credential."`
	Provider     string    `json:"provider" about:"The slug of the provider."`
	Kind         string    `json:"credential_type" about:"The type of the credential, as bearer."`
	Label        string    `json:"label" about:"The label of the credential."`
	ExpiresAt    time.Time `json:"expires_at" about:"When it expires, in UTC."`
}

// Expiring is the body of credential.expiring.
type Expiring struct{ Expiry }

// Type implements Body.
func (Expiring) Type() Type { return CredentialExpiring }

// ExpiredCredential is the body of credential.expired.
type ExpiredCredential struct{ Expiry }

// Type implements Body.
func (ExpiredCredential) Type() Type { return CredentialExpired }
