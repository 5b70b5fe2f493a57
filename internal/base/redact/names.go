package redact

import (
	"slices"
	"strings"
	"unicode"
)

// The words of names that look secret. A name is split at case changes and at
// everything that is no letter or digit, so apiKey, api_key and API-KEY are the
// words "api key".
//
//nolint:gochecknoglobals // immutable tables
var (
	secretWords = []string{
		"password", "passwords", "passwd", "pwd", "passphrase", "passcode", "secret", "secrets", "token", "tokens",
		"apikey", "accesskey", "privatekey", "secretkey", "authorization", "cookie", "cookies", "credential",
		"credentials", "cvc", "cvc2", "cvv", "cvv2", "cardnumber", "ssn", "pin", "iban", "otp", "totp", "jwt", "mnemonic",
	}
	// secretPairs are words that are secret only side by side.
	secretPairs = []string{
		"api key", "access key", "private key", "signing key", "encryption key", "shared key", "auth key",
		"license key", "card number", "card no", "account number", "security code", "social security", "routing number",
	}
	// harmlessEnds are last words of names that only describe a secret: token_type,
	// access_key_id, max_tokens_limit.
	harmlessEnds = []string{
		"id", "ids", "type", "types", "name", "count", "limit", "usage", "used", "expiry", "expires", "ttl", "status",
		"length", "required", "enabled", "at", "preview", "version", "mode", "policy", "budget", "in",
	}
	// harmlessTokens are words beside token that make it a place in a list, or a
	// quantity of a language model.
	harmlessTokens = []string{"page", "next", "previous", "prev", "continuation", "sync", "max", "min", "total", "input", "output", "prompt", "completion"}
)

// LooksSecret reports whether a field, header, query parameter or attribute of this
// name is likely to contain a secret.
func LooksSecret(name string) bool { return secretPhrase(words(name)) }

func secretPhrase(list []string) bool {
	if len(list) == 0 || (len(list) > 1 && slices.Contains(harmlessEnds, list[len(list)-1])) {
		return false
	}
	for i, word := range list {
		if i > 0 && slices.Contains(secretPairs, list[i-1]+" "+word) {
			return true
		}
		if !slices.Contains(secretWords, word) {
			continue
		}
		if (word == "token" || word == "tokens") && i > 0 && slices.Contains(harmlessTokens, list[i-1]) {
			continue
		}
		return true
	}
	// One word without any boundary, as in "mypassword" or "clientsecret".
	return len(list) == 1 && (strings.HasSuffix(list[0], "password") || strings.HasSuffix(list[0], "secret") ||
		strings.HasSuffix(list[0], "apikey") || strings.HasSuffix(list[0], "privatekey") || strings.HasSuffix(list[0], "token"))
}

// words splits a name into lower-case words.
func words(name string) []string {
	var list []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			list = append(list, string(word))
			word = word[:0]
		}
	}
	runes := []rune(name)
	for i, r := range runes {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			flush()
			continue
		}
		if i > 0 && unicode.IsUpper(r) {
			afterLower := unicode.IsLower(runes[i-1]) || unicode.IsDigit(runes[i-1])
			endOfAcronym := unicode.IsUpper(runes[i-1]) && i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if afterLower || endOfAcronym {
				flush()
			}
		}
		word = append(word, unicode.ToLower(r))
	}
	flush()
	return list
}

// isCardName reports whether an object of this name describes a payment card,
// so that a plain "number" in it is secret.
func isCardName(name string) bool { return slices.Contains(words(name), "card") }
