package governance_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

func needs(required int32, roles ...string) governance.Requirement {
	r := governance.Requirement{Rule: governance.ApprovalRule{Required: required, TimeoutSeconds: 60, OnTimeout: governance.OnTimeoutReject}}
	for _, role := range roles {
		r.Rule.Approvers = append(r.Rule.Approvers, governance.Approver{Type: governance.ApproverRole, Value: role})
	}
	return r
}

func voter(role actor.Role) governance.Voter {
	return governance.Voter{UserID: uuid.Must(uuid.NewV7()), Role: role}
}

func TestWhoMayDecide(t *testing.T) {
	t.Parallel()
	ann := voter("member")
	named := needs(1)
	named.Rule.Approvers = []governance.Approver{{Type: governance.ApproverUser, Value: ann.UserID.String()}}
	selfish := needs(1, "approver")
	selfish.Rule.SelfApproval = true
	self := voter("approver")
	self.Self = true
	selfOwner := voter("owner")
	selfOwner.Self = true
	odd := needs(1)
	odd.Rule.Approvers = []governance.Approver{
		{Type: governance.ApproverRole},
		{Type: "group", Value: "member"},
		{Type: governance.ApproverUser, Value: uuid.Nil.String()},
		{Type: governance.ApproverUser, Value: "member"},
	}
	for name, c := range map[string]struct {
		r         governance.Requirement
		v         governance.Voter
		escalated bool
		want      bool
	}{
		"role listed":                    {needs(1, "approver"), voter("approver"), false, true},
		"role not listed":                {needs(1, "approver"), voter("member"), false, false},
		"owner not listed":               {needs(1, "approver"), voter("owner"), false, false},
		"owner, escalated":               {needs(1, "approver"), voter("owner"), true, true},
		"admin, escalated":               {needs(1, "approver"), voter("admin"), true, true},
		"member, escalated":              {needs(1, "approver"), voter("member"), true, false},
		"role in another case":           {needs(1, "approver"), voter("Approver"), false, false},
		"user listed":                    {named, ann, false, true},
		"another user":                   {named, voter("member"), false, false},
		"own call":                       {needs(1, "approver"), self, false, false},
		"own call, self approval":        {selfish, self, false, true},
		"own call, owner, escalated":     {needs(1, "approver"), selfOwner, true, false},
		"nobody listed":                  {needs(1), voter("owner"), false, false},
		"no role":                        {odd, governance.Voter{UserID: ann.UserID}, false, false},
		"an approver type nobody knows":  {odd, voter("member"), false, false},
		"nobody is not a user that is":   {odd, governance.Voter{Role: "member"}, false, false},
		"default rule, member":           {governance.Requirement{Rule: governance.DefaultApproval()}, voter("member"), false, false},
		"default rule, approver decides": {governance.Requirement{Rule: governance.DefaultApproval()}, voter("approver"), false, true},
	} {
		require.Equal(t, c.want, c.r.MayDecide(c.v, c.escalated), name)
		require.Equal(t, c.want, governance.MayDecide([]governance.Requirement{needs(1), c.r}, c.v, c.escalated), name)
	}
	require.False(t, governance.MayDecide(nil, voter("owner"), true))
}

func TestCountVotes(t *testing.T) {
	t.Parallel()
	a, b, admin := voter("approver"), voter("approver"), voter("admin")
	self := a
	self.Self = true
	type reqs = []governance.Requirement
	type votes = []governance.Voter
	for name, c := range map[string]struct {
		reqs      reqs
		votes     votes
		escalated bool
		want      governance.Tally
		enough    bool
	}{
		"no requirements":                  {nil, votes{a}, false, governance.Tally{}, false},
		"no votes":                         {reqs{needs(1, "approver")}, nil, false, governance.Tally{Need: 1}, false},
		"one of one":                       {reqs{needs(1, "approver")}, votes{a}, false, governance.Tally{Have: 1, Need: 1}, true},
		"none required still needs one":    {reqs{needs(0, "approver")}, nil, false, governance.Tally{Need: 1}, false},
		"one user twice":                   {reqs{needs(2, "approver")}, votes{a, a}, false, governance.Tally{Have: 1, Need: 2}, false},
		"two users":                        {reqs{needs(2, "approver")}, votes{a, b}, false, governance.Tally{Have: 2, Need: 2}, true},
		"not eligible":                     {reqs{needs(1, "approver")}, votes{admin}, false, governance.Tally{Need: 1}, false},
		"eligible by escalation":           {reqs{needs(1, "approver")}, votes{admin}, true, governance.Tally{Have: 1, Need: 1}, true},
		"own vote":                         {reqs{needs(1, "approver")}, votes{self}, false, governance.Tally{Need: 1}, false},
		"own vote under two faces":         {reqs{needs(1, "approver")}, votes{a, self}, false, governance.Tally{Need: 1}, false},
		"own vote under two faces, turned": {reqs{needs(1, "approver")}, votes{self, a}, false, governance.Tally{Need: 1}, false},
		"one vote for both":                {reqs{needs(1, "approver"), needs(1, "approver", "admin")}, votes{a}, false, governance.Tally{Have: 1, Need: 1}, true},
		"the one that lacks most":          {reqs{needs(1, "approver"), needs(3, "approver")}, votes{a}, false, governance.Tally{Have: 1, Need: 3}, false},
		"more than enough hides no lack":   {reqs{needs(1, "approver"), needs(1, "admin")}, votes{a, b}, false, governance.Tally{Have: 0, Need: 1}, false},
		"no user is nobody":                {reqs{needs(1, "approver")}, votes{{Role: "approver"}}, false, governance.Tally{Need: 1}, false},
		"the one with more votes to get":   {reqs{needs(1, "approver"), needs(2, "approver", "admin")}, votes{a, b, admin}, false, governance.Tally{Have: 3, Need: 2}, true},
	} {
		got, enough := governance.Count(c.reqs, c.votes, c.escalated)
		require.Equal(t, c.enough, enough, name)
		require.Equal(t, c.want, got, name)
	}
}

func TestMergedRule(t *testing.T) {
	t.Parallel()
	escalate, reject, mute := needs(1, "owner"), needs(1, "owner"), needs(1, "owner")
	escalate.Rule.OnTimeout, escalate.Rule.TimeoutSeconds = governance.OnTimeoutEscalate, 3600
	reject.Rule.TimeoutSeconds, reject.Rule.ReasonRequired = 7200, true
	mute.Rule.TimeoutSeconds, mute.Rule.OnTimeout = 0, ""

	timeout, on, reason := governance.MergedRule([]governance.Requirement{escalate})
	require.Equal(t, time.Hour, timeout)
	require.Equal(t, governance.OnTimeoutEscalate, on)
	require.False(t, reason)

	for _, list := range [][]governance.Requirement{{escalate, reject}, {reject, escalate}} {
		timeout, on, reason = governance.MergedRule(list)
		require.Equal(t, time.Hour, timeout)
		require.Equal(t, governance.OnTimeoutReject, on)
		require.True(t, reason)
	}

	for _, list := range [][]governance.Requirement{nil, {mute}} {
		timeout, on, _ = governance.MergedRule(list)
		require.Equal(t, governance.DefaultApprovalTimeout, timeout)
		require.Equal(t, governance.OnTimeoutReject, on)
	}
}

// One may give up a call or an edit of one's own, and not release it.
func TestSelfCountsAgainstAnApprovalOnly(t *testing.T) {
	t.Parallel()
	now := time.Now()
	asking := governance.Asking{Status: governance.ApprovalPending, ExpiresAt: now.Add(time.Hour), Requirements: []governance.Requirement{needs(1, "approver")}}
	for name, c := range map[string]struct {
		voter   governance.Voter
		approve bool
		want    fault.Code
	}{
		"own, approve":          {governance.Voter{UserID: uuid.New(), Role: "approver", Self: true}, true, fault.CodeApproverNotEligible},
		"own, reject":           {governance.Voter{UserID: uuid.New(), Role: "approver", Self: true}, false, ""},
		"own, reject, a member": {governance.Voter{UserID: uuid.New(), Role: "member", Self: true}, false, fault.CodeApproverNotEligible},
		"another's, reject":     {governance.Voter{UserID: uuid.New(), Role: "approver"}, false, ""},
		"own, reject, no user":  {governance.Voter{Role: "", UserID: uuid.New(), Self: true}, false, fault.CodeApproverNotEligible},
	} {
		require.Equal(t, c.want, governance.Refusal(asking, governance.Vote{Voter: c.voter, Approve: c.approve}, now), name)
	}
}
