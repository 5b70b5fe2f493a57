package httpfield

import (
	"slices"
	"strconv"
	"strings"
)

// Limits on how a parameter's name is read. Beyond them it is compared as it stands.
const (
	maxNameParts = 8
	maxDecodings = 3
)

// NameParts returns the name of a query, form or cookie parameter as servers read it: decoded,
// without regard to case, without what some servers trim, and taken apart at brackets and dots
// ("page[size]" is page and size).
func NameParts(name string) []string {
	name = strings.ReplaceAll(plainName(name), "]", "")
	return strings.SplitN(strings.ReplaceAll(name, ".", "["), "[", maxNameParts)
}

// FlatName returns the name as PHP reads it, which writes an underscore for a space, a dot and
// a lone bracket.
func FlatName(name string) string {
	return strings.NewReplacer(" ", "_", ".", "_", "[", "_").Replace(plainName(name))
}

// Overlap reports whether a server may take one parameter for the other: it reads their names
// alike, or one as a part of the other ("page" and "page[size]").
func Overlap(a, b string) bool {
	x, y := NameParts(a), NameParts(b)
	n := min(len(x), len(y))
	return slices.Equal(x[:n], y[:n]) || FlatName(a) == FlatName(b)
}

// ChoosesMethod reports whether frameworks take a query or form parameter of the name for the
// method of the request.
func ChoosesMethod(name string) bool {
	name = plainName(name)
	if name == "_method" {
		return true
	}
	switch Fold(name) {
	case "x-http-method-override", "x-http-method", "x-method-override":
		return true
	}
	return false
}

// Decoded undoes percent-encoding that a caller put into a text, up to three times. The text
// is encoded again when it is sent, but a server behind a proxy may decode twice. What is no encoding
// stays, because some servers decode what stands beside it.
func Decoded(s string) string {
	for range maxDecodings {
		if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
			break
		}
		s = decodedOnce(s)
	}
	return s
}

func decodedOnce(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if b, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(b))
				i += 2
				continue
			}
		}
		if s[i] == '+' {
			out = append(out, ' ')
			continue
		}
		out = append(out, s[i])
	}
	return string(out)
}

func plainName(name string) string {
	name, _, _ = strings.Cut(strings.ToLower(Decoded(name)), "\x00") // some servers stop there
	return strings.TrimSpace(name)
}
