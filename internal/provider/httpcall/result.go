package httpcall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/httpfield"
)

// form is what kind of result an answer becomes.
type form int

const (
	formJSON form = iota
	formText
	formFile
)

// formOf returns the form of a body by its Content-Type. Without one, or with one that cannot be
// read, the beginning of the body decides. Text that is not UTF-8 is a file, because only its bytes
// are certain.
func formOf(contentType string, head []byte) form {
	media := httpfield.MediaType(contentType)
	switch {
	case httpfield.IsJSON(media):
		return formJSON
	case media != "" && !httpfield.IsText(media):
		return formFile
	case !utf8.Valid(wholeRunes(head)):
		return formFile
	case media == "" && looksJSON(head):
		return formJSON
	default:
		return formText
	}
}

// looksJSON reports whether a body without a type can only be meant as JSON.
func looksJSON(head []byte) bool {
	head = bytes.TrimSpace(trimMark(head))
	return len(head) > 0 && (head[0] == '{' || head[0] == '[' || json.Valid(head))
}

// wholeRunes returns text without a character that was cut at its end.
func wholeRunes(text []byte) []byte {
	for back := 1; back <= min(utf8.UTFMax-1, len(text)); back++ {
		if at := len(text) - back; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return text[:at]
			}
			break
		}
	}
	return text
}

func trimMark(body []byte) []byte { return bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")) }

// text is the result of an answer in plain text.
type text struct {
	Text      string `json:"text"`
	MediaType string `json:"media_type"`
}

// Members under which a result has what was no object.
const (
	inData = "data"
	inText = "text"
	// InFile is that of a file, which the caller of Send stores.
	InFile = "file"
)

// Why a body becomes no result.
var (
	ErrMalformed = errors.New("the response is not what its Content-Type says")
	ErrTooDeep   = fmt.Errorf("the response has arrays and objects in each other, more than %d deep", exactjson.MaxDepth)
)

// ResultObject makes a run's result of an answer that is no file: a JSON object stays as the
// provider wrote it, any other JSON value comes as {"data": …}, an empty answer as {"data": null}, and
// text as {"text": …, "media_type": …}, also where its type is missing and it looks like JSON but is
// none. wrapped is that member, "" for an object of the provider. The error is ErrMalformed or ErrTooDeep.
func ResultObject(contentType string, body []byte) (result json.RawMessage, wrapped string, err error) {
	body = trimMark(body)
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 {
		return json.RawMessage(`{"data":null}`), inData, nil
	}
	media := httpfield.MediaType(contentType)
	if formOf(contentType, body) == formJSON {
		if result, wrapped, err = jsonResult(trimmed); err == nil || media != "" {
			return result, wrapped, err
		}
	}
	if !utf8.Valid(body) {
		return nil, "", ErrMalformed
	}
	out, err := exactjson.Encode(text{string(body), media})
	if err != nil {
		return nil, "", ErrMalformed
	}
	return out, inText, nil
}

func jsonResult(body []byte) (result json.RawMessage, wrapped string, err error) {
	// The parser has a bound too, far above ours, and would call such a body malformed.
	if depth, _ := exactjson.Shape(body); depth > exactjson.MaxDepth {
		return nil, "", ErrTooDeep
	}
	if !utf8.Valid(body) || !json.Valid(body) {
		return nil, "", ErrMalformed
	}
	if body[0] == '{' {
		return bytes.Clone(body), "", nil
	}
	return wrap(body), inData, nil
}

func wrap(value []byte) json.RawMessage {
	return bytes.Join([][]byte{[]byte(`{"` + inData + `":`), value, []byte(`}`)}, nil)
}
