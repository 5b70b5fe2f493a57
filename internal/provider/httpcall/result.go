package httpcall

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"agentruntime/internal/kernel/exactjson"
	"agentruntime/internal/kernel/httpfield"
)

// ResultObject makes a run's result of an answer: a JSON object stays as the
// provider wrote it, any other JSON value comes as {"data": …}, an empty answer
// as {"data": null}, and text of a type that the document declares as
// {"data": "<text>"}. ok is false where the answer is none of these: a type that
// is neither JSON nor declared, JSON that does not parse, or text that is not
// UTF-8.
func ResultObject(contentType string, body []byte, declared []string) (result json.RawMessage, ok bool) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 {
		return json.RawMessage(`{"data":null}`), true
	}
	media := httpfield.MediaType(contentType)
	if httpfield.IsJSON(media) || contentType == "" {
		return jsonResult(trimmed)
	}
	if !isDeclared(media, declared) || !utf8.Valid(body) {
		return nil, false
	}
	data, err := exactjson.Encode(string(body))
	if err != nil {
		return nil, false
	}
	return wrap(data), true
}

func jsonResult(body []byte) (json.RawMessage, bool) {
	if !utf8.Valid(body) || !json.Valid(body) {
		return nil, false
	}
	if depth, _ := exactjson.Shape(body); depth > exactjson.MaxDepth {
		return nil, false
	}
	if body[0] == '{' {
		return bytes.Clone(body), true
	}
	return wrap(body), true
}

func wrap(value []byte) json.RawMessage {
	return bytes.Join([][]byte{[]byte(`{"data":`), value, []byte(`}`)}, nil)
}

// isDeclared reports whether media fits one of the document's types or ranges.
func isDeclared(media string, declared []string) bool {
	if media == "" {
		return false
	}
	kind, _, _ := strings.Cut(media, "/")
	for _, d := range declared {
		if d == media || d == "*/*" || d == kind+"/*" {
			return true
		}
	}
	return false
}
