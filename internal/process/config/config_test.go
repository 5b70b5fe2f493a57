package config_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/rate"
	"agentruntime/internal/process/config"
)

// key is good enough for production.
const key = "Lf4S1nVtZ0ahXkQ9cJ7mYw2rGdB8uEoT5pKi3NxHsRg="

// allNeeds is every part that a process can need.
func allNeeds() []config.Need {
	return []config.Need{
		config.NeedDatabase, config.NeedMigrate, config.NeedTemporal, config.NeedVault, config.NeedAuth, config.NeedAudit, config.NeedCodec, config.NeedMail,
	}
}

// complete returns a configuration that production accepts for every part.
func complete() config.Config {
	return config.Config{
		Env: "production", Signup: "closed", DatabaseURL: "postgres://app@db/agentruntime", MigrateURL: "postgres://owner@db/agentruntime",
		TemporalAddress: "temporal:7233", StartLane: "split", ProviderTimeout: 20 * time.Second, MaxConnections: 16, AddressRateLimit: 1, ResultDays: 30,
		VaultKeys: "v1:" + key, KeyPepper: key, JWTSeed: key, CodecKey: key, AuditSeed: key,
		CodecOrigins: []string{"https://temporal.example.com"}, CodecKeysURL: "https://id.example.com/keys", CodecIssuer: "https://id.example.com",
		CodecAudience: "codec", CodecClaim: "groups=operators",
		SMTPURL: "smtps://user:secret@mail.example.com", MailFrom: "Agent Runtime <no-reply@example.com>", PublicURL: "https://runtime.example.com", RequireVerifiedEmail: true,
		JWTOldSeeds: []string{key}, AuditOldKeys: []string{key},
	}
}

// short is base64 of too few bytes.
func short() string { return base64.StdEncoding.EncodeToString(make([]byte, 31)) }

// repeated is a key of few different bytes, as examples show them.
func repeated(different int) string {
	raw := make([]byte, 32)
	for i := range raw {
		raw[i] = byte(i % different)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func TestConfigurationCompletePasses(t *testing.T) {
	t.Parallel()
	require.NoError(t, complete().Check(allNeeds()...))
	development := complete()
	development.Env = "development"
	laptop := complete()
	laptop.SMTPURL, laptop.MailFrom, laptop.PublicURL, laptop.RequireVerifiedEmail = "", "", "http://localhost:8080", false
	require.NoError(t, laptop.Check(allNeeds()...), "a laptop has no mail server and no certificate")
	require.NoError(t, development.Check(allNeeds()...))
}

// Each change is refused for its own reason and for no other, so a check that is lost
// shows here.
func TestConfigurationUnsafeIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(c *config.Config)
		want   string
	}{
		"unknown environment":   {func(c *config.Config) { c.Env = "staging" }, `ENV must be production or development, not "staging"`},
		"no environment":        {func(c *config.Config) { c.Env = "" }, `ENV must be production or development, not ""`},
		"unknown lane":          {func(c *config.Config) { c.StartLane = "fast" }, `START_LANE must be eager or split, not "fast"`},
		"provider timeout low":  {func(c *config.Config) { c.ProviderTimeout = time.Second - 1 }, "PROVIDER_TIMEOUT must be between 1s and 60s"},
		"provider timeout high": {func(c *config.Config) { c.ProviderTimeout = time.Minute + 1 }, "PROVIDER_TIMEOUT must be between 1s and 60s"},

		"public address without a scheme": {func(c *config.Config) { c.PublicURL = "runtime.example.com" }, "PUBLIC_URL: must be an address"},
		"public address of a file":        {func(c *config.Config) { c.PublicURL = "file:///etc" }, "PUBLIC_URL: must be an address"},
		"public address with a user":      {func(c *config.Config) { c.PublicURL = "https://u:p@runtime.example.com" }, "PUBLIC_URL: must end with"},
		"public address with a query":     {func(c *config.Config) { c.PublicURL = "https://runtime.example.com?a" }, "PUBLIC_URL: must end with"},
		"public address with a slash":     {func(c *config.Config) { c.PublicURL = "https://runtime.example.com/" }, "PUBLIC_URL: must end with"},

		"unknown sign-up":                {func(c *config.Config) { c.Signup = "opne" }, `SIGNUP must be open, invite or closed, not "opne"`},
		"a database without an address":  {func(c *config.Config) { c.DatabaseURL = "localhost" }, "DATABASE_URL must be an address such as postgres://"},
		"a schema without an address":    {func(c *config.Config) { c.MigrateURL = "localhost" }, "MIGRATE_DATABASE_URL must be an address such as postgres://"},
		"a key of the vault without id":  {func(c *config.Config) { c.VaultKeys = "abc" }, "VAULT_KEYS: each key has the form <id>:"},
		"verified without mail":          {func(c *config.Config) { c.Env, c.SMTPURL = "development", "" }, "REQUIRE_VERIFIED_EMAIL needs SMTP_URL"},
		"mail over http":                 {func(c *config.Config) { c.SMTPURL = "https://mail.example.com" }, "SMTP_URL must be smtps://"},
		"mail server without a host":     {func(c *config.Config) { c.SMTPURL = "smtp://" }, "SMTP_URL must be smtps://"},
		"mail in the clear":              {func(c *config.Config) { c.SMTPURL = "smtp://mail.example.com?tls=none" }, "SMTP_URL must not say tls=none"},
		"mail to port 0":                 {func(c *config.Config) { c.SMTPURL = "smtp://mail.example.com:0" }, "SMTP_URL has a port"},
		"mail with a misspelt parameter": {func(c *config.Config) { c.SMTPURL = "smtp://mail.example.com?tls=non" }, "SMTP_URL takes no parameter"},
		"no sender":                      {func(c *config.Config) { c.MailFrom = "" }, "MAIL_FROM is required"},
		"two senders":                    {func(c *config.Config) { c.MailFrom = "a@example.com, b@example.com" }, "MAIL_FROM must be an address"},
		"a sender with a line break":     {func(c *config.Config) { c.MailFrom = "a@example.com\r\nBcc: b@example.com" }, "MAIL_FROM must be an address"},
		"links to nowhere":               {func(c *config.Config) { c.PublicURL = "" }, "PUBLIC_URL is required with SMTP_URL"},
		"links in the clear":             {func(c *config.Config) { c.PublicURL = "http://runtime.example.com" }, "PUBLIC_URL must begin with https://"},

		"codec for no UI":        {func(c *config.Config) { c.CodecOrigins = nil }, "CODEC_ORIGINS is required"},
		"codec for any UI":       {func(c *config.Config) { c.CodecOrigins = []string{"*"} }, `CODEC_ORIGINS: "*" is not an origin`},
		"codec for a UI's page":  {func(c *config.Config) { c.CodecOrigins = []string{"https://temporal.example.com/"} }, "is not an origin"},
		"codec without keys":     {func(c *config.Config) { c.CodecKeysURL = "" }, "CODEC_JWKS_URL is required"},
		"codec of any issuer":    {func(c *config.Config) { c.CodecIssuer = "" }, "CODEC_ISSUER is required"},
		"codec for any audience": {func(c *config.Config) { c.CodecAudience = "" }, "CODEC_AUDIENCE is required"},
		"codec for everybody":    {func(c *config.Config) { c.CodecClaim = "" }, "CODEC_CLAIM must be name=value"},
		"codec for any group":    {func(c *config.Config) { c.CodecClaim = "groups=" }, "CODEC_CLAIM must be name=value"},

		"a scripted model": {func(c *config.Config) { c.ModelScript = "answers.json" }, "MODEL_SCRIPT must not be set when ENV=production"},
		"a recorder":       {func(c *config.Config) { c.ModelRecord = "tape.jsonl" }, "MODEL_RECORD must not be set when ENV=production"},
		"a cassette":       {func(c *config.Config) { c.ModelReplay = "tape.jsonl" }, "MODEL_REPLAY must not be set when ENV=production"},
		"both of a tape": {func(c *config.Config) {
			c.Env, c.ModelRecord, c.ModelReplay = "development", "tape.jsonl", "tape.jsonl"
		}, "MODEL_RECORD and MODEL_REPLAY exclude each other"},
		"a model's name":   {func(c *config.Config) { c.ModelServers = map[string]string{"My GPU": "http://10.0.0.5"} }, `MODEL_SERVERS: the name "My GPU" must have`},
		"no model's host":  {func(c *config.Config) { c.ModelServers = map[string]string{"local": "10.0.0.5:8000"} }, "MODEL_SERVERS: the address of local must be like http"},
		"a model's file":   {func(c *config.Config) { c.ModelServers = map[string]string{"local": "file:///etc/passwd"} }, "MODEL_SERVERS: the address of local must be like http"},
		"a model's secret": {func(c *config.Config) { c.ModelServers = map[string]string{"local": "http://a:b@10.0.0.5"} }, "MODEL_SERVERS: the address of local must have no credentials"},
		"a model's query":  {func(c *config.Config) { c.ModelServers = map[string]string{"local": "http://10.0.0.5/v1?key=1"} }, "MODEL_SERVERS: the address of local must have no credentials"},
		"few connections":  {func(c *config.Config) { c.MaxConnections = 15 }, "MAX_CONNECTIONS must be at least 16"},
		"a name as proxy":  {func(c *config.Config) { c.TrustedProxies = []string{"10.0.0.1", "proxy"} }, `TRUSTED_PROXIES: "proxy" is not a network`},
		"a range as proxy": {func(c *config.Config) { c.TrustedProxies = []string{"10.0.0.1-9"} }, `TRUSTED_PROXIES: "10.0.0.1-9" is not a network`},
		"every address":    {func(c *config.Config) { c.TrustedProxies = []string{"0.0.0.0/0"} }, `TRUSTED_PROXIES: "0.0.0.0/0" contains every address`},
		"every mapped one": {func(c *config.Config) { c.TrustedProxies = []string{"::ffff:0:0/96"} }, `TRUSTED_PROXIES: "::ffff:0:0/96" contains every address`},

		"no window":          {func(c *config.Config) { c.RateLimits = map[string]int64{"week": 1} }, `RATE_LIMITS: there is no window "week"`},
		"no requests":        {func(c *config.Config) { c.RateLimits = map[string]int64{"minute": 0} }, "RATE_LIMITS: minute must be a number from 1"},
		"too many requests":  {func(c *config.Config) { c.RateLimitCeilings = map[string]int64{"day": 1 << 31} }, "RATE_LIMIT_CEILINGS: day must be a number from 1"},
		"a ceiling below":    {func(c *config.Config) { c.RateLimitCeilings = map[string]int64{"hour": 19_999} }, "RATE_LIMIT_CEILINGS must not be below RATE_LIMITS"},
		"no days":            {func(c *config.Config) { c.ResultDays = 0 }, "RESULT_RETENTION_DAYS must be between 1 and 3650"},
		"no request unknown": {func(c *config.Config) { c.AddressRateLimit = 0 }, "ADDRESS_RATE_LIMIT must be at least 1"},

		"no database":         {func(c *config.Config) { c.DatabaseURL = "" }, "DATABASE_URL is required"},
		"no owner's database": {func(c *config.Config) { c.MigrateURL = "" }, "MIGRATE_DATABASE_URL is required"},
		"no Temporal":         {func(c *config.Config) { c.TemporalAddress = "" }, "TEMPORAL_ADDRESS is required"},
		"no codec key":        {func(c *config.Config) { c.CodecKey = "" }, "TEMPORAL_CODEC_KEY: required"},
		"short codec key":     {func(c *config.Config) { c.CodecKey = short() }, "TEMPORAL_CODEC_KEY: must be base64 of 32 bytes"},
		"no vault key":        {func(c *config.Config) { c.VaultKeys = "" }, "VAULT_KEYS is required"},
		"no pepper":           {func(c *config.Config) { c.KeyPepper = "" }, "API_KEY_PEPPER: required"},
		"pepper no base64":    {func(c *config.Config) { c.KeyPepper = "***" }, "API_KEY_PEPPER: must be base64 of 32 bytes"},
		"no seed":             {func(c *config.Config) { c.JWTSeed = "" }, "JWT_SIGNING_SEED: required"},
		"short seed":          {func(c *config.Config) { c.JWTSeed = short() }, "JWT_SIGNING_SEED: must be base64 of 32 bytes"},
		"short old seed":      {func(c *config.Config) { c.JWTOldSeeds[0] = short() }, "JWT_VERIFYING_SEEDS: must be base64 of 32 bytes"},
		"no audit key":        {func(c *config.Config) { c.AuditSeed = "" }, "AUDIT_SIGNING_KEY: required"},
		"short audit key":     {func(c *config.Config) { c.AuditSeed = short() }, "AUDIT_SIGNING_KEY: must be base64 of 32 bytes"},
		"short old audit key": {func(c *config.Config) { c.AuditOldKeys[0] = short() }, "AUDIT_OLD_PUBLIC_KEYS: must be base64 of 32 bytes"},

		"loopback":           {func(c *config.Config) { c.AllowLoopback = true }, "EGRESS_ALLOW_LOOPBACK must not be set when ENV=production"},
		"weak pepper":        {func(c *config.Config) { c.KeyPepper = repeated(1) }, "API_KEY_PEPPER is a development key"},
		"weak seed":          {func(c *config.Config) { c.JWTSeed = repeated(2) }, "JWT_SIGNING_SEED is a development key"},
		"weak vault key":     {func(c *config.Config) { c.VaultKeys = "v2:" + repeated(3) }, "VAULT_KEYS is a development key"},
		"weak old vault key": {func(c *config.Config) { c.VaultKeys += ",v0:" + repeated(1) }, "VAULT_KEYS is a development key"},
		"weak key in a file": {func(c *config.Config) { c.VaultKeys = "# ours\nv2:" + key + "\nv1:" + repeated(1) + "\n" }, "VAULT_KEYS is a development key"},
		"weak old seed":      {func(c *config.Config) { c.JWTOldSeeds = []string{key, repeated(1)} }, "JWT_VERIFYING_SEEDS is a development key"},
		"weak codec key":     {func(c *config.Config) { c.CodecKey = repeated(4) }, "TEMPORAL_CODEC_KEY is a development key"},
		"weakest refused":    {func(c *config.Config) { c.AuditSeed = repeated(7) }, "AUDIT_SIGNING_KEY is a development key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := complete()
			c.change(&cfg)
			err := cfg.Check(allNeeds()...)
			require.ErrorContains(t, err, c.want)
			require.Len(t, strings.Split(err.Error(), "\n"), 2, "one reason below the heading: %s", err)
		})
	}
}

// What only production refuses, and the bounds themselves.
func TestConfigurationAtTheBoundsPasses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(c *config.Config){
		"shortest provider timeout": func(c *config.Config) { c.ProviderTimeout = time.Second },
		"longest provider timeout":  func(c *config.Config) { c.ProviderTimeout = time.Minute },
		"eager lane":                func(c *config.Config) { c.StartLane = "eager" },
		"key of eight bytes":        func(c *config.Config) { c.KeyPepper = repeated(8) },
		"development": func(c *config.Config) {
			c.Env, c.AllowLoopback = "development", true
			c.KeyPepper, c.JWTSeed, c.CodecKey, c.AuditSeed = repeated(1), repeated(1), repeated(1), repeated(1)
			c.VaultKeys, c.JWTOldSeeds = "v1:"+repeated(1), []string{repeated(1)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := complete()
			change(&cfg)
			require.NoError(t, cfg.Check(allNeeds()...))
		})
	}
}

func TestConfigurationOfRateLimits(t *testing.T) {
	t.Parallel()
	plan, err := config.Config{Env: "production", RateLimits: map[string]int64{"hour": 5000}, RateLimitCeilings: map[string]int64{"day": 300_000}}.Plan()
	require.NoError(t, err)
	require.Equal(t, rate.Plan{
		Default: rate.Limits{Minute: 600, Hour: 5000, Day: 200_000}, Ceiling: rate.Limits{Minute: 6000, Hour: 50_000, Day: 300_000},
	}, plan)
	plan, err = config.Config{Env: "development", RateLimits: map[string]int64{"minute": 1 << 30}}.Plan()
	require.NoError(t, err)
	require.Equal(t, rate.Limits{Minute: 1 << 30, Hour: 1_000_000, Day: 1_000_000}, plan.Default)
	require.Equal(t, rate.Limits{Minute: rate.Most, Hour: 10_000_000, Day: 10_000_000}, plan.Ceiling)

	require.Equal(t, rate.AddressConfig{PerMinute: 7, Loopback: 7}, config.Config{Env: "production", AddressRateLimit: 7}.Addresses())
	require.Equal(t, rate.AddressConfig{PerMinute: 7, Loopback: 1_000_000}, config.Config{Env: "development", AddressRateLimit: 7}.Addresses())
}

func TestConfigurationOfUnusedPartsIsNotRequired(t *testing.T) {
	t.Parallel()
	bare := config.Config{Env: "production", Signup: "closed", StartLane: "split", ProviderTimeout: time.Second, MaxConnections: 16, AddressRateLimit: 1, ResultDays: 30}
	require.NoError(t, bare.Check())
	for _, need := range allNeeds() {
		if need != config.NeedMail { // mail can wait for a server
			require.Error(t, bare.Check(need), need)
		}
	}
}

func TestConfigurationReportsEveryReasonAtOnce(t *testing.T) {
	t.Parallel()
	cfg := complete()
	cfg.AllowLoopback, cfg.StartLane, cfg.DatabaseURL = true, "", ""
	err := cfg.Check(allNeeds()...)
	for _, name := range []string{"EGRESS_ALLOW_LOOPBACK", "START_LANE", "DATABASE_URL"} {
		require.ErrorContains(t, err, name)
	}
}

func TestVaultKeysAreReadFromAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	t.Setenv("VAULT_KEYS_FILE", file)
	_, err := config.Load(config.NeedVault)
	require.ErrorContains(t, err, "VAULT_KEYS_FILE: ")
	for text, want := range map[string]string{
		"": "is empty", " \n": "is empty", strings.Repeat("#", 1<<20+1): "no file of keys",
		"v1:" + repeated(1): "VAULT_KEYS is a development key",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := config.Load(config.NeedVault)
		require.ErrorContains(t, err, want)
	}
	keys := "# the current one first\nv2:" + key + "\nv1:" + key + "\n"
	require.NoError(t, os.WriteFile(file, []byte(keys), 0o600))
	c, err := config.Load(config.NeedVault)
	require.NoError(t, err)
	require.Equal(t, keys, c.VaultKeys)
	bare, err := config.Load()
	require.NoError(t, err)
	require.Empty(t, bare.VaultKeys, "a process without a vault reads no keys")
	t.Setenv("VAULT_KEYS", "v1:"+key)
	_, err = config.Load(config.NeedVault)
	require.ErrorContains(t, err, "set one of the two")
}

func TestConfigurationMalformedVariableIsRefused(t *testing.T) {
	t.Setenv("PROVIDER_TIMEOUT", "soon")
	_, err := config.Load()
	require.ErrorContains(t, err, "config: ")
}

func TestNetworksAreReadInTheirOwnForm(t *testing.T) {
	t.Parallel()
	got, err := config.Networks([]string{"10.1.2.3/8", " 192.0.2.1", "2001:db8::1", "2001:db8::1/32", "::ffff:10.0.0.0/104", "::ffff:192.0.2.7"})
	require.NoError(t, err)
	var texts []string
	for _, network := range got {
		texts = append(texts, network.String())
	}
	require.Equal(t, []string{"10.0.0.0/8", "192.0.2.1/32", "2001:db8::1/128", "2001:db8::/32", "10.0.0.0/8", "192.0.2.7/32"}, texts)
}
