package access

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// bad is a body that is no acceptable JSON, or not sent as such.
type bad struct {
	body   string
	header http.Header
	want   string
	// chunked hides the length.
	chunked bool
}

func deep(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }

// badBodies are wrong for every endpoint that reads a body, before anything is
// looked for in them.
func badBodies(limit int) map[string]bad {
	const (
		invalid   = "400 INVALID_JSON"
		wrongType = "415 UNSUPPORTED_MEDIA_TYPE"
		tooLarge  = "413 PAYLOAD_TOO_LARGE"
	)
	large := `{"a":"` + strings.Repeat("x", limit-8+1) + `"}`
	return map[string]bad{
		"empty":                          {body: " ", want: invalid},
		"not JSON":                       {body: canary, want: invalid},
		"XML":                            {body: "<a/>", want: invalid},
		"a form":                         {body: "a=1&b=2", want: invalid},
		"truncated":                      {body: `{"a":"` + canary, want: invalid},
		"truncated number":               {body: `{"a":1.`, want: invalid},
		"single quotes":                  {body: `{'a':1}`, want: invalid},
		"trailing comma":                 {body: `{"a":1,}`, want: invalid},
		"comment":                        {body: `{"a":1/**/}`, want: invalid},
		"duplicate names":                {body: `{"a":1,"a":2}`, want: invalid},
		"duplicate by escape":            {body: `{"verb":1,"v\u0065rb":2}`, want: invalid},
		"names that differ in case":      {body: `{"verb":"a:read","VERB":"a:delete"}`, want: invalid},
		"names that fold":                {body: `{"key":1,"\u212aey":2}`, want: invalid}, // the Kelvin sign
		"nested duplicates":              {body: `{"zz":{"b":1,"b":2}}`, want: invalid},
		"trailing data":                  {body: `{"a":1} {"a":2}`, want: invalid},
		"trailing bracket":               {body: `{"a":1}}`, want: invalid},
		"bad UTF-8":                      {body: "{\"a\":\"\xff\"}", want: invalid},
		"overlong UTF-8":                 {body: "{\"a\":\"\xc0\xaf\"}", want: invalid},
		"surrogate in UTF-8":             {body: "{\"a\":\"\xed\xa0\x80\"}", want: invalid},
		"lone high surrogate":            {body: `{"a":"\ud800"}`, want: invalid},
		"lone low surrogate":             {body: `{"a":"\udc00"}`, want: invalid},
		"surrogates swapped":             {body: `{"a":"\udc00\ud800"}`, want: invalid},
		"NUL by escape":                  {body: `{"a":"\u0000"}`, want: invalid},
		"NUL in a name":                  {body: `{"\u0000":1}`, want: invalid},
		"raw NUL":                        {body: "{\"a\":\"\x00\"}", want: invalid},
		"raw control character":          {body: "{\"a\":\"\n\"}", want: invalid},
		"depth 65":                       {body: deep(65), want: invalid},
		"depth 10,000":                   {body: deep(10_000), want: invalid},
		"depth 10,000, never closed":     {body: strings.Repeat("[", 10_000), want: invalid},
		"number of 65 characters":        {body: `{"a":` + strings.Repeat("1", 65) + `}`, want: invalid},
		"number 1e401":                   {body: `{"a":1e401}`, want: invalid},
		"number 1e-401":                  {body: `{"a":1e-401}`, want: invalid},
		"number 1e999999999":             {body: `{"a":1e999999999}`, want: invalid},
		"number with a leading zero":     {body: `{"a":01}`, want: invalid},
		"number with a plus":             {body: `{"a":+1}`, want: invalid},
		"NaN":                            {body: `{"a":NaN}`, want: invalid},
		"Infinity":                       {body: `{"a":Infinity}`, want: invalid},
		"byte order mark":                {body: "\ufeff{}", want: invalid},
		"UTF-16":                         {body: "\xff\xfe{\x00}\x00", want: invalid},
		"text/plain":                     {body: "{}", header: headers("Content-Type", "text/plain"), want: wrongType},
		"no content type":                {body: "{}", header: headers("Content-Type", ""), want: wrongType},
		"form content type":              {body: "a=1", header: headers("Content-Type", "application/x-www-form-urlencoded"), want: wrongType},
		"JSON of another kind":           {body: "{}", header: headers("Content-Type", "application/json-patch+json"), want: wrongType},
		"broken content type":            {body: "{}", header: headers("Content-Type", "application/json; charset=\""), want: wrongType},
		"Latin-1":                        {body: "{}", header: headers("Content-Type", "application/json; charset=iso-8859-1"), want: wrongType},
		"gzip":                           {body: gzipped("{}"), header: headers("Content-Encoding", "gzip"), want: wrongType},
		"deflate that is not":            {body: "{}", header: headers("Content-Encoding", "deflate"), want: wrongType},
		"one byte over the limit":        {body: large, want: tooLarge},
		"one byte over, in chunks":       {body: large, chunked: true, want: tooLarge},
		"an array of a thousand objects": {body: "[" + strings.Repeat("{},", 999) + "{}]", want: "400 VALIDATION_ERROR"},
		"nothing, in chunks":             {body: "", chunked: true, want: invalid},
		"a name of 60,000 characters":    {body: `{"` + strings.Repeat("n", 60_000) + `":}`, want: invalid},
		"a thousand duplicates":          {body: `{"a":[` + strings.Repeat(`{"b":1,"b":2},`, 1000) + `{}]}`, want: invalid},
	}
}

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(s))
	_ = w.Close()
	return b.String()
}

// limitOf is the most bytes of a body, as decided.
func limitOf(op operation) int {
	switch {
	case strings.HasPrefix(op.path, "/v1/runtime/"), strings.HasSuffix(op.path, "/resolve"), strings.HasSuffix(op.path, "/trigger"), strings.HasSuffix(op.path, "/message"), strings.HasSuffix(op.path, "/goals"),
		strings.HasSuffix(op.path, "/retry"), strings.HasSuffix(op.path, "/decide"), strings.HasPrefix(op.path, "/v1/approvals/"):
		return 1 << 20
	case op.id() == "POST /v1/providers":
		return 25 << 20
	case takesDefinition(op), op.id() == "POST /v1/agents", op.id() == "PATCH /v1/agents/{id}":
		return 256 << 10
	}
	return 64 << 10
}

// takesDefinition reports whether the body is the definition of a Map.
func takesDefinition(op operation) bool {
	return op.id() == "POST /v1/maps" || op.id() == "PUT /v1/maps/{id}" || op.path == "/v1/maps/validate"
}

// wantOf is what an operation answers. A definition nests deeper than other bodies, and has
// objects in it whose names are the author's. It is judged as a whole.
func (b bad) wantOf(name string, op operation) string {
	if !takesDefinition(op) || !slices.Contains([]string{"depth 65", "names that differ in case", "names that fold", "an array of a thousand objects"}, name) {
		return b.want
	}
	if op.path == "/v1/maps/validate" {
		return "200 "
	}
	return "422 INVALID_MAP"
}

func TestBodyMalformedIsRefused(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "nojson")
	cases := 0
	for _, op := range w.doc.ops {
		if w.doc.body(op) == nil {
			continue
		}
		for name, b := range badBodies(limitOf(op)) {
			r := own.request(op)
			r.body, r.chunked = []byte(b.body), b.chunked
			r.header = both(r.header, b.header)
			got := w.call(t, r)
			if b.body == "" && !w.doc.needsBody(op) {
				require.NotEqual(t, b.want, outcome(got.Status, code(t, got)), "%s takes no body too", op.id())
				continue
			}
			require.Equal(t, b.wantOf(name, op), outcome(got.Status, code(t, got)), "%s with %s: %s", op.id(), name, clip(got.Body))
			cases++
		}
		// One byte less is not too large, whatever else is wrong with it.
		r := own.request(op)
		r.body = []byte(`{"a":"` + strings.Repeat("x", limitOf(op)-8) + `"}`)
		require.Len(t, r.body, limitOf(op))
		require.NotEqual(t, http.StatusRequestEntityTooLarge, w.call(t, r).Status, op.id())
	}
	t.Logf("%d cases", cases)
}

func TestRunAtItsLimitsIsAnsweredAsDocumented(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "runs")
	verb := own.provider + ":list_orders"
	full := func(more string) string { return `{"verb":"` + verb + `","args":{"limit":1}` + more + `}` }
	long := strings.Repeat("k", 256)
	const (
		validation = "400 VALIDATION_ERROR"
		badVerb    = "400 INVALID_VERB"
		badKey     = "400 INVALID_IDEMPOTENCY_KEY"
		badArgs    = "422 INVALID_ARGS"
	)
	type wrong struct {
		body   string
		header http.Header
		want   string
	}
	cases := map[string]wrong{
		"unknown member":               {full(`,"dryrun":true`), nil, validation},
		"member in another case":       {full(`,"dryRUN":true`), nil, validation},
		"dryRun in quotes":             {full(`,"metadata":{"dryRun":"true"}`), nil, validation},
		"dryRun 1":                     {full(`,"metadata":{"dryRun":1}`), nil, validation},
		"dryRun null":                  {full(`,"metadata":{"dryRun":null}`), nil, validation},
		"dry_run in quotes":            {full(`,"metadata":{"dry_run":"false"}`), nil, validation},
		"dryRun at the top in quotes":  {full(`,"dryRun":"true"`), nil, validation},
		"dry_run at the top an object": {full(`,"dry_run":{}`), nil, validation},
		"metadata over 16 KiB":         {full(`,"metadata":{"a":"` + strings.Repeat("x", 16<<10) + `"}`), nil, validation},
		"metadata an array":            {full(`,"metadata":[]`), nil, validation},
		"metadata at the edge":         {full(`,"metadata":{"a":1e400,"b":-1e-400,"c":9007199254740993,"d":"\ud83d\ude00","":null}`), nil, "200 "},
		"no args":                      {`{"verb":"` + verb + `"}`, nil, validation},
		"args null":                    {`{"verb":"` + verb + `","args":null}`, nil, validation},
		"args text":                    {`{"verb":"` + verb + `","args":"` + canary + `"}`, nil, validation},
		"session with a blank":         {full(`,"session_id":"a b"`), nil, validation},
		"session empty":                {full(`,"session_id":""`), nil, validation},
		"session of 256":               {full(`,"session_id":"` + long + `"`), nil, validation},
		"execution_id with a blank":    {full(`,"execution_id":"a b"`), nil, badKey},
		"execution_id not ASCII":       {full(`,"execution_id":"é"`), nil, badKey},
		"execution_id empty":           {full(`,"execution_id":""`), nil, badKey},
		"execution_id of 256":          {full(`,"execution_id":"` + long + `"`), nil, badKey},
		"execution_id with a newline":  {full(`,"execution_id":"a\nb"`), nil, badKey},
		"idempotency_key not ASCII":    {full(`,"idempotency_key":"` + canary + `ü"`), nil, badKey},
		"idempotency_key of 256":       {full(`,"idempotency_key":"` + long + `"`), nil, badKey},
		"key header with a blank":      {full(""), headers("Idempotency-Key", "a b"), badKey},
		"key header not ASCII":         {full(""), headers("Idempotency-Key", "é"), badKey},
		"key header empty":             {full(""), headers("Idempotency-Key", ""), badKey},
		"key header of 256":            {full(""), headers("Idempotency-Key", long), badKey},
		"two key headers":              {full(""), headers("Idempotency-Key", "a", "Idempotency-Key", "b"), badKey},
		"keys that differ":             {full(`,"idempotency_key":"a"`), headers("Idempotency-Key", "b"), badKey},
		"wait of letters":              {full(""), headers("Prefer", "wait=abc"), validation},
		"wait negative":                {full(""), headers("Prefer", "wait=-1"), validation},
		"wait empty":                   {full(""), headers("Prefer", "wait="), validation},
		"wait of a fraction":           {full(""), headers("Prefer", "respond-async, wait=1.5"), validation},
		"wait without end":             {full(""), headers("Prefer", "wait=99999999999999999999"), ""},
		"verb without colon":           {`{"verb":"listorders","args":{}}`, nil, badVerb},
		"verb empty":                   {`{"verb":"","args":{}}`, nil, validation},
		"verb with a look-alike colon": {`{"verb":"shop：list_orders","args":{}}`, nil, badVerb},
		"verb in upper case":           {`{"verb":"SHOP:LIST","args":{}}`, nil, "404 VERB_NOT_FOUND"},
		"verb with blanks":             {`{"verb":" shop:list ","args":{}}`, nil, badVerb},
		"verb with two colons":         {`{"verb":"a:b:c","args":{}}`, nil, badVerb},
		"verb as a tool name":          {`{"verb":"shop__list_orders","args":{}}`, nil, "404 VERB_NOT_FOUND"},
		"verb with a path":             {`{"verb":"../shop:list","args":{}}`, nil, badVerb},
		"verb of 300":                  {`{"verb":"a:` + strings.Repeat("b", 300) + `","args":{}}`, nil, validation},
		"verb with Cyrillic letters":   {`{"verb":"ѕhop:list","args":{}}`, nil, badVerb},
		"verb nobody has":              {`{"verb":"sk_live_c4n4ry:list","args":{}}`, nil, "404 VERB_NOT_FOUND"},
		"argument unknown":             {`{"verb":"` + verb + `","args":{"nosuch":"` + canary + `"}}`, nil, badArgs},
		"argument of another type":     {`{"verb":"` + verb + `","args":{"limit":"` + canary + `"}}`, nil, badArgs},
		"argument out of range":        {`{"verb":"` + verb + `","args":{"limit":-1}}`, nil, badArgs},
		"argument beyond all numbers":  {`{"verb":"` + verb + `","args":{"limit":1e400}}`, nil, badArgs},
		"argument almost whole":        {`{"verb":"` + verb + `","args":{"limit":1.0000000000000000000000001}}`, nil, badArgs},
		"a path as an argument":        {`{"verb":"` + own.provider + `:get_order","args":{"order_id":"../customers"}}`, nil, ""},
		"a header's end as argument":   {`{"verb":"` + own.provider + `:get_order","args":{"order_id":"a\r\nX-Evil: 1"}}`, nil, ""},
	}
	for name, c := range cases {
		for _, path := range []string{"/v1/runtime/actions/run", "/v1/runtime/governance/evaluate"} {
			got := w.call(t, request{method: http.MethodPost, path: path, body: []byte(c.body), header: both(headers("X-API-Key", own.Runtime.Key), c.header)})
			if c.want != "" && strings.HasSuffix(path, "/run") {
				require.Equal(t, c.want, outcome(got.Status, code(t, got)), "%s: %s", name, got.Body)
			}
		}
	}
	t.Logf("%d cases", 2*len(cases))
}

// Ids that are odd but good are kept as they are, in paths too.
func TestIDOddButValidIsKept(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "odd")
	for _, id := range []string{"a%41b", "100%", "a/b", "a?b=c", "a#b", "a+b", "..", "a\\b", "%2F", `"quoted"`, "a;b", strings.Repeat("k", 255)} {
		body := encode(t, map[string]any{"verb": own.provider + ":list_orders", "args": map[string]any{"limit": 1}, "execution_id": id})
		got := w.call(t, request{method: http.MethodPost, path: "/v1/runtime/actions/run", header: headers("X-API-Key", own.Runtime.Key), body: body})
		require.Equal(t, http.StatusOK, got.Status, "%s: %s", id, got.Body)
		goesOn := encode(t, map[string]any{"verb": own.provider + ":list_orders", "args": map[string]any{"limit": 1}, "execution_id": id[1:] + "~"})
		later := w.call(t, request{
			method: http.MethodPost, path: "/v1/runtime/actions/run", body: goesOn,
			header: headers("X-API-Key", own.Runtime.Key, "Prefer", "wait=0"),
		})
		require.Equal(t, http.StatusAccepted, later.Status, "%s: %s", id, later.Body)
		require.Equal(t, http.StatusOK, w.call(t, request{method: http.MethodGet, path: later.Header.Get("Location"), header: bearer(own.token)}).Status)
		got = w.call(t, request{method: http.MethodGet, path: "/v1/executions/" + pathEscape(id), header: bearer(own.token)})
		require.Equal(t, http.StatusOK, got.Status, "%s: %s", id, got.Body)
		var run struct {
			Data struct {
				ID string `json:"execution_id"`
			} `json:"data"`
		}
		require.NoError(t, json.Unmarshal(got.Body, &run))
		require.Equal(t, id, run.Data.ID)
	}
}

// pathEscape escapes every byte that is not a letter or digit.
func pathEscape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func TestPageParameterWrongIsRefused(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "pages")
	for query, want := range map[string]int{
		"limit=0": 400, "limit=-1": 400, "limit=abc": 400, "limit=1e3": 400, "limit=": 200, "limit=501": 200, "limit=500": 200,
		"limit=99999999999999999999": 200, "limit=-99999999999999999999": 400, "limit=%00": 400, "limit=1&limit=abc": 200,
		"offset=-1": 400, "offset=abc": 400, "offset=2147483648": 200, "offset=9223372036854775807": 200, "offset=9223372036854775808": 400,
		"limit=500&offset=9223372036854775807": 200, "q=%00": 400, "q=" + strings.Repeat("word%20", 30): 400, "q=%25%25%25": 200, "q=%5C": 200, "q=_": 200,
		"nosuch=parameter": 400, "%zz=1": 400, "limit=%zz": 400, ";": 400,
	} {
		got := w.call(t, request{method: http.MethodGet, path: "/v1/runtime/actions/catalog?" + query, header: headers("X-API-Key", own.Runtime.Key)})
		require.Equal(t, want, got.Status, "%s: %s", query, clip(got.Body))
	}
	for _, path := range []string{"/v1/executions", "/v1/credentials", "/v1/providers", "/v1/approvals", "/v1/grants", "/v1/kill-switch", "/v1/customers"} {
		for query, want := range map[string]int{
			"limit=0": 400, "limit=501": 200, "limit=99999999999999999999": 200, "cursor=%00": 400, "cursor=x": 400, "cursor=": 200,
			"cursor=" + strings.Repeat("A", 4000): 400,
		} {
			got := w.call(t, request{method: http.MethodGet, path: path + "?" + query, header: bearer(own.token)})
			require.Equal(t, want, got.Status, "%s?%s: %s", path, query, clip(got.Body))
			if query == "limit=501" {
				require.Contains(t, string(got.Body), `"limit":500`, "what the page size became is not said")
			}
		}
	}
}

func TestRouteUnknownIsRefused(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "methods")
	methods := []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW", "get"}
	for _, op := range w.doc.ops {
		for _, method := range methods {
			if known, _ := w.doc.find(method, op.path); known != nil {
				continue
			}
			r := own.request(op)
			r.method = method
			got := w.call(t, r) // the judge asks for 405 and Allow
			require.Equal(t, http.StatusMethodNotAllowed, got.Status, "%s %s", method, op.path)
			require.NotEmpty(t, got.Header.Get("Allow"), "%s %s", method, op.path)
		}
	}
	for _, path := range []string{
		"/", "/v1", "/v1/", "/v2/executions", "/v1/executions/", "/v1//executions", "/V1/executions", "/v1/executions/a/b/c", "/v1/nothing",
		"/v1/executions%2fx", "/favicon.ico", "/.env", "/v1/api-keys/a/b", "/v1/auth", "/debug/pprof/", "/metrics", "/v1/executions/../providers",
		"/v1/executions;x", "/" + strings.Repeat("a", 8000), "/v1/%00", "/v1/executions/a%ffb", "/%ed%a0%80",
	} {
		got := w.call(t, request{method: http.MethodGet, path: path, header: bearer(own.token)})
		require.Equal(t, http.StatusNotFound, got.Status, "%s: %s", path, got.Body)
	}
}

func TestHeaderOddIsHandled(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "headers")
	get := func(h http.Header) rig.Answer {
		return w.call(t, request{method: http.MethodGet, path: "/v1/executions/none", header: both(bearer(own.token), h)})
	}
	for _, id := range []string{"caller-1", "!#$%&'*+-.^_`|~", strings.Repeat("r", 128)} {
		require.Equal(t, id, get(headers("X-Request-Id", id)).Header.Get("X-Request-Id"))
	}
	for _, id := range []string{"", "a b", "é", "a\tb", strings.Repeat("r", 129), strings.Repeat("r", 60_000)} {
		got := get(headers("X-Request-Id", id)).Header.Get("X-Request-Id")
		require.NotEqual(t, id, got)
		require.Regexp(t, `^req_[0-9a-f-]{36}$`, got)
	}
	for _, h := range []http.Header{
		headers("X-Large", strings.Repeat("x", 50<<10)), headers("Accept", "text/html"), headers("Accept", "*/*;q=broken"),
		headers("Range", "bytes=0-1"), headers("If-None-Match", "*"), headers("Expect", "100-continue"), headers("Host", "evil.example.com"),
		headers("X-Forwarded-For", "127.0.0.1"), headers("X-HTTP-Method-Override", "DELETE"), headers("Upgrade", "websocket", "Connection", "Upgrade"),
		headers("Cookie", canary), headers("Accept-Encoding", "gzip"), headers("Transfer-Encoding", "identity"),
	} {
		require.Equal(t, http.StatusNotFound, get(h).Status, "%v", slices.Collect(mapKeys(h)))
	}
	for _, h := range []http.Header{
		headers("Authorization", "Bearer "+strings.Repeat("x", 50<<10)), headers("Authorization", "bearer"), headers("Authorization", "Bearer \xff"),
		headers("Authorization", strings.Repeat(".", 60_000)), headers("Authorization", "Bearer "+strings.Repeat(".", 4000)),
	} {
		got := w.call(t, request{method: http.MethodGet, path: "/v1/executions", header: h})
		require.Equal(t, http.StatusUnauthorized, got.Status)
	}
	for _, key := range []string{strings.Repeat("x", 50<<10), "ark_\xff", "ark_" + canary, " "} {
		got := w.call(t, request{method: http.MethodGet, path: "/v1/runtime/actions/catalog", header: headers("X-API-Key", key)})
		require.Equal(t, http.StatusUnauthorized, got.Status)
	}
}

// A proxy may judge a call by another line of a header than the runtime does.
func TestHeaderRepeatedIsRefused(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "twice")
	for _, op := range w.doc.ops {
		if op.path == "/healthz" || op.path == "/readyz" {
			continue // they read no header
		}
		for _, name := range []string{"X-API-Key", "Authorization", "Content-Type", "Content-Encoding", "Origin"} {
			r := own.request(op)
			first := r.header.Get(name)
			r.header = both(r.header, headers(name, first, name, canary))
			got := w.call(t, r)
			require.Equal(t, "400 VALIDATION_ERROR", outcome(got.Status, code(t, got)), "%s with two %s: %s", op.id(), name, got.Body)
		}
	}
}

func mapKeys(h http.Header) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range h {
			if !yield(name) {
				return
			}
		}
	}
}

// Preflights carry no credential and are answered for any origin, at any path.
func TestPreflightWithoutCredentialIsAnswered(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	for _, op := range w.doc.ops {
		got := w.call(t, request{method: http.MethodOptions, path: op.path, header: headers(
			"Origin", unlistedOrigin, "Access-Control-Request-Method", op.method, "Access-Control-Request-Headers", "X-API-Key, Content-Type, Idempotency-Key")})
		require.Equal(t, http.StatusNoContent, got.Status, op.id())
		require.Equal(t, unlistedOrigin, got.Header.Get("Access-Control-Allow-Origin"))
		require.Contains(t, got.Header.Get("Access-Control-Allow-Methods"), op.method)
		require.Contains(t, got.Header.Get("Access-Control-Allow-Headers"), "X-API-Key")
		require.Empty(t, got.Header.Get("Access-Control-Allow-Credentials"))
	}
}

// What Go's HTTP server itself does not take for a request never reaches us: it is
// refused without an envelope, and the service goes on.
func TestRequestMalformedIsRefusedByTheServer(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	address := strings.TrimPrefix(w.APIURL, "http://")
	for name, raw := range map[string]string{
		"a bad escape":                "GET /v1/executions/%zz HTTP/1.1\r\nHost: x\r\n\r\n",
		"no host":                     "GET /v1/executions HTTP/1.1\r\n\r\n",
		"two lengths":                 "POST /v1/runtime/actions/run HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
		"a negative length":           "POST /v1/runtime/actions/run HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n{}",
		"a blank in a header's name":  "GET /healthz HTTP/1.1\r\nHost: x\r\nX API Key: x\r\n\r\n",
		"a NUL in a header":           "GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: \x00\r\n\r\n",
		"an unknown version":          "GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n",
		"no request at all":           "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
		"headers of two megabytes":    "GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("x", 2<<20) + "\r\n\r\n",
		"an unknown transfer coding":  "POST /v1/runtime/actions/run HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n{}",
		"a chunk that is none":        "POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
		"a header that goes on below": "GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: a\r\n b\r\n\r\n",
	} {
		status := raws(t, address, raw)
		require.True(t, status == 0 || status == 200 || status >= 400 && status <= 431 || status == 501 || status == 505, "%s: %d", name, status)
	}
	require.Equal(t, http.StatusOK, w.call(t, request{method: http.MethodGet, path: "/healthz"}).Status)
	require.NotContains(t, w.Logs(), "handler panicked")
}

// raws sends bytes and returns the status of what comes back, 0 where the
// connection is just closed.
func raws(t *testing.T, address, raw string) int {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, patience)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, _ = conn.Write([]byte(raw)) // the other end may close before it has read all
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	return res.StatusCode
}

// A body that ends before it is complete is the caller's fault, not ours.
func TestBodyCutShortIsTheCallersFault(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "stops")
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(w.APIURL, "http://"), patience)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = fmt.Fprintf(conn, "POST /v1/runtime/actions/run HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"verb\":", own.Runtime.Key)
	require.NoError(t, err)
	tcp, is := conn.(*net.TCPConn)
	require.True(t, is)
	require.NoError(t, tcp.CloseWrite())
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusBadRequest, res.StatusCode)
}
