package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/action/circuit"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/correction"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/provider/openapi"
	"agentruntime/internal/provider/vault"
	"agentruntime/internal/service/importing"
)

// Providers is what the provider endpoints need.
type Providers interface {
	Provider(ctx context.Context, tenant uuid.UUID, slug string) (catalog.Provider, error)
	// Providers lists the tenant's own providers and the platform's; enabled selects, nil all.
	Providers(ctx context.Context, tenant uuid.UUID, enabled *bool, after string, limit int) (page []catalog.Provider, more bool, err error)
	// Enable and Disable choose whether the tenant can call a provider of the platform.
	Enable(ctx context.Context, who actor.Actor, slug string) (catalog.Offer, error)
	Disable(ctx context.Context, who actor.Actor, slug string) (catalog.Offer, error)
	// Document returns the document that a provider was imported from.
	Document(ctx context.Context, tenant uuid.UUID, slug string) (catalog.Document, error)
	// Trust says whose words the results of a provider are.
	Trust(ctx context.Context, who actor.Actor, slug string, trust verb.Trust, expect fault.Expect[catalog.Provider]) (catalog.Provider, error)
	DeleteProvider(ctx context.Context, who actor.Actor, slug string, expect fault.Expect[catalog.Provider]) error
}

// Importer takes a provider's document into the catalog.
type Importer interface {
	// Import reads a document and stores its provider and verbs in one transaction.
	Import(ctx context.Context, who actor.Actor, in openapi.ImportInput) (catalog.Provider, error)
	// Preview returns what Import would do.
	Preview(ctx context.Context, who actor.Actor, in openapi.ImportInput) (importing.Preview, error)
	// Unreached returns the credentials of a provider that may not go to all servers of its verbs.
	Unreached(ctx context.Context, tenant uuid.UUID, p catalog.Provider) ([]vault.Unreached, error)
	// Update changes a provider, and reads its kept document again where that is needed.
	Update(ctx context.Context, who actor.Actor, slug string, p importing.Patch) (catalog.Provider, error)
	// Fetch fetches a document with the files that it refers to.
	Fetch(ctx context.Context, who actor.Actor, at string, room func(size int64) error) (importing.Fetched, error)
	// YAML returns the JSON of a body of YAML.
	YAML(ctx context.Context, who actor.Actor, body []byte) (json.RawMessage, error)
}

// providerView is a provider in a list.
type providerView struct {
	Slug      string          `json:"slug"`
	Owner     string          `json:"owner"` // ownerTenant or ownerPlatform
	Enabled   bool            `json:"enabled"`
	Name      string          `json:"name"`
	Domain    string          `json:"domain"`
	BaseURL   string          `json:"base_url"`
	Auth      json.RawMessage `json:"auth"`
	Connected bool            `json:"connected"`
	Trust     verb.Trust      `json:"trust,omitempty"` // not in lists
	Imported  int             `json:"imported"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// providerReport is a provider with the report of its import.
type providerReport struct {
	providerView
	Degraded []verb.Report `json:"degraded"`
	Rejected []verb.Report `json:"rejected"`
	Servers  []verb.Server `json:"servers"`
	// Hidden and Unused say what the rules did.
	Hidden           int                     `json:"hidden"`
	Unused           []string                `json:"unused"`
	UnusedNear       []correction.Near       `json:"unused_near"`
	Raised           []catalog.Raised        `json:"raised"`
	RaisedTotal      int                     `json:"raised_total"`
	Suggestions      []correction.Suggestion `json:"suggestions"`
	SuggestionsTotal int                     `json:"suggestions_total"`
	Verbs            verbDifference          `json:"verbs"`
	Changes          []catalog.Change        `json:"changes"`
	ChangesTotal     int                     `json:"changes_total"`
	Rules            []correction.Rule       `json:"rules"`
	Overlay          json.RawMessage         `json:"overlay"` // null where there is none
	Quarantined      []quarantinedVerb       `json:"quarantined"`
	QuarantinedTotal int                     `json:"quarantined_total"`
	EventTypes       []verb.EventType        `json:"event_types"`
	EventTypesTotal  int                     `json:"event_types_total"`

	repeatMark
}

// providerShown is a provider that was read by itself.
type providerShown struct {
	providerReport

	Circuit circuitView `json:"circuit"`
}

// circuitView says whether the tenant's calls of a provider pass, and why not.
type circuitView struct {
	State       circuit.State     `json:"state"`
	Failures    int               `json:"consecutive_failures"`
	Since       *time.Time        `json:"since"`
	NextProbeAt *time.Time        `json:"next_probe_at"`
	LastErrors  []circuit.Failure `json:"last_errors"`
}

func viewCircuit(c circuit.Record) circuitView {
	return circuitView{State: c.State, Failures: c.Failures, Since: c.Since, NextProbeAt: c.ProbeAt, LastErrors: wire.Array(c.Last)}
}

func viewProvider(p catalog.Provider) providerView {
	return providerView{
		Slug: p.Slug, Owner: ownerOf(p), Enabled: p.Enabled, Name: p.Name, Domain: p.Domain, BaseURL: p.BaseURL, Auth: p.Auth, Connected: p.Connected, Trust: p.Trust,
		Imported: p.Imported, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
	}
}

func reportProvider(p catalog.Provider) providerReport {
	n := p.Notes
	return providerReport{
		providerView: viewProvider(p), Degraded: wire.Array(p.Degraded), Rejected: wire.Array(p.Rejected), Servers: wire.Array(p.Servers),
		Hidden: n.Hidden, Unused: wire.Array(n.Unused), UnusedNear: wire.Array(n.UnusedNear), Raised: wire.Array(n.Raised), RaisedTotal: n.RaisedTotal,
		Suggestions: wire.Array(n.Suggestions), SuggestionsTotal: n.SuggestionsTotal, Verbs: viewDifference(n),
		Changes: wire.Array(n.Changes), ChangesTotal: n.ChangesTotal, Rules: wire.Array(p.Corrections.Rules), Overlay: p.Corrections.Overlay,
		Quarantined: viewQuarantined(n.Quarantined), QuarantinedTotal: n.QuarantinedTotal,
		EventTypes: wire.Array(n.EventTypes), EventTypesTotal: n.EventTypesTotal,
	}
}

// providerTag is the ETag of a provider. The circuit is not part of it: calls change that, and
// nobody else.
func providerTag(p catalog.Provider) string { return wire.ViewTag(reportProvider(p)) }

type importBody struct {
	Slug    *string           `json:"slug"`
	Name    *string           `json:"name"`
	Domain  *string           `json:"domain"`
	BaseURL *string           `json:"base_url"`
	Auth    *importAuth       `json:"auth"`
	Strict  *bool             `json:"strict"`
	Rules   []correction.Rule `json:"rules"`
	Overlay json.RawMessage   `json:"overlay"`
	OpenAPI json.RawMessage   `json:"openapi"`
	// OpenAPIURL is where the document is, and Root which file of an archive it is.
	OpenAPIURL *string `json:"openapi_url"`
	Root       *string `json:"root"`
	importServers
}

type importAuth struct {
	Type *string `json:"type"`
	In   *string `json:"in"`
	Name *string `json:"name"`
}

// input checks the form of an auth; nil where it is not given.
func (b *importAuth) input(v *wire.Validation) *credential.Auth {
	if b == nil {
		return nil
	}
	return &credential.Auth{
		Type: credential.Kind(strings.ToLower(v.Text("/auth/type", b.Type, 20))),
		In:   strings.ToLower(v.OptionalText("/auth/in", b.In, 1, 20)),
		Name: v.OptionalText("/auth/name", b.Name, 1, 64),
	}
}

func (h *providerHandlers) importProvider(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	in, err := h.importInput(ctx, c)
	if err != nil {
		return wire.Reply{}, err
	}
	p, err := h.importer.Import(ctx, c.Actor, in)
	if err != nil {
		return wire.Reply{}, err
	}
	view, err := h.viewImported(ctx, c, p)
	if err != nil || p.UpdatedAt.After(p.CreatedAt) {
		return wire.OK(view), err
	}
	return wire.Created("/v1/providers/"+p.Slug, view), nil
}

func (h *providerHandlers) listProviders(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	limit, err := c.Limit()
	if err != nil {
		return wire.Reply{}, err
	}
	after, err := c.CursorSlug()
	if err != nil {
		return wire.Reply{}, err
	}
	enabled, err := c.QueryBool("enabled")
	if err != nil {
		return wire.Reply{}, err
	}
	providers, more, err := h.providers.Providers(ctx, c.Actor.TenantID, enabled, after, limit)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.List(limit, providers, more, viewProvider, func(p catalog.Provider) string { return p.Slug }), nil
}

func (h *providerHandlers) getProvider(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	p, err := h.providers.Provider(ctx, c.Actor.TenantID, c.Param("slug"))
	if err != nil {
		return wire.Reply{}, err
	}
	rep := wire.OK(providerShown{providerReport: reportProvider(p), Circuit: viewCircuit(p.Circuit)})
	rep.Header = http.Header{"Etag": {providerTag(p)}}
	return rep, nil
}

// getImported answers the repeat of an import: as it does, without the circuit.
func (h *providerHandlers) getImported(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	p, err := h.providers.Provider(ctx, c.Actor.TenantID, c.Param("slug"))
	if err != nil {
		return wire.Reply{}, err
	}
	view, err := h.viewImported(ctx, c, p)
	return wire.OK(view), err
}

func (h *providerHandlers) deleteProvider(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return wire.DeletedUnless(h.providers.DeleteProvider(ctx, c.Actor, c.Param("slug"), wire.Expect(c, providerTag)))
}
