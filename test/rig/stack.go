package rig

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/testkit/testdir"
)

// Stack is the whole service, running.
type Stack struct {
	Ready
	// Dir has everything persistent.
	Dir string
	// Parts by name: "dev" in one process; postgres, temporal, api and worker when split.
	Parts map[string]*Process
	// Env is added to that of API and worker, or of the development server, when they start again.
	Env []string

	t       testing.TB
	start   map[string]func()
	keysEnv []string
	// service starts a process of the product: its part's name, the subcommand and where
	// it listens. tb ends it.
	service func(tb testing.TB, name, command, listen string, more ...string) *Process
}

// For returns the stack for one of several tests that share it. A failure fails that test
// and logs the end of the parts' logs.
func (s *Stack) For(tb testing.TB) *Stack {
	tb.Helper()
	own := *s
	own.t = tb
	tb.Cleanup(func() {
		if !tb.Failed() {
			return
		}
		for name, p := range s.Parts {
			tb.Logf("--- log of %s (end)\n%s", name, tail(p.Log(), 6000))
		}
	})
	return &own
}

// Temporal starts a Temporal server alone and returns its address.
func Temporal(tb testing.TB) string {
	tb.Helper()
	dir := testdir.New(tb)
	file := filepath.Join(dir, "ready.json")
	var ready Ready
	Start(tb, "temporal", Binary(tb, Build{Command: "agentruntime-dev"}), []string{"LOG_FORMAT=json"},
		"temporal", "--data", dir, "--ready-file", file, "--temporal", "127.0.0.1:0").await(tb, file, &ready)
	return ready.TemporalAddress
}

// Dev starts everything in one process tree, the eager lane.
func Dev(tb testing.TB, env ...string) *Stack {
	tb.Helper()
	return devStack(tb, Build{Command: "agentruntime-dev"}, env, "--temporal", "127.0.0.1:0", "--temporal-ui", "127.0.0.1:0")
}

// DevExternal starts everything but Temporal in one process tree, on a Temporal server
// that runs already.
func DevExternal(tb testing.TB, temporal string) *Stack {
	tb.Helper()
	return devStack(tb, Build{Command: "agentruntime-dev", Tags: "external"}, nil, "--temporal", temporal)
}

func devStack(tb testing.TB, build Build, env []string, flags ...string) *Stack {
	tb.Helper()
	s := &Stack{t: tb, Dir: testdir.New(tb), Parts: map[string]*Process{}, start: map[string]func(){}}
	binary := Binary(tb, build)
	s.start["dev"] = func() {
		file := filepath.Join(s.Dir, "ready.json")
		p := Start(tb, "dev", binary, slices.Concat([]string{"LOG_FORMAT=json"}, env, s.Env),
			append([]string{"--data", filepath.Join(s.Dir, "data"), "--ready-file", file, "--listen", orFree(tb, s.APIURL)}, flags...)...)
		s.Parts["dev"] = p
		p.await(tb, file, &s.Ready)
	}
	s.start["dev"]()
	return s
}

func orFree(tb testing.TB, url string) string {
	tb.Helper()
	if url == "" {
		return FreeAddress(tb)
	}
	return url[len("http://"):]
}

// SplitOptions say how API and worker are built and run.
type SplitOptions struct {
	Tags string
	Race bool
	// Env is added to that of API and worker.
	Env []string
	// Workers is how many worker processes there are, "worker", "worker-2" and so on; 0 means one.
	Workers int
}

// Split starts Postgres, Temporal, API and worker as processes of their own, the
// split lane. API and worker are the product binary. No tenant is made; see NewTenant.
func Split(tb testing.TB, o SplitOptions) *Stack {
	tb.Helper()
	s := &Stack{t: tb, Dir: testdir.New(tb), Parts: map[string]*Process{}, start: map[string]func(){}}
	dev := Binary(tb, Build{Command: "agentruntime-dev"})
	product := Binary(tb, Build{Command: "agentruntime", Tags: o.Tags, Race: o.Race})
	// Ports stay over restarts, as they would behind a real address.
	pg, temporal, api := FreeAddress(tb), FreeAddress(tb), FreeAddress(tb)
	data := filepath.Join(s.Dir, "data")
	quiet := []string{"LOG_FORMAT=json"}
	s.keysEnv = []string{
		"VAULT_KEYS=rig:" + secret(), "API_KEY_PEPPER=" + secret(), "JWT_SIGNING_SEED=" + secret(), "TEMPORAL_CODEC_KEY=" + secret(),
		"AUDIT_SIGNING_KEY=" + secret(),
	}
	s.start["postgres"] = func() {
		file := filepath.Join(s.Dir, "postgres.json")
		s.Parts["postgres"] = Start(tb, "postgres", dev, quiet, "postgres", "--data", data, "--ready-file", file, "--port", pg[len("127.0.0.1:"):])
		s.Parts["postgres"].await(tb, file, &s.Ready)
	}
	s.start["temporal"] = func() {
		file := filepath.Join(s.Dir, "temporal.json")
		s.Parts["temporal"] = Start(tb, "temporal", dev, quiet, "temporal", "--data", data, "--ready-file", file, "--temporal", temporal, "--visibility-url", s.VisibilityURL)
		s.Parts["temporal"].await(tb, file, &s.Ready)
	}
	s.service = func(tb testing.TB, name, command, listen string, more ...string) *Process {
		tb.Helper()
		env := slices.Concat([]string{
			"ENV=development", "SIGNUP=open", "LOG_FORMAT=json", "EGRESS_ALLOW_LOOPBACK=true", "START_LANE=split", "DRAIN_TIMEOUT=5s",
			"LISTEN=" + listen, "DATABASE_URL=" + s.AppDatabaseURL, "TEMPORAL_ADDRESS=" + s.TemporalAddress,
		}, s.keysEnv, o.Env, s.Env, more)
		return Start(tb, name, product, env, command)
	}
	order := []string{"postgres", "temporal", "worker", "api"}
	s.start["api"] = func() { s.Parts["api"] = s.service(tb, "api", "api", api) }
	for n := 1; n <= max(1, o.Workers); n++ {
		name := "worker"
		if n > 1 {
			name = fmt.Sprintf("worker-%d", n)
			order = append(order, name)
		}
		s.start[name] = func() { s.Parts[name] = s.service(tb, name, "worker", api) }
	}
	for _, name := range order {
		s.start[name]()
	}
	s.APIURL = "http://" + api
	s.AwaitAPI()
	return s
}

// StartAPI starts one more API process on the database and Temporal of a split stack.
// It returns the stack as seen through it, with the process among its parts. env is added to that of the
// others.
func (s *Stack) StartAPI(name string, env ...string) *Stack {
	s.t.Helper()
	listen := FreeAddress(s.t)
	own := *s
	own.Parts, own.start = maps.Clone(s.Parts), maps.Clone(s.start)
	own.start[name] = func() { own.Parts[name] = own.service(own.t, name, "api", listen, env...) }
	own.start[name]()
	own.APIURL = "http://" + listen
	own.AwaitAPI()
	return &own
}

// CodecKey returns the key with which the stack encrypts what it gives to Temporal,
// and the key's id.
func (s *Stack) CodecKey() (id string, key []byte) {
	s.t.Helper()
	for _, kv := range s.keysEnv {
		if text, found := strings.CutPrefix(kv, "TEMPORAL_CODEC_KEY="); found {
			key, err := base64.StdEncoding.DecodeString(text)
			require.NoError(s.t, err)
			return codecID, key
		}
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, "data", "keys", "codec"))
	require.NoError(s.t, err)
	key, err = hex.DecodeString(strings.TrimSpace(string(text)))
	require.NoError(s.t, err)
	return codecID, key
}

// VaultKeys returns the key-encryption keys of the stack, as VAULT_KEYS has them.
func (s *Stack) VaultKeys() string {
	s.t.Helper()
	for _, kv := range s.keysEnv {
		if text, found := strings.CutPrefix(kv, "VAULT_KEYS="); found {
			return text
		}
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, "data", "keys", "kek"))
	require.NoError(s.t, err)
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	require.NoError(s.t, err)
	return "dev:" + base64.StdEncoding.EncodeToString(key)
}

// codecID is what the service calls its key unless TEMPORAL_CODEC_KEY_ID says otherwise.
const codecID = "codec-1"

// Kill ends a part with SIGKILL, its children too.
func (s *Stack) Kill(name string) { s.Parts[name].Kill() }

// Restart starts a part again, on the same data and address.
func (s *Stack) Restart(name string) {
	s.t.Helper()
	require.NotNil(s.t, s.start[name], "no part %s", name)
	s.start[name]()
}

// Logs returns everything that the parts have written, of this start.
func (s *Stack) Logs() string {
	var all strings.Builder
	for _, p := range s.Parts {
		all.WriteString(p.Log())
	}
	return all.String()
}
