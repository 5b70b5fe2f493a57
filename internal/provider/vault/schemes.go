package vault

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/credential"
)

// Limits on a credential of several secrets.
const (
	maxSchemes    = 10
	maxSchemeName = 100 // bytes
)

// schemeSecrets reads {name: secret}. The fields of a secret say of which kind it is.
func schemeSecrets(raw json.RawMessage) (credential.Secret, error) {
	none := credential.Secret{}
	var list map[string]json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return none, fault.Invalid("/data/schemes", "type", "schemes is an object of security schemes and their secrets.")
	}
	if len(list) == 0 || len(list) > maxSchemes {
		return none, fault.Invalid("/data/schemes", "maxProperties", fmt.Sprintf("schemes must have 1 to %d entries.", maxSchemes))
	}
	secrets := make(map[string]credential.Secret, len(list))
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if name == "" || len(name) > maxSchemeName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
			return none, fault.Invalid("/data/schemes", "propertyNames", fmt.Sprintf("The name of a scheme has 1 to %d bytes and no control characters.", maxSchemeName))
		}
		secret, err := schemeSecret("/data/schemes/"+fault.PointerToken(name), list[name])
		if err != nil {
			return none, err
		}
		secrets[name] = secret
	}
	return credential.NewSchemes(secrets), nil
}

// schemeSecret reads the secret of one scheme.
func schemeSecret(path string, raw json.RawMessage) (credential.Secret, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil || given == nil {
		return credential.Secret{}, fault.Invalid(path, "type", "A secret is an object.")
	}
	for _, t := range []credential.Kind{credential.APIKey, credential.Bearer, credential.Basic} {
		if _, is := given[dataFields[t][0]]; !is {
			continue
		}
		fields, err := objectFields(path, t, raw)
		if err != nil {
			return credential.Secret{}, err
		}
		return single(path, t, fields)
	}
	return credential.Secret{}, fault.Invalid(path, "required", "A secret has key, or token, or username and password.")
}

// schemesOf returns the kinds of a credential's secrets as its row has them; nil for one secret.
func schemesOf(s credential.Secret) (json.RawMessage, error) {
	kinds := kindsOf(s)
	if kinds == nil {
		return nil, nil
	}
	raw, err := json.Marshal(kinds)
	if err != nil {
		return nil, fmt.Errorf("vault: encode the schemes of a credential: %w", err)
	}
	return raw, nil
}

func kindsOf(s credential.Secret) map[string]credential.Kind {
	parts := s.Parts()
	if parts == nil {
		return nil
	}
	kinds := make(map[string]credential.Kind, len(parts))
	for name, part := range parts {
		kinds[name] = part.Kind()
	}
	return kinds
}

// storedSchemes reads what schemesOf wrote.
func storedSchemes(raw json.RawMessage) map[string]credential.Kind {
	var kinds map[string]credential.Kind
	if json.Unmarshal(raw, &kinds) != nil {
		return nil // none are stored
	}
	return kinds
}
