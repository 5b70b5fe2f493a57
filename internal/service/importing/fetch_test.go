package importing_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/provider/openapi"
	"agentruntime/internal/service/importing"
)

// docs is a server of documents that remembers what was asked.
type docs struct {
	*httptest.Server

	mu    sync.Mutex
	asked []string
	files map[string]string
}

func newDocs(t *testing.T, files map[string]string) *docs {
	t.Helper()
	d := &docs{files: files}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.asked = append(d.asked, r.URL.RequestURI())
		body, has := d.files[r.URL.RequestURI()]
		to, moved := strings.CutPrefix(body, "-> ")
		switch status, fails := strings.CutPrefix(body, "! "); {
		case fails:
			code, err := strconv.Atoi(status)
			if err != nil {
				panic(http.ErrAbortHandler) // breaks off
			}
			w.WriteHeader(code)
		case moved:
			http.Redirect(w, r, strings.ReplaceAll(to, "HOST", d.URL), http.StatusFound)
		case !has:
			http.NotFound(w, r)
		default:
			_, _ = fmt.Fprint(w, strings.ReplaceAll(body, "HOST", d.URL))
		}
	}))
	t.Cleanup(d.Close)
	return d
}

const rootOfThree = `openapi: 3.1.0
info: {title: Shop}
servers: [{url: https://api.shop.example}]
paths:
  /a: {get: {operationId: a, parameters: [{$ref: "../parts/a.yaml?v=1#/p"}]}}
  /b: {get: {operationId: b, parameters: [{$ref: "HOST/parts/b.json#/p"}]}}
  /c: {get: {operationId: c, parameters: [{$ref: "none.yaml#/p"}]}}
  /d: {get: {operationId: d, parameters: [{$ref: "https://elsewhere.example/d.yaml#/p"}]}}
  /e: {get: {operationId: e, parameters: [{$ref: "moved.yaml#/p"}]}}
`

// roomy has room for all.
func roomy(int64) error { return nil }

// openDocs returns Fetch of a service that may reach this machine.
func openDocs(t *testing.T) func(url string) (importing.Fetched, error) {
	t.Helper()
	s, _, who := newServiceWith(t, testkit.Database(t), egress.Config{AllowLoopback: true})
	return func(url string) (importing.Fetched, error) { return s.Fetch(t.Context(), who, url, roomy) }
}

func TestFetchTakesTheFilesOfItsHost(t *testing.T) {
	t.Parallel()
	d := newDocs(t, map[string]string{
		"/latest": "-> /v1/openapi.yaml", "/v1/openapi.yaml": rootOfThree,
		"/parts/a.yaml?v=1":  "p: {name: x, in: query, schema: {$ref: 'deep/s.yaml'}}\n",
		"/parts/deep/s.yaml": "type: integer\nmaximum: 9007199254740993\n",
		"/parts/b.json":      `{"p":{"$ref":"HOST/v1/openapi.yaml#/x-none"}}`,
		"/v1/moved.yaml":     "-> /parts/b.json",
	})
	fetch := openDocs(t)
	got, err := fetch(d.URL + "/latest")
	require.NoError(t, err)
	require.Equal(t, "v1/openapi.yaml", got.Files.Root)
	require.Equal(t, map[string]string{"v1/none.yaml": "the server answers 404", "v1/moved.yaml": "it is redirected"}, got.Files.Absent)
	require.ElementsMatch(t, []string{"/latest", "/v1/openapi.yaml", "/parts/a.yaml?v=1", "/parts/b.json", "/v1/none.yaml", "/v1/moved.yaml", "/parts/deep/s.yaml"}, d.asked)
	im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: got.Document, Files: got.Files})
	require.NoError(t, err)
	require.Len(t, im.Verbs, 1)
	require.Contains(t, string(im.Verbs[0].Schema), "9007199254740993")
	var reasons []string
	for _, r := range im.Rejected {
		reasons = append(reasons, r.Operation+": "+strings.TrimPrefix(r.Reason, "a parameter cannot be read: "))
	}
	require.Equal(t, []string{
		"GET /b: a reference points to nothing (#/x-none)",
		"GET /c: the file v1/none.yaml could not be fetched: the server answers 404",
		"GET /d: a reference leads to another host: https://elsewhere.example",
		"GET /e: the file v1/moved.yaml could not be fetched: it is redirected",
	}, reasons)
}

// A document without other files is kept as it was fetched.
func TestFetchKeepsALoneDocumentAsItIs(t *testing.T) {
	t.Parallel()
	const lone = "# mine\nopenapi: 3.1.0\nservers: [{url: https://a.example}]\npaths: {}\n"
	d := newDocs(t, map[string]string{"/openapi.yaml": lone})
	fetch := openDocs(t)
	got, err := fetch(d.URL + "/openapi.yaml")
	require.NoError(t, err)
	require.Equal(t, importing.Fetched{Document: []byte(lone)}, got)
}

func TestFetchRefuses(t *testing.T) {
	t.Parallel()
	other := newDocs(t, map[string]string{"/x.yaml": rootOfThree})
	files := map[string]string{
		"/away": "-> " + other.URL + "/x.yaml", "/loop": "-> /loop", "/garbled": "-> /%zz", "/large": strings.Repeat("x", 25<<20+1),
		"/many": "x: [", "/sum": "x: [{$ref: big1}, {$ref: big2}]",
	}
	for i := range 101 {
		files["/many"] += fmt.Sprintf("{$ref: f%d.yaml}, ", i)
	}
	files["/many"] += "]\n"
	for _, name := range []string{"/big1", "/big2"} {
		files[name] = strings.Repeat("x", 13<<20)
	}
	d := newDocs(t, files)
	fetch := openDocs(t)
	for path, want := range map[string]string{
		d.URL + "/none":    "the server answers 404",
		d.URL + "/away":    "redirected to another host",
		d.URL + "/loop":    "more than three times",
		d.URL + "/garbled": "redirected to what is no URL",
		d.URL + "/large":   "more than 25 MiB",
		d.URL + "/sum":     "more than 25 MiB",
		d.URL + "/many":    "more than 100 files",
	} {
		_, err := fetch(path)
		f := fault.As(err)
		require.NotNil(t, f, "%s: %v", path, err)
		require.Equal(t, fault.CodeValidation, f.Code)
		require.Equal(t, "/openapi_url", f.Details[0].Path)
		require.Contains(t, f.Message, want)
	}
	require.Empty(t, other.asked)
	for _, address := range []string{"http://docs.example/x", "https://10.0.0.8/x", "https://docs.internal/x", "ftp://docs.example/x", "https://u:p@docs.example/x"} {
		_, err := fetch(address)
		require.True(t, fault.HasCode(err, fault.CodeURLNotAllowed), "%s: %v", address, err)
	}
}

// Nothing but public addresses is dialed, whatever a name says.
func TestFetchReachesNoPrivateAddress(t *testing.T) {
	t.Parallel()
	d := newDocs(t, map[string]string{"/openapi.yaml": rootOfThree})
	s, _, who := newService(t)
	_, err := s.Fetch(t.Context(), who, d.URL+"/openapi.yaml", roomy)
	require.True(t, fault.HasCode(err, fault.CodeURLNotAllowed), "%v", err)
	require.Empty(t, d.asked)
}

// An import without a file would remove the operations that use it, so a server that fails is asked
// again later. What the server refuses stays refused.
func TestFetchOfAServerThatFailsIsRepeated(t *testing.T) {
	t.Parallel()
	d := newDocs(t, map[string]string{
		"/root502": "! 502", "/root429": "! 429", "/breaks": "! off", "/f500": "! 500", "/f503": "! 503", "/f429": "! 429", "/f404": "! 404", "/f403": "! 403",
		"/of500": "x: [{$ref: f404}, {$ref: f500}]", "/of503": "x: [{$ref: f503}]", "/of429": "x: [{$ref: f429}]",
		"/ofbreaks": "x: [{$ref: 'breaks?token=s3cret'}]", "/breaks?token=s3cret": "! off", "/ofrefused": "x: [{$ref: f404}, {$ref: f403}]",
	})
	fetch := openDocs(t)
	for path, want := range map[string]string{
		"/root502": "The document cannot be fetched now: the server answers 502.", "/root429": "the server answers 429", "/breaks": "breaks off",
		"/of500": "The file f500, to which the document refers, cannot be fetched now: the server answers 500.", "/of503": "answers 503",
		"/of429": "answers 429", "/ofbreaks": "breaks off",
	} {
		_, err := fetch(d.URL + path)
		f := fault.As(err)
		require.NotNil(t, f, "%s: %v", path, err)
		require.Equal(t, fault.CodeServiceUnavailable, f.Code, path)
		require.True(t, f.Retryable)
		require.Positive(t, f.RetryAfter)
		require.Contains(t, f.Message, want)
		require.NotContains(t, f.Message, "s3cret")
	}
	got, err := fetch(d.URL + "/ofrefused")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"f404": "the server answers 404", "f403": "the server answers 403"}, got.Files.Absent)
}

func TestFetchThatTakesTooLongIsRepeated(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/slow" {
			_, _ = fmt.Fprint(w, "x: [{$ref: slow}]")
			return
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	s, _, who := newServiceWith(t, testkit.Database(t), egress.Config{AllowLoopback: true})
	for _, within := range [][2]time.Duration{{200 * time.Millisecond, time.Minute}, {time.Minute, 200 * time.Millisecond}, {1, 1}} {
		for _, path := range []string{"/root", "/slow"} {
			s.FetchWithin(within[0], within[1])
			_, err := s.Fetch(t.Context(), who, server.URL+path, roomy)
			require.True(t, fault.HasCode(err, fault.CodeServiceUnavailable), "%s within %v: %v", path, within, err)
			require.True(t, fault.As(err).Retryable)
		}
	}
}

// A foreign server decides when a document has come. Until then it takes no room of others: neither
// does a small one at all, nor one that is refused.
func TestFetchTakesRoomForWhatHasCome(t *testing.T) {
	t.Parallel()
	padding := "# " + strings.Repeat("x", 2<<20) + "\n"
	d := newDocs(t, map[string]string{"/small": "x: 1\n", "/large": padding, "/files": "x: {$ref: large}\n"})
	s, _, who := newServiceWith(t, testkit.Database(t), egress.Config{AllowLoopback: true})
	for path, want := range map[string][]int64{"/small": {5}, "/large": {int64(len(padding))}, "/files": {int64(len(padding) + 17)}, "/none": nil} {
		var asked []int64
		got, err := s.Fetch(t.Context(), who, d.URL+path, func(size int64) error { asked = append(asked, size); return nil })
		require.Equal(t, want, asked, path)
		require.Equal(t, want == nil, err != nil, path)
		require.Equal(t, want == nil, len(got.Document) == 0, path)
	}
	full := fault.New(fault.CodeServiceUnavailable, "full")
	_, err := s.Fetch(t.Context(), who, d.URL+"/large", func(int64) error { return full })
	require.ErrorIs(t, err, full)
}

// Servers that do not go on keep no other tenant from fetching, and a large document from nobody for long.
func TestSlowServersKeepNoTenantFromFetching(t *testing.T) {
	t.Parallel()
	const slow = 4
	begun, large := make(chan string, 2*slow), strings.Repeat("x", 2<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
		case "/slow-large":
			w.Header().Set("Content-Length", strconv.Itoa(2<<20))
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		case "/large":
			_, _ = fmt.Fprint(w, large)
			return
		default:
			_, _ = fmt.Fprint(w, "x: 1")
			return
		}
		begun <- r.URL.Path
		<-r.Context().Done()
	}))
	defer server.Close()
	s, _, who := newServiceWith(t, testkit.Database(t), egress.Config{AllowLoopback: true})
	s.LargeFetchWithin(time.Second)
	ctx, stop := context.WithCancel(t.Context())
	var fetching sync.WaitGroup
	defer fetching.Wait()
	defer stop()
	for range slow {
		for _, path := range []string{"/slow", "/slow-large"} {
			another := who
			another.TenantID = uuid.New()
			fetching.Go(func() { _, _ = s.Fetch(ctx, another, server.URL+path, roomy) })
		}
	}
	for range 2 * slow {
		<-begun
	}
	for _, path := range []string{"/small", "/large"} {
		_, err := s.Fetch(t.Context(), who, server.URL+path, roomy)
		require.NoError(t, err, path)
	}
}

// The queries of addresses may be secret. Files that differ in theirs only stay apart.
func TestFetchKeepsNoQuery(t *testing.T) {
	t.Parallel()
	d := newDocs(t, map[string]string{
		"/openapi.yaml?token=s3cret": `openapi: 3.1.0
info: {title: Shop}
servers: [{url: https://api.shop.example}]
paths:
  /a: {get: {operationId: a, parameters: [{$ref: "HOST/part.yaml?id=1&key=s3cret#/p"}]}}
  /b: {get: {operationId: b, parameters: [{$ref: "two.yaml#/p"}]}}
  /c: {get: {operationId: c, parameters: [{$ref: "gone.yaml?key=s3cret#/p"}]}}
`,
		"/part.yaml?id=1&key=s3cret": "p: {name: one, in: query, schema: {type: string}}\n",
		"/part.yaml?id=2":            "p: {name: two, in: query, schema: {type: string}}\n",
		"/two.yaml":                  "p: {$ref: 'part.yaml?id=2#/p'}\nroot: {$ref: 'openapi.yaml#/info'}\n",
	})
	fetch := openDocs(t)
	got, err := fetch(d.URL + "/openapi.yaml?token=s3cret")
	require.NoError(t, err)
	require.Equal(t, "openapi.yaml", got.Files.Root)
	im, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", Document: got.Document, Files: got.Files})
	require.NoError(t, err)
	require.Len(t, im.Verbs, 2)
	require.Contains(t, string(im.Verbs[0].Schema), `"one"`)
	require.Contains(t, string(im.Verbs[1].Schema), `"two"`)
	require.Len(t, im.Rejected, 1)
	require.Contains(t, im.Rejected[0].Reason, "could not be fetched: the server answers 404")
	require.NotContains(t, fmt.Sprint(im.Rejected, got.Files), "s3cret")
	archive, err := zip.NewReader(bytes.NewReader(got.Document), int64(len(got.Document)))
	require.NoError(t, err)
	require.Len(t, archive.File, 4)
	for _, file := range archive.File {
		require.NotContains(t, file.Name, "=")
	}
}

// What one file refers to is bounded while it is read: many references that differ take no longer
// than reading them.
func TestFetchEndsAtTheFirstFileTooMany(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	many.WriteString(`{"x":[`)
	for i := range 300_000 {
		fmt.Fprintf(&many, `{"$ref":"f%d"},`, i)
	}
	many.WriteString(`{}]}`)
	var list strings.Builder
	for i := range 98 {
		fmt.Fprintf(&list, "{$ref: f%d}, {$ref: f%d}, ", i, i)
	}
	hundred := "x: [" + list.String()
	files := map[string]string{"/many": many.String(), "/hundred": hundred + "{$ref: last}]", "/last": "x: {$ref: hundred}", "/more": hundred + "{$ref: lasts}]", "/lasts": "x: [{$ref: a}]"}
	for i := range 98 {
		files[fmt.Sprintf("/f%d", i)] = fmt.Sprintf("x: [{$ref: f%d}, {$ref: last}]", i/2)
	}
	d := newDocs(t, files)
	fetch := openDocs(t)
	_, err := fetch(d.URL + "/many")
	require.Contains(t, fault.As(err).Message, "more than 100 files")
	require.Equal(t, []string{"/many", "/many"}, d.asked, "it is asked again once it turns out to be large")
	_, err = fetch(d.URL + "/hundred")
	require.NoError(t, err, "100 files with the document")
	_, err = fetch(d.URL + "/more")
	require.Contains(t, fault.As(err).Message, "more than 100 files")
}

// A document without other files needs no name.
func TestFetchTakesALoneDocumentAtAnyPath(t *testing.T) {
	t.Parallel()
	d := newDocs(t, map[string]string{"/a//openapi.yaml": "openapi: 3.1.0\n", "/a//refers.yaml": "x: {$ref: other}", "/a//other": "x: 1"})
	fetch := openDocs(t)
	got, err := fetch(d.URL + "/a//openapi.yaml")
	require.NoError(t, err)
	require.Equal(t, importing.Fetched{Document: []byte("openapi: 3.1.0\n")}, got)
	_, err = fetch(d.URL + "/a//refers.yaml")
	require.True(t, fault.HasCode(err, fault.CodeValidation), "%v", err)
	require.Contains(t, fault.As(err).Message, "empty segments")
}

func TestFetchEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	s, _, who := newServiceWith(t, testkit.Database(t), egress.Config{AllowLoopback: true})
	_, err := s.Fetch(ctx, who, server.URL, roomy)
	require.ErrorIs(t, err, context.Canceled)
}

// What was fetched is kept with its files: a change of the provider reads it again, and fetches nothing.
func TestUpdateReadsWhatWasFetched(t *testing.T) {
	t.Parallel()
	d := newDocs(t, map[string]string{"/openapi.yaml": strings.ReplaceAll(rootOfThree, "../parts/a.yaml?v=1", "a.yaml"), "/a.yaml": "p: {name: x, in: query, schema: {type: string}}\n"})
	s, c, who := newServiceWith(t, testkit.Database(t), egress.Config{AllowLoopback: true})
	who.Kind = actor.User
	got, err := s.Fetch(t.Context(), who, d.URL+"/openapi.yaml", roomy)
	require.NoError(t, err)
	first, err := s.Import(t.Context(), who, openapi.ImportInput{Slug: "shop", Document: got.Document, Files: got.Files, Unchecked: true})
	require.NoError(t, err)
	require.Equal(t, 1, first.Imported)
	d.Close()
	base := "https://eu.shop.example"
	p, err := s.Update(t.Context(), who, "shop", importing.Patch{BaseURL: &base, Room: func(int64) error { return nil }})
	require.NoError(t, err)
	require.Equal(t, base, p.BaseURL)
	require.Equal(t, 1, p.Imported)
	require.Equal(t, first.Rejected, p.Rejected)
	kept, err := c.Document(t.Context(), who.TenantID, "shop")
	require.NoError(t, err)
	require.Equal(t, "zip", kept.Form)
	require.Equal(t, int64(len(got.Document)), kept.Size)
}
