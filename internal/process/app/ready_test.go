package app

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/base/fault"
)

func TestPartsThatAreAwayAreNamed(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused at 10.0.0.5")
	for want, parts := range map[string][2]error{
		"":                                {nil, nil},
		"postgres":                        {down, nil},
		"temporal":                        {nil, down},
		"postgres not_migrated, temporal": {db.ErrNotMigrated, down},
	} {
		var got string
		if f := fault.As(partsAway(parts[0], parts[1])); f != nil {
			require.Equal(t, fault.CodeServiceUnavailable, f.Code)
			require.NotContains(t, f.Message, "10.0.0.5")
			for _, part := range f.Details {
				if got != "" {
					got += ", "
				}
				got += part.Path
				if part.Rule != "away" {
					got += " " + part.Rule
				}
				require.Contains(t, f.Message, part.Message)
			}
		}
		require.Equal(t, want, got)
	}
}
