// Package deploycheck reads the Dockerfile, docker-compose.yml and what they mount,
// and checks that they agree with the code: no Docker engine runs here. It has no
// product code.
package deploycheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"agentruntime/internal/process/cli"
	"agentruntime/internal/process/config"
)

const root = "../../.."

// service is what the checks ask about one entry of docker-compose.yml.
type service struct {
	Image string
	Build struct {
		Context string
		Args    map[string]string
	}
	Command     []string
	Restart     string
	Ports       []string
	Profiles    []string
	Networks    []string
	Volumes     []string
	Environment map[string]string
	Healthcheck struct {
		Test    []string
		Disable bool
	}
	DependsOn map[string]struct {
		Condition string
	} `yaml:"depends_on"`
	StopGracePeriod string   `yaml:"stop_grace_period"`
	ReadOnly        bool     `yaml:"read_only"`
	CapDrop         []string `yaml:"cap_drop"`
	SecurityOpt     []string `yaml:"security_opt"`
}

// compose is docker-compose.yml.
type compose struct {
	Services map[string]service
	Networks map[string]struct{ Internal bool }
	Volumes  map[string]any
}

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(raw)
}

func load(t *testing.T) compose {
	t.Helper()
	var c compose
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "docker-compose.yml")), &c))
	return c
}

// ours are the services that run the product binary.
func ours() []string { return []string{"api", "worker", "migrate", "codec"} }

func TestServices(t *testing.T) {
	t.Parallel()
	var names []string
	for name := range load(t).Services {
		names = append(names, name)
	}
	require.ElementsMatch(t, []string{
		"postgres", "temporal-schema", "temporal", "temporal-namespace", "temporal-ui", "migrate", "api", "worker", "codec",
	}, names)
}

func TestCommandsExist(t *testing.T) {
	t.Parallel()
	var known []string
	for _, command := range cli.Commands() {
		known = append(known, command.Name())
	}
	c := load(t)
	for _, name := range ours() {
		require.Equal(t, []string{name}, c.Services[name].Command, name)
		require.Contains(t, known, name)
		require.Equal(t, ".", c.Services[name].Build.Context, name)
		require.Equal(t, map[string]string{"COMMIT": "${COMMIT:-}"}, c.Services[name].Build.Args, "%s: what --version says", name)
	}
}

// A tag that moves makes tomorrow's deployment another one than today's.
func TestImagesArePinned(t *testing.T) {
	t.Parallel()
	pinned := regexp.MustCompile(`^[a-z/-]+:\d+\.\d+(\.\d+)?(-[a-z]+)?$`)
	for name, s := range load(t).Services {
		if slices.Contains(ours(), name) {
			require.Equal(t, "agentruntime:local", s.Image, name)
			continue
		}
		require.Regexp(t, pinned, s.Image, name)
	}
}

// What is tested in one process is deployed in the same version.
func TestTemporalImagesAreTheVersionsOfGoMod(t *testing.T) {
	t.Parallel()
	module := read(t, "go.mod")
	version := func(path string) string {
		found := regexp.MustCompile(regexp.QuoteMeta(path) + ` v(\S+)`).FindStringSubmatch(module)
		require.NotNil(t, found, path)
		return found[1]
	}
	services := load(t).Services
	server := version("go.temporal.io/server")
	require.Equal(t, "temporalio/server:"+server, services["temporal"].Image)
	require.Equal(t, "temporalio/admin-tools:"+server, services["temporal-schema"].Image)
	require.Equal(t, "temporalio/admin-tools:"+server, services["temporal-namespace"].Image)
	require.Equal(t, "temporalio/ui:"+version("github.com/temporalio/ui-server/v2"), services["temporal-ui"].Image)
}

func TestDependencies(t *testing.T) {
	t.Parallel()
	const healthy, completed = "service_healthy", "service_completed_successfully"
	want := map[string]map[string]string{
		"postgres":           {},
		"temporal-schema":    {"postgres": healthy},
		"temporal":           {"temporal-schema": completed},
		"temporal-namespace": {"temporal": healthy},
		"temporal-ui":        {"temporal": healthy},
		"migrate":            {"postgres": healthy, "temporal-namespace": completed},
		"api":                {"migrate": completed, "temporal-namespace": completed},
		"worker":             {"migrate": completed, "temporal-namespace": completed},
		"codec":              {},
	}
	services := load(t).Services
	for name, s := range services {
		got := map[string]string{}
		for on, dependency := range s.DependsOn {
			got[on] = dependency.Condition
			if dependency.Condition == healthy {
				require.NotEmpty(t, services[on].Healthcheck.Test, "%s waits for the health of %s", name, on)
			}
		}
		require.Equal(t, want[name], got, name)
	}
}

func TestRestartPolicies(t *testing.T) {
	t.Parallel()
	for name, s := range load(t).Services {
		once := slices.Contains([]string{"temporal-schema", "temporal-namespace", "migrate"}, name)
		if once {
			require.True(t, strings.HasPrefix(s.Restart, "on-failure:"), "%s: %q", name, s.Restart)
			continue
		}
		require.Equal(t, "unless-stopped", s.Restart, name)
	}
}

func TestOnlyTheAPIIsReachableFromOutside(t *testing.T) {
	t.Parallel()
	c := load(t)
	require.True(t, c.Networks["inside"].Internal)
	require.Equal(t, []string{"127.0.0.1:${API_PORT:-8080}:8080"}, c.Services["api"].Ports)
	require.Equal(t, []string{"127.0.0.1:${TEMPORAL_UI_PORT:-8233}:8080"}, c.Services["temporal-ui"].Ports, "it has no login")
	for name, s := range c.Services {
		if name == "api" || name == "temporal-ui" || name == "codec" {
			continue
		}
		require.Empty(t, s.Ports, name)
		if name != "worker" {
			require.Equal(t, []string{"inside"}, s.Networks, name)
		}
	}
}

// A profile keeps the codec, which needs an issuer, out of a plain docker compose up.
func TestCodecIsForOperatorsOnly(t *testing.T) {
	t.Parallel()
	services := load(t).Services
	for name, s := range services {
		if name != "codec" {
			require.Empty(t, s.Profiles, name)
		}
	}
	codec, ui := services["codec"], services["temporal-ui"]
	require.Equal(t, []string{"codec"}, codec.Profiles)
	require.Equal(t, []string{"outside"}, codec.Networks, "it needs no database")
	require.Equal(t, []string{"127.0.0.1:${CODEC_PORT:-8090}:8080"}, codec.Ports, "a proxy ends TLS")
	require.Equal(t, "${TEMPORAL_CODEC_ENDPOINT:-}", ui.Environment["TEMPORAL_CODEC_ENDPOINT"])
	require.Equal(t, "true", ui.Environment["TEMPORAL_CODEC_PASS_ACCESS_TOKEN"])
	require.Equal(t, codec.Environment["CODEC_ISSUER"], ui.Environment["TEMPORAL_AUTH_PROVIDER_URL"], "the codec takes the tokens of the UI's login")
	for _, name := range []string{"TEMPORAL_CODEC_KEY", "TEMPORAL_CODEC_KEY_ID"} {
		require.Equal(t, services["worker"].Environment[name], codec.Environment[name])
	}
}

// The web interface of Temporal ignores a variable that it does not know.
func TestVariablesOfTheUIAreKnownToIt(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/temporalio/ui-server/v2").Output()
	require.NoError(t, err)
	template, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "config", "docker.yaml"))
	require.NoError(t, err)
	for variable := range load(t).Services["temporal-ui"].Environment {
		require.Contains(t, string(template), `env "`+variable+`"`)
	}
}

func TestOurContainersAreHardened(t *testing.T) {
	t.Parallel()
	c := load(t)
	for _, name := range ours() {
		s := c.Services[name]
		require.True(t, s.ReadOnly, name)
		require.Equal(t, []string{"ALL"}, s.CapDrop, name)
		require.Contains(t, s.SecurityOpt, "no-new-privileges:true", name)
		require.Empty(t, s.Volumes, name)
		// The image's probe asks a server; where there is none it must not run.
		require.Equal(t, name != "api" && name != "codec", s.Healthcheck.Disable, name)
	}
}

func TestStoppingWaitsForTheDrain(t *testing.T) {
	t.Parallel()
	c := load(t)
	for _, name := range []string{"api", "worker", "codec"} {
		grace, err := time.ParseDuration(c.Services[name].StopGracePeriod)
		require.NoError(t, err)
		drain, err := time.ParseDuration(c.Services[name].Environment["DRAIN_TIMEOUT"])
		require.NoError(t, err)
		require.Greater(t, grace, drain, name)
	}
}

func TestMountedFilesExist(t *testing.T) {
	t.Parallel()
	c := load(t)
	for name, s := range c.Services {
		for _, volume := range s.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if !strings.HasPrefix(source, ".") {
				require.Contains(t, c.Volumes, source, name)
				continue
			}
			require.FileExists(t, filepath.Join(root, source), name)
			require.True(t, strings.HasSuffix(volume, ":ro"), "%s: %s", name, volume)
		}
	}
}

// variables returns the names that the configuration knows.
func variables() []string {
	var names []string
	for field := range reflect.TypeFor[config.Config]().Fields() {
		names = append(names, field.Tag.Get("env"))
	}
	return names
}

func TestVariablesAreThoseOfTheConfiguration(t *testing.T) {
	t.Parallel()
	known := variables()
	require.Contains(t, known, "DATABASE_URL")
	c := load(t)
	for _, name := range ours() {
		for variable := range c.Services[name].Environment {
			require.Contains(t, known, variable, "%s sets a variable that internal/process/config does not know", name)
		}
	}
}

func TestEachProcessGetsOnlyItsSecrets(t *testing.T) {
	t.Parallel()
	services := load(t).Services
	withheld := map[string][]string{
		"api":     {"MIGRATE_DATABASE_URL"},
		"worker":  {"MIGRATE_DATABASE_URL", "API_KEY_PEPPER", "SMTP_URL", "JWT_SIGNING_SEED", "JWT_VERIFYING_SEEDS"},
		"migrate": {"DATABASE_URL", "API_KEY_PEPPER", "JWT_SIGNING_SEED", "VAULT_KEYS", "TEMPORAL_CODEC_KEY", "AUDIT_SIGNING_KEY"},
		"codec": {
			"DATABASE_URL", "MIGRATE_DATABASE_URL", "API_KEY_PEPPER", "JWT_SIGNING_SEED", "JWT_VERIFYING_SEEDS", "VAULT_KEYS", "AUDIT_SIGNING_KEY",
			"TEMPORAL_AUTH_CLIENT_SECRET",
		},
	}
	for name, never := range withheld {
		for _, variable := range never {
			require.NotContains(t, services[name].Environment, variable, name)
		}
	}
	require.Contains(t, services["migrate"].Environment["MIGRATE_DATABASE_URL"], "://agentruntime_owner:")
	for _, name := range []string{"api", "worker"} {
		require.Contains(t, services[name].Environment["DATABASE_URL"], "://agentruntime_service:", name)
	}
}

func TestNoSecretIsWrittenDown(t *testing.T) {
	t.Parallel()
	secret := regexp.MustCompile(`PASSWORD|PWD|PEPPER|SEED$|SECRET|VAULT_KEYS|_KEY$`)
	fromFile := regexp.MustCompile(`^\$\{[A-Z_]+:(\?[^}]+|-)\}$`)
	inURL := regexp.MustCompile(`://[^:/]+:([^@]*)@`)
	for name, s := range load(t).Services {
		for variable, value := range s.Environment {
			if secret.MatchString(variable) {
				require.Regexp(t, fromFile, value, "%s: %s", name, variable)
			}
			if password := inURL.FindStringSubmatch(value); password != nil {
				require.Regexp(t, fromFile, password[1], "%s: %s", name, variable)
			}
		}
	}
}

// reference is a variable that docker compose replaces: ${NAME:?message} or ${NAME:-default}.
var reference = regexp.MustCompile(`\$\{([A-Z_]+)(:[?-])([^}]*)\}`)

func TestExampleFileNamesWhatComposeReads(t *testing.T) {
	t.Parallel()
	example := map[string]string{}
	for line := range strings.Lines(read(t, ".env.example")) {
		name, value, found := strings.Cut(strings.TrimSpace(line), "=")
		if found && !strings.HasPrefix(name, "#") {
			example[name] = value
		}
	}
	used := map[string]bool{}
	for _, found := range reference.FindAllStringSubmatch(read(t, "docker-compose.yml"), -1) {
		name, kind, fallback := found[1], found[2], found[3]
		used[name] = true
		value, known := example[name]
		require.True(t, known, "%s is missing from .env.example", name)
		if kind == ":?" {
			require.Empty(t, value, "%s is a secret and .env.example holds a value for it", name)
		} else {
			require.Equal(t, fallback, value, "%s has two defaults", name)
		}
	}
	for name := range example {
		require.True(t, used[name], "nothing reads %s of .env.example", name)
	}
}

// decided are the settings that docker-compose.yml decides itself, and those for development only.
// Each other one can be set by .env.
func decided() []string {
	return []string{
		"ENV", "LISTEN", "DATABASE_URL", "MIGRATE_DATABASE_URL", "TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "START_LANE", "DRAIN_TIMEOUT",
		"EGRESS_ALLOW_LOOPBACK", "MODEL_SCRIPT", "MODEL_RECORD", "MODEL_REPLAY",
	}
}

func TestEachSettingCanBeSet(t *testing.T) {
	t.Parallel()
	services := load(t).Services
	for _, name := range variables() {
		var reached bool
		for _, service := range ours() {
			found := reference.FindStringSubmatch(services[service].Environment[name])
			reached = reached || found != nil && found[1] == name
		}
		require.NotEqual(t, slices.Contains(decided(), name), reached, "%s: .env reaches it, or decided() has it", name)
	}
}

// On a laptop there is neither a mail server nor a certificate, and no other machine calls.
func TestLaptopNeedsPasswordsAndKeysOnly(t *testing.T) {
	t.Parallel()
	for _, found := range reference.FindAllStringSubmatch(read(t, "docker-compose.yml"), -1) {
		if found[2] == ":?" {
			require.Regexp(t, `PASSWORD$|PEPPER$|SEED$|_KEY$`, found[1])
		}
	}
	for name, s := range load(t).Services {
		for _, port := range s.Ports {
			require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s: %s", name, port)
		}
	}
}

// Each process starts with what docker-compose.yml gives it, once .env is filled in.
func TestConfigurationIsComplete(t *testing.T) {
	const key = "Lf4S1nVtZ0ahXkQ9cJ7mYw2rGdB8uEoT5pKi3NxHsRg="
	filled := map[string]string{
		"VAULT_KEYS": "v1:" + key, "API_KEY_PEPPER": key, "JWT_SIGNING_SEED": key, "TEMPORAL_CODEC_KEY": key,
		"AUDIT_SIGNING_KEY": key, "PUBLIC_URL": "https://runtime.example.com", "SMTP_URL": "smtps://mail.example.com", "MAIL_FROM": "no-reply@example.com",
		"CODEC_ORIGINS": "https://temporal.example.com", "CODEC_JWKS_URL": "https://id.example.com/keys", "CODEC_ISSUER": "https://id.example.com",
		"CODEC_AUDIENCE": "temporal-codec", "CODEC_CLAIM": "groups=operators",
	}
	services := load(t).Services
	for _, name := range ours() {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, []string{name}, services[name].Command)
			for variable, value := range services[name].Environment {
				t.Setenv(variable, reference.ReplaceAllStringFunc(value, func(match string) string {
					found := reference.FindStringSubmatch(match)
					if value, ok := filled[found[1]]; ok {
						return value
					}
					if found[2] == ":-" {
						return found[3]
					}
					return "a1b2c3d4"
				}))
			}
			cfg, err := config.Load(cli.Needs(name)...)
			require.NoError(t, err)
			require.Equal(t, "production", cfg.Env)
		})
	}
}
