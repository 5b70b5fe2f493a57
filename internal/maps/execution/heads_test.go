package execution

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// A tenant may have thousands of open executions, with a payload of 1 MiB each.
func TestHeadsAreBoundedByTheBytesOfTheirPayloads(t *testing.T) {
	t.Parallel()
	kept, err := newHeads()
	require.NoError(t, err)
	e := Execution{payload: strings.Repeat("x", 1<<20), Output: []byte(strings.Repeat("x", 1<<20))}
	for range 100 {
		e.ID = uuid.New()
		kept.Add(e)
		require.LessOrEqual(t, kept.Bytes(), headsMost)
	}
	last, known := kept.Get(e.ID)
	require.True(t, known)
	require.Len(t, last.payload, 1<<20)
	require.Nil(t, last.Output, "outputs are not kept")
	kept.Remove(e.ID)
	_, known = kept.Get(e.ID)
	require.False(t, known)
}
