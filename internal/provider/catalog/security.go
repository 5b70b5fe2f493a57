package catalog

import (
	"bytes"
	"encoding/json"

	"agentruntime/internal/kernel/credential"
	"agentruntime/internal/kernel/exactjson"
	"agentruntime/internal/kernel/httpplan"
	"agentruntime/internal/kernel/verb"
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

// sameForm reports whether a removed verb had the form that it has now. One that was removed by an
// earlier release had its provider's auth, and its form said nothing of it.
func (c *comparison) sameForm(v knownVerb, form []byte) bool {
	if form == nil || bytes.Equal(form, v.form) {
		return true
	}
	plan, err := httpplan.Parse(v.plainPlan)
	if err != nil || credential.SecurityText(nameless(v.security)) != credential.SecurityText(authSecurity(c.was.auth)) {
		return false
	}
	plan.Security = nil
	plain, err := exactjson.Encode(plan)
	return err == nil && bytes.Equal(form, formOf(v.schema, plain))
}
