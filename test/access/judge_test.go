package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// canary stands in values that must not come back in a refusal. It looks like a
// secret, as what people put into the wrong field often is one.
const canary = "sk_live_c4n4ryC4N4RY"

// patience is how long any refusal may take.
const patience = 30 * time.Second

// judge is the transport of every call of this package. It checks each answer against
// the rules for all answers and against the document, and fails the test if one is
// broken.
type judge struct {
	tb   testing.TB
	doc  *document
	base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (j judge) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	res, err := j.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	took := time.Since(began)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	why := j.verdict(r, res, body)
	if why == nil && res.StatusCode >= http.StatusBadRequest && took > patience {
		why = fmt.Errorf("answered after %s", took)
	}
	if why != nil {
		j.tb.Errorf("%s %s: %v\nHTTP %d %s", r.Method, r.URL.EscapedPath(), why, res.StatusCode, clip(body))
	}
	return res, nil
}

func clip(b []byte) string {
	const most = 1500
	if len(b) > most {
		return string(b[:most]) + "…"
	}
	return string(b)
}

// answer is the envelope.
type answer struct {
	Success    *bool           `json:"success"`
	Data       json.RawMessage `json:"data"`
	Pagination json.RawMessage `json:"pagination"`
	Error      *struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		RequestID string `json:"requestId"`
	} `json:"error"`
}

func (j judge) verdict(r *http.Request, res *http.Response, body []byte) error {
	id := res.Header.Get("X-Request-Id")
	switch {
	case id == "":
		return errors.New("no X-Request-Id")
	case res.StatusCode >= http.StatusInternalServerError:
		return errors.New("a fault of ours")
	case preflight(r):
		return nil
	case r.Method == http.MethodHead:
		return j.headVerdict(res, body)
	case res.StatusCode < http.StatusBadRequest && j.file(r, res):
		return nil
	case res.StatusCode == http.StatusNotModified:
		return j.notModifiedVerdict(r, body)
	}
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return fmt.Errorf("not the envelope: %w", err)
	} else if a.Success == nil {
		return errors.New("not the envelope")
	}
	if refused := res.StatusCode >= http.StatusBadRequest; refused {
		if err := refusalVerdict(a, id, body); err != nil {
			return err
		}
	} else if !*a.Success || a.Error != nil || a.Data == nil {
		return errors.New("a success that does not say so")
	}
	return j.documented(r, res, a, body)
}

// notModifiedVerdict checks a 304, which has no envelope.
func (j judge) notModifiedVerdict(r *http.Request, body []byte) error {
	op, _ := j.doc.find(r.Method, r.URL.EscapedPath())
	switch {
	case op == nil || object(op.node["responses"])["304"] == nil:
		return errors.New("a 304 that is not documented")
	case len(body) > 0:
		return errors.New("a 304 with a body")
	}
	return nil
}

// file reports whether the answer is a file of a type that the document has for it: a
// download has a name and no envelope.
func (j judge) file(r *http.Request, res *http.Response) bool {
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	op, _ := j.doc.find(r.Method, r.URL.EscapedPath())
	if err != nil || op == nil {
		return false
	}
	response := j.doc.deref(object(object(op.node["responses"])[strconv.Itoa(res.StatusCode)]))
	_, documented := object(response["content"])[media]
	if media == "text/event-stream" {
		return documented
	}
	return documented && res.Header.Get("Content-Disposition") != "" && object(response["headers"])["Content-Disposition"] != nil
}

func refusalVerdict(a answer, id string, body []byte) error {
	switch {
	case *a.Success, a.Error == nil, a.Data != nil:
		return errors.New("a refusal that does not say so")
	case a.Error.Code == "", a.Error.Message == "":
		return errors.New("a refusal without code or message")
	case a.Error.RequestID != id:
		return fmt.Errorf("requestId %q is not that of the header, %q", a.Error.RequestID, id)
	case bytes.Contains(body, []byte(canary)):
		return errors.New("the refusal repeats the value that was sent")
	}
	return nil
}

// documented checks the answer against the operation, or against what every path
// answers to other methods, or against what unknown paths answer.
func (j judge) documented(r *http.Request, res *http.Response, a answer, body []byte) error {
	op, methods := j.doc.find(r.Method, r.URL.EscapedPath())
	switch {
	case op != nil:
		return j.doc.fits(*op, res.StatusCode, res.Header, body)
	case len(methods) == 0:
		if res.StatusCode != http.StatusNotFound || a.Error.Code != "NOT_FOUND" {
			return errors.New("a path that the document does not know is answered")
		}
	default:
		slices.Sort(methods)
		if res.StatusCode != http.StatusMethodNotAllowed || a.Error.Code != "METHOD_NOT_ALLOWED" {
			return errors.New("a method that the document does not know is answered")
		}
		if allow := res.Header.Get("Allow"); allow != strings.Join(slices.Compact(methods), ", ") {
			return fmt.Errorf("Allow is %q, the document has %v", allow, methods)
		}
	}
	return nil
}

func (j judge) headVerdict(res *http.Response, body []byte) error {
	if len(body) > 0 {
		return errors.New("HEAD has a body")
	}
	if res.StatusCode < http.StatusBadRequest {
		return errors.New("HEAD is taken, which the document does not say")
	}
	return nil
}

func preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}
