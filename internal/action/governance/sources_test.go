package governance_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
)

// The reason says what the session has read where the policy asks about that, and nothing of it otherwise.
func TestReasonNamesWhatTaintedTheSession(t *testing.T) {
	t.Parallel()
	yes := true
	about := governance.Context{Tainted: &yes, TaintSources: []string{"shop:get_ticket", "fact:1", "event", "a:b", "c:d", "e:f", "g:h"}}
	for field, says := range map[string]bool{"session.tainted": true, "session.taint_sources": true, "dry_run": false} {
		p := policy("Ask", approve)
		p.Conditions = []governance.Condition{{Field: field, Operator: governance.OpExists}}
		c := at("medium")
		c.Context = about
		c.Context.DryRun = &yes
		v := governance.Compile(1, []governance.Policy{p}).Evaluate(c)
		require.Equal(t, governance.PendingApproval, v.Decision)
		if says {
			require.Contains(t, v.Reason, ". The session has read shop:get_ticket, fact:1, event, a:b, c:d and 2 more sources. It is held until it is approved")
		} else {
			require.NotContains(t, v.Reason, "has read")
		}
	}
}

// A list of sources that has no room for all of them answers no question: the stricter side is taken.
func TestSourcesThatAreNotAllNamedAreInDoubt(t *testing.T) {
	t.Parallel()
	c := refund(`{}`)
	has := cond("session.taint_sources", "contains", `"mail:read"`)
	c.Context.TaintSources = []string{"shop:get_ticket"}
	require.Equal(t, no, judge(t, has, c))
	c.Context.TaintSources = []string{"shop:get_ticket", "more"}
	require.Equal(t, closed, judge(t, has, c))
}

func TestReasonCutsAnAddressBetweenLetters(t *testing.T) {
	t.Parallel()
	yes := true
	p := policy("Ask", approve)
	p.Conditions = []governance.Condition{{Field: "session.tainted", Operator: governance.OpExists}}
	c := at("medium")
	c.Context = governance.Context{Tainted: &yes, TaintSources: []string{"event"}, UnnamedAddress: "a" + strings.Repeat("ü", 200)}
	reason := governance.Compile(1, []governance.Policy{p}).Evaluate(c).Reason
	require.True(t, utf8.ValidString(reason), reason)
	require.Contains(t, reason, "aüü")
}
