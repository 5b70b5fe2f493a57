// Package verb is the vocabulary of the catalog: the name of a verb, its risk, its kind of
// operation, and what a repeat of it does at the provider; and a whole verb as an import
// makes it. Every layer uses it. It does no I/O and decides nothing about calls.
package verb

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"agentruntime/internal/base/fault"
)

// Risk is a verb's risk level. The catalog stores it as text.
type Risk string

// Risk levels (docs/use/governance.md).
const (
	RiskLow    Risk = "low"
	RiskMedium Risk = "medium"
	RiskHigh   Risk = "high"
)

// Operation is what a verb does to the provider's state.
type Operation string

// Operation types (docs/use/catalog-and-providers.md).
const (
	Read  Operation = "read"
	Write Operation = "write"
)

// Idempotency says what a second identical request does at the provider. With "none" it
// has a second effect, with "intrinsic" it changes nothing more. With "header:<Name>" the
// provider recognizes a repeat by the idempotency key in that header.
type Idempotency string

// The fixed values. A value of the form header:<Name> is read with ParseIdempotency.
const (
	IdempotencyNone      Idempotency = "none"
	IdempotencyIntrinsic Idempotency = "intrinsic"
	headerPrefix                     = "header:"
)

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$") // RFC 9110 token

// ParseIdempotency reads "none", "intrinsic" or "header:<Name>". It returns false for
// anything else, and for a name that is no HTTP header name of at most 64 characters.
func ParseIdempotency(s string) (Idempotency, bool) {
	if s == string(IdempotencyNone) || s == string(IdempotencyIntrinsic) {
		return Idempotency(s), true
	}
	name, ok := strings.CutPrefix(s, headerPrefix)
	if !ok || !headerName.MatchString(name) {
		return "", false
	}
	return Idempotency(s), true
}

// Header returns the name of the header that carries an idempotency key, "" if none does.
func (i Idempotency) Header() string {
	name, ok := strings.CutPrefix(string(i), headerPrefix)
	if !ok {
		return ""
	}
	return name
}

// Name is a verb's full name, written provider:verb_name.
type Name struct {
	Provider string
	Verb     string
}

// Limits on names, in characters. MaxToolName is what the providers of chat models allow
// for the name of a function. MaxSlug leaves room in it for "__" and a verb; see Fit.
const (
	MaxSlug     = 40
	MaxToolName = 64
)

var (
	slugPattern = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]|_[a-z0-9-])*$`)
	verbPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)
)

// ReservedSlug is the provider of our own platform tools.
const ReservedSlug = "tool"

// ValidSlug reports whether s can name a provider: lower-case letters, digits,
// hyphens and single underscores, at most MaxSlug long, and not ReservedSlug.
func ValidSlug(s string) bool {
	return len(s) <= MaxSlug && slugPattern.MatchString(s) && !strings.Contains(s, "__") && s != ReservedSlug
}

// Canonical returns the one spelling of a verb's name, or of a pattern over such names: in lower case,
// and provider:verb_name where provider__verb_name is given, the name of the verb's tool. Fingerprints,
// policies, lists of tools, grants, switches and the catalog see this one only.
func Canonical(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' { // no other letter of Unicode becomes one of a name
			return r - 'A' + 'a'
		}
		return r
	}, s)
	if provider, name, is := strings.Cut(s, "__"); is && !strings.Contains(provider, ":") {
		return provider + ":" + name
	}
	return s
}

// Parse reads provider:verb_name, in any spelling of Canonical, of at most 255 bytes. The error is the
// fault INVALID_VERB.
func Parse(s string) (Name, error) {
	s = Canonical(s)
	provider, name, ok := strings.Cut(s, ":")
	if !ok || len(s) > 255 || len(provider) > MaxSlug || !slugPattern.MatchString(provider) || !verbPattern.MatchString(name) {
		return Name{}, fault.New(fault.CodeInvalidVerb, "")
	}
	return Name{Provider: provider, Verb: name}, nil
}

// String returns provider:verb_name.
func (n Name) String() string { return n.Provider + ":" + n.Verb }

// ToolName returns the name of the verb as a function of a chat model. The colon becomes a
// double underscore, because such names allow no colon.
func (n Name) ToolName() string { return n.Provider + "__" + n.Verb }

// Fit returns the verb name, shortened so that its tool name under the provider has at most
// MaxToolName characters. A shortened name ends in a hash of the whole name. So two long
// names stay different.
func Fit(provider, name string) string {
	room := MaxToolName - len(provider) - len("__")
	if len(name) <= room {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:room-len(suffix)], "_-") + suffix
}
