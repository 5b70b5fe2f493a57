package db_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
)

func TestIDsNamedAreThoseOfTheBeginning(t *testing.T) {
	t.Parallel()
	for begins, want := range map[string][2]string{
		"exec_":          {"00000000-0000-0000-0000-000000000000", ""},
		"exec_01":        {"01000000-0000-0000-0000-000000000000", "02000000-0000-0000-0000-000000000000"},
		"EXEC_01A":       {"01a00000-0000-0000-0000-000000000000", "01b00000-0000-0000-0000-000000000000"},
		"exec_01a21f4e-": {"01a21f4e-0000-0000-0000-000000000000", "01a21f4f-0000-0000-0000-000000000000"},
		"exec_01a21f4e-7b6e-7c40-9d55-0a3c5f0f6a22": {"01a21f4e-7b6e-7c40-9d55-0a3c5f0f6a22", "01a21f4e-7b6e-7c40-9d55-0a3c5f0f6a23"},
		"exec_ff": {"ff000000-0000-0000-0000-000000000000", ""},
	} {
		low, high, ours := db.IDsNamed(begins)
		require.True(t, ours, begins)
		require.Equal(t, want[0], low.String(), begins)
		if want[1] == "" {
			require.Nil(t, high, begins)
			continue
		}
		require.Equal(t, want[1], high.String(), begins)
	}
	for _, begins := range []string{"", "exec", "order-1", "exec_x", "exec_01a21f4e7", "exec_01a2-", "exec_01a21f4e-7b6e-7c40-9d55-0a3c5f0f6a220"} {
		_, _, ours := db.IDsNamed(begins)
		require.False(t, ours, begins)
	}
	a, b, c := uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{3}
	from, to := db.Within(&a, &c, &b, nil)
	require.Equal(t, []*uuid.UUID{&b, &c}, []*uuid.UUID{from, to})
	from, to = db.Within(nil, nil, &a, &b)
	require.Equal(t, []*uuid.UUID{&a, &b}, []*uuid.UUID{from, to})
}
