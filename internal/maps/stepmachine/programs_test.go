package stepmachine_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/stepmachine"
)

func TestExecutionsOfAVersionShareItsProgram(t *testing.T) {
	t.Parallel()
	kept, text := stepmachine.NewPrograms(), []byte(`{"schema_version":"1","name":"One","steps":[{"id":"a","type":"transform","expr":"${1}"}]}`)
	first, err := kept.Of(text)
	require.NoError(t, err)
	second, err := kept.Of(slices.Clone(text))
	require.NoError(t, err)
	require.Same(t, first, second)
	_, err = kept.Of([]byte(`{"schema_version":"1"}`))
	require.ErrorContains(t, err, "read a stored definition")
}
