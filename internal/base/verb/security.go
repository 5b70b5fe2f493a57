package verb

// Scheme is one secret that a provider asks for, and where it expects it. Plans store it, so a
// field is never renamed.
type Scheme struct {
	Name string `json:"scheme,omitempty"` // as the document names it, "" where the import's auth says
	Type string `json:"type"`             // a credential.Kind
	In   string `json:"in,omitempty"`     // of an api_key: header, query or cookie
	Wire string `json:"name,omitempty"`   // of an api_key: the name there
	// Scopes are what a token must be granted, separated by spaces: for people. No credential says
	// which it has.
	Scopes string `json:"scopes,omitempty"`
}

// Security says what a call must present: all schemes of one of the alternatives. An alternative
// without schemes is met by every call. Where a plan has none, its provider's auth counts.
type Security [][]Scheme

// Public reports whether a call may present nothing.
func (s Security) Public() bool {
	for _, alternative := range s {
		if len(alternative) == 0 {
			return true
		}
	}
	return false
}
