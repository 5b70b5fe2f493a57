package sandbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxBody bounds a request body, in bytes.
const maxBody = 256 << 10

// refusal is an answer of the 4xx kind: {error: {code, message, param}}.
type refusal struct {
	status  int
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"` // the field that is wrong
}

func (r *refusal) Error() string { return r.Code + ": " + r.Message }

func refuse(status int, code, message string) *refusal {
	return &refusal{status: status, Code: code, Message: message}
}

// invalid refuses one field of the request.
func invalid(param, message string) *refusal {
	return &refusal{status: http.StatusUnprocessableEntity, Code: "validation_failed", Message: message, Param: param}
}

// notFound refuses an id that does not exist.
func notFound(what, id string) *refusal {
	return refuse(http.StatusNotFound, what+"_not_found", "There is no "+what+" with the id "+strconv.Quote(id)+".")
}

// call is what an operation sees of a request.
type call[B any] struct {
	path  func(name string) string
	query url.Values
	body  B
	key   string // Idempotency-Key
	hash  string // of the body, to tell a repeat from a reuse of the key
}

// answer is what an operation gives back.
type answer struct {
	status int
	body   any
	replay json.RawMessage // a stored body, instead of body
}

func ok(body any) answer      { return answer{status: http.StatusOK, body: body} }
func created(body any) answer { return answer{status: http.StatusCreated, body: body} }

// none is the body of operations that take none.
type none struct{}

// handle adapts an operation. It runs with the shop locked, so every operation
// is one step to all others; what it answers with must not change afterwards.
func handle[B any](s *Server, operation func(call[B]) (answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := call[B]{path: r.PathValue, query: r.URL.Query(), key: r.Header.Get("Idempotency-Key")}
		if err := readBody(w, r, &c); err != nil {
			writeError(w, err)
			return
		}
		s.mu.Lock()
		a, err := operation(c)
		s.mu.Unlock()
		var no *refusal
		switch {
		case errors.As(err, &no):
			writeError(w, no)
		case err != nil:
			s.log.ErrorContext(r.Context(), "sandbox: operation failed", "path", r.URL.Path, "error", err)
			writeError(w, refuse(http.StatusInternalServerError, "internal_error", "The shop could not store this."))
		case a.replay != nil:
			w.Header().Set("Idempotent-Replayed", "true")
			write(w, a.status, a.replay)
		default:
			write(w, a.status, a.body)
		}
	}
}

// readBody reads the JSON object of a call that takes one.
func readBody[B any](w http.ResponseWriter, r *http.Request, c *call[B]) *refusal {
	if _, takesNone := any(c.body).(none); takesNone {
		return nil
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return refuse(http.StatusRequestEntityTooLarge, "too_large", "The request body is too large or was cut.")
	}
	sum := sha256.Sum256(data)
	c.hash = hex.EncodeToString(sum[:])
	if len(bytes.TrimSpace(data)) == 0 {
		return nil // every field is missing, which the operation judges
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err = dec.Decode(&c.body)
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType):
		no := invalid(wrongType.Field, "The field has the wrong type: "+wrongType.Value+".")
		no.status, no.Code = http.StatusBadRequest, "invalid_type"
		return no
	case err != nil:
		return refuse(http.StatusBadRequest, "invalid_json", "The body must be one JSON object with known fields only.")
	}
	return nil
}

func write(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil { // answers are made of types that always marshal
		status, data = http.StatusInternalServerError, []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // the caller has gone if this fails
}

func writeError(w http.ResponseWriter, no *refusal) {
	write(w, no.status, map[string]*refusal{"error": no})
}

// Page sizes of lists.
const (
	defaultLimit = 20
	maxLimit     = 100
)

// page is one page of a list, newest first. Total counts all that match.
type page[T any] struct {
	Data    []T  `json:"data"`
	Total   int  `json:"total"`
	HasMore bool `json:"has_more"`
}

// list answers with a page of what matches, after the id in starting_after.
func list[T any](t *table[T], query url.Values, matches func(*T) bool) (answer, error) {
	limit := defaultLimit
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxLimit {
			return answer{}, invalid("limit", "limit must be a number from 1 to "+strconv.Itoa(maxLimit)+".")
		}
		limit = n
	}
	after := len(t.rows)
	if id := query.Get("starting_after"); id != "" {
		at, known := t.index[id]
		if !known {
			return answer{}, invalid("starting_after", "starting_after must be the id of an entry of the list.")
		}
		after = at
	}
	p := page[T]{Data: []T{}}
	for i, row := range slices.Backward(t.rows) {
		if row == nil || !matches(row) {
			continue
		}
		p.Total++
		switch {
		case i >= after:
		case len(p.Data) < limit:
			p.Data = append(p.Data, *row)
		default:
			p.HasMore = true
		}
	}
	return ok(p), nil
}

// oneOf checks an optional query parameter or field against its values.
func oneOf(param, value string, values ...string) *refusal {
	if value == "" || slices.Contains(values, value) {
		return nil
	}
	return invalid(param, param+" must be one of "+strings.Join(values, ", ")+".")
}

// first returns the first refusal there is, as an error.
func first(refusals ...*refusal) error {
	for _, no := range refusals {
		if no != nil {
			return no
		}
	}
	return nil
}

// length checks that a text has from min to max bytes.
func length(param, value string, low, high int) *refusal {
	switch n := len(value); {
	case n == 0 && low > 0:
		return invalid(param, param+" is required.")
	case n < low || n > high:
		return invalid(param, param+" must have "+strconv.Itoa(low)+" to "+strconv.Itoa(high)+" characters.")
	}
	return nil
}

// maxAmount is the largest amount of money, in minor units.
const maxAmount = 100_000_000

// amount checks money in minor units.
func amount(param string, value int64) *refusal {
	if value < 1 || value > maxAmount {
		return invalid(param, param+" must be a whole number of minor units (cents) from 1 to "+strconv.Itoa(maxAmount)+".")
	}
	return nil
}
