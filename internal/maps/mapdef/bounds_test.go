package mapdef_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/mapdef"
)

func TestFaultsAreBounded(t *testing.T) {
	t.Parallel()
	var unknown, bare strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&unknown, `,"%x":1`, i)
	}
	for range 1_500 {
		bare.WriteString(`,"${nothing}"`)
	}
	for name, members := range map[string]string{"of the form": unknown.String(), "of the meaning": `,"output":[1` + bare.String() + `]`} {
		source := `{"schema_version":"1","name":"x","steps":[]` + members + `}`
		d, faults := mapdef.Read([]byte(source))
		wrong, _ := d.Check()
		all := append(faults, wrong...)
		require.LessOrEqual(t, len(all), 2_002, name)
		require.Contains(t, all, mapdef.Fault{Path: "", Rule: "too_many", Message: "there are more faults than the 1,000 that are listed"}, name)
	}
}

// Processes keep definitions by their size. Not parallel: it looks at the memory of the process.
func TestSizeIsThatInMemory(t *testing.T) { //nolint:paralleltest // see above
	for name, expr := range map[string]string{
		"paths": "${trigger_data.a}", "parts": "${[trigger_data.a.b, 1 + 2, {x: 3, y: [4, 5, 6, 7, 8, 9]}, (1, 2, 3, 4, 5)] | length}",
	} {
		var steps []string
		for i := range 190 {
			steps = append(steps, fmt.Sprintf(`{"id":"s%d","type":"transform","expr":[%s]}`, i, strings.Repeat(`"`+expr+`",`, 9)+"1"))
		}
		source := []byte(fmt.Sprintf(`{"schema_version":"1","name":"x","steps":[%s]}`, strings.Join(steps, ",")))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		d, faults := mapdef.Read(source)
		require.Empty(t, faults, name)
		runtime.GC()
		runtime.ReadMemStats(&after)
		takes := int(after.HeapAlloc) - int(before.HeapAlloc)
		require.Greater(t, 2*d.Size(), takes, name)
		require.Less(t, d.Size(), 4*takes, name)
		runtime.KeepAlive(d)
	}
}
