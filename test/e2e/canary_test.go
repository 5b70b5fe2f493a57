package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// canary is a credential whose secrets all hold one unique tag, so that one search
// finds any of them, whole or in part.
type canary struct {
	slug string
	// scheme is the security scheme of the provider's document.
	scheme         map[string]any
	credentialType string
	data           map[string]any
	secrets        []string
	// pasted is one of the stored secrets, which the caller puts into the arguments.
	pasted string
	// texts are what the caller and the provider write.
	texts texts
}

// texts are the canaries in calls: a marker that is no secret, an argument that the document
// marks as sensitive, and a result with a sensitive name.
type texts struct{ marker, pin, result string }

// canaries has one of each type of credential and place. The secrets have what
// escapes differently in JSON, URLs and HTML.
func canaries(tag string, words texts) []canary {
	secret := func(name string) string { return name + `"<` + tag + `>&/+=%` + name }
	apiKey := func(in string) canary {
		s := secret(in)
		return canary{
			slug: "key-" + in, scheme: map[string]any{"type": "apiKey", "in": in, "name": "x-shop-key"},
			credentialType: "api_key", data: map[string]any{"key": s}, secrets: []string{s},
			pasted: s, texts: words,
		}
	}
	user, password := "user"+tag, secret("password")
	token, custom := "token."+tag+"/+=", secret("custom")
	return []canary{
		apiKey("header"), apiKey("query"), apiKey("cookie"),
		{"bearer", bearer(), "bearer", map[string]any{"token": token}, []string{token}, token, words},
		{
			"basic",
			map[string]any{"type": "http", "scheme": "basic"},
			"basic",
			map[string]any{"username": user, "password": password},
			[]string{user, password, user + ":" + password},
			password,
			words,
		},
		{"custom", bearer(), "custom_header", map[string]any{"headers": map[string]string{"X-Shop-Token": custom}}, []string{custom}, custom, words},
	}
}

// Ways in which the provider gives the secret back.
var echoes = []string{
	"plain", "escaped", "base64", "base64 inside", "hex", "HEX", "url", "header", "400", "500", "text", "wrong type", "redirect", "garbage", "vanish", "request", "result",
}

// echo is a provider that gives back every secret it is sent.
type echo struct {
	secrets []string
	// result is the canary in an answer that is not about the credential.
	result string
	// calls counts what came with the credential in it.
	mu    sync.Mutex
	calls int
}

// ServeHTTP implements http.Handler.
func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	how := r.URL.Query().Get("how")
	if how == "" {
		var args struct{ How string }
		_ = json.NewDecoder(r.Body).Decode(&args)
		how = args.How
	}
	e.mu.Lock()
	e.calls++
	e.mu.Unlock()
	e.answer(w, r, how)
}

func (e *echo) answer(w http.ResponseWriter, r *http.Request, how string) {
	w.Header().Set("Content-Type", "application/json")
	all := strings.Join(e.secrets, " ")
	switch how {
	case "escaped":
		var escaped strings.Builder
		for _, ch := range all {
			fmt.Fprintf(&escaped, `\u%04x`, ch)
		}
		fmt.Fprintf(w, `{"echo":"%s"}`, escaped.String())
	case "base64":
		e.each(w, func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) })
	case "base64 inside":
		e.each(w, func(s string) string { return base64.URLEncoding.EncodeToString([]byte("xy" + s + "z")) })
	case "hex":
		e.each(w, func(s string) string { return hex.EncodeToString([]byte(s)) })
	case "HEX":
		e.each(w, func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) })
	case "url":
		e.each(w, url.QueryEscape)
	case "header":
		for _, name := range []string{"X-Request-Id", "X-Echo", "Etag"} {
			w.Header().Set(name, all)
		}
		_, _ = w.Write([]byte(`{"done":true}`))
	case "400":
		w.WriteHeader(http.StatusBadRequest)
		e.each(w, func(s string) string { return "key " + s + " is not valid" })
	case "500":
		w.WriteHeader(http.StatusInternalServerError)
		e.each(w, func(s string) string { return "panic: " + s })
	case "text":
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("hello " + all))
	case "wrong type":
		w.Header().Set("Content-Type", "text/html; secret="+url.QueryEscape(all))
		_, _ = w.Write([]byte("<p>" + all + "</p>"))
	case "redirect":
		w.Header().Set("Location", "http://127.0.0.1:1/?"+url.Values{"key": e.secrets}.Encode())
		w.WriteHeader(http.StatusFound)
	case "garbage":
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = c.Write([]byte("HTTP " + all + "\r\n" + all + "\r\n\r\n"))
			c.Close()
		}
	case "vanish":
		panic(http.ErrAbortHandler)
	case "request":
		e.each(w, func(string) string { return fmt.Sprint(r.URL.String(), r.Header, r.Cookies()) })
	case "result":
		_, _ = fmt.Fprintf(w, `{"password":%q}`, e.result)
	default:
		e.each(w, func(s string) string { return s })
	}
}

// each writes a JSON object with every secret as f gives it.
func (e *echo) each(w http.ResponseWriter, f func(string) string) {
	list := []string{}
	for _, s := range e.secrets {
		list = append(list, f(s))
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string][]string{"echo": list, list[0]: {"as a name"}}); err != nil {
		panic(http.ErrAbortHandler) // the caller is gone
	}
}

func echoDocument(scheme map[string]any) json.RawMessage {
	args := []string{"how", "note", "pin", "mine"}
	doc := document(scheme,
		operation{method: http.MethodGet, path: "/echo", id: "canary_read", args: args},
		operation{method: http.MethodPost, path: "/echo", id: "canary_write", args: args},
	)
	doc = json.RawMessage(strings.ReplaceAll(string(doc), `"pin":{"type":"string"}`, `"pin":{"type":"string","x-sensitive":true}`))
	// Text is declared, so that one reaches the result.
	return json.RawMessage(strings.ReplaceAll(string(doc), `"application/json":{"schema":{"type":"object"}}`,
		`"application/json":{"schema":{"type":"object"}},"text/plain":{"schema":{"type":"string"}}`))
}

func TestSearchFindsPlantedSecrets(t *testing.T) {
	t.Parallel()
	tag := uuid.NewString()
	s := newSearch(tag)
	encodings := map[string]func([]byte) string{
		"plain": func(b []byte) string { return string(b) },
		"std":   base64.StdEncoding.EncodeToString, "url": base64.URLEncoding.EncodeToString,
		"hex": hex.EncodeToString, "HEX": func(b []byte) string { return strings.ToUpper(hex.EncodeToString(b)) },
		"percent": func(b []byte) string { return url.QueryEscape(string(b)) },
	}
	for before := range 4 {
		for after := range 4 {
			text := []byte(strings.Repeat("?", before) + tag + strings.Repeat("~", after))
			for name, encode := range encodings {
				require.NotEmpty(t, s.in([]byte("… "+encode(text)+" …")), "%s, %d before, %d after", name, before, after)
			}
		}
	}
	require.Empty(t, s.in([]byte(uuid.NewString()+base64.StdEncoding.EncodeToString([]byte(uuid.NewString())))))
}

// TestSecretsAreStoredAndShownNowhere stores a canary in each type of credential, lets
// providers return it in every form, and searches everything that is stored or logged.
func TestSecretsAreStoredAndShownNowhere(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		tag := strings.ReplaceAll(uuid.NewString(), "-", "")
		words := texts{marker: "marker-" + uuid.NewString(), pin: "pin-" + uuid.NewString(), result: "result-" + uuid.NewString()}
		secret, pin, result := newSearch(tag), newSearch(words.pin), newSearch(words.result)
		answers, delivered := subscribe(t, tenant, tag)
		for _, c := range canaries(tag, words) {
			answers = append(answers, c.use(t, tenant)...)
		}
		for _, path := range []string{"/v1/executions?limit=500", "/v1/credentials", "/v1/providers", "/v1/api-keys"} {
			answers = append(answers, tenant.User.Do(http.MethodGet, path, nil))
		}
		answers = append(answers, tenant.Runtime.Do(http.MethodGet, "/v1/runtime/actions/catalog", nil))
		for _, a := range answers {
			require.NoError(t, a.Err)
			require.Empty(t, secret.in(a.Body), "%s", a.Body)
			require.Empty(t, secret.in([]byte(fmt.Sprint(a.Header))), "%v", a.Header)
			require.Empty(t, pin.in(a.Body), "%s", a.Body)
			require.Empty(t, result.in(a.Body), "%s", a.Body)
		}
		bodies := delivered()
		require.NotEmpty(t, newSearch(words.marker).in(bodies), "the search reaches what was delivered")
		for _, hidden := range []search{secret, pin, result} {
			require.Empty(t, hidden.in(bodies))
		}
		t.Logf("%d answers searched", len(answers))
		plain, key, token := newSearch(words.marker), newSearch(tenant.Runtime.Key), newSearch(tenant.User.Token)
		searchStores(t, s, plain, map[string]search{
			"credential": secret, "API key": key, "token": token, "sensitive argument": pin, "sensitive result": result,
		})
	})
}

// subscribe makes two webhooks, whose secrets have the tag. The receiver of one keeps what it gets. That
// of the other fails, so that its deliveries go on in workflows. It returns the answers that may not
// show a secret, and what was delivered so far.
func subscribe(t *testing.T, tenant *rig.Tenant, tag string) (answers []rig.Answer, delivered func() []byte) {
	t.Helper()
	var mu sync.Mutex
	var got bytes.Buffer
	base := rig.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fails" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		_, _ = got.ReadFrom(r.Body)
	}))
	var one string
	for _, path := range []string{"/fails", ""} {
		made := tenant.User.Do(http.MethodPost, "/v1/webhooks", map[string]any{"url": base + path, "events": []string{"*"}, "secret": "first" + tag})
		require.Equal(t, http.StatusCreated, made.Status, "%s", made.Body)
		one = made.Header.Get("Location")
		require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPost, one+"/rotate-secret", map[string]string{"secret": "second" + tag}).Status)
		answers = append(answers, tenant.User.Do(http.MethodGet, one, nil), tenant.User.Do(http.MethodPost, one+"/test", nil))
	}
	return answers, func() []byte {
		rig.Until(t, time.Minute, "all is delivered", func() bool {
			var pending []any
			tenant.User.Do(http.MethodGet, one+"/deliveries?status=pending", nil).Data(t, &pending)
			return len(pending) == 0
		})
		mu.Lock()
		defer mu.Unlock()
		return bytes.Clone(got.Bytes())
	}
}

// use runs everything with the credential and returns what the API said, but for the answers
// whose result is a canary: only the caller of the run reads that, and its repeat.
func (c canary) use(t *testing.T, tenant *rig.Tenant) (answers []rig.Answer) {
	t.Helper()
	provider := &echo{secrets: c.secrets, result: c.texts.result}
	base := rig.Serve(t, provider)
	call := func(verb, how, id string, dry bool) rig.Answer {
		args := map[string]any{"how": how, "note": c.texts.marker}
		if verb == "canary_write" { // a read has its arguments in the address
			args["pin"], args["mine"] = c.texts.pin, c.pasted
		}
		return tenant.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", map[string]any{
			"verb": c.slug + ":" + verb, "args": args, "execution_id": id, "dryRun": dry,
			"metadata": map[string]any{"note": c.texts.marker},
		}, "Prefer: wait=60")
	}
	tenant.Connect(t, c.slug, base, echoDocument(c.scheme), "", nil)
	stored := tenant.User.Do(http.MethodPost, "/v1/credentials",
		map[string]any{"provider": c.slug, "type": c.credentialType, "label": "canary", "data": c.data})
	require.Equal(t, http.StatusCreated, stored.Status, "%s", stored.Body)
	answers = append(answers, stored)
	seen := map[int]int{}
	list := ids(len(echoes) + 1)
	for i, how := range echoes {
		id := list[i]
		// A repeat is told the same from the database.
		for range 2 {
			a := call("canary_write", how, id, false)
			seen[a.Status]++
			if how == "result" {
				require.Contains(t, string(a.Body), `{"password":"`+c.texts.result+`"}`, "the caller reads its result")
				continue
			}
			answers = append(answers, a)
		}
		answers = append(answers, tenant.User.Do(http.MethodGet, "/v1/executions/"+id, nil))
	}
	require.Equal(t, len(echoes), provider.calls)
	// All the ways of ending were there: success, rejected, failed, unknown.
	for _, status := range []int{http.StatusOK, http.StatusUnprocessableEntity, http.StatusBadGateway, http.StatusGatewayTimeout} {
		require.NotZero(t, seen[status], "%v", seen)
	}
	answers = append(answers, call("canary_read", "plain", "", false), call("canary_read", "400", "", false))
	dry := call("canary_write", "plain", list[len(echoes)], true)
	require.Equal(t, http.StatusOK, dry.Status, "%s", dry.Body)
	var d rig.RunData
	dry.Data(t, &d)
	return append(answers, dry, tenant.User.Do(http.MethodGet, "/v1/approvals/"+d.ApprovalID, nil))
}

// searchStores looks into databases, files and logs. marker, an argument that is no
// secret, shows that the search reaches what is stored.
func searchStores(t *testing.T, s *rig.Stack, marker search, secrets map[string]search) {
	t.Helper()
	visibility, err := url.Parse(s.DatabaseURL)
	require.NoError(t, err)
	visibility.Path = "/temporal_visibility"
	dump, lists := pgDump(t, s.DatabaseURL), pgDump(t, visibility.String())
	require.NotEmpty(t, marker.in(dump), "the search reaches the database")
	require.NotEmpty(t, newSearch("ActionRun").in(lists), "the search reaches Temporal's lists")
	logs := []byte(s.Logs())
	require.NotEmpty(t, newSearch("/v1/runtime/actions/run").in(logs), "the search reaches the logs")
	places, temporal := 0, 0
	look := func(name string, content []byte) {
		places++
		for kind, secret := range secrets {
			require.Empty(t, secret.in(content), "%s in %s", kind, name)
		}
		if strings.HasPrefix(name, temporalFiles) || name == "visibility" || name == "logs" {
			require.Empty(t, marker.in(content), "an argument in %s", name)
		}
	}
	look("database", dump)
	look("visibility", lists)
	look("logs", logs)
	for name, raw := range files(t, s) {
		look(name, raw)
		if strings.HasPrefix(name, temporalFiles) {
			temporal += len(newSearch(":canary_write").in(raw))
		}
	}
	require.NotZero(t, temporal, "the search reaches Temporal's files")
	t.Logf("%d places searched", places)
}

// temporalFiles is where Temporal keeps what it stores.
const temporalFiles = "data/temporal/"

// files reads everything below the data directory, and Postgres's own files where
// they are outside of it because its account may not enter the directory. They are many: one is in
// memory at a time.
func files(t *testing.T, s *rig.Stack) iter.Seq2[string, []byte] {
	t.Helper()
	data := filepath.Join(s.Dir, "data")
	roots := []string{data}
	if elsewhere, err := os.ReadFile(filepath.Join(data, "postgres", "location")); err == nil {
		roots = append(roots, strings.TrimSpace(string(elsewhere)))
	}
	return func(yield func(string, []byte) bool) {
		more := true
		for _, root := range roots {
			require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
				if !more {
					return fs.SkipAll
				}
				if err != nil || !entry.Type().IsRegular() {
					return nil //nolint:nilerr // Postgres takes files away at any time
				}
				raw, err := os.ReadFile(path)
				if err != nil {
					return nil //nolint:nilerr // as above
				}
				name, err := filepath.Rel(s.Dir, path)
				require.NoError(t, err)
				more = yield(name, raw)
				return nil
			}))
		}
	}
}

func pgDump(t *testing.T, databaseURL string) []byte {
	t.Helper()
	dir, err := exec.Command("pg_config", "--bindir").Output()
	program := "pg_dump"
	if err == nil {
		program = filepath.Join(strings.TrimSpace(string(dir)), "pg_dump")
	}
	out, err := exec.Command(program, "--data-only", "--inserts", "--dbname", databaseURL).Output()
	require.NoError(t, err)
	return out
}
