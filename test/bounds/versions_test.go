package bounds

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// Each change of a policy keeps a version. The oldest make room for the next, and a flood of changes by a
// key comes to an end before it fills what people need.
func TestVersionsOfPoliciesAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		conditions, changes, most int
		refused                   bool
	}{
		"their number": {1, 9, 5, false}, // as set for this suite
		"their bytes":  {5, 1, 3, true},
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
			for n := range c.changes {
				status(t, key.Do(http.MethodPut, "/v1/policies/"+id, body(n)), http.StatusOK)
			}
			if c.refused {
				refused := key.Do(http.MethodPut, "/v1/policies/"+id, body(99))
				require.Equal(t, "QUOTA_EXCEEDED", refused.Code(t))
				require.Contains(t, string(refused.Body), "policy_version_bytes")
				status(t, tenant.User.Do(http.MethodPut, "/v1/policies/"+id, body(100)), http.StatusOK)
				require.Equal(t, "QUOTA_EXCEEDED", tenant.User.Do(http.MethodPut, "/v1/policies/"+id, body(101)).Code(t))
			}
			for _, enabled := range []bool{false, true, false} {
				status(t, tenant.User.Do(http.MethodPatch, "/v1/policies/"+id, m{"enabled": enabled}), http.StatusOK)
			}
			var kept []m
			tenant.User.Do(http.MethodGet, "/v1/policies/"+id+"/versions", nil).Data(t, &kept)
			require.LessOrEqual(t, len(kept), c.most)
			tenant.User.NewPolicy(t, body(102))
			status(t, tenant.User.Do(http.MethodDelete, "/v1/policies/"+id, nil), http.StatusOK)
		})
	}
}
