package governance

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// A document may send single operations to a server of another party. The secret goes there once an
// owner or an admin has added that origin.
func TestSecretGoesToAServerOfAnOperationOnceAUserAddsIt(t *testing.T) {
	t.Parallel()
	hosts := func(list ...*host) m {
		var names []string
		for _, h := range list {
			names = append(names, strings.TrimPrefix(h.url, "http://"))
		}
		return m{"allowed_hosts": names}
	}
	for name, by := range map[string]func(th *thief) *rig.Client{
		"the owner": func(th *thief) *rig.Client { return th.User },
		"an admin":  func(th *thief) *rig.Client { admin, _ := th.member("admin"); return admin },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newThief(t)
			at := []m{{"url": th.evil.url + "/v2"}}
			upload := op("upload", m{"risk_level": "low"})
			upload["servers"] = at
			a := th.imports(th.User, th.good, shopPaths(m{
				"/uploads": m{"post": upload},
				"/reports": m{"servers": at, "get": op("getReports", nil)},
			}))
			require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
			credential := th.stores()

			verbs := []string{"shop:upload", "shop:get_reports"}
			elsewhere := func() {
				t.Helper()
				for _, verb := range verbs {
					e := refused(t, th.Runtime.Run(verb, m{}, verb), http.StatusUnprocessableEntity, "URL_NOT_ALLOWED")
					require.Contains(t, e.Error.Message, "may not be sent to "+th.evil.url+". It is bound to "+th.good.url)
				}
			}
			elsewhere()
			succeeded(t, th.run())
			require.Equal(t, []string{"GET Bearer " + token}, th.good.calls())

			member, _ := th.member("member")
			for _, c := range []*rig.Client{th.vault, th.providers, th.Runtime, member} {
				for _, patch := range []m{hosts(th.good, th.evil), hosts(th.evil), {"origin": th.evil.url}} {
					require.Contains(t, []string{"INSUFFICIENT_PERMISSIONS", "UNAUTHENTICATED"}, c.Do(http.MethodPatch, credential, patch).Code(t))
				}
			}
			elsewhere()
			require.Empty(t, th.evil.calls())

			a = by(th).Do(http.MethodPatch, credential, hosts(th.good, th.evil))
			require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
			for _, verb := range verbs {
				succeeded(t, th.Runtime.Run(verb, m{}, verb))
			}
			succeeded(t, th.run())
			require.Equal(t, []string{"POST Bearer " + token, "GET Bearer " + token}, th.evil.calls())
			require.Len(t, th.good.calls(), 2)

			require.Equal(t, http.StatusOK, th.vault.Do(http.MethodPatch, credential, hosts(th.good)).Status, "a key may narrow")
			for _, verb := range verbs {
				refused(t, th.Runtime.Run(verb, m{}, "narrowed"+verb), http.StatusUnprocessableEntity, "URL_NOT_ALLOWED")
				require.Len(t, th.evil.calls(), len(verbs))
			}
		})
	}
}
