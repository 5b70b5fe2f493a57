package catalog

import (
	"encoding/json"
	"fmt"
	"slices"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/credential"
)

// A verb is connected where a call of it could be sent: it presents nothing, or the credential that
// the call would use has what one of the verb's alternatives asks for. That is judged here, by the
// rule by which a call chooses. Which verbs of a provider ask for what is stored in few texts, so a
// page is as fast in a large catalog as in a small one.

// keyring returns what a row says of a credential; kind is "" where there is none.
func keyring(kind, schemes string) credential.Keyring {
	h := credential.Keyring{Kind: credential.Kind(kind)}
	if schemes != "" && json.Unmarshal([]byte(schemes), &h.Schemes) != nil {
		return credential.Keyring{} // what cannot be read serves nothing
	}
	return h
}

// storedSecurity reads the security of a verb as its row has it.
func storedSecurity(text string) verb.Security {
	var s verb.Security
	if json.Unmarshal([]byte(text), &s) != nil {
		return nil // nothing meets it
	}
	return s
}

// securityText returns the security of a verb as its row has it: what the plan says, otherwise
// what the provider's auth implies.
func securityText(plan, auth json.RawMessage) (string, error) {
	s := securityOf(plan)
	if len(s) == 0 {
		s = authSecurity(auth)
	}
	raw, err := json.Marshal(s)
	return string(raw), err
}

// asked is what the verbs of an import ask for, as their rows have it.
type asked struct {
	of       map[string]string // by the verb's name
	distinct []string
}

func askedOf(verbs []verb.Definition, auth json.RawMessage) (asked, error) {
	out := asked{of: make(map[string]string, len(verbs)), distinct: []string{}}
	seen := map[string]bool{}
	for _, v := range verbs {
		text, err := securityText(v.Plan, auth)
		if err != nil {
			return asked{}, fmt.Errorf("catalog: encode what a call presents: %w", err)
		}
		out.of[v.Name] = text
		if !seen[text] {
			seen[text] = true
			out.distinct = append(out.distinct, text)
		}
	}
	return out, nil
}

// securities remembers texts that were read: the verbs of a page have few.
type securities map[string]verb.Security

func (m securities) of(text string) verb.Security {
	s, known := m[text]
	if !known {
		s = storedSecurity(text)
		m[text] = s
	}
	return s
}

// serves reports whether a call with the credential has what the security asks for.
func serves(h credential.Keyring, s verb.Security) bool {
	_, ok := h.Choose(s)
	return ok
}

// reach is which verbs of its providers a tenant can call.
type reach struct {
	connected   []string // slugs of connected providers
	own, shared reached
	hasShared   bool // the tenant has enabled providers of the platform
}

// reached are providers all of whose verbs can be called, and those of which only the verbs of
// certain securities can: each by a place in slugs and texts.
type reached struct {
	whole, slugs, texts []string
}

func reachOf(rows []dbsqlc.ReachOfProvidersRow) reach {
	out := reach{connected: []string{}}
	read := securities{}
	for _, r := range rows {
		if r.Connected {
			out.connected = append(out.connected, r.Slug)
		}
		to := &out.own
		if r.Shared {
			to, out.hasShared = &out.shared, true
		}
		h := keyring(r.Kind, r.Schemes)
		met := slices.DeleteFunc(slices.Clone(r.Securities), func(text string) bool { return !serves(h, read.of(text)) })
		if len(met) == len(r.Securities) {
			to.whole = append(to.whole, r.Slug)
			continue
		}
		for _, text := range met {
			to.slugs, to.texts = append(to.slugs, r.Slug), append(to.texts, text)
		}
	}
	return out
}

// verbs returns the condition that a verb v can be called.
func (r reached) verbs(c *clauses) string {
	whole := "v.provider = ANY (" + c.arg(orNone(r.whole)) + ")"
	if len(r.slugs) == 0 {
		return whole
	}
	return "(" + whole + " OR " + r.some(c) + ")"
}

// some returns the condition that a verb v is one of those that can be called of a provider whose
// other verbs cannot.
func (r reached) some(c *clauses) string {
	return "(v.provider, v.security) IN (SELECT u.slug, u.text FROM unnest(" + c.arg(orNone(r.slugs)) + "::text[], " + c.arg(orNone(r.texts)) + "::text[]) AS u (slug, text))"
}
