package catalog

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/httpplan"
)

// route names what a verb calls at its provider: the HTTP method and the path, "POST
// /orders/{}/refund". It leaves the names of parameters out, so one operation has one route,
// however a document writes it. An operation with a server of its own has the whole address.
// removed_verbs stores it.
type route string

var parameter = regexp.MustCompile(`\{[^{}]*\}`)

// routeOf returns the route of a verb. A verb whose plan is no HTTP request has its name.
func routeOf(name string, plan json.RawMessage) route {
	p, err := httpplan.Parse(plan)
	if err != nil {
		return route("other " + name)
	}
	path := p.BaseURL + p.Path
	if p.Query != "" {
		path += "?" + p.Query
	}
	return route(p.Method + " " + parameter.ReplaceAllString(path, "{}"))
}

// format is what some frameworks read at the end of a path (/refunds.json is /refunds).
var format = regexp.MustCompile(`\.[a-z]{2,5}$`)

// method returns the HTTP method; "other" where the plan is no HTTP request.
func (r route) method() string {
	method, _, _ := strings.Cut(string(r), " ")
	return method
}

// address returns the origin that the route is called at, and the segments of its path in the
// form in which they are compared. They are as the most lenient server reads them: decoded, in
// lower case, without parameters after a semicolon, dots at the end, and empty ones, and with the
// ones before two dots taken back. An encoded question mark, hash or NUL ends the path.
func (r route) address(baseURL string) (origin string, segments []string) {
	_, path, _ := strings.Cut(string(r), " ")
	if strings.HasPrefix(path, "/") {
		path = baseURL + path
	}
	path, _, _ = strings.Cut(path, "?")
	origin = credential.OriginOf(path)
	_, path, _ = strings.Cut(path, "://")
	_, path, _ = strings.Cut(path, "/")
	for s := range strings.SplitSeq(path, "/") {
		s, _, _ = strings.Cut(s, ";")
		if decoded, err := url.PathUnescape(s); err == nil {
			s = decoded
		}
		end := strings.IndexAny(s, "?#\x00")
		if end >= 0 {
			s = s[:end]
		}
		for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '/' || r == '\\' }) {
			part, _, _ = strings.Cut(part, ";")
			switch part = strings.TrimSpace(part); {
			case part == "..":
				segments = segments[:max(0, len(segments)-1)]
			case strings.TrimRight(part, ". ") != "":
				segments = append(segments, strings.ToLower(strings.TrimRight(part, ". ")))
			}
		}
		if end >= 0 {
			break
		}
	}
	if n := len(segments) - 1; n >= 0 {
		segments[n] = format.ReplaceAllString(segments[n], "")
	}
	return origin, segments
}

// sameMethod reports whether two methods may have the same effect. HEAD is GET without the
// answer's body (RFC 9110, section 9.3.2).
func sameMethod(a, b string) bool {
	if a == "HEAD" {
		a = "GET"
	}
	if b == "HEAD" {
		b = "GET"
	}
	return a == b
}

// meets reports whether one request could be made by both: the segments are equal, or a
// parameter stands for one of them.
func meets(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && !strings.Contains(a[i], "{}") && !strings.Contains(b[i], "{}") {
			return false
		}
	}
	return true
}

// covers reports whether every segment of general is that of special, or has a parameter.
func covers(general, special []string) bool {
	if len(general) != len(special) {
		return false
	}
	for i := range general {
		if general[i] != special[i] && !strings.Contains(general[i], "{}") {
			return false
		}
	}
	return true
}

// toldApart reports whether the query of two routes tells their requests apart: both fix a
// parameter of one name, to different values.
func toldApart(a, b route) bool {
	_, queryA, _ := strings.Cut(string(a), "?")
	_, queryB, _ := strings.Cut(string(b), "?")
	valuesA, errA := url.ParseQuery(queryA)
	valuesB, errB := url.ParseQuery(queryB)
	if errA != nil || errB != nil {
		return false
	}
	for name, values := range valuesA {
		others := valuesB[name]
		if len(values) == 1 && len(others) == 1 && !strings.EqualFold(values[0], others[0]) && !strings.Contains(values[0]+others[0], "{}") {
			return true
		}
	}
	return false
}

// headOf returns what a verb's plan says whatever its kind; nothing where it cannot be read.
func headOf(plan json.RawMessage) verb.PlanHead {
	head, err := verb.HeadOf(plan)
	if err != nil {
		return verb.PlanHead{}
	}
	return head
}

// readBackOf returns the read-back that a verb's plan declares, as JSON; "" where it has none.
func readBackOf(plan json.RawMessage) string {
	head, err := verb.HeadOf(plan)
	if err != nil || head.ReadBack == nil {
		return ""
	}
	raw, err := json.Marshal(head.ReadBack)
	if err != nil {
		return ""
	}
	return string(raw)
}

// formOf returns a digest of what a verb's arguments are and where they go.
func formOf(schema, plan json.RawMessage) []byte {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%d %s%s", len(schema), schema, plan) // a hash takes all
	return h.Sum(nil)
}
