package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"

	"agentruntime/internal/base/verb"
)

// maxDomain is the longest domain of a verb.
const maxDomain = 64

// snake writes s in snake_case with the letters a to z and digits only:
// "GetV1Charges" → "get_v1_charges", "issues/list-for-repo" →
// "issues_list_for_repo", "HTTPServer" → "http_server".
func snake(s string) string {
	var b strings.Builder
	runes := []rune(s)
	gap := false
	for i, r := range runes {
		if r > unicode.MaxASCII || (!unicode.IsLetter(r) && !unicode.IsDigit(r)) {
			gap = b.Len() > 0
			continue
		}
		if gap || startsWord(runes, i) {
			if b.Len() > 0 {
				b.WriteByte('_')
			}
			gap = false
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// startsWord reports whether the capital at i opens a word of a camel-cased name.
func startsWord(runes []rune, i int) bool {
	if i == 0 || !unicode.IsUpper(runes[i]) {
		return false
	}
	before := runes[i-1]
	if unicode.IsLower(before) || unicode.IsDigit(before) {
		return true
	}
	return unicode.IsUpper(before) && i+1 < len(runes) && unicode.IsLower(runes[i+1])
}

// names hands out verb names that are unique within one provider.
type names struct {
	provider string
	taken    map[string]bool
}

// propose returns the verb name of an operation: its operationId in snake_case, or
// method and path. A name that is taken gets a suffix that depends on method and
// path only, so a new operation elsewhere in the document does not rename it. of is the name
// that is taken, "" where none is. The name is taken once the operation has become a verb.
func (n *names) propose(operationID, method, path string) (name, of string) {
	base := snake(operationID)
	if base == "" {
		base = snake(strings.ToLower(method) + " " + path)
	}
	name = verb.Fit(n.provider, base)
	if n.taken[name] {
		of = name
	}
	sum := sha256.Sum256([]byte(method + " " + path))
	for try := 0; n.taken[name]; try++ {
		suffix := "_" + hex.EncodeToString(sum[:3])
		if try > 0 {
			suffix += "_" + strconv.Itoa(try)
		}
		name = verb.Fit(n.provider, base+suffix)
	}
	return name, of
}
