//go:build conformance

// Package conformance puts prism, a validator that is not ours, between a client
// and the service, and lets it look for answers that depart from the document.
package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// startPrism runs prism as a validating proxy before upstream and returns its
// address. It passes everything on and notes what it finds in a header.
func startPrism(t *testing.T, document []byte, upstream string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "openapi.json")
	require.NoError(t, os.WriteFile(file, document, 0o600))
	binary := filepath.Join(rig.Root(), "test", "node", "node_modules", ".bin", "prism")
	require.FileExists(t, binary, "run `make node` first")
	address := rig.FreeAddress(t)
	host, port, _ := strings.Cut(address, ":")
	rig.Start(t, "prism", binary, nil, "proxy", file, upstream, "--host", host, "--port", port)
	client := &http.Client{Timeout: time.Second}
	rig.Until(t, time.Minute, "prism listens", func() bool {
		res, err := client.Get("http://" + address + "/healthz")
		if err != nil {
			return false
		}
		return res.Body.Close() == nil
	})
	return "http://" + address
}

// violation is one thing that prism finds.
type violation struct {
	Location []string `json:"location"`
	Message  string   `json:"message"`
}

// found returns what prism found in the answer. What it found in the request is the
// service's to refuse; it counts where the service did not.
func found(status int, h http.Header) ([]string, error) {
	noted := h.Get("Sl-Violations")
	if noted == "" {
		return nil, nil
	}
	var all []violation
	if err := json.Unmarshal([]byte(noted), &all); err != nil {
		return nil, fmt.Errorf("violations %s: %w", noted, err)
	}
	var out []string
	for _, v := range all {
		if len(v.Location) == 0 || v.Location[0] != "request" || status < http.StatusBadRequest {
			out = append(out, strings.Join(v.Location, ".")+": "+v.Message)
		}
	}
	return out, nil
}

// watcher is the transport of the calls: it fails the test at an answer that prism
// objects to, and notes which documented answers were seen.
type watcher struct {
	t    testing.TB
	base http.RoundTripper
	ops  []operation

	mu   sync.Mutex
	seen map[string]int // "GET /v1/executions 200", "GET /v1/executions 403 ORIGIN_NOT_ALLOWED"
}

type operation struct {
	method, path string
	pattern      *regexp.Regexp
	public       bool // it takes no credential
	statuses     []string
	// answers are the statuses, those of refusals with each error code that is documented.
	answers []string
}

// some is a path of the operation whose ids nobody has.
func (op operation) some() string {
	return strings.NewReplacer("{id}", nobodys, "{delivery}", "evt_"+nobodys, "{slug}", "none", "{verb}", "no:verb", "{version}", "1").Replace(op.path)
}

// takesDefinition reports whether the body is the definition of a Map.
func (op operation) takesDefinition() bool {
	return strings.HasPrefix(op.path, "/v1/maps") && !strings.HasSuffix(op.path, "/publish") && !strings.HasSuffix(op.path, "/trigger")
}

// RoundTrip implements http.RoundTripper.
func (w *watcher) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := w.base.RoundTrip(r)
	if err != nil {
		return nil, err //nolint:wrapcheck // a pass-through
	}
	what := fmt.Sprintf("%s %s answers %d", r.Method, r.URL.Path, res.StatusCode)
	wrong, err := found(res.StatusCode, res.Header)
	if err = errors.Join(err); err != nil || len(wrong) > 0 {
		body, _ := io.ReadAll(res.Body)
		res.Body = io.NopCloser(strings.NewReader(string(body)))
		w.t.Errorf("%s, and prism finds: %v %v\n%s", what, wrong, err, body)
	}
	if res.Header.Get("X-Request-Id") == "" {
		w.t.Errorf("%s, which is not the service's own answer", what)
	}
	code, err := codeOf(res)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, op := range w.ops {
		if op.method == r.Method && op.pattern.MatchString(r.URL.EscapedPath()) {
			w.seen[strings.TrimSpace(fmt.Sprintf("%s %s %d %s", op.method, op.path, res.StatusCode, code))]++
			break
		}
	}
	return res, nil
}

// codeOf reads the error code of a refusal, "" of anything else, and leaves the body as
// it was.
func codeOf(res *http.Response) (string, error) {
	if res.StatusCode < http.StatusBadRequest {
		return "", nil
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return "", fmt.Errorf("read a refusal: %w", err)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	var envelope struct {
		Error struct{ Code string }
	}
	_ = json.Unmarshal(body, &envelope) // what is none was objected to
	return envelope.Error.Code, nil
}

// response is what is read of a documented response.
type response struct {
	Ref     string `json:"$ref"`
	Content map[string]struct {
		Schema struct {
			AllOf []struct {
				Properties struct {
					Error struct {
						Properties struct {
							Code struct {
								Enum []string `json:"enum"`
							} `json:"code"`
						} `json:"properties"`
					} `json:"error"`
				} `json:"properties"`
			} `json:"allOf"` //nolint:tagliatelle // OpenAPI names it so
		} `json:"schema"`
	} `json:"content"`
}

// answers are the status with each error code of the response, or alone where it has none.
func (r response) answers(status string) []string {
	var list []string
	for _, content := range r.Content {
		for _, part := range content.Schema.AllOf {
			for _, code := range part.Properties.Error.Properties.Code.Enum {
				list = append(list, status+" "+code)
			}
		}
	}
	if list == nil {
		list = []string{status}
	}
	return list
}

// readOperations lists what the document promises; fixed paths come before templates.
func readOperations(t *testing.T, document []byte) []operation {
	t.Helper()
	var doc struct {
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components struct {
			Responses map[string]response `json:"responses"`
		} `json:"components"`
	}
	require.NoError(t, json.Unmarshal(document, &doc))
	var out []operation
	for path, item := range doc.Paths {
		for method, raw := range item {
			var node struct {
				Security  []any               `json:"security"`
				Responses map[string]response `json:"responses"`
			}
			if method == "parameters" {
				continue
			}
			require.NoError(t, json.Unmarshal(raw, &node))
			op := operation{method: strings.ToUpper(method), path: path, public: len(node.Security) == 0}
			op.pattern = regexp.MustCompile("^" + regexp.MustCompile(`\\\{[^}]+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$")
			for status, res := range node.Responses {
				if name, ok := strings.CutPrefix(res.Ref, "#/components/responses/"); ok {
					res = doc.Components.Responses[name]
				}
				op.statuses = append(op.statuses, status)
				op.answers = append(op.answers, res.answers(status)...)
			}
			out = append(out, op)
		}
	}
	slices.SortFunc(out, func(a, b operation) int {
		return strings.Compare(strings.ReplaceAll(a.path, "{", "\x7f")+a.method, strings.ReplaceAll(b.path, "{", "\x7f")+b.method)
	})
	return out
}

// The proxy must find faults: an upstream that answers with a wrong body, status or media
// type, and one that accepts what the document does not.
func testProxy(t *testing.T, document []byte) {
	t.Helper()
	wrong := map[string]func(http.ResponseWriter){
		"a missing member": func(w http.ResponseWriter) { answer(w, http.StatusOK, `{"success":true}`) },
		"an unknown member": func(w http.ResponseWriter) {
			answer(w, http.StatusOK, `{"success":true,"data":{"status":"ok","more":1}}`)
		},
		"a wrong type":       func(w http.ResponseWriter) { answer(w, http.StatusOK, `{"success":"true","data":{"status":"ok"}}`) },
		"an unknown status":  func(w http.ResponseWriter) { answer(w, http.StatusTeapot, `{"success":false}`) },
		"another media type": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "ok") },
	}
	const which = "X-Wrong"
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := wrong[r.Header.Get(which)]; f != nil {
			f(w)
			return
		}
		if r.Method == http.MethodPost {
			status := map[string]int{"taken": http.StatusCreated, "refused": http.StatusBadRequest}[r.Header.Get(which)]
			answer(w, status, `{"success":true}`)
			return
		}
		answer(w, http.StatusOK, `{"success":true,"data":{"status":"ok"}}`)
	}))
	t.Cleanup(upstream.Close)
	c := &rig.Client{Base: startPrism(t, document, upstream.URL), HTTP: rig.NewHTTP()}
	a := c.Do(http.MethodGet, "/healthz", nil)
	objections, err := found(a.Status, a.Header)
	require.NoError(t, err)
	require.Empty(t, objections)
	for name := range wrong {
		a := c.Do(http.MethodGet, "/healthz", nil, which+": "+name)
		objections, err := found(a.Status, a.Header)
		require.NoError(t, err)
		require.NotEmpty(t, objections, name)
	}
	for what, counts := range map[string]bool{"taken": true, "refused": false} {
		a := c.Do(http.MethodPost, "/v1/auth/signup", map[string]string{}, which+": "+what)
		objections, err := found(a.Status, a.Header)
		require.NoError(t, err)
		of := slices.ContainsFunc(objections, func(o string) bool { return strings.HasPrefix(o, "request.") })
		require.Equal(t, counts, of, "%s: %v", what, objections)
	}
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", "x")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func fetchDocument(t *testing.T, base string) []byte {
	t.Helper()
	res, err := http.Get(base + "/openapi.json")
	require.NoError(t, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	return raw
}
