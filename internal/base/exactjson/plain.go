package exactjson

import (
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Plain returns the same JSON with the escapes of letters decoded: \u00fc becomes ü, and \/ becomes a
// slash. The rest stays as it is: numbers, white space, and the escapes of control characters, quotes,
// backslashes, the signs < > & and the line ends of JavaScript. raw is valid JSON.
func Plain(raw json.RawMessage) json.RawMessage {
	var out json.RawMessage // nil while nothing has changed
	done := 0
	for i := 0; i+1 < len(raw); {
		if raw[i] != '\\' {
			i++
			continue
		}
		letter, length := escapedLetter(raw[i:])
		if letter == 0 {
			i += length
			continue
		}
		out = utf8.AppendRune(append(out, raw[done:i]...), letter)
		i += length
		done = i
	}
	if out == nil {
		return raw
	}
	return append(out, raw[done:]...)
}

// escapedLetter returns what the escape at the beginning of raw stands for, and its length; 0 for one that
// stays.
func escapedLetter(raw []byte) (letter rune, length int) {
	if raw[1] == '/' {
		return '/', 2
	}
	first, ok := unit(raw)
	if !ok {
		return 0, 2
	}
	length = 6
	if utf16.IsSurrogate(first) {
		second, _ := unit(raw[6:])
		if first = utf16.DecodeRune(first, second); first == utf8.RuneError {
			return 0, 6
		}
		length = 12
	}
	switch {
	case first < ' ', first >= 0x7f && first < 0xa0, first == '"', first == '\\', first == '<', first == '>', first == '&', first == 0x2028, first == 0x2029:
		return 0, length
	}
	return first, length
}

// unit reads \uXXXX.
func unit(raw []byte) (rune, bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	return rune(n), err == nil
}
