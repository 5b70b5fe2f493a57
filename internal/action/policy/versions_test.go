package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/policy"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/quota"
)

// bounded is the bench with quotas of versions.
func bounded(t *testing.T, versions, bytes int64) *bench {
	t.Helper()
	b := newBench(t)
	limits, err := quota.New(map[string]int64{"policy_versions": versions, "policy_version_bytes": bytes})
	require.NoError(t, err)
	b.Service, err = policy.New(policy.Deps{DB: b.db.Pool, Subjects: b.dispatch, Keys: testkit.Keys{}, Now: func() time.Time { return b.now }, Quotas: limits})
	require.NoError(t, err)
	return b
}

// put replaces the policy by another one, two minutes later.
func (b *bench) put(t *testing.T, who actor.Actor, id uuid.UUID) error {
	t.Helper()
	b.now = b.now.Add(2 * time.Minute)
	d := block("p", "shop:list_*")
	d.Description = strings.Repeat("d", 900) + b.now.Format(time.TimeOnly)
	_, _, err := b.Replace(t.Context(), who, id, d, nil)
	return err
}

// judged records a call that was judged by the version, as long after its change.
func (b *bench) judged(t *testing.T, id uuid.UUID, version int32, after time.Duration) {
	t.Helper()
	b.exec(t, `INSERT INTO policy_matches (tenant_id, policy_id, run_id, attempt, policy_version, mode, action, decided, decision, shadow, at)
		SELECT tenant_id, policy_id, gen_random_uuid(), 1, version, 'enforce', 'block', true, 'block', '', changed_at + $3::interval
		  FROM policy_versions WHERE policy_id = $1 AND version = $2`, id, version, after)
}

// kept lists the versions of a policy, the newest first.
func (b *bench) kept(t *testing.T, id uuid.UUID) (versions []int32) {
	t.Helper()
	all, _, err := b.Versions(t.Context(), b.ours, id, 0, 1000)
	require.NoError(t, err)
	for _, v := range all {
		versions = append(versions, v.Version)
	}
	return versions
}

func byKey(tenant uuid.UUID) actor.Actor {
	return actor.Actor{Kind: actor.Key, ID: uuid.New(), TenantID: tenant}
}

func TestOldestVersionsOfAPolicyMakeRoom(t *testing.T) {
	t.Parallel()
	b := bounded(t, 3, 1<<20)
	key, user := byKey(b.ours), by(b.ours)
	p := b.create(t, block("p", "shop:list_*"))
	other := b.create(t, block("other", "shop:*"))
	b.judged(t, p.ID, 1, time.Second)
	for range 4 {
		require.NoError(t, b.put(t, key, p.ID))
	}
	require.Equal(t, []int32{5, 4, 1}, b.kept(t, p.ID), "a version by which a call was judged stays")
	require.Equal(t, []int32{1}, b.kept(t, other.ID))

	b.judged(t, p.ID, 4, time.Minute)
	b.judged(t, p.ID, 5, time.Minute)
	err := b.put(t, key, p.ID)
	require.True(t, fault.HasCode(err, fault.CodeQuotaExceeded), "%v", err)
	require.ErrorContains(t, err, "policy_versions")
	require.NoError(t, b.put(t, user, p.ID), "people can change what governs")
	require.Equal(t, []int32{6, 5, 4}, b.kept(t, p.ID))
	b.judged(t, p.ID, 6, time.Minute)
	require.Error(t, b.put(t, key, p.ID))
	b.now = b.now.Add(30 * 24 * time.Hour)
	require.NoError(t, b.put(t, key, p.ID), "a version stays for 30 days")
	require.NoError(t, b.Delete(t.Context(), key, p.ID, nil))
}

// A flood of changes comes to an end, and people can all the same do what must not wait.
func TestBytesOfVersionsOfPoliciesAreBounded(t *testing.T) {
	t.Parallel()
	const most = 32 << 10
	b := bounded(t, 1000, most)
	key, user := byKey(b.ours), by(b.ours)
	p := b.create(t, block("p", "shop:list_*"))
	gone := b.create(t, block("gone", "shop:*"))
	require.NoError(t, b.Delete(t.Context(), user, gone.ID, nil))
	bytes := func() (counted int64) {
		var stored int64
		require.NoError(t, b.admin.QueryRow(t.Context(), `SELECT (SELECT sum(bytes) FROM policies WHERE tenant_id = $1),
			(SELECT sum(octet_length(policy::text)) FROM policy_versions WHERE tenant_id = $1)`, b.ours).Scan(&counted, &stored))
		require.Equal(t, stored, counted)
		require.LessOrEqual(t, counted, int64(most))
		return counted
	}
	flood := func(who actor.Actor) (changes int) {
		for {
			require.Less(t, changes, 100)
			err := b.put(t, who, p.ID)
			if err != nil {
				require.True(t, fault.HasCode(err, fault.CodeQuotaExceeded), "%v", err)
				require.ErrorContains(t, err, "policy_version_bytes")
				return changes
			}
			changes++
		}
	}
	require.Greater(t, flood(key), 10)
	require.InDelta(t, most*3/4, bytes(), 2000, "the rest is for people")
	require.Greater(t, flood(user), 5)
	require.InDelta(t, most, bytes(), 2000)

	_, _, err := b.Change(t.Context(), key, p.ID, policy.Patch{Enabled: new(false)}, nil)
	require.Error(t, err)
	for range 5 {
		for _, patch := range []policy.Patch{{Enabled: new(false)}, {Enabled: new(true), Mode: new("shadow")}, {Mode: new("enforce")}} {
			_, _, err := b.Change(t.Context(), user, p.ID, patch, nil)
			require.NoError(t, err)
			bytes()
		}
		_, _, err = b.Restore(t.Context(), user, p.ID, b.kept(t, p.ID)[5])
		require.NoError(t, err)
		b.create(t, block("stricter", "shop:*"))
		bytes()
	}
	require.Empty(t, b.kept(t, gone.ID), "the oldest have gone, of deleted policies too")
	_, _, err = b.Restore(t.Context(), user, gone.ID, 1)
	require.True(t, fault.HasCode(err, fault.CodePolicyNotFound), "%v", err)

	b.now = b.now.Add(25 * time.Hour)
	require.NoError(t, b.put(t, key, p.ID), "versions of yesterday make room")
	for _, v := range b.kept(t, p.ID) {
		b.judged(t, p.ID, v, time.Second)
	}
	b.now = b.now.Add(25 * time.Hour)
	flood(key)
	require.NoError(t, b.put(t, user, p.ID), "those by which calls were judged make room for people")
	bytes()
	require.NoError(t, b.Delete(t.Context(), key, p.ID, nil))
}
