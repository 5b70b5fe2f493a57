package policy

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/bytelru"
)

func TestWhatAProcessKeepsIsBoundedByBytes(t *testing.T) {
	t.Parallel()
	s := &Sets{}
	var err error
	s.kept, err = bytelru.New[uuid.UUID, *Set](100_000)
	require.NoError(t, err)
	of := func(version int64, policies int) *Set {
		list := make([]governance.Policy, policies)
		for i := range list {
			list[i] = governance.Policy{Name: "p", Enabled: true, Action: governance.ActionBlock}
		}
		return &Set{Policies: governance.Compile(version, list)}
	}
	a, b, c := uuid.New(), uuid.New(), uuid.New()
	s.put(a, of(1, 60))
	s.put(b, of(1, 60))
	require.NotNil(t, s.get(a, 1), "used last from now on")
	s.put(c, of(1, 60))
	require.Nil(t, s.get(b, 1))
	require.NotNil(t, s.get(a, 1))
	require.NotNil(t, s.get(c, 1))
	require.Less(t, s.kept.Bytes(), 100_000)

	// Of one tenant there is one set, the latest; a late reader does not bring back an old one.
	latest := of(7, 10)
	s.put(a, latest)
	s.put(a, of(6, 10))
	require.Same(t, latest, s.get(a, 7))
	require.Same(t, latest, s.get(a, 3), "a later one will do")
	require.Nil(t, s.get(a, 8))

	// One that is larger than all that may be kept is kept alone.
	s.put(b, of(1, 1000))
	require.NotNil(t, s.get(b, 1))
	require.Nil(t, s.get(a, 1))
}
