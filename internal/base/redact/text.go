package redact

import (
	"regexp"
	"strings"
)

// What looks like a secret in free text. Prefixes are those that the issuers publish for
// secret scanners; ours are in internal/tenant/auth.
var (
	textKey    = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)
	textURL    = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`)
	textScheme = regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[\w.~+/=-]{16,}`)
	textPrefix = regexp.MustCompile(`\b(?:ar[ki]_[\w-]{16,}|(?:sk|rk|whsec)_[\w-]{16,}|sk-[\w-]{16,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|` +
		`xox[a-z]-[\w-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}\b|AIza[\w-]{30,}|npm_\w{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)`)
	textNamed = regexp.MustCompile(`((?:[\pL\pN_-]+ )?[\pL\pN_-]+)(["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s,;]+)`)
	textToken = regexp.MustCompile(`[A-Za-z0-9+/_=-]{32,}`)
)

// Text returns what a person wrote with what looks like a secret in it hidden: private keys,
// tokens with a known prefix, the value behind a secret-looking name (password: x), secrets in
// addresses, card numbers, and long texts without a space that mix cases and digits. It cannot
// know a password that is just a word. Ids and hashes stay.
func Text(text string) string {
	text = textKey.ReplaceAllString(text, Masked)
	text = textURL.ReplaceAllStringFunc(text, MaskURL)
	text = textScheme.ReplaceAllString(text, "${1}"+Masked)
	text = textPrefix.ReplaceAllString(text, Masked)
	text = textNamed.ReplaceAllStringFunc(text, maskNamed)
	text = textToken.ReplaceAllStringFunc(text, maskToken)
	text, _ = maskCards(text)
	return text
}

// maskNamed masks the value of "name: value" where the name looks secret.
func maskNamed(pair string) string {
	parts := textNamed.FindStringSubmatch(pair)
	if strings.HasPrefix(parts[3], "//") || !LooksSecret(parts[1]) {
		return pair
	}
	return parts[1] + parts[2] + Masked
}

// maskToken masks a long text that has upper-case and lower-case letters and digits, as keys in
// base64 have. Hashes and our ids have one case.
func maskToken(text string) string {
	upper, lower, digit := false, false, false
	for _, c := range []byte(text) {
		upper = upper || 'A' <= c && c <= 'Z'
		lower = lower || 'a' <= c && c <= 'z'
		digit = digit || isDigit(c)
	}
	if upper && lower && digit {
		return Masked
	}
	return text
}
