package approvals

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// history is what the test knows of the values that things had over time. A change is
// known to lie between its request and its answer; one that was not answered may come
// at any time after its request.
type history struct{ events []event }

type event struct {
	key, value   string
	began, ended time.Time
	sure         bool
}

// note adds a change that is over now.
func (h *history) note(key, value string, began time.Time, sure bool) {
	h.events = append(h.events, event{key, value, began, time.Now(), sure})
}

// possible lists the values that the key can have had at some moment from a to b.
func (h *history) possible(key string, a, b time.Time) []string {
	var values []string
	for _, e := range h.events {
		switch {
		case e.key != key || e.began.After(b):
		case e.sure && e.ended.Before(a):
			values = []string{e.value}
		default:
			values = append(values, e.value)
		}
	}
	return values
}

// keys lists the keys with the prefix.
func (h *history) keys(prefix string) []string {
	var list []string
	for _, e := range h.events {
		if len(e.key) > len(prefix) && e.key[:len(prefix)] == prefix && !slices.Contains(list, e.key) {
			list = append(list, e.key)
		}
	}
	return list
}

func TestHistoryListsPossibleValues(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	h := history{events: []event{
		{"k", "first", at(10), at(11), true},
		{"k", "second", at(20), at(21), true},
		{"k", "perhaps", at(30), at(31), false},
	}}
	for name, c := range map[string]struct {
		from, to int
		want     []string
	}{
		"before":                  {1, 5, nil},
		"while it is made":        {10, 10, []string{"first"}},
		"between two":             {12, 15, []string{"first"}},
		"over a change":           {19, 22, []string{"first", "second"}},
		"after the second":        {25, 26, []string{"second"}},
		"after one not answered":  {50, 60, []string{"second", "perhaps"}},
		"it may have come before": {31, 32, []string{"second", "perhaps"}},
	} {
		require.Equal(t, c.want, h.possible("k", at(c.from), at(c.to)), name)
	}
	require.Equal(t, []string{"k"}, h.keys(""))
	require.Empty(t, h.keys("other"))
}
