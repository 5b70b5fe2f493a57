package importing

import (
	"context"
	"encoding/json"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/correction"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/openapi"
)

// Patch is a change of a provider. What is nil stays as it was imported.
type Patch struct {
	Name, Domain, BaseURL *string
	Auth                  *credential.Auth
	Servers               []verb.ServerChoice // nil stays, an empty list removes all
	ServerVariables       map[string]string   // likewise
	Rules                 []correction.Rule   // [] removes them
	Overlay               json.RawMessage     // null removes it
	Expect                fault.Expect[catalog.Provider]
	// Room waits until a document of so many bytes may be in memory.
	Room func(size int64) error
}

// needsUser returns whether the patch changes what governs calls.
func (p Patch) needsUser() bool {
	return p.Domain != nil || p.BaseURL != nil || p.Auth != nil || p.Servers != nil || p.ServerVariables != nil || p.Rules != nil || p.Overlay != nil
}

// Update changes a provider. Another name changes nothing else. For all other members the kept
// document is imported again with them, by the same rules and in the same turns, so that held
// calls, running calls and credentials see an import. PROVIDER_NOT_FOUND; CONFLICT where the
// document is not kept, or was replaced meanwhile; INSUFFICIENT_PERMISSIONS for a key that
// changes more than the name; and what Import refuses.
func (s *Service) Update(ctx context.Context, who actor.Actor, slug string, p Patch) (catalog.Provider, error) {
	switch {
	case !p.needsUser():
		return s.catalog.Rename(ctx, who, slug, p.Name, p.Expect)
	case who.Kind != actor.User:
		return catalog.Provider{}, fault.New(fault.CodeInsufficientPermissions,
			"An API key can change the name only. An owner or an admin changes the rest with a JWT.")
	}
	kept, err := s.catalog.Kept(ctx, who.TenantID, slug)
	if err != nil {
		return catalog.Provider{}, err
	}
	if err := p.Room(kept.Size); err != nil {
		return catalog.Provider{}, err
	}
	in, fields := p.input(slug, kept.Settings)
	if in.Document, err = kept.Read(ctx); err != nil {
		return catalog.Provider{}, err
	}
	return s.store(ctx, who, in, nil, &update{Update: catalog.Update{Of: kept, Fields: fields, Expect: p.Expect}, moves: p.BaseURL != nil})
}

// update is an import of a kept document. It is nil for one of a document that the caller sends.
type update struct {
	catalog.Update
	moves bool // it names the base URL
}

func (u *update) of() *catalog.Update {
	if u == nil {
		return nil
	}
	return &u.Update
}

// confirms reports whether the user has said where calls go. A key may have imported the
// provider: a user who changes its auth has not confirmed its base URL for credentials that
// wait for one.
func (u *update) confirms() bool { return u == nil || u.moves }

// input returns the import that the patch makes of an earlier one, and the names of the members
// that it has.
func (p Patch) input(slug string, was catalog.Settings) (in openapi.ImportInput, fields []string) {
	in = openapi.ImportInput{
		Slug: slug, Name: was.Name, Domain: was.Domain, BaseURL: was.BaseURL, Auth: was.Auth, Loose: was.Loose,
		Servers: was.Servers, ServerVariables: was.ServerVariables, KeptServers: true, KeptVariables: true, Rules: was.Rules, Overlay: was.Overlay,
		Files: openapi.Files{Root: was.Root, Origin: was.Origin, Absent: was.Absent},
	}
	for _, m := range []struct {
		name  string
		value *string
		to    *string
	}{{"name", p.Name, &in.Name}, {"domain", p.Domain, &in.Domain}, {"base_url", p.BaseURL, &in.BaseURL}} {
		if m.value != nil {
			*m.to = *m.value
			fields = append(fields, m.name)
		}
	}
	if p.Auth != nil {
		in.Auth = p.Auth
		fields = append(fields, "auth")
	}
	if p.Servers != nil {
		in.Servers, in.KeptServers = p.Servers, false
		fields = append(fields, "servers")
	}
	if p.ServerVariables != nil {
		in.ServerVariables, in.KeptVariables = p.ServerVariables, false
		fields = append(fields, "server_variables")
	}
	if p.Rules != nil {
		in.Rules = p.Rules
		fields = append(fields, "rules")
	}
	if p.Overlay != nil {
		in.Overlay = p.Overlay
		fields = append(fields, "overlay")
	}
	return in, fields
}
