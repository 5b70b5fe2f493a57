package customer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"agentruntime/internal/base/fault"
)

// subject is the text that the hash vouches for: the customer_id, otherwise the email as it was sent.
func (p Presented) subject() string {
	if p.CustomerID != "" {
		return p.CustomerID
	}
	var given struct{ Email string }
	_ = json.Unmarshal(p.Identity, &given) // its form was checked
	return given.Email
}

// verify refuses with IDENTITY_REQUIRED an identity for which nobody vouches, where the key wants that.
// It takes the same time for each wrong hash.
func (p Presented) verify(in Identity) error {
	if len(p.Secrets) == 0 || p.CustomerID == "" && len(in.identifiers()) == 0 {
		return nil
	}
	subject := p.subject()
	given, err := hex.DecodeString(p.Hash)
	right := false
	for _, secret := range p.Secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(subject))
		right = hmac.Equal(mac.Sum(nil), given) || right
	}
	if err != nil || subject == "" || !right {
		return fault.New(fault.CodeIdentityRequired, "This key takes customers only with identity_hash: the HMAC-SHA-256, in hex, of customer_id, "+
			"otherwise of the email, under the key's identity_secret. It is missing or wrong.")
	}
	return nil
}

// covered returns what of a verified identity is used: what the hash vouches for, and the name. What
// else a browser says could take over the identifiers of others, or what policies read.
func (p Presented) covered(in Identity) (kept Identity, ignored []string) {
	if len(p.Secrets) == 0 {
		return in, nil
	}
	kept = Identity{Name: in.Name}
	if p.CustomerID == "" {
		kept.Email = in.Email
	} else if in.Email != nil {
		ignored = append(ignored, "identity.email")
	}
	if in.ExternalID != nil {
		ignored = append(ignored, "identity.external_id")
	}
	if len(in.Metadata) > 0 {
		ignored = append(ignored, "identity.metadata")
	}
	if in.Phone != nil {
		ignored = append(ignored, "identity.phone")
	}
	return kept, ignored
}
