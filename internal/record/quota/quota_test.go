package quota_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/record/quota"
)

func TestDocumentedQuotasAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/operate/configuration.md")
	require.NoError(t, err)
	for _, s := range quota.Table() {
		most := strconv.FormatInt(s.Most, 10)
		for at := len(most) - 3; at > 0; at -= 3 {
			most = most[:at] + "," + most[at:]
		}
		require.Contains(t, string(page), fmt.Sprintf("| `%s` | %s | %s |\n", s.Resource, most, s.Counted))
	}
}

func TestSettingChangesOnlyTheNamedLimits(t *testing.T) {
	t.Parallel()
	l, err := quota.New(map[string]int64{"keys": 7})
	require.NoError(t, err)
	require.EqualValues(t, 7, l.Most(quota.Keys))
	require.Equal(t, quota.Limits{}.Most(quota.Grants), l.Most(quota.Grants))
	for _, wrong := range []map[string]int64{{"kyes": 1}, {"keys": 0}, {"keys": -1}} {
		_, err := quota.New(wrong)
		require.Error(t, err)
		require.True(t, strings.HasPrefix(err.Error(), "QUOTAS: "), err.Error())
	}
}
