package exactjson

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// At returns the part of a JSON value that a JSON Pointer (RFC 6901) names, as it is written; nil
// where there is none. The error is one of syntax.
func At(raw json.RawMessage, pointer string) (json.RawMessage, error) {
	for pointer != "" && raw != nil {
		token, rest, _ := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
		if pointer = rest; rest != "" {
			pointer = "/" + rest
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		var err error
		if raw, err = member(raw, token); err != nil {
			return nil, fmt.Errorf("read a part of a value: %w", err)
		}
	}
	return raw, nil
}

func member(raw json.RawMessage, name string) (json.RawMessage, error) {
	switch first := strings.TrimLeft(string(raw[:1]), " \t\r\n"); first {
	case "[":
		i, err := strconv.Atoi(name)
		if err != nil {
			return nil, nil
		}
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil || i < 0 || i >= len(items) {
			return nil, err
		}
		return items[i], nil
	case "{":
		var members map[string]json.RawMessage
		err := json.Unmarshal(raw, &members)
		return members[name], err
	default:
		return nil, nil
	}
}
