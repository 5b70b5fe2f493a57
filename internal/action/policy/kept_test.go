package policy

import (
	"testing"

	"github.com/google/uuid"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/governance"
)

func TestWhatAProcessKeepsIsBounded(t *testing.T) {
	t.Parallel()
	s := &Sets{}
	var err error
	s.kept, err = simplelru.NewLRU(keptTenants, func(_ uuid.UUID, gone *Set) { s.weight -= gone.weight })
	require.NoError(t, err)
	of := func(version int64, weight int) *Set {
		return &Set{Policies: governance.Compile(version, nil), weight: weight}
	}
	a, b, c := uuid.New(), uuid.New(), uuid.New()
	s.put(a, of(1, keptPolicies/2))
	s.put(b, of(1, keptPolicies/2))
	require.NotNil(t, s.get(a, 1), "used last from now on")
	s.put(c, of(1, keptPolicies/4))
	require.Nil(t, s.get(b, 1))
	require.NotNil(t, s.get(a, 1))
	require.NotNil(t, s.get(c, 1))
	require.Equal(t, keptPolicies/2+keptPolicies/4, s.weight)

	// Of one tenant there is one set, the latest; a late reader does not bring back an old one.
	latest := of(7, 10)
	s.put(a, latest)
	s.put(a, of(6, 10))
	require.Same(t, latest, s.get(a, 7))
	require.Same(t, latest, s.get(a, 3), "a later one will do")
	require.Nil(t, s.get(a, 8))
	require.Equal(t, 10+keptPolicies/4, s.weight)

	// One that is larger than all that may be kept is kept alone.
	s.put(b, of(1, 2*keptPolicies))
	require.NotNil(t, s.get(b, 1))
	require.Equal(t, 1, s.kept.Len())
	require.Equal(t, 2*keptPolicies, s.weight)
}
