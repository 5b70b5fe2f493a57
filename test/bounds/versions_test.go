package bounds

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// Each change of a policy keeps a version. The oldest make room for the next, so that a flood of changes
// takes no more space, and nobody is kept from changing what governs.
func TestVersionsOfPoliciesAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ conditions, most int }{
		"their number": {1, 5}, // as set for this suite
		"their bytes":  {5, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tenant := sharedDev().For(t).NewTenant(rig.Address())
			key := tenant.Runtime.With(tenant.User.NewKey(t, "policies:manage").Key, "")
			body := func(n int) m {
				var conditions []m
				for range c.conditions {
					conditions = append(conditions, m{"field": "args.a", "operator": "equals", "value": strings.Repeat("x", 20_000/5)})
				}
				return rig.Policy(fmt.Sprint("p", n), "notify", "bank:*", m{"conditions": conditions})
			}
			id := tenant.User.NewPolicy(t, body(1))
			for n := 2; n <= 2*c.most; n++ {
				status(t, key.Do(http.MethodPut, "/v1/policies/"+id, body(n)), http.StatusOK)
			}
			var kept []m
			tenant.User.Do(http.MethodGet, "/v1/policies/"+id+"/versions", nil).Data(t, &kept)
			require.LessOrEqual(t, len(kept), c.most)
			require.EqualValues(t, 2*c.most, kept[0]["version"])
			status(t, tenant.User.Do(http.MethodDelete, "/v1/policies/"+id, nil), http.StatusOK)
		})
	}
}
