// Package resultnote says what is kept beside the result of a call: which headers of the provider's
// answer, and why an answer became no result. The service that sends makes a Note, the run domain
// stores it, and the API shows it. It reads no body and stores nothing.
package resultnote

import (
	"encoding/json"
	"net/textproto"
	"slices"
	"strings"

	"agentruntime/internal/base/httpfield"
	"agentruntime/internal/base/redact"
)

// MaxHeaders is how many bytes the names and values of a note's headers have together.
const MaxHeaders = 8 << 10

// Codes of a Problem. The call was executed with each of them.
const (
	CutOff     = "RESULT_CUT_OFF"    // the answer broke off
	TooLarge   = "RESULT_TOO_LARGE"  // the answer is larger than what is kept
	Malformed  = "RESULT_MALFORMED"  // the body is not what its Content-Type says
	Withheld   = "RESULT_WITHHELD"   // a file that contains the credential of the call
	OverQuota  = "QUOTA_EXCEEDED"    // the tenant's files have no room for this one
	NotStored  = "RESULT_NOT_STORED" // the file could not be stored
	maxMessage = 512                 // bytes of a message
	null       = `{"result":null,`   // begins what a model is told
)

// Problem is why an answer became no result.
type Problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// NewProblem returns a Problem whose message is bounded.
func NewProblem(code, message string) *Problem {
	return &Problem{Code: code, Message: message[:min(len(message), maxMessage)]}
}

// Ours reports whether the provider's answer was right and was not kept all the same. Then a read has
// not failed either.
func (p *Problem) Ours() bool {
	return p != nil && (p.Code == Withheld || p.Code == OverQuota || p.Code == NotStored)
}

// Note is what is kept beside a result.
type Note struct {
	Error   *Problem          `json:"error,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Empty reports whether there is nothing to keep.
func (n Note) Empty() bool { return n.Error == nil && len(n.Headers) == 0 }

// HasWords reports whether a header says more than a number.
func (n Note) HasWords() bool {
	for _, value := range n.Headers {
		if strings.Trim(value, "0123456789") != "" {
			return true
		}
	}
	return false
}

// Read returns a stored note; an empty one where it does not parse.
func Read(stored []byte) (n Note) {
	if json.Unmarshal(stored, &n) != nil {
		return Note{}
	}
	return n
}

// Masked returns the note as others than the caller may see it.
func (n Note) Masked() Note {
	if len(n.Headers) == 0 {
		return n
	}
	shown := make(map[string]string, len(n.Headers))
	for name, value := range n.Headers {
		shown[name] = redact.Text(value)
	}
	n.Headers = shown
	return n
}

// Told returns a result as a model reads it: with the reason where there is none.
func (n Note) Told(result json.RawMessage) json.RawMessage {
	if n.Error == nil {
		return result
	}
	why, err := json.Marshal(n.Error)
	if err != nil {
		return result
	}
	return slices.Concat([]byte(null+`"result_error":`), why, []byte("}"))
}

// always are the headers that are kept without being declared.
func always() []string { return []string{"Link", "X-Total-Count", "ETag", "Location", "Retry-After"} }

// Keepable reports whether a header of this name may be kept: it is a name, and nothing that carries
// a credential, a cookie or a challenge.
func Keepable(name string) bool {
	lower := strings.ToLower(name)
	switch {
	case !httpfield.IsToken(name), redact.SecretHeader(name), strings.Contains(lower, "cookie"):
		return false
	}
	return !strings.Contains(lower, "authenticat") && !strings.Contains(lower, "authoriz")
}

// Headers returns the headers of an answer that are kept: the usual ones first, as they are spelled in
// always, then the declared ones by their canonical names. Values of one name are joined by a comma. A header for which there
// is no room is left out. clean takes the credential out of a value.
func Headers(h map[string][]string, declared []string, clean func([]byte) []byte) map[string]string {
	kept, room := map[string]string{}, MaxHeaders
	usual, seen := always(), map[string]bool{}
	for i, name := range append(usual, declared...) {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if i >= len(usual) {
			name = canonical
		}
		values := h[canonical]
		if seen[canonical] || len(values) == 0 || !Keepable(name) {
			continue
		}
		seen[canonical] = true
		value := string(clean([]byte(strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD"))))
		if room < len(name)+len(value) {
			continue
		}
		room -= len(name) + len(value)
		kept[name] = value
	}
	return kept
}
