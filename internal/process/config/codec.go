package config

import (
	"net/url"
	"strings"
)

// checkCodec reports what the codec endpoint lacks. It does not start without a guard.
func (c Config) checkCodec(bad func(string, ...any)) {
	if len(c.CodecOrigins) == 0 {
		bad("CODEC_ORIGINS is required: the origins of the Temporal UIs, such as https://temporal.example.com")
	}
	for _, origin := range c.CodecOrigins {
		if u, err := url.Parse(origin); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || origin != u.Scheme+"://"+u.Host {
			bad("CODEC_ORIGINS: %q is not an origin such as https://temporal.example.com", origin)
		}
	}
	for name, value := range map[string]string{"CODEC_JWKS_URL": c.CodecKeysURL, "CODEC_ISSUER": c.CodecIssuer, "CODEC_AUDIENCE": c.CodecAudience} {
		if value == "" {
			bad("%s is required: the codec endpoint needs tokens of the operators' issuer", name)
		}
	}
	if name, value, _ := strings.Cut(c.CodecClaim, "="); name == "" || value == "" {
		bad("CODEC_CLAIM must be name=value: the claim that makes a user of the issuer an operator, such as groups=temporal-operators")
	}
}
