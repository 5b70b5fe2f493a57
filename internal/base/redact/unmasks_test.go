package redact_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/redact"
)

const unmaskWork = 1_000_000

func TestUnmasksFindsMarksThatAreGone(t *testing.T) {
	t.Parallel()
	const secret, plain = `{"type":"string","format":"password"}`, `{"type":"string"}`
	object := func(properties string) string { return `{"type":"object","properties":{` + properties + `}}` }
	for name, tt := range map[string]struct {
		before, now string
		want        bool
	}{
		"nothing marked":                   {object(`"pin":` + plain), object(``), false},
		"the same":                         {object(`"pin":` + secret), object(`"pin":` + secret), false},
		"another mark":                     {object(`"pin":` + secret), object(`"pin":{"writeOnly":true}`), false},
		"a mark more":                      {object(`"pin":` + secret), object(`"pin":` + secret + `,"b":` + secret), false},
		"format gone":                      {object(`"pin":` + secret), object(`"pin":` + plain), true},
		"writeOnly gone":                   {object(`"pin":{"writeOnly":true}`), object(`"pin":{"writeOnly":false}`), true},
		"x-sensitive gone":                 {object(`"pin":{"x-sensitive":true}`), object(`"pin":{}`), true},
		"x-opaque gone":                    {object(`"pin":{"x-opaque":true}`), object(`"pin":` + object(`"a":`+plain)), true},
		"its schema gone":                  {object(`"a":` + object(`"pin":`+secret)), object(`"a":{}`), true},
		"one of two gone":                  {object(`"a":` + secret + `,"b":` + secret), object(`"a":` + secret + `,"b":` + plain), true},
		"the whole instead of a part":      {object(`"a":` + object(`"pin":`+secret)), object(`"a":` + secret), false},
		"a part instead of the whole":      {object(`"a":` + secret), object(`"a":` + object(`"pin":`+secret)), true},
		"into a definition":                {object(`"pin":` + secret), `{"properties":{"pin":{"$ref":"#/$defs/p"}},"$defs":{"p":` + secret + `}}`, false},
		"into an alternative":              {object(`"pin":` + secret), object(`"pin":{"anyOf":[` + plain + `,` + secret + `]}`), false},
		"of an alternative":                {object(`"pin":{"anyOf":[` + plain + `,` + secret + `]}`), object(`"pin":{"anyOf":[` + plain + `,` + plain + `]}`), true},
		"under not":                        {`{"not":` + object(`"pin":`+secret) + `}`, object(`"pin":` + plain), true},
		"in a circle":                      {`{"properties":{"pin":` + secret + `,"next":{"$ref":"#"}}}`, object(`"pin":` + secret + `,"next":` + object(`"pin":`+secret)), true},
		"in a circle, the same":            {`{"properties":{"pin":` + secret + `,"next":{"$ref":"#"}}}`, `{"properties":{"pin":` + secret + `,"next":{"$ref":"#"},"b":{}}}`, false},
		"of elements":                      {object(`"a":{"items":` + secret + `}`), object(`"a":{"items":` + plain + `}`), true},
		"of the first element":             {object(`"a":{"prefixItems":[` + secret + `]}`), object(`"a":{"prefixItems":[` + plain + `],"items":` + secret + `}`), true},
		"of the first, now of all":         {object(`"a":{"prefixItems":[` + secret + `]}`), object(`"a":{"items":` + secret + `}`), false},
		"of all, now of the first":         {object(`"a":{"items":` + secret + `}`), object(`"a":{"prefixItems":[` + secret + `]}`), true},
		"contains":                         {object(`"a":{"contains":` + secret + `}`), object(`"a":{}`), true},
		"of further members":               {`{"additionalProperties":` + secret + `}`, `{"additionalProperties":` + plain + `}`, true},
		"of one further member":            {`{"additionalProperties":` + secret + `}`, `{"properties":{"pin":` + plain + `},"additionalProperties":` + secret + `}`, true},
		"of a member, now of further ones": {object(`"pin":` + secret), `{"additionalProperties":` + secret + `}`, false},
		"in another case":                  {object(`"PIN":` + secret), object(`"pin":` + secret), false},
		"in another case, by expression":   {object(`"pin":` + secret), `{"patternProperties":{"^pin$":` + secret + `}}`, true},
		"of an expression":                 {`{"patternProperties":{"^p":` + secret + `}}`, `{"patternProperties":{"^p":` + plain + `}}`, true},
		"the same expression":              {`{"patternProperties":{"^p":` + secret + `}}`, `{"patternProperties":{"^p":` + secret + `,"^q":` + plain + `}}`, false},
		"another expression":               {`{"patternProperties":{"^p":` + secret + `}}`, `{"patternProperties":{"^pin":` + secret + `}}`, true},
		"an expression that fits a member": {`{"properties":{"pin":{}},"patternProperties":{"^p":` + secret + `}}`, `{"properties":{"pin":{}},"additionalProperties":` + secret + `}`, true},
		"of the names":                     {`{"propertyNames":` + secret + `}`, `{"propertyNames":` + plain + `}`, true},
		"of the names, now of all":         {`{"properties":{"a":{"propertyNames":` + secret + `}}}`, object(`"a":` + secret), false},
		"a schema that cannot be read":     {`{`, object(``), true},
		"now one that cannot be read":      {object(`"pin":` + secret), `{`, false},
		"none before":                      {``, object(`"pin":` + secret), false},
		"none now":                         {object(`"pin":` + secret), ``, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left := unmaskWork
			require.Equal(t, tt.want, redact.Unmasks(json.RawMessage(tt.before), json.RawMessage(tt.now), &left))
			require.Positive(t, left)
		})
	}
}

// Alternatives that refer to each other have very many sets of schemas for one place.
func TestUnmasksEndsWhereItsWorkIsSpent(t *testing.T) {
	t.Parallel()
	var parts []string
	for i := range 40 {
		parts = append(parts, fmt.Sprintf(`"n%d":{"properties":{"a":{"anyOf":[{"$ref":"#/$defs/n%d"},{"$ref":"#/$defs/n0"}]},"b":{"$ref":"#/$defs/n%d"},"pin":{"writeOnly":true}}}`, i, (i+1)%40, (i+1)%40))
	}
	schema := `{"$ref":"#/$defs/n0","$defs":{` + strings.Join(parts, ",") + `}}`
	left := 100_000
	require.False(t, redact.Unmasks(json.RawMessage(schema), json.RawMessage(schema+" "), &left))
	require.Negative(t, left)
}
