package bounds

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/fault"
	"agentruntime/test/rig"
)

// Each change of a policy keeps a version, which nothing removes. A policy can be deleted all the same.
func TestVersionsOfPoliciesAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		conditions, most int
		quota            string
	}{
		"their number": {1, 5, "policy_versions"}, // as set for this suite
		"their bytes":  {5, 3, "policy_version_bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tenant := sharedDev().For(t).NewTenant(rig.Address())
			body := func(n int) m {
				var conditions []m
				for range c.conditions {
					conditions = append(conditions, m{"field": "args.a", "operator": "equals", "value": strings.Repeat("x", 20_000/5)})
				}
				return rig.Policy(fmt.Sprint("p", n), "notify", "bank:*", m{"conditions": conditions})
			}
			id := tenant.User.NewPolicy(t, body(1))
			for n := 2; n <= c.most; n++ {
				status(t, tenant.User.Do(http.MethodPut, "/v1/policies/"+id, body(n)), http.StatusOK)
			}
			refused := tenant.User.Do(http.MethodPut, "/v1/policies/"+id, body(99))
			require.Equal(t, http.StatusForbidden, refused.Status, "%s", refused.Body)
			require.Equal(t, string(fault.CodeQuotaExceeded), refused.Envelope(t).Error.Code)
			require.Contains(t, string(refused.Body), c.quota)
			status(t, tenant.User.Do(http.MethodDelete, "/v1/policies/"+id, nil), http.StatusOK)
		})
	}
}
