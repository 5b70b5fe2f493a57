package governance_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/redact"
)

// The memory that a call takes while it is judged is a multiple of its arguments. Those who evaluate
// count on it.
func TestMemoryOfACallIsAMultipleOfItsArguments(t *testing.T) { //nolint:paralleltest // it counts what this process allocates
	set := governance.Compile(1, []governance.Policy{policy("large", block, cond("args.amount", "greater", "1"))})
	mask := redact.NewMasker(json.RawMessage(`{"type":"object","properties":{"word":{"type":"string","format":"password"}}}`))
	var members strings.Builder
	for i := range 8000 {
		fmt.Fprintf(&members, `,"%x":0`, i)
	}
	for name, args := range map[string]string{ //nolint:paralleltest // as above
		"numbers": `{"amount":5,"a":[0` + strings.Repeat(",0", 30_000) + `]}`,
		"objects": `{"amount":5,"a":[{}` + strings.Repeat(",{}", 20_000) + `]}`,
		"arrays":  `{"amount":5,"a":[[]` + strings.Repeat(",[]", 20_000) + `]}`,
		"commas":  `{"amount":5,"a":"` + strings.Repeat(",", 60_000) + `","b":[` + strings.Repeat("1,", 40) + `1]}`,
		"members": `{"amount":5` + members.String() + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := benchmarkCall(args)
			c.Masked = func() json.RawMessage { shown, _ := mask.Mask(json.RawMessage(args)); return shown }
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			require.Equal(t, governance.Block, set.Evaluate(c).Decision)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(args)*governance.BytesPerByte))
		})
	}
}
