package docs_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
)

// The table of fields in policies.md says of each field who sets it, as the code does.
func TestPoliciesPageSaysWhoSetsEachField(t *testing.T) {
	t.Parallel()
	_, part, found := strings.Cut(read(t, "use/policies.md"), "\n### Who sets a field\n")
	require.True(t, found)
	part, _, _ = strings.Cut(part, "\n#")
	told, told2 := map[string]string{}, 0
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*`) \\| (.*) \\|$").FindAllStringSubmatch(part, -1) {
		if row[2] == "Set by" {
			continue
		}
		for name := range strings.SplitSeq(row[1], ", ") {
			told[strings.Trim(name, "`")], told2 = row[2], told2+1
		}
	}
	require.Len(t, told, told2, "a field is there twice")
	require.Len(t, told, len(governance.FieldInfos()))
	for _, info := range governance.FieldInfos() {
		require.Equal(t, string(info.SetBy), told[info.Name], info.Name)
	}
}
