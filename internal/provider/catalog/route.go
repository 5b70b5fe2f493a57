package catalog

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"

	"agentruntime/internal/kernel/credential"
	"agentruntime/internal/kernel/httpplan"
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

// method returns the HTTP method; "other" where the plan is no HTTP request.
func (r route) method() string {
	method, _, _ := strings.Cut(string(r), " ")
	return method
}

// address returns the origin that the route is called at, and the segments of its path in the
// form in which they are compared: decoded, in lower case, without empty ones.
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
		if decoded, err := url.PathUnescape(s); err == nil {
			s = decoded
		}
		if s != "" && s != "." {
			segments = append(segments, strings.ToLower(s))
		}
	}
	return origin, segments
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
