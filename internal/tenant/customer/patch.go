package customer

import (
	"bytes"
	"encoding/json"
	"fmt"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
)

// mergePatch returns the object after the JSON Merge Patch (RFC 7396): null removes a member,
// an object is merged member by member, and any other value replaces. Numbers keep their
// digits. The error is a VALIDATION_ERROR where the result is too large.
func mergePatch(object, patch json.RawMessage) (json.RawMessage, error) {
	if len(patch) == 0 {
		return object, nil
	}
	merged, err := exactjson.Encode(merge(object, patch))
	if err != nil {
		return nil, fmt.Errorf("customer: metadata: %w", err)
	}
	if len(merged) > maxMetadata {
		return nil, fault.Invalid("/metadata", "maxLength", "metadata has at most 16 KiB, together with what the customer has already.")
	}
	return merged, nil
}

// merge is mergePatch for one value. Both were checked before, so they decode.
func merge(old, patch json.RawMessage) json.RawMessage {
	changes, isObject := members(patch)
	if !isObject {
		return patch
	}
	into, _ := members(old)
	if into == nil {
		into = map[string]json.RawMessage{}
	}
	for name, value := range changes {
		if string(value) == "null" {
			delete(into, name)
			continue
		}
		into[name] = merge(into[name], value)
	}
	raw, err := exactjson.Encode(into)
	if err != nil {
		return old
	}
	return raw
}

func members(raw json.RawMessage) (object map[string]json.RawMessage, is bool) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' {
		return nil, false
	}
	err := json.Unmarshal(raw, &object)
	return object, err == nil
}
