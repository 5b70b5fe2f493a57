package stepping

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/verb"
)

// The catalog has up to 100,000 verbs, and a step up to 100 patterns.
func TestEachProviderIsReadOnceForTheToolsOfAnAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ patterns, want []string }{
		"none":                 {nil, nil},
		"of one provider":      {[]string{"shop:get_order", "shop:list_*", "shop:*"}, []string{"shop"}},
		"of two":               {[]string{"shop:get_order", "crm:*", "shop:*"}, []string{"shop", "crm"}},
		"of any, among others": {[]string{"shop:*", "*:get_*", "*:list_*", "s*:x"}, []string{""}},
	} {
		require.Equal(t, c.want, providersOf(c.patterns), name)
	}
}

func TestToolsMatchAnyOfTheirPatterns(t *testing.T) {
	t.Parallel()
	patterns := []string{"shop:get_*", "*:refund"}
	for name, want := range map[string]bool{"shop:get_order": true, "crm:refund": true, "shop:refund": true, "crm:get_order": false, "shop:delete_order": false} {
		parsed, err := verb.Parse(name)
		require.NoError(t, err)
		require.Equal(t, want, matches(patterns, parsed), name)
	}
}
