package redact

// Contains reports whether a secret is in text, in one of its forms.
func (s *Scrubber) Contains(text []byte) bool {
	return s != nil && len(s.find(text)) > 0
}
