package chat

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"agentruntime/internal/base/redact"
	"agentruntime/internal/models/model"
)

// mostRefusal is how many bytes of a refusal are read.
const mostRefusal = 64 << 10

// redirects is the first status that is no success.
const redirects = 300

// Refuse returns the error for an answer that is no success, and nil for one that may be. A redirect is
// not followed. optional are the fields of the request that it can do without.
func Refuse(status int, header func(string) string, answer io.ReadCloser, optional []string) error {
	if status < redirects {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(answer, mostRefusal)) // a part of it will do
	return errors.Join(Status(status, header, body, optional), answer.Close())
}

// problem is an error as a server says it.
type problem struct{ code, kind, words string }

// problemOf reads the forms of errors that servers have: an object error, or a text of this name; message;
// detail, a text or a list with the places of wrong fields; any of it in a list; a text without any form.
func problemOf(body []byte) (p problem) {
	if body = bytes.TrimSpace(body); bytes.HasPrefix(body, []byte("[")) {
		var list []json.RawMessage
		if json.Unmarshal(body, &list) == nil && len(list) > 0 {
			body = list[0]
		}
	}
	var top struct{ Error, Message, Detail, Code, Type json.RawMessage }
	switch {
	case json.Unmarshal(body, &top) == nil:
	case isPage(body):
		return p
	default:
		return problem{words: textOf(body)}
	}
	var inner struct{ Message, Detail, Code, Type json.RawMessage }
	_ = json.Unmarshal(top.Error, &inner) // it may be a text
	p.code, p.kind = cmp.Or(textOf(inner.Code), textOf(top.Code)), cmp.Or(textOf(inner.Type), textOf(top.Type))
	for _, raw := range []json.RawMessage{inner.Message, inner.Detail, top.Message, top.Detail, top.Error} {
		if p.words = textOf(raw); p.words != "" {
			break
		}
	}
	return p
}

// textOf returns a JSON text, or other JSON as it is written; "" for none.
func textOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// mostWords is how many characters of a server's words are in an error.
const mostWords = 200

// quoted returns a server's words for an error: on one line, masked and bounded.
func quoted(words string) string {
	words = strings.Join(strings.FieldsFunc(words, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if runes := []rune(redact.Text(words)); len(runes) > mostWords {
		return string(runes[:mostWords-1]) + "…"
	} else if len(runes) > 0 {
		return string(runes)
	}
	return ""
}

// unknownField is what servers write of a field that they do not take.
var unknownField = regexp.MustCompile(`(?i)unsupported|not (?:be )?(?:supported|permitted|allowed|recognized)|(?:does|do)(?: not|n't) support|unknown|unrecognized|unexpected|extra|deprecated|forbidden|invalid (?:field|param|argument)|no such`)

// refusedOf returns which of the optional fields a server does not take.
func refusedOf(body []byte, optional []string) (refused []string) {
	if !unknownField.Match(body) {
		return nil
	}
	for _, field := range optional {
		if slices.ContainsFunc(strings.FieldsFunc(string(body), func(r rune) bool { return r != '_' && !unicode.IsLetter(r) }), func(word string) bool { return word == field }) {
			refused = append(refused, field)
		}
	}
	return refused
}

// notOfAModel is the reason for what no server of models answers: a web page, or any other text.
const notOfAModel = "no model answers at this address, which sent a web page or another text: check the base_url of the provider"

// ErrNoAnswer is in the chain of a read of a body that is neither a stream of events nor JSON.
var ErrNoAnswer = errors.New("the answer is neither a stream of events nor JSON")

// isPage reports whether a body is a web page.
func isPage(body []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) }

// Status returns the error for an answer with an HTTP status that is no success. header returns a field
// of its header, and may be nil. optional are the fields of the request that it can do without.
func Status(status int, header func(name string) string, body []byte, optional []string) *model.Error {
	p := problemOf(body)
	out := reasonOf(status, header, p)
	out.Said = quoted(p.words)
	switch {
	case isPage(body) && status >= 400 && status < 500 && !out.Retryable: // a gateway has pages for its own failures
		return &model.Error{Reason: notOfAModel}
	case status == 400 || status == 422:
		if out.Refused = refusedOf(body, optional); len(out.Refused) > 0 {
			out.Reason += ", because of " + strings.Join(out.Refused, " and ")
		}
	}
	return out
}

// reasonOf returns the error without what the server said.
func reasonOf(status int, header func(name string) string, p problem) *model.Error {
	switch {
	case p.code == "insufficient_quota" || p.kind == "insufficient_quota" || p.kind == "billing_error":
		return &model.Error{Reason: "the account at the provider has no credit left"}
	case p.code == "context_length_exceeded" || status == 413:
		return &model.Error{Reason: "the conversation is longer than the model takes"}
	case status == 429:
		return &model.Error{Reason: "the provider's rate limit is reached", Retryable: true, RetryAfter: retryAfter(header)}
	case status == 503 || status == 529 || p.kind == "overloaded_error":
		return &model.Error{Reason: "the provider is overloaded", Retryable: true, RetryAfter: retryAfter(header)}
	case status == 401:
		return &model.Error{Reason: "the provider refused the credential"}
	case status == 403:
		return &model.Error{Reason: "the provider does not allow this credential to ask the model"}
	case status == 404:
		return &model.Error{Reason: "the provider does not know the model, or its base_url is wrong"}
	case status >= 300 && status < 400:
		return &model.Error{Reason: "the provider redirects, which is not followed"}
	case status == 400 || status == 422:
		return &model.Error{Reason: "the provider refused the request"}
	default:
		return &model.Error{Reason: fmt.Sprintf("the provider answered with the status %d", status), Retryable: status == 408 || status == 409 || status >= 500}
	}
}

// InStream returns the error for an error that a server sends in the place of an answer, or within one.
// optional are the fields of the request that it can do without.
func InStream(data []byte, optional []string) *model.Error {
	p := problemOf(data)
	status, err := strconv.Atoi(p.code)
	if err != nil || status < 400 || status > 599 {
		status = 0
	}
	if status == 0 && len(refusedOf(data, optional)) > 0 {
		status = 400 // not all servers say so
	}
	if known := Status(status, nil, data, optional); status != 0 || known.Reason != reasonOf(0, nil, problem{}).Reason {
		return known
	}
	return &model.Error{Reason: "the provider sent an error in the place of the answer", Said: quoted(p.words), Retryable: true}
}

// mostRetryAfter bounds what a provider may ask for.
const mostRetryAfter = time.Hour

// retryAfter reads Retry-After, in seconds or as a date; 0 where there is none that can be read.
func retryAfter(header func(name string) string) time.Duration {
	if header == nil {
		return 0
	}
	var d time.Duration
	text := header("Retry-After")
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		d = time.Duration(min(seconds, mostRetryAfter.Seconds()) * float64(time.Second))
	} else if at, err := time.Parse(time.RFC1123, text); err == nil {
		d = time.Until(at)
	}
	return max(0, min(d, mostRetryAfter))
}

// Broken returns the error of a request that has no whole answer. The error of ctx comes first.
func Broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var syntax *json.SyntaxError
	var shape *json.UnmarshalTypeError
	var known *model.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, ErrNoAnswer):
		return &model.Error{Reason: notOfAModel}
	case errors.Is(err, ErrTooLong):
		return &model.Error{Reason: fmt.Sprintf("the answer has more than %d bytes", MaxAnswer)}
	case errors.As(err, &syntax), errors.As(err, &shape):
		return &model.Error{Reason: "the provider's answer is not understood", Retryable: true}
	default:
		return &model.Error{Reason: "the connection to the provider failed", Retryable: true}
	}
}

// Unfinished is the error of an answer that does not say why it ended.
func Unfinished() error {
	return &model.Error{Reason: "the provider's answer does not say why it ended, so it may be cut off", Retryable: true}
}

// Nothing is the error of an answer without a text and without calls.
func Nothing(r model.Response) error {
	if r.Reasoning != "" {
		return &model.Error{Reason: "the model thought, and answered with nothing", Retryable: true}
	}
	return &model.Error{Reason: "the model answered with nothing", Retryable: true}
}
