package run

import (
	"context"
	"fmt"
	"hash/maphash"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/verb"
)

// claimedBefore remembers which keys this process has seen claimed. A call by one of them is
// most likely a repeat, and a read answers it at half the cost of a claim: no arguments are
// sealed, and the fence is not asked. It is a guess and nothing more. A call that the read does
// not answer makes its claim.
type claimedBefore struct {
	seed maphash.Seed
	keys *lru.Cache[uint64, struct{}]
}

// claimedBeforeMost is how many keys are remembered, 100 bytes each.
const claimedBeforeMost = 1 << 15

func newClaimedBefore() *claimedBefore {
	keys, err := lru.New[uint64, struct{}](claimedBeforeMost)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &claimedBefore{seed: maphash.MakeSeed(), keys: keys}
}

func (c *claimedBefore) hash(tenant uuid.UUID, key string) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	_, _ = h.Write(tenant[:])
	_, _ = h.WriteString(key)
	return h.Sum64()
}

func (c *claimedBefore) add(tenant uuid.UUID, keys []string) {
	for _, key := range keys {
		c.keys.Add(c.hash(tenant, key), struct{}{})
	}
}

// likely reports whether a call by the keys may be a repeat that a read answers. A call with two
// keys may bind one of them, and a step may have another attempt; both make their claim.
func (c *claimedBefore) likely(tenant uuid.UUID, keys []string, req Request) bool {
	return len(keys) == 1 && req.StepKey == "" && c.keys.Contains(c.hash(tenant, keys[0]))
}

// repeated returns the run that answers a call by its only key, where there is one. Those are
// the runs for which ClaimRun says "existing" without claim_run.
func (s *Service) repeated(ctx context.Context, key *datakey.Key, tenant uuid.UUID, keys []string, name verb.Name, req Request) (Run, bool, error) {
	if !s.before.likely(tenant, keys, req) {
		return Run{}, false, nil
	}
	rows, err := s.q.RunByKeys(ctx, s.d.DB.Tenant(tenant), dbsqlc.RunByKeysParams{TenantID: tenant, Keys: keys, Most: int64(smallRun + len(req.Args))})
	if err != nil {
		return Run{}, false, fmt.Errorf("run: claim: %w", err)
	}
	r, found := oneOf(key, rows)
	return r, found && r.State != StateBlocked && r.State != StateRefused && r.Verb == name && r.DryRun == req.DryRun, nil
}
