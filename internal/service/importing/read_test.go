package importing

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// What is fetched waits in memory for its turn, so a body has no room behind it, whatever its server says
// about its length. A body that is broken off is an error.
func TestReadAllKeepsNoRoom(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, firstRead, firstRead + 1, firstRead + 2, 3 << 20, 5<<20 + 17} {
		want := bytes.Repeat([]byte("document"), size/8+1)[:size]
		for _, told := range []int64{firstRead, int64(max(size, firstRead)), maxSmallFetched} {
			got, err := readAll(iotest.HalfReader(bytes.NewReader(want)), told)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got), "%d bytes, told %d", size, told)
			require.LessOrEqual(t, cap(got)-len(got), len(got)/8+8<<10, "%d bytes, told %d", size, told)
		}
	}
	broken := errors.New("broken off")
	for _, err := range []error{broken, io.ErrUnexpectedEOF} {
		_, got := readAll(io.MultiReader(bytes.NewReader(make([]byte, 2*firstRead)), iotest.ErrReader(err)), firstRead)
		require.ErrorIs(t, got, err)
	}
}
