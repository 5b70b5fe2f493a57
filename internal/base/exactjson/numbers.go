package exactjson

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Bounds of a number token. A validator turns numbers into exact fractions, and
// 1e999999999 would take gigabytes.
const (
	maxNumberLength   = 64
	maxNumberExponent = 400
)

// NumberFits reports whether a JSON number token is within bounds.
func NumberFits(token string) bool {
	if len(token) > maxNumberLength {
		return false
	}
	at := strings.IndexAny(token, "eE")
	if at < 0 {
		return true
	}
	exponent, err := strconv.Atoi(strings.TrimPrefix(token[at+1:], "+"))
	return err == nil && exponent <= maxNumberExponent && exponent >= -maxNumberExponent
}

// NumbersFit scans raw JSON and reports whether every number in it is within
// bounds. It does not check that raw is valid.
func NumbersFit(raw []byte) bool {
	inString, escaped := false, false
	for i := 0; i < len(raw); i++ {
		b := raw[i]
		switch {
		case escaped:
			escaped = false
		case inString && b == '\\':
			escaped = true
		case b == '"':
			inString = !inString
		case inString:
		case b == '-' || (b >= '0' && b <= '9'):
			end := i + 1
			for end < len(raw) && strings.IndexByte("0123456789+-.eE", raw[end]) >= 0 {
				end++
			}
			if !NumberFits(string(raw[i:end])) {
				return false
			}
			i = end - 1
		}
	}
	return true
}

// ValueFits reports whether every number within a decoded value is in bounds.
func ValueFits(v any) bool {
	switch v := v.(type) {
	case json.Number:
		return NumberFits(v.String())
	case []any:
		for _, e := range v {
			if !ValueFits(e) {
				return false
			}
		}
	case map[string]any:
		for _, e := range v {
			if !ValueFits(e) {
				return false
			}
		}
	}
	return true
}
