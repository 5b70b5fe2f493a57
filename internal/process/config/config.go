// Package config reads the configuration of a process from environment variables,
// all of them listed here, and refuses what is incomplete or unsafe. Only the
// commands and the composition root use it.
package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"agentruntime/db"
)

// Config is what a process of the service needs to know.
type Config struct {
	// Env is "production" or "development"; production refuses unsafe values.
	Env string `env:"ENV" envDefault:"production"`

	// Listen is where the API, or the codec endpoint, listens, host:port.
	Listen string `env:"LISTEN" envDefault:":8080"`
	// TrustedProxies are the networks of the proxies that are believed about the address of
	// a caller, as CIDR or as single addresses, separated by commas.
	TrustedProxies []string `env:"TRUSTED_PROXIES"`
	// MaxConnections is the most connections of callers at once; one address has a quarter.
	MaxConnections int `env:"MAX_CONNECTIONS" envDefault:"4096"`
	// PublicURL is the address of the API for people, for example https://runtime.example.com.
	// Links in mail begin with it, and those that operators read in the Temporal UI.
	PublicURL string `env:"PUBLIC_URL"`
	// SMTPURL is the server that sends mail, MailFrom the sender. Package smtp says their forms.
	SMTPURL  string `env:"SMTP_URL"`
	MailFrom string `env:"MAIL_FROM"`
	// RequireVerifiedEmail refuses logins to users who have not verified their address.
	RequireVerifiedEmail bool `env:"REQUIRE_VERIFIED_EMAIL"`
	// Signup says who may become a user: open (anybody), invite (people whom a user invites), or
	// closed (nobody; `owner create` makes owners).
	Signup string `env:"SIGNUP" envDefault:"closed"`
	// TokenIssuer is issuer and audience of the tokens that login gives.
	TokenIssuer string `env:"TOKEN_ISSUER" envDefault:"agentruntime"`

	// DatabaseURL is of the login role of the service (a member of agentruntime_app).
	DatabaseURL string `env:"DATABASE_URL"`
	// MigrateURL is of the role that owns the schema; only `migrate` and `catalog` use it.
	MigrateURL string `env:"MIGRATE_DATABASE_URL"`
	// DatabaseConns is the most connections of the process.
	DatabaseConns int32 `env:"DATABASE_MAX_CONNS" envDefault:"16"`

	TemporalAddress   string `env:"TEMPORAL_ADDRESS" envDefault:"localhost:7233"`
	TemporalNamespace string `env:"TEMPORAL_NAMESPACE" envDefault:"default"`
	// StartLane is split (API apart from the workers) or eager (both in one process).
	StartLane string `env:"START_LANE" envDefault:"split"`

	// Keys, base64 of 32 bytes each. The vault's is written <id>:<base64>, several
	// separated by commas, the first wraps; the others only unwrap.
	VaultKeys string `env:"VAULT_KEYS"`
	// VaultKeysFile is a file of the vault's keys, one to a line. Load reads it into
	// VaultKeys.
	VaultKeysFile string `env:"VAULT_KEYS_FILE"`
	KeyPepper     string `env:"API_KEY_PEPPER"`
	// JWTSeed signs tokens (Ed25519); JWTOldSeeds, separated by commas, still verify
	// those that were signed before a rotation.
	JWTSeed     string   `env:"JWT_SIGNING_SEED"`
	JWTOldSeeds []string `env:"JWT_VERIFYING_SEEDS"`
	CodecKey    string   `env:"TEMPORAL_CODEC_KEY"`
	CodecKeyID  string   `env:"TEMPORAL_CODEC_KEY_ID" envDefault:"codec-1"`

	// CodecOrigins are those of the Temporal UIs that may call the codec endpoint, separated by
	// commas. It accepts tokens of CodecIssuer for CodecAudience, signed by a key of
	// CodecKeysURL, that have CodecClaim, name=value.
	CodecOrigins  []string `env:"CODEC_ORIGINS"`
	CodecKeysURL  string   `env:"CODEC_JWKS_URL"`
	CodecIssuer   string   `env:"CODEC_ISSUER"`
	CodecAudience string   `env:"CODEC_AUDIENCE"`
	CodecClaim    string   `env:"CODEC_CLAIM"`

	// AuditSeed signs the audit trail's checkpoints and exports (Ed25519); AuditOldKeys,
	// base64 of public keys separated by commas, still verify those of keys before it.
	AuditSeed    string   `env:"AUDIT_SIGNING_KEY"`
	AuditOldKeys []string `env:"AUDIT_OLD_PUBLIC_KEYS"`

	// AllowLoopback lets provider calls reach loopback addresses. Development only.
	AllowLoopback bool `env:"EGRESS_ALLOW_LOOPBACK"`
	// ModelScript is a file of fixtures from which a scripted model answers the model steps of Maps.
	// Development only.
	ModelScript string `env:"MODEL_SCRIPT"`
	// ModelRecord is a file to which what models of providers answer is added, ModelReplay one from
	// which they answer. Development only.
	ModelRecord string `env:"MODEL_RECORD"`
	ModelReplay string `env:"MODEL_REPLAY"`
	// ModelServers are addresses of models that tenants may choose by name and that need not be
	// public: local=http://10.0.0.5:8000/v1.
	ModelServers map[string]string `env:"MODEL_SERVERS" envKeyValSeparator:"="`
	// ProviderTimeout bounds one attempt at a provider.
	ProviderTimeout time.Duration `env:"PROVIDER_TIMEOUT" envDefault:"20s"`
	// Quotas raises or lowers what a tenant may create, by resource: providers=200,keys=500.
	// internal/record/quota has the resources and the defaults.
	Quotas map[string]int64 `env:"QUOTAS" envKeyValSeparator:"="`
	// RateLimits are the requests that each tenant may make where it has set no limits, and
	// RateLimitCeilings the most that it may set: minute=600,hour=20000,day=200000.
	RateLimits        map[string]int64 `env:"RATE_LIMITS" envKeyValSeparator:"="`
	RateLimitCeilings map[string]int64 `env:"RATE_LIMIT_CEILINGS" envKeyValSeparator:"="`
	// ResultDays is for how many days the arguments and the result of a run are kept after its end.
	ResultDays int `env:"RESULT_RETENTION_DAYS" envDefault:"30"`
	// AddressRateLimit is how many requests without a valid credential one address may make in
	// a minute.
	AddressRateLimit int32 `env:"ADDRESS_RATE_LIMIT" envDefault:"600"`
	// LogFormat is json or text; LogLevel debug, info, warn or error.
	LogFormat string `env:"LOG_FORMAT" envDefault:"json"`
	LogLevel  string `env:"LOG_LEVEL" envDefault:"info"`
	// DrainTimeout bounds how long a stopping process waits for what is under way.
	DrainTimeout time.Duration `env:"DRAIN_TIMEOUT" envDefault:"30s"`
}

// Load reads the environment; need names the parts that the process uses.
func Load(need ...Need) (Config, error) {
	c, err := env.ParseAs[Config]()
	if err != nil {
		return Config{}, fmt.Errorf("config: %w", err)
	}
	if slices.Contains(need, NeedVault) {
		if err := c.readVaultKeys(); err != nil {
			return Config{}, err
		}
	}
	return c, c.Check(need...)
}

// Need is a part of the configuration that a process cannot do without.
type Need string

// The parts.
const (
	NeedDatabase Need = "database"
	NeedMigrate  Need = "migrate"
	NeedTemporal Need = "temporal"
	NeedVault    Need = "vault"
	NeedAuth     Need = "auth"
	NeedAudit    Need = "audit"
	NeedCodec    Need = "codec"
	NeedMail     Need = "mail"
)

// Check reports everything that is missing, malformed or unsafe, all at once.
func (c Config) Check(need ...Need) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Env != "production" && c.Env != "development" {
		bad("ENV must be production or development, not %q", c.Env)
	}
	for _, n := range need {
		c.checkPart(n, bad)
	}
	if err := checkPublicURL(c.PublicURL); err != nil {
		bad("PUBLIC_URL: %w", err)
	}
	if _, err := Networks(c.TrustedProxies); err != nil {
		bad("TRUSTED_PROXIES: %w", err)
	}
	if c.Signup != "open" && c.Signup != "invite" && c.Signup != "closed" {
		bad("SIGNUP must be open, invite or closed, not %q", c.Signup)
	}
	if c.MaxConnections < 16 {
		bad("MAX_CONNECTIONS must be at least 16")
	}
	if _, err := c.Plan(); err != nil {
		bad("%w", err)
	}
	if c.AddressRateLimit < 1 {
		bad("ADDRESS_RATE_LIMIT must be at least 1")
	}
	if c.ResultDays < 1 || c.ResultDays > 3650 {
		bad("RESULT_RETENTION_DAYS must be between 1 and 3650")
	}
	if c.StartLane != "eager" && c.StartLane != "split" {
		bad("START_LANE must be eager or split, not %q", c.StartLane)
	}
	if c.ProviderTimeout < time.Second || c.ProviderTimeout > time.Minute {
		bad("PROVIDER_TIMEOUT must be between 1s and 60s")
	}
	c.checkModels(bad)
	if c.Env == "production" {
		c.checkProduction(bad)
	}
	if len(errs) > 0 {
		return fmt.Errorf("config:\n%w", errors.Join(errs...))
	}
	return nil
}

func (c Config) checkPart(n Need, bad func(string, ...any)) {
	switch n {
	case NeedDatabase:
		checkDatabase("DATABASE_URL", "is required", c.DatabaseURL, bad)
	case NeedMigrate:
		checkDatabase("MIGRATE_DATABASE_URL", "is required: the address of the database for the role that owns the schema", c.MigrateURL, bad)
	case NeedTemporal:
		if c.TemporalAddress == "" {
			bad("TEMPORAL_ADDRESS is required")
		}
		if _, err := Key(c.CodecKey); err != nil {
			bad("TEMPORAL_CODEC_KEY: %w", err)
		}
	case NeedVault:
		if c.VaultKeys == "" {
			bad("VAULT_KEYS is required: <id>:<base64 of 32 bytes>, several separated by commas; or VAULT_KEYS_FILE, a file of them")
			return
		}
		for _, key := range vaultKeys(c.VaultKeys) {
			if _, err := Key(key); err != nil {
				bad("VAULT_KEYS: each key has the form <id>:<base64 of 32 bytes>")
				return
			}
		}
	case NeedAuth:
		if _, err := Key(c.KeyPepper); err != nil {
			bad("API_KEY_PEPPER: %w", err)
		}
		if _, err := Key(c.JWTSeed); err != nil {
			bad("JWT_SIGNING_SEED: %w", err)
		}
		for _, seed := range c.JWTOldSeeds {
			if _, err := Key(seed); err != nil {
				bad("JWT_VERIFYING_SEEDS: %w", err)
			}
		}
	case NeedAudit:
		c.checkAudit(bad)
	case NeedCodec:
		c.checkCodec(bad)
	case NeedMail:
		c.checkMail(bad)
	}
}

func checkDatabase(name, absent, value string, bad func(string, ...any)) {
	switch {
	case value == "":
		bad("%s %s", name, absent)
	case !db.ValidURL(value):
		bad("%s must be an address such as postgres://user:password@host:5432/database", name)
	}
}

func (c Config) checkAudit(bad func(string, ...any)) {
	if _, err := Key(c.AuditSeed); err != nil {
		bad("AUDIT_SIGNING_KEY: %w", err)
	}
	for _, key := range c.AuditOldKeys {
		if _, err := Key(key); err != nil {
			bad("AUDIT_OLD_PUBLIC_KEYS: %w", err)
		}
	}
}

func (c Config) checkProduction(bad func(string, ...any)) {
	if c.AllowLoopback {
		bad("EGRESS_ALLOW_LOOPBACK must not be set when ENV=production")
	}
	for name, key := range map[string]string{"API_KEY_PEPPER": c.KeyPepper, "JWT_SIGNING_SEED": c.JWTSeed, "TEMPORAL_CODEC_KEY": c.CodecKey, "AUDIT_SIGNING_KEY": c.AuditSeed} {
		if raw, err := Key(key); err == nil && weak(raw) {
			bad(developmentKey, name)
		}
	}
	for name, keys := range map[string][]string{"VAULT_KEYS": vaultKeys(c.VaultKeys), "JWT_VERIFYING_SEEDS": c.JWTOldSeeds} {
		if slices.ContainsFunc(keys, func(key string) bool { raw, err := Key(key); return err == nil && weak(raw) }) {
			bad(developmentKey, name)
		}
	}
}

const developmentKey = "%s is a development key: make a random one when ENV=production"

// weak reports a key whose bytes are all alike or count up, as in examples.
func weak(key []byte) bool {
	seen := map[byte]bool{}
	for _, b := range key {
		seen[b] = true
	}
	return len(seen) < 8
}

// Networks reads networks as CIDR (10.0.0.0/8) or as single addresses. A network of IPv4
// addresses in the form of IPv6 becomes one of IPv4. A network of all addresses is refused:
// trusting everybody is trusting nobody.
func Networks(texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range texts {
		text = strings.TrimSpace(text)
		network, err := netip.ParsePrefix(text)
		if address, single := netip.ParseAddr(text); single == nil && address.Zone() == "" {
			network, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err == nil && network.Addr().Is4In6() && network.Bits() >= 96 {
			network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q is not a network such as 10.0.0.0/8 or an address", text)
		case network.Bits() == 0:
			return nil, fmt.Errorf("%q contains every address: name the networks of your proxies", text)
		}
		out = append(out, network.Masked())
	}
	return out, nil
}

// checkPublicURL refuses an address that links cannot begin with.
func checkPublicURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Host == "":
		return errors.New("must be an address such as https://runtime.example.com")
	case u.User != nil, u.RawQuery != "", u.Fragment != "", strings.ContainsAny(text, "?#"), strings.HasSuffix(text, "/"):
		return errors.New("must end with the host or a path, without credentials, query, fragment and final slash")
	}
	return nil
}

// Key decodes a key: base64 of 32 bytes.
func Key(s string) ([]byte, error) {
	if s == "" {
		return nil, errors.New("required: base64 of 32 bytes, for example from `openssl rand -base64 32`")
	}
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(raw) != 32 {
		return nil, errors.New("must be base64 of 32 bytes, for example from `openssl rand -base64 32`")
	}
	return raw, nil
}
