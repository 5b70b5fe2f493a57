package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// reader follows the pages, and has what these say that a reader has.
type reader struct {
	stack *rig.Stack
	dir   string // stands for the project's folder
	shims string // commands that come before those of the machine
}

func newReader(t *testing.T, s *rig.Stack) reader {
	t.Helper()
	r := reader{stack: s, dir: t.TempDir(), shims: t.TempDir()}
	// README.md has make dev before anything that runs, see notRun.
	require.NoError(t, os.Symlink(filepath.Join(s.Dir, "data"), filepath.Join(r.dir, ".dev")))
	curl, err := exec.LookPath("curl")
	require.NoError(t, err)
	// This curl also keeps the head of each answer, so that no refusedWith is lost in /dev/null.
	r.shim(t, "curl", fmt.Sprintf("call=$(mktemp \"$CALLS/XXXXXXXX\")\nprintf '%%s ' \"$@\" >\"$call.args\"\nexec %s -D \"$call\" \"$@\"\n", curl))
	// Building takes minutes. The rig has built the same program, and this make puts it in its place.
	r.shim(t, "make", fmt.Sprintf("[[ $* == build ]] || { echo \"no page runs make $*\" >&2; exit 2; }\nmkdir -p bin\nln -sf %s bin/agentruntime\n",
		rig.Binary(t, rig.Build{Command: "agentruntime"})))
	return r
}

// shim makes a command that takes the place of one of the machine.
func (r reader) shim(t *testing.T, name, script string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(r.shims, name), []byte("#!/bin/bash\n"+script), 0o755))
}

// cleans removes what was built: each page says itself how to build what it runs.
func (r reader) cleans(t *testing.T) {
	t.Helper()
	require.NoError(t, os.RemoveAll(filepath.Join(r.dir, "bin")))
}

// env returns a variable of .dev/env.
func (r reader) env(t *testing.T, name string) string {
	t.Helper()
	env, err := os.ReadFile(filepath.Join(r.dir, ".dev", "env"))
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^export ` + name + `='(.*)'$`).FindSubmatch(env)
	require.NotNil(t, m, "%s in %s", name, env)
	return string(m[1])
}

func (r reader) user(t *testing.T) *rig.Client {
	t.Helper()
	return r.stack.LogIn(r.env(t, "EMAIL"), r.env(t, "PASSWORD"))
}

// write puts a file into the reader's folder.
func (r reader) write(t *testing.T, name string, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, name), content, 0o600))
}

// gives makes what a block says that the reader has, and returns the variables of the shell for it.
func (r reader) gives(t *testing.T, what string) string {
	t.Helper()
	if what == "" {
		return ""
	}
	makes := map[string]func(*testing.T) string{
		"a receiver in RECEIVER, and its SECRET":          r.givesReceiver,
		"a write whose answer was lost":                   r.givesLostAnswer,
		"a document in spec3.json":                        r.givesStripe,
		"the files, and the role in MIGRATE_DATABASE_URL": r.givesPlatform,
	}
	require.Contains(t, makes, what)
	return makes[what](t)
}

// givesReceiver starts a receiver that verifies what it gets by a public library.
func (r reader) givesReceiver(t *testing.T) string {
	t.Helper()
	const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	verifier, err := standard.NewWebhook(secret)
	require.NoError(t, err)
	url := rig.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || verifier.Verify(body, r.Header) != nil {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	return "RECEIVER=" + url + "\nSECRET=" + secret + "\n"
}

// givesLostAnswer runs a write, and its provider closes the connection without an answer.
func (r reader) givesLostAnswer(t *testing.T) string {
	t.Helper()
	url := rig.Serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	user := r.user(t)
	a := user.Do(http.MethodPost, "/v1/providers", map[string]any{
		"slug": "lossy", "base_url": url, "auth": map[string]any{"type": "none"}, "openapi": json.RawMessage(`{"openapi": "3.1.0",
			"info": {"title": "Lossy", "version": "1"}, "paths": {"/orders": {"post": {"operationId": "create_order", "responses": {}}}}}`),
	})
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	a = user.With(r.env(t, "KEY"), "").Run("lossy:create_order", map[string]any{}, "order-lost")
	require.Equal(t, "OUTCOME_UNKNOWN", a.Code(t))
	return ""
}

// givesStripe writes a small part of a document like Stripe's: the whole one takes seconds. Its import
// is the matter of test/conformance.
func (r reader) givesStripe(t *testing.T) string {
	t.Helper()
	r.write(t, "spec3.json", []byte(`{"openapi": "3.0.0", "info": {"title": "Stripe API", "version": "1"}, "servers": [{"url": "https://api.stripe.com/"}],
		"components": {"securitySchemes": {"bearerAuth": {"type": "http", "scheme": "bearer"}}}, "security": [{"bearerAuth": []}],
		"paths": {"/v1/balance": {"get": {"operationId": "GetBalance", "responses": {"200": {"description": "ok"}}}}}}`))
	return ""
}

// givesPlatform writes a document, and the rules that the page shows.
func (r reader) givesPlatform(t *testing.T) string {
	t.Helper()
	var rules []json.RawMessage
	for _, b := range blocks(t, "docs/use/catalog-and-providers.md") {
		if b.language != "json" || !strings.HasPrefix(b.text, "{\n  \"match\"") {
			continue
		}
		for values := json.NewDecoder(strings.NewReader(b.text)); values.More(); {
			var rule json.RawMessage
			require.NoError(t, values.Decode(&rule))
			rules = append(rules, rule)
		}
	}
	require.Len(t, rules, 2)
	raw, err := json.Marshal(rules)
	require.NoError(t, err)
	r.write(t, "crm-rules.yaml", raw)
	operation := func(name, tag string) map[string]any {
		body := map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": json.RawMessage(`{"type": "object", "properties": {"reference": {"type": "string"}}}`)}}}
		return map[string]any{"post": map[string]any{"operationId": name, "tags": []string{tag}, "requestBody": body, "responses": map[string]any{}}}
	}
	raw, err = json.Marshal(map[string]any{
		"openapi": "3.1.0", "info": map[string]any{"title": "CRM", "version": "1"}, "servers": []any{map[string]any{"url": "https://crm.example.com"}},
		"paths": map[string]any{"/orders/cancel": operation("cancel_order", "Orders"), "/orders": map[string]any{
			"post": operation("create_order", "Orders")["post"],
			"get":  json.RawMessage(`{"operationId": "list_orders", "parameters": [{"name": "reference", "in": "query", "schema": {"type": "string"}}], "responses": {}}`),
		}},
	})
	require.NoError(t, err)
	r.write(t, "crm.yaml", raw)
	return "export MIGRATE_DATABASE_URL='" + r.stack.DatabaseURL + "'\n"
}

// command returns the text of a block for the script. One that does not end is stopped when it has
// printed what its page says. Until then calls are made, so that something happens.
func (b block) command(out string) string {
	if b.until == "" {
		return b.text
	}
	return fmt.Sprintf(`set -m; ( %s ) & set +m
trap "kill -- -$! 2>/dev/null || true" EXIT
for _ in $(seq 200); do
  command -p curl -sSf -o /dev/null $API/v1/runtime/actions/run -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{"verb":"shop:list_orders","args":{}}'
  ! grep -qF '%[2]s' %[3]s || break
done
kill -- -$!; wait $! || true
trap - EXIT
grep -qF '%[2]s' %[3]s
`, strings.TrimSuffix(b.text, "\n"), b.until, out)
}

var (
	statusLine  = regexp.MustCompile(`(?m)^HTTP/\S+ (\d{3})`)
	refusedWith = regexp.MustCompile(`(?m)# refused with (\d{3})\b`)
)

// checkStatuses compares the statuses of errors that the calls of a block were answered with to what the page
// says: a comment for each, or an answer without success for the last.
func checkStatuses(t *testing.T, where string, b block, calls, printed string) {
	t.Helper()
	var want, got, about []string
	for _, m := range refusedWith.FindAllStringSubmatch(b.text, -1) {
		want = append(want, m[1])
	}
	entries, err := filepath.Glob(filepath.Join(calls, "*.args"))
	require.NoError(t, err)
	for _, entry := range entries {
		args, err := os.ReadFile(entry)
		require.NoError(t, err)
		head, err := os.ReadFile(strings.TrimSuffix(entry, ".args"))
		require.NoError(t, err)
		statuses := statusLine.FindAllSubmatch(head, -1)
		require.NotEmpty(t, statuses, "%s: no answer to curl %s", where, args)
		if last := string(statuses[len(statuses)-1][1]); last >= "400" {
			got, about = append(got, last), append(about, last+" of curl "+string(args))
		}
	}
	if strings.Contains(b.answer, `"success": false`) {
		require.Len(t, got, len(want)+1, "%s: %s; the page shows one more refusal", where, strings.Join(about, "\n"))
		return
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got, "%s: %s; it printed\n%s", where, strings.Join(about, "\n"), printed)
}
