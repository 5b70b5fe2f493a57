package wire

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

func TestConditionsFollowRFC9110(t *testing.T) {
	t.Parallel()
	const tag = `"a,b"`
	for name, tc := range map[string]struct {
		match, noneMatch []string
		malformed        bool
		unmet            bool // for a change
	}{
		"none":                         {},
		"empty":                        {match: []string{""}, noneMatch: []string{" , "}},
		"the tag":                      {match: []string{tag}},
		"in a list":                    {match: []string{`"x", "a,b" ,"y"`}},
		"in another line":              {match: []string{`"x"`, tag}},
		"empty members":                {match: []string{`, "x",,"a,b",`}},
		"any":                          {match: []string{" * "}},
		"another":                      {match: []string{`"a"`}, unmet: true},
		"weak":                         {match: []string{"W/" + tag}, unmet: true},
		"of the empty text":            {match: []string{`""`}, unmet: true},
		"none but another":             {noneMatch: []string{`"a"`}},
		"none of it":                   {noneMatch: []string{tag}, unmet: true},
		"none of it, weakly":           {noneMatch: []string{`"x", W/"a,b"`}, unmet: true},
		"none at all":                  {noneMatch: []string{"*"}, unmet: true},
		"both, and one is unmet":       {match: []string{tag}, noneMatch: []string{"*"}, unmet: true},
		"no quotes":                    {match: []string{"a"}, malformed: true},
		"an open quote":                {match: []string{`"a`}, malformed: true},
		"a space inside":               {match: []string{`"a b"`}, malformed: true},
		"no comma":                     {match: []string{`"a""b"`}, malformed: true},
		"a small w":                    {noneMatch: []string{`w/"a"`}, malformed: true},
		"any among others":             {noneMatch: []string{`*, "a"`}, malformed: true},
		"a number as our versions are": {match: []string{"3"}, malformed: true},
	} {
		c := &Call{Request: httptest.NewRequest(http.MethodPut, "/", nil)}
		c.Request.Header["If-Match"], c.Request.Header["If-None-Match"] = tc.match, tc.noneMatch
		err := c.ReadConditions()
		if tc.malformed {
			require.True(t, fault.HasCode(err, fault.CodeValidation), "%s: %v", name, err)
			continue
		}
		require.NoError(t, err, name)
		err = Expect(c, func(s string) string { return s }).Check(tag)
		require.Equal(t, tc.unmet, fault.HasCode(err, fault.CodePreconditionFailed), "%s: %v", name, err)
	}
}
