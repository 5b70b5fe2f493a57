package db

// Page returns at most limit rows, and whether there are more. rows must have been read
// with a limit of limit+1.
func Page[T any](rows []T, limit int) (page []T, more bool) {
	return rows[:min(len(rows), limit)], len(rows) > limit
}

// Optional returns nil for an empty text, otherwise the text: for a filter that does not
// narrow, or a column that is null.
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
