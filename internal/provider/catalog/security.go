package catalog

import (
	"encoding/json"

	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/credential"
)

// securityOf returns what a plan says that a call must present; nil where it is of an earlier
// release and its provider's auth counts.
func securityOf(plan json.RawMessage) verb.Security {
	head, err := verb.HeadOf(plan)
	if err != nil {
		return nil
	}
	return head.Security
}

// authSecurity returns the security of a provider's verbs whose plans say none.
func authSecurity(auth json.RawMessage) verb.Security {
	var a credential.Auth
	if json.Unmarshal(auth, &a) != nil {
		return nil
	}
	return credential.SecurityOf(a)
}

// security finds a verb whose calls would present other secrets than before. Where the plan before
// did not say which, the names of schemes do not count.
func (c *comparison) security(v knownVerb, was verb.Security) {
	now := v.security
	if was == nil && now == nil {
		return // the change of the provider's auth is told
	}
	if was == nil {
		was, now = authSecurity(c.was.auth), nameless(now)
	}
	if before, after := credential.SecurityText(was), credential.SecurityText(now); before != after {
		c.add("auth", v, before, after, true)
	}
}

// nameless returns the security without the names of its schemes.
func nameless(s verb.Security) verb.Security {
	out := make(verb.Security, len(s))
	for i, alternative := range s {
		for _, scheme := range alternative {
			scheme.Name = ""
			out[i] = append(out[i], scheme)
		}
	}
	return out
}

// newPlace finds a new verb that would send a secret where no verb of the provider sends one.
func (c *comparison) newPlace(v knownVerb) {
	for _, alternative := range v.security {
		for _, s := range alternative {
			if place := credential.SchemeText(verb.Scheme{Type: s.Type, In: s.In, Wire: s.Wire}); c.was.exists && !c.secretsIn[place] {
				c.add("auth", v, "", credential.SecurityText(v.security), true)
				return
			}
		}
	}
}

// notePlaces remembers where calls with the security send secrets.
func (c *comparison) notePlaces(s verb.Security) {
	for _, alternative := range nameless(s) {
		for _, scheme := range alternative {
			c.secretsIn[credential.SchemeText(scheme)] = true
		}
	}
}
