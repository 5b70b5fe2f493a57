package governance

// Knows reports whether the schema has the argument path (without "args.", names with
// dots escaped as in conditions). Arrays are entered where the path has a name.
func (f *Fields) Knows(path string) bool {
	segments, err := parsePath(path)
	if err != nil {
		return false
	}
	left := maxWork
	known, _ := f.find(segments, &left)
	return known
}
