package dispatch

import (
	"fmt"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/credential"
)

// security returns what a call must present. Where the plan does not say it, the provider's auth does.
func (t *target) security() verb.Security {
	if s := t.artefacts.head.Security; len(s) > 0 {
		return s
	}
	return credential.SecurityOf(t.auth)
}

// choose decides which secrets the call sends.
func (t *target) choose() {
	t.presents, t.connected = t.keyring().Choose(t.security())
}

func (t *target) keyring() credential.Keyring {
	if t.credential == nil {
		return credential.Keyring{}
	}
	return t.credential.Keyring()
}

// apply puts the secret of each scheme into the request.
func (t *target) apply(req Request, secret credential.Secret) error {
	if secret.Kind() == credential.CustomHeader { // it says itself where it goes
		return req.Apply(credential.Auth{Type: credential.CustomHeader}, secret)
	}
	for _, s := range t.presents {
		if err := req.Apply(credential.AuthOf(s), secret.For(s.Name)); err != nil {
			return err
		}
	}
	return nil
}

// Connected implements run.Target: nil, PROVIDER_NOT_CONNECTED or CREDENTIAL_EXPIRED.
func (t *target) Connected() *fault.Error {
	switch {
	case t.connected:
		return nil
	case t.credential == nil && t.missing.Code != fault.CodeProviderNotConnected:
		return t.missing
	}
	f := fault.New(fault.CodeProviderNotConnected, "")
	for i, alternative := range t.security() {
		lacks := t.keyring().Missing(alternative)
		for _, s := range lacks {
			message := credential.SchemeText(s) + " is missing."
			if s.Scopes != "" {
				message += " Its token needs the scopes " + s.Scopes + "."
			}
			path := fmt.Sprintf("/security/%d", i)
			if s.Name != "" { // the provider's auth has no name
				path += "/" + fault.PointerToken(s.Name)
			}
			f.Details = append(f.Details, fault.Detail{Path: path, Rule: "credential", Message: message})
		}
	}
	needs := credential.SecurityText(t.security())
	if t.credential == nil {
		f.Message = fmt.Sprintf("%s has no active credential. The call needs %s. Store one with POST /v1/credentials, then repeat the call.",
			t.meta.Name.Provider, needs)
		return f
	}
	f.Message = fmt.Sprintf("The credential %s (%s) of %s does not have what the call needs: %s. "+
		"Store one that does with POST /v1/credentials, then repeat the call.", t.credential.ID, t.credential.Type, t.meta.Name.Provider, needs)
	return f
}
