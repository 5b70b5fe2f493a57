package db

import "time"

// Page cuts rows, which were read with a limit of one more than asked for, to the page
// and says whether there are more.
func Page[T any](rows []T, limit int) (page []T, more bool) {
	return rows[:min(len(rows), limit)], len(rows) > limit
}

// Optional returns nil for an empty text: a filter that does not narrow, a column that
// is null.
func Optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// UTC returns the time in UTC, nil for none.
func UTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
