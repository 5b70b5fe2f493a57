package agentdef_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentruntime/internal/agents/agentdef"
)

func TestPatternsMatchNames(t *testing.T) {
	t.Parallel()
	for pattern, names := range map[string]struct{ fits, others string }{
		"shop:get_order": {"shop:get_order", "shop:get_orders shop:get shop Shop:get_order"},
		"shop:*":         {"shop:get_order shop:", "shop2:get_order shop"},
		"*:get_*":        {"shop:get_order a:get_", "shop:list_gets get_order"},
		"tool:*":         {"tool:search", "tools:search"},
		"*:*":            {"shop:get a:b", "shop"},
		"shop:*_order*":  {"shop:get_order shop:get_orders_of shop:_order", "shop:order_get"},
		"s**p:a":         {"shop:a sp:a", "shop:b"},
	} {
		for name := range strings.SplitSeq(names.fits, " ") {
			require.True(t, agentdef.Matches([]string{"x:y", pattern}, name), "%s fits %q", name, pattern)
		}
		for name := range strings.SplitSeq(names.others, " ") {
			require.False(t, agentdef.Matches([]string{"x:y", pattern}, name), "%s does not fit %q", name, pattern)
		}
	}
}

func TestPatternsAreLikeExpressions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pattern, name := rapid.StringMatching(`[ab*]{0,6}:[ab*]{0,6}`).Draw(t, "pattern"), rapid.StringMatching(`[ab]{0,6}:[ab]{0,6}`).Draw(t, "name")
		same := regexp.MustCompile(`\A` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `[^:]*`) + `\z`)
		require.Equal(t, same.MatchString(name), agentdef.Matches([]string{pattern}, name), "%q %q", pattern, name)
	})
}
