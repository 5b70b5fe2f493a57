package vault

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/provider/credential"
)

// LeastOwn is the length in bytes from which a stored secret is looked for in arguments. A
// shorter one may be a common word.
const LeastOwn = 16

// MostOwn is the length in bytes of the longest secret that can be stored, and somewhat more.
const MostOwn = 16 << 10

// ownValues returns the values of a secret that are looked for in arguments. The user name of a
// basic credential counts only where it stands for the whole secret: otherwise it is often an
// address of mail, which approvers must see.
func ownValues(s credential.Secret) []string {
	var out []string
	for _, part := range s.Parts() {
		out = append(out, ownValues(part)...)
	}
	if out != nil {
		return out
	}
	user, password := s.Basic()
	add := func(value string) {
		if len(value) >= LeastOwn {
			out = append(out, value)
		}
	}
	for _, value := range s.Values() {
		if value != user || password == "" {
			add(value)
		}
	}
	for _, value := range s.Headers() {
		// A scheme before the secret, as in "Bearer abc".
		if _, rest, found := strings.Cut(value, " "); found {
			add(rest)
		}
	}
	return out
}

func (v *Vault) digests(ctx context.Context, tenant uuid.UUID, s credential.Secret) ([][]byte, error) {
	values := ownValues(s)
	if len(values) == 0 {
		return nil, nil
	}
	key, err := v.Key(ctx, tenant)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(values))
	for i, value := range values {
		out[i] = key.Digest([]byte(value))
	}
	return out, nil
}

func (v *Vault) queueDigests(ctx context.Context, b *db.Batch, tenant, id uuid.UUID, s credential.Secret) error {
	digests, err := v.digests(ctx, tenant, s)
	if err == nil && len(digests) > 0 {
		db.QueueExec(b, v.q.InsertDigests, dbsqlc.InsertDigestsParams{TenantID: tenant, CredentialID: id, Digests: digests})
	}
	return err
}

func (v *Vault) replaceDigests(ctx context.Context, tx dbsqlc.DBTX, tenant, id uuid.UUID, digests [][]byte) error {
	err := v.q.DeleteDigests(ctx, tx, dbsqlc.DeleteDigestsParams{TenantID: tenant, CredentialID: id})
	if err == nil && len(digests) > 0 {
		err = v.q.InsertDigests(ctx, tx, dbsqlc.InsertDigestsParams{TenantID: tenant, CredentialID: id, Digests: digests})
	}
	if err != nil {
		return fmt.Errorf("vault: store digests: %w", err)
	}
	return nil
}

// QueueOwn adds the question which of the values are secrets of the tenant to a batch of the
// tenant. Once the batch was sent, the function returned reports whether a value is one. The
// key is the tenant's data key.
func QueueOwn(b *db.Batch, tenant uuid.UUID, key *datakey.Key, values []string) func() map[string]bool {
	answer := db.Queue(b, dbsqlc.New().OwnDigests, dbsqlc.OwnDigestsParams{TenantID: tenant, Digests: Digests(key, values)})
	return func() map[string]bool { return OwnOf(key, values, answer.Value) }
}

// Digests returns the digests of values under the tenant's data key.
func Digests(key *datakey.Key, values []string) [][]byte {
	out := make([][]byte, len(values))
	for i, value := range values {
		out[i] = key.Digest([]byte(value))
	}
	return out
}

// OwnOf returns which of the values are secrets of the tenant: those whose digests were found
// among the tenant's; nil for none.
func OwnOf(key *datakey.Key, values []string, found [][]byte) map[string]bool {
	if len(found) == 0 {
		return nil
	}
	own := map[string]bool{}
	for i, digest := range Digests(key, values) {
		if slices.ContainsFunc(found, func(f []byte) bool { return bytes.Equal(f, digest) }) {
			own[values[i]] = true
		}
	}
	return own
}
