package argdiff

import (
	"encoding/json"
	"strings"
)

// types are the kinds of JSON values that a schema allows.
type types uint8

const (
	isNull types = 1 << iota
	isBool
	isInteger
	isFraction // a number that is no integer
	isString
	isArray
	isObject

	isNumber = isInteger | isFraction
	isAny    = isNull | isBool | isNumber | isString | isArray | isObject
)

// String returns the types in words.
func (t types) String() string {
	if t == isAny {
		return "any"
	}
	if t == 0 {
		return "none"
	}
	var words []string
	for _, one := range []struct {
		types types
		word  string
	}{
		{isObject, "object"}, {isArray, "array"}, {isString, "string"}, {isNumber, "number"}, {isInteger, "integer"}, {isBool, "boolean"}, {isNull, "null"},
	} {
		if t&one.types == one.types {
			words = append(words, one.word)
			t &^= one.types
		}
	}
	return strings.Join(words, " or ")
}

// typesOf returns the types that a schema says by type, by the values that it lists, or by
// what else it says. A schema that says nothing allows any.
func typesOf(s map[string]any) types {
	var t types
	switch word := s["type"].(type) {
	case string:
		t = typeOf(word)
	case []any:
		for _, one := range word {
			name, _ := one.(string)
			t |= typeOf(name)
		}
	default:
		return listed(s)
	}
	if s["nullable"] == true {
		t |= isNull
	}
	return t
}

func listed(s map[string]any) types {
	var t types
	if one, has := s["const"]; has {
		return typeOfValue(one)
	}
	if list, ok := s["enum"].([]any); ok {
		for _, one := range list {
			t |= typeOfValue(one)
		}
		return t
	}
	if s["properties"] != nil {
		t |= isObject
	}
	if s["items"] != nil || s["prefixItems"] != nil {
		t |= isArray
	}
	if t == 0 {
		return isAny
	}
	return t
}

func typeOf(name string) types {
	switch name {
	case "null":
		return isNull
	case "boolean":
		return isBool
	case "integer":
		return isInteger
	case "number":
		return isNumber
	case "string":
		return isString
	case "array":
		return isArray
	case "object":
		return isObject
	}
	return isAny
}

func typeOfValue(v any) types {
	switch v := v.(type) {
	case nil:
		return isNull
	case bool:
		return isBool
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return isFraction
		}
		return isInteger
	case string:
		return isString
	case []any:
		return isArray
	case map[string]any:
		return isObject
	}
	return isAny
}

// need says whether an object has to have a member.
type need int

const (
	never     need = iota
	sometimes      // some of the alternatives require it
	always
)

// String returns the word before a type.
func (n need) String() string {
	switch n {
	case always:
		return "required "
	case sometimes:
		return "sometimes required "
	case never:
	}
	return "optional "
}
