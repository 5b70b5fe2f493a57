package account

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/tenant/auth"
)

// someday is when the keys of these tests are made.
var someday = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestNewKeyDefaults(t *testing.T) {
	t.Parallel()
	id := uuid.New().String()
	for name, tc := range map[string]struct {
		in   KeyInput
		want Key
	}{
		"agent key by default": {
			KeyInput{Name: "n"},
			Key{Name: "n", Permissions: []string{"agents:message"}, IdentityMode: new("identified")},
		},
		"Runtime key": {
			KeyInput{Name: "n", Permissions: []string{"actions:run", "actions:catalog"}},
			Key{Name: "n", Permissions: []string{"actions:run", "actions:catalog"}},
		},
		"mixed key": {
			KeyInput{Name: "n", Permissions: []string{"agents:message", "actions:run"}},
			Key{Name: "n", Permissions: []string{"agents:message", "actions:run"}},
		},
		"doubled permission": {
			KeyInput{Name: "n", Permissions: []string{"maps:trigger", "maps:trigger"}},
			Key{Name: "n", Permissions: []string{"maps:trigger"}, IdentityMode: new("identified")},
		},
		"locked key": {
			KeyInput{Name: "n", AgentID: new(strings.ToUpper(id)), IdentityMode: new("REQUIRED")},
			Key{Name: "n", Permissions: []string{"agents:message"}, AgentID: &id, IdentityMode: new("required")},
		},
		"agent id of another form": {
			KeyInput{Name: "n", AgentID: new("Agent-7")},
			Key{Name: "n", Permissions: []string{"agents:message"}, AgentID: new("Agent-7"), IdentityMode: new("identified")},
		},
		"origins": {
			KeyInput{Name: "n", AllowedOrigins: []string{"HTTPS://App.Example.com:443", "https://app.example.com", "http://localhost:3000"}},
			Key{Name: "n", Permissions: []string{"agents:message"}, IdentityMode: new("identified"), AllowedOrigins: []string{"https://app.example.com", "http://localhost:3000"}},
		},
		"networks": {
			KeyInput{Name: "n", AllowedIPs: []string{"203.0.113.7", "10.0.0.0/8", "2001:DB8:0::/32", "::ffff:203.0.113.7"}, ExpiresAt: new(someday.Add(1))},
			Key{
				Name: "n", Permissions: []string{"agents:message"}, IdentityMode: new("identified"),
				AllowedIPs: []string{"203.0.113.7/32", "10.0.0.0/8", "2001:db8::/32"}, ExpiresAt: new(someday.Add(1)),
			},
		},
		"longest name": {
			KeyInput{Name: strings.Repeat("ü", 255)},
			Key{Name: strings.Repeat("ü", 255), Permissions: []string{"agents:message"}, IdentityMode: new("identified")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.want.Status = KeyActive
			if tc.want.AllowedOrigins == nil {
				tc.want.AllowedOrigins = []string{}
			}
			if tc.want.AllowedIPs == nil {
				tc.want.AllowedIPs = []string{}
			}
			got, err := newKey(tc.in, auth.Permissions(), someday)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestNewKeyRefusals(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in         KeyInput
		path, rule string
	}{
		"no name":                    {KeyInput{}, "/name", "required"},
		"blank name":                 {KeyInput{Name: "  "}, "/name", "length"},
		"name too long":              {KeyInput{Name: strings.Repeat("ü", 256)}, "/name", "length"},
		"name with a line break":     {KeyInput{Name: "a\nb"}, "/name", "length"},
		"no permission":              {KeyInput{Name: "n", Permissions: []string{}}, "/permissions", "minItems"},
		"unknown permission":         {KeyInput{Name: "n", Permissions: []string{"actions:run", "actions:*"}}, "/permissions/1", "enum"},
		"calls and providers":        {KeyInput{Name: "n", Permissions: []string{"actions:run", "providers:manage"}}, "/permissions/1", "conflict"},
		"policies and messages":      {KeyInput{Name: "n", Permissions: []string{"policies:manage", "audit:manage", "agents:message"}}, "/permissions/2", "conflict"},
		"no manage of API keys":      {KeyInput{Name: "n", Permissions: []string{"api-keys:manage"}}, "/permissions/0", "enum"},
		"locked run key":             {KeyInput{Name: "n", Permissions: []string{"actions:run"}, AgentID: new("a")}, "/agent_id", "not_for_runtime_keys"},
		"locked catalog key":         {KeyInput{Name: "n", Permissions: []string{"agents:message", "actions:catalog"}, AgentID: new("a")}, "/agent_id", "not_for_runtime_keys"},
		"Runtime key with a mode":    {KeyInput{Name: "n", Permissions: []string{"actions:run"}, IdentityMode: new("identified")}, "/identity_mode", "not_for_runtime_keys"},
		"empty agent id":             {KeyInput{Name: "n", AgentID: new("")}, "/agent_id", "format"},
		"agent id with a space":      {KeyInput{Name: "n", AgentID: new("a b")}, "/agent_id", "format"},
		"agent id too long":          {KeyInput{Name: "n", AgentID: new(strings.Repeat("a", 256))}, "/agent_id", "format"},
		"unknown mode":               {KeyInput{Name: "n", IdentityMode: new("none")}, "/identity_mode", "enum"},
		"second origin bad":          {KeyInput{Name: "n", AllowedOrigins: []string{"https://a.example", "*"}}, "/allowed_origins/1", "format"},
		"too many origins":           {KeyInput{Name: "n", AllowedOrigins: slices.Repeat([]string{"https://a.example"}, 101)}, "/allowed_origins", "maxItems"},
		"ends now":                   {KeyInput{Name: "n", ExpiresAt: new(someday)}, "/expires_at", "minimum"},
		"second network bad":         {KeyInput{Name: "n", AllowedIPs: []string{"10.0.0.0/8", "10.0.0.1/8"}}, "/allowed_ips/1", "format"},
		"network of a host name":     {KeyInput{Name: "n", AllowedIPs: []string{"localhost"}}, "/allowed_ips/0", "format"},
		"network with a zone":        {KeyInput{Name: "n", AllowedIPs: []string{"fe80::1%eth0"}}, "/allowed_ips/0", "format"},
		"IPv4 network in IPv6":       {KeyInput{Name: "n", AllowedIPs: []string{"::ffff:10.0.0.0/104"}}, "/allowed_ips/0", "format"},
		"network with a port":        {KeyInput{Name: "n", AllowedIPs: []string{"10.0.0.1:80"}}, "/allowed_ips/0", "format"},
		"too many networks":          {KeyInput{Name: "n", AllowedIPs: slices.Repeat([]string{"10.0.0.1"}, 101)}, "/allowed_ips", "maxItems"},
		"origin of the null context": {KeyInput{Name: "n", AllowedOrigins: []string{"null"}}, "/allowed_origins/0", "format"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newKey(tc.in, auth.Permissions(), someday)
			f := fault.As(err)
			require.NotNil(t, f)
			require.Equal(t, fault.CodeValidation, f.Code)
			require.Equal(t, tc.path, f.Details[0].Path)
			require.Equal(t, tc.rule, f.Details[0].Rule)
		})
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"https://example.com":       "https://example.com",
		"https://example.com:443":   "https://example.com",
		"http://example.com:80":     "http://example.com",
		"http://example.com:443":    "http://example.com:443",
		"http://localhost:3000":     "http://localhost:3000",
		"http://localhost:03000":    "http://localhost:3000",
		"http://127.0.0.1:8080":     "http://127.0.0.1:8080",
		"http://[2001:DB8:0::1]:81": "http://[2001:db8::1]:81",
		"capacitor://localhost":     "capacitor://localhost",
		"https://xn--bcher-kva.ch":  "https://xn--bcher-kva.ch",
	} {
		got, ok := origin(given)
		require.True(t, ok, given)
		require.Equal(t, want, got)
	}
	for _, bad := range []string{
		"", "*", "null", "example.com", "//example.com", "https://", "https:///x", "https://example.com/", "https://example.com/path",
		"https://example.com?x", "https://example.com?", "https://example.com#x", "https://u:p@example.com", "https://example.com:",
		"https://example.com:0", "https://example.com:65536", "https://example.com:a", "https://*.example.com", "https://bücher.ch",
		"https://a b", "https://[::1", "https://[::1%25eth0]", "https://-a.example", "https://a..b", "mailto:a@example.com",
		"https://" + strings.Repeat("a", 64) + ".example", " https://example.com", "https://example.com\n", "https://a,https://b",
		"https://" + strings.Repeat("a.", 200) + "example",
	} {
		_, ok := origin(bad)
		require.False(t, ok, bad)
	}
}

// A key that calls changes nothing of what governs its calls, and the other way round.
func TestKeyPermissionsThatDoNotMix(t *testing.T) {
	t.Parallel()
	calls := []string{auth.PermActionsRun, auth.PermAgentsMessage, auth.PermMapsTrigger, auth.PermAgentsManage, auth.PermMapsManage}
	governs := []string{auth.PermProvidersManage, auth.PermPoliciesManage, auth.PermCredentialsManage, auth.PermCustomersManage}
	for _, a := range auth.Permissions() {
		for _, b := range auth.Permissions() {
			_, err := newKey(KeyInput{Name: "n", Permissions: []string{a, b}}, auth.Permissions(), someday)
			mixed := slices.Contains(calls, a) && slices.Contains(governs, b) || slices.Contains(calls, b) && slices.Contains(governs, a)
			require.Equal(t, mixed, err != nil, "%s with %s: %v", a, b, err)
			if mixed {
				require.True(t, fault.HasCode(err, fault.CodeValidation))
				require.Contains(t, fault.As(err).Details[0].Message, a)
				require.Contains(t, fault.As(err).Details[0].Message, b)
			}
		}
	}
}

func TestKeyChangeRefusals(t *testing.T) {
	t.Parallel()
	past, runtime := new(someday), []string{"actions:run"}
	for name, tc := range map[string]struct {
		key        []string // its permissions
		change     KeyChange
		path, rule string
	}{
		"empty name":             {runtime, KeyChange{Name: new("")}, "/name", "required"},
		"blank name":             {runtime, KeyChange{Name: new(" ")}, "/name", "length"},
		"no permission":          {runtime, KeyChange{Permissions: []string{}}, "/permissions", "minItems"},
		"calls and policies":     {runtime, KeyChange{Permissions: []string{"actions:run", "policies:manage"}}, "/permissions/1", "conflict"},
		"an agent key becoming":  {[]string{"agents:message"}, KeyChange{Permissions: runtime}, "/permissions", "kind"},
		"a Runtime key becoming": {runtime, KeyChange{Permissions: []string{"agents:message"}}, "/permissions", "kind"},
		"bad origin":             {runtime, KeyChange{AllowedOrigins: []string{"*"}}, "/allowed_origins/0", "format"},
		"bad network":            {runtime, KeyChange{AllowedIPs: []string{"*"}}, "/allowed_ips/0", "format"},
		"ended already":          {runtime, KeyChange{ExpiresAt: &past}, "/expires_at", "minimum"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tc.change.apply(&Key{Name: "n", Permissions: tc.key}, auth.Permissions(), someday)
			f := fault.As(err)
			require.NotNil(t, f)
			require.Equal(t, fault.CodeValidation, f.Code)
			require.Equal(t, tc.path, f.Details[0].Path)
			require.Equal(t, tc.rule, f.Details[0].Rule)
		})
	}
}
