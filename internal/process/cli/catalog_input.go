package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"agentruntime/api"
	"agentruntime/internal/provider/openapi"
)

// maxDocument is the most bytes of a document, as those of a request.
const maxDocument = 25 << 20

// importFlags are the settings of an import.
type importFlags struct {
	slug, name, domain, baseURL, auth, root string
	settings, rules, overlay                string // files
}

func (f *importFlags) define(set *pflag.FlagSet) {
	set.StringVar(&f.slug, "slug", "", "slug of the provider; verbs are called SLUG:name")
	set.StringVar(&f.name, "name", "", "name for people; without it the document's title")
	set.StringVar(&f.domain, "domain", "", "domain of verbs without a tag; without it the slug")
	set.StringVar(&f.baseURL, "base-url", "", "where calls go; without it the document's server")
	set.StringVar(&f.auth, "auth", "", "how credentials are sent: bearer, basic, oauth2, custom_header, none or api_key:IN:NAME, as api_key:header:X-Api-Key; without it as the document says")
	set.StringVar(&f.root, "root", "", "which file of a zip archive is the document")
	set.StringVar(&f.rules, "rules", "", "file with the rules of the import, a JSON or YAML array")
	set.StringVar(&f.overlay, "overlay", "", "file with an OpenAPI Overlay, in JSON or YAML")
	set.StringVar(&f.settings, "settings", "", "file with members of POST /v1/providers, a JSON or YAML object; the other flags come before it")
}

// read returns the import of a file with the settings.
func (f *importFlags) read(stdin io.Reader, file string) (openapi.ImportInput, error) {
	members := map[string]any{}
	if f.settings != "" {
		raw, err := readMember(f.settings)
		if err != nil {
			return openapi.ImportInput{}, err
		}
		var given map[string]json.RawMessage
		if json.Unmarshal(raw, &given) != nil || given == nil {
			return openapi.ImportInput{}, fmt.Errorf("%s: the settings are an object with members of POST /v1/providers", f.settings)
		}
		for name, value := range given {
			members[name] = value
		}
	}
	for name, value := range map[string]string{"slug": f.slug, "name": f.name, "domain": f.domain, "base_url": f.baseURL, "root": f.root} {
		if value != "" {
			members[name] = value
		}
	}
	if f.auth != "" {
		members["auth"] = authOf(f.auth)
	}
	for name, from := range map[string]string{"rules": f.rules, "overlay": f.overlay} {
		if from == "" {
			continue
		}
		raw, err := readMember(from)
		if err != nil {
			return openapi.ImportInput{}, err
		}
		members[name] = raw
	}
	body, err := json.Marshal(members)
	if err != nil {
		return openapi.ImportInput{}, fmt.Errorf("encode the settings: %w", err)
	}
	document, err := readFile(stdin, file)
	if err != nil {
		return openapi.ImportInput{}, err
	}
	return api.ReadImport(body, document)
}

// authOf returns the auth of TYPE or TYPE:IN:NAME.
func authOf(s string) map[string]string {
	kind, where, has := strings.Cut(s, ":")
	if !has {
		return map[string]string{"type": kind}
	}
	in, name, _ := strings.Cut(where, ":")
	return map[string]string{"type": kind, "in": in, "name": name}
}

// readMember reads a file of JSON or YAML.
func readMember(file string) (json.RawMessage, error) {
	raw, err := readFile(nil, file)
	if err != nil {
		return nil, err
	}
	value, err := openapi.YAML(raw, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, readable(err))
	}
	return value, nil
}

// readFile reads a file, or stdin where it is -.
func readFile(stdin io.Reader, file string) ([]byte, error) {
	in := stdin
	if file != "-" || stdin == nil {
		f, err := os.Open(file) //nolint:gosec // the user of the command names the file
		if err != nil {
			return nil, fmt.Errorf("read a file: %w", err)
		}
		defer f.Close()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if len(raw) > maxDocument {
		return nil, fmt.Errorf("%s has more than %d bytes", file, maxDocument)
	}
	return raw, nil
}
