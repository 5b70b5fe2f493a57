package stepmachine_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/mapdef"
	"agentruntime/internal/kernel/stepmachine"
)

func TestTitlesSayWhatTheirCodesMean(t *testing.T) {
	t.Parallel()
	ofExpressions := stepmachine.NewError("EXPRESSION_ERROR", "").Title
	for _, typ := range mapdef.Types() {
		for _, code := range mapdef.Codes(typ) {
			title := stepmachine.NewError(code, "").Title
			require.NotEmpty(t, title, code)
			require.Equal(t, strings.HasPrefix(code, "EXPRESSION_"), title == ofExpressions, "%s: %s", code, title)
		}
	}
}
