package policy_test

import (
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/base/fault"
)

func TestPolicyPatchChangesWhatItNames(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	user := by(b.ours)
	d := policy.Draft{
		Name: "Gate", Description: "why", Priority: 3, Action: "require_approval",
		Matchers:   []governance.Matcher{{Type: governance.MatchVerb, Value: "shop:*"}},
		Conditions: []governance.Condition{{Field: "agent_id", Operator: "exists"}},
		Approval:   &policy.ApprovalDraft{Required: new(int32(2)), TimeoutSeconds: new(int64(600)), ReasonRequired: new(true)},
	}
	was := b.create(t, d)
	change := func(p policy.Patch) policy.Policy {
		t.Helper()
		got, _, err := b.Change(t.Context(), user, was.ID, p, nil)
		require.NoError(t, err)
		return got
	}
	got := change(policy.Patch{Enabled: new(false)})
	want := was
	want.Version, want.Enabled = 2, false
	require.Equal(t, want, got)
	got = change(policy.Patch{Enabled: new(true), Mode: new("Shadow"), Conditions: []governance.Condition{}, Approval: &policy.ApprovalDraft{Required: new(int32(1))}})
	require.Equal(t, governance.Shadow, got.Mode)
	require.Empty(t, got.Conditions)
	require.EqualValues(t, 1, got.Approval.Required)
	require.EqualValues(t, 600, got.Approval.TimeoutSeconds)
	require.True(t, got.Approval.ReasonRequired)

	before := got.Approval
	require.Equal(t, before, change(policy.Patch{Action: new("Require_Approval")}).Approval, "the same action in other letters")
	got = change(policy.Patch{Action: new("block")})
	require.Zero(t, got.Approval)
	got = change(policy.Patch{Action: new("require_approval"), Approval: &policy.ApprovalDraft{TimeoutSeconds: new(int64(60))}})
	require.Equal(t, governance.DefaultApproval().Required, got.Approval.Required)
	require.EqualValues(t, 60, got.Approval.TimeoutSeconds)

	for name, p := range map[string]policy.Patch{
		"a bad mode":                {Mode: new("loud")},
		"an empty name":             {Name: new("")},
		"an approval rule to block": {Action: new("block"), Approval: &policy.ApprovalDraft{}},
		"a stranger as approver":    {Approval: &policy.ApprovalDraft{Approvers: []governance.Approver{{Type: governance.ApproverUser, Value: uuid.NewString()}}}},
	} {
		_, _, err := b.Change(t.Context(), user, was.ID, p, nil)
		require.True(t, fault.HasCode(err, fault.CodeValidation), "%s: %v", name, err)
	}
	_, _, err := b.Change(t.Context(), by(b.them), was.ID, policy.Patch{}, nil)
	require.True(t, fault.HasCode(err, fault.CodePolicyNotFound), "%v", err)
}

func TestConcurrentPolicyPatchesLoseNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.create(t, block("One", "*"))
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i, patch := range []policy.Patch{{Name: new("Two")}, {Enabled: new(false)}, {Priority: new(int32(9))}} {
		wg.Go(func() { _, _, errs[i] = b.Change(t.Context(), by(b.ours), p.ID, patch, nil) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	got, _, err := b.Get(t.Context(), b.ours, p.ID)
	require.NoError(t, err)
	require.Equal(t, "Two", got.Name)
	require.False(t, got.Enabled)
	require.EqualValues(t, 9, got.Priority)
}

func TestRestoreReturnsToAnEarlierVersion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	user := by(b.ours)
	p := b.create(t, block("One", "shop:*"))
	_, _, err := b.Replace(t.Context(), user, p.ID, policy.Draft{Name: "Two", Action: "require_approval"}, nil)
	require.NoError(t, err)
	restore := func(version int32) policy.Policy {
		t.Helper()
		got, _, err := b.Restore(t.Context(), user, p.ID, version)
		require.NoError(t, err)
		return got
	}
	got := restore(1)
	require.Equal(t, "One", got.Name)
	require.EqualValues(t, 3, got.Version)
	require.Equal(t, governance.Block, b.decide(t, "shop:list_orders").Decision)
	require.Equal(t, governance.DefaultApproval(), restore(2).Approval)

	require.NoError(t, b.Delete(t.Context(), user, p.ID, nil))
	require.Equal(t, governance.Allow, b.decide(t, "shop:list_orders").Decision)
	require.EqualValues(t, 6, restore(1).Version)
	require.Equal(t, governance.Block, b.decide(t, "shop:list_orders").Decision)

	all, _, err := b.Versions(t.Context(), b.ours, p.ID, 0, 10)
	require.NoError(t, err)
	var changes []policy.Change
	for _, v := range all {
		changes = append(changes, v.Change)
	}
	require.Equal(t, []policy.Change{policy.Restored, policy.Deleted, policy.Restored, policy.Restored, policy.Updated, policy.Created}, changes)
	var details string
	require.NoError(t, b.admin.QueryRow(t.Context(),
		`SELECT details->>'restored_version' FROM audit_records WHERE action = 'policy.restored' ORDER BY id LIMIT 1`).Scan(&details))
	require.Equal(t, "1", details)

	for _, version := range []int32{0, 7} {
		_, _, err = b.Restore(t.Context(), user, p.ID, version)
		require.True(t, fault.HasCode(err, fault.CodePolicyNotFound), "%v", err)
	}
	_, _, err = b.Restore(t.Context(), by(b.them), p.ID, 1)
	require.True(t, fault.HasCode(err, fault.CodePolicyNotFound), "%v", err)
}
