package config

import (
	"net/url"
	"regexp"
)

// serverName is what tenants name an address by.
var serverName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// checkModels refuses addresses of models that no request can be made of, and what only development has.
func (c Config) checkModels(bad func(string, ...any)) {
	for name, address := range c.ModelServers {
		u, err := url.Parse(address)
		switch {
		case !serverName.MatchString(name):
			bad("MODEL_SERVERS: the name %q must have lower-case letters, digits, - and _", name)
		case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.Opaque != "":
			bad("MODEL_SERVERS: the address of %s must be like http://10.0.0.5:8000/v1", name)
		case u.User != nil, u.RawQuery != "", u.ForceQuery, u.Fragment != "":
			bad("MODEL_SERVERS: the address of %s must have no credentials, no query and no fragment", name)
		}
	}
	if c.ModelRecord != "" && c.ModelReplay != "" {
		bad("MODEL_RECORD and MODEL_REPLAY exclude each other: what is replayed is not recorded")
	}
	if c.Env != "production" {
		return
	}
	for name, value := range map[string]string{"MODEL_SCRIPT": c.ModelScript, "MODEL_RECORD": c.ModelRecord, "MODEL_REPLAY": c.ModelReplay} {
		if value != "" {
			bad("%s must not be set when ENV=production: it is for development and tests", name)
		}
	}
}
