package governance_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
)

func TestNeverFits(t *testing.T) {
	t.Parallel()
	type m = governance.Matcher
	type n = governance.Narrowing
	list := func(list ...m) []m { return list }
	shop, other := m{Provider: "shop"}, m{Type: "provider", Value: "other"}
	for name, c := range map[string]struct {
		matchers []m
		match    n
		want     string
	}{
		"nothing":                         {nil, n{}, ""},
		"two providers":                   {nil, n{All: list(shop, other)}, "no verb is both shop:* and other:*"},
		"two providers as alternatives":   {list(shop, other), n{}, ""},
		"each alternative against all":    {list(shop, m{Verb: "shop:get_*"}), n{All: list(other)}, "no verb is both shop:get_* and other:*"},
		"one alternative against all":     {list(shop, other), n{All: list(other)}, ""},
		"verb of another provider":        {list(m{Verb: "shop:refund", Provider: "other"}), n{}, "no verb is both shop:refund and other:*"},
		"glob that may be of it":          {list(m{Verb: "sh*", Provider: "shop"}), n{}, ""},
		"glob that cannot be of it":       {list(m{Verb: "x*", Provider: "shop"}), n{}, "no verb is both x* and shop:*"},
		"two verbs":                       {nil, n{All: list(m{Verb: "shop:a"}, m{Verb: "shop:b"})}, "no verb is both shop:a and shop:b"},
		"two endings":                     {nil, n{All: list(m{Verb: "*_a"}, m{Verb: "*_b"})}, "no verb is both *_a and *_b"},
		"two risks":                       {list(m{Risk: "low"}), n{All: list(m{Type: "riskLevel", Value: "HIGH"})}, "no verb has both risk_level low and high"},
		"two domains":                     {list(m{Domain: "a"}), n{All: list(m{Domain: "b"})}, "no verb has both domain a and b"},
		"read and write":                  {list(m{Operation: "read"}), n{All: list(m{Operation: "write"})}, "no verb has both operation_type read and write"},
		"all excepted":                    {list(shop), n{Except: list(m{Verb: "shop:*"})}, "except exempts each verb that they fit"},
		"all excepted by a wider glob":    {list(m{Verb: "shop:get_*"}), n{Except: list(m{Verb: "*:get*"})}, "except exempts each verb that they fit"},
		"all but one alternative":         {list(shop, other), n{Except: list(shop)}, ""},
		"all alternatives":                {list(shop, other), n{Except: list(shop, other)}, "except exempts each verb that they fit"},
		"part of it excepted":             {list(shop), n{Except: list(m{Verb: "shop:get_*"})}, ""},
		"excepted in one risk":            {list(shop), n{Except: list(m{Risk: "low"})}, ""},
		"excepted in each risk":           {list(shop), n{Except: list(m{Risk: "low"}, m{Risk: "medium"}, m{Risk: "high"})}, "except exempts each verb that they fit"},
		"excepted as reads and as writes": {nil, n{Except: list(m{Operation: "read"}, m{Operation: "write"})}, "except exempts each verb that they fit"},
		"excepted in its risk":            {list(m{Risk: "low", Provider: "shop"}), n{Except: list(m{Risk: "low"})}, "except exempts each verb that they fit"},
		"excepted in another domain":      {list(m{Domain: "a"}), n{Except: list(m{Domain: "b"})}, ""},
		"cannot be read":                  {list(m{Type: "tag", Value: "x"}), n{Except: list(m{Verb: "*"})}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, governance.Policy{Matchers: c.matchers, Match: c.match}.NeverFits())
		})
	}
}
