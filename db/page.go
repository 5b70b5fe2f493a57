package db

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

// Text returns the text, "" for none.
func Text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
