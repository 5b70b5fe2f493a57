// Package modelprovider has where the language models of tenants are: those that the platform knows,
// and those that a tenant names. The API and internal/service/models call it. It asks no model.
package modelprovider

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/idempotency"
	"agentruntime/internal/record/quota"
)

// API is how a provider is asked.
type API string

// The APIs.
const (
	OpenAI    API = "openai"    // chat completions, which many servers answer
	Anthropic API = "anthropic" // messages
)

// credentials is what the names of the providers of their credentials begin with. A provider of verbs
// cannot have such a name.
const credentials = "model:"

// CredentialsOf returns the name under which the vault has the credentials of a model provider.
func CredentialsOf(slug string) string { return credentials + slug }

// SlugOf returns the model provider of a credential; ok is false for a credential of verbs.
func SlugOf(provider string) (slug string, ok bool) { return strings.CutPrefix(provider, credentials) }

// Deps are what a Service works with; Now may be nil.
type Deps struct {
	DB     *db.Pool
	Quotas quota.Limits
	// CheckURL refuses an address that no call can reach, with URL_NOT_ALLOWED.
	CheckURL func(url string) error
	// Private are the addresses that the operator has listed, by name. They need not be public.
	Private map[string]string
	Now     func() time.Time
}

// Service stores and finds model providers. It is safe for concurrent use.
type Service struct {
	d Deps
	q *dbsqlc.Queries
}

// New checks the collaborators.
func New(d Deps) (*Service, error) {
	if d.DB == nil || d.CheckURL == nil {
		return nil, errors.New("modelprovider: a database and a check of addresses are required")
	}
	d.Now = db.Clock(d.Now)
	return &Service{d: d, q: dbsqlc.New()}, nil
}

// Provider says where models are and how they are asked.
type Provider struct {
	// ID is the zero id where the platform knows the provider and the tenant has not named it.
	ID   uuid.UUID
	Slug string
	API  API
	// BaseURL is what the paths of the API are added to. "" where the operator no longer lists the
	// private address.
	BaseURL string
	// Private is the name of a listed address; "" for a public one.
	Private string
	// DefaultModel is what the model steps of Maps ask; "" for none.
	DefaultModel string
	Dialect      Dialect
	CreatedBy    string
	CreatedAt    time.Time
}

// The fields for how many tokens an answer may have.
const (
	MaxCompletionTokens = "max_completion_tokens"
	MaxTokens           = "max_tokens"
)

// Dialect is how a server differs from the API of OpenAI, whose form it has. For another API it says
// nothing.
type Dialect struct {
	MaxTokensField string
	// StreamUsage: the server is asked to report tokens at the end of a stream.
	StreamUsage bool
}

// Change is a change of a dialect, or of the one that the API has; nil for what stays.
type Change struct {
	MaxTokensField *string
	StreamUsage    *bool
}

func (d Dialect) with(api API, c Change) (Dialect, error) {
	if api != OpenAI && c != (Change{}) {
		return d, fault.Invalid("/dialect", "enum", "Only a provider with the api openai has a dialect.")
	}
	if c.MaxTokensField != nil {
		d.MaxTokensField = *c.MaxTokensField
	}
	if c.StreamUsage != nil {
		d.StreamUsage = *c.StreamUsage
	}
	if d.MaxTokensField != MaxCompletionTokens && d.MaxTokensField != MaxTokens {
		return d, fault.Invalid("/dialect/max_tokens_field", "enum", near.Enum("max_tokens_field", d.MaxTokensField, MaxCompletionTokens, MaxTokens))
	}
	return d, nil
}

func usual() Dialect { return Dialect{MaxTokensField: MaxCompletionTokens, StreamUsage: true} }

// known returns the providers that every tenant has. The addresses are those of the SDKs of their
// makers.
func known(slug string) (Provider, bool) {
	switch API(slug) {
	case OpenAI:
		return Provider{Slug: slug, API: OpenAI, BaseURL: "https://api.openai.com/v1", Dialect: usual()}, true
	case Anthropic:
		return Provider{Slug: slug, API: Anthropic, BaseURL: "https://api.anthropic.com", Dialect: usual()}, true
	}
	return Provider{}, false
}

// NewProvider is a provider to be stored: with BaseURL or Private, but where the platform knows it.
type NewProvider struct {
	Slug, API, BaseURL, Private, DefaultModel string

	Dialect Change
}

// maxModel is the most bytes of the name of a model.
const maxModel = 255

func (s *Service) checked(in NewProvider) (Provider, error) {
	p := Provider{Slug: in.Slug, API: API(strings.ToLower(in.API)), BaseURL: strings.TrimRight(in.BaseURL, "/"), Private: in.Private, DefaultModel: in.DefaultModel}
	if !verb.ValidSlug(p.Slug) || p.Slug == agentdef.BuiltIn {
		return p, fault.Invalid("/slug", "pattern", "slug has lower-case letters, digits, - and _, and is not builtin.")
	}
	if base, is := known(p.Slug); is && p.BaseURL == "" && p.Private == "" {
		if in.API != "" && p.API != base.API {
			return p, fault.Invalid("/api", "enum", "The provider "+p.Slug+" has the api "+string(base.API)+".")
		}
		p.API, p.BaseURL = base.API, base.BaseURL
	}
	switch {
	case p.API != OpenAI && p.API != Anthropic:
		return p, fault.Invalid("/api", "enum", near.Enum("api", p.API, OpenAI, Anthropic))
	case (p.BaseURL == "") == (p.Private == ""):
		return p, fault.Invalid("/base_url", "required", "Name either base_url, or private: the name of an address that the operator has listed.")
	}
	if err := checkedModel(p.DefaultModel); err != nil {
		return p, err
	}
	var err error
	if p.Dialect, err = usual().with(p.API, in.Dialect); err != nil {
		return p, err
	}
	switch {
	case p.Private != "":
		if s.d.Private[p.Private] == "" {
			return p, fault.Invalid("/private", "enum", "The operator has not listed an address of this name.")
		}
		return p, nil
	}
	if u, err := url.Parse(p.BaseURL); err == nil && (u.RawQuery != "" || u.ForceQuery) {
		return p, fault.Invalid("/base_url", "format", "base_url has no query.")
	}
	return p, s.d.CheckURL(p.BaseURL)
}

func checkedModel(name string) error {
	if len(name) > maxModel || strings.ContainsFunc(name, unicode.IsControl) {
		return fault.Invalid("/default_model", "maxLength", "default_model has at most 255 bytes and no control characters.")
	}
	return nil
}

// Create stores a provider. The error is VALIDATION_ERROR or URL_NOT_ALLOWED for what is wrong with it,
// CONFLICT where the tenant has one of the slug, or QUOTA_EXCEEDED.
func (s *Service) Create(ctx context.Context, who actor.Actor, in NewProvider) (Provider, error) {
	p, err := s.checked(in)
	if err != nil {
		return Provider{}, err
	}
	p.ID, p.CreatedBy, p.CreatedAt = uuid.Must(uuid.NewV7()), who.String(), s.d.Now()
	stored := p
	if stored.Private != "" {
		stored.BaseURL = ""
	}
	var row dbsqlc.ModelProvider
	err = s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if err := idempotency.Write(ctx, tx, p.ID.String()); err != nil {
			return err
		}
		row, err = s.q.InsertModelProvider(ctx, tx, dbsqlc.InsertModelProviderParams{
			ID: p.ID, TenantID: who.TenantID, Slug: p.Slug, Api: string(p.API), BaseUrl: db.Optional(stored.BaseURL), Private: db.Optional(p.Private),
			DefaultModel: db.Optional(p.DefaultModel), MaxTokensField: p.Dialect.MaxTokensField, StreamUsage: p.Dialect.StreamUsage, CreatedBy: p.CreatedBy, CreatedAt: p.CreatedAt,
		})
		if db.IsNoRows(err) {
			return fault.Newf(fault.CodeConflict, "There is a model provider %s already. Delete it first.", p.Slug)
		}
		if err != nil {
			return err
		}
		if err := s.d.Quotas.Require(ctx, tx, who.TenantID, quota.ModelProviders); err != nil {
			return err
		}
		return audit.Append(ctx, tx, changed(who, audit.ModelProviderCreated, s.provider(row)))
	})
	if err != nil {
		return Provider{}, fmt.Errorf("modelprovider: create: %w", err)
	}
	return s.provider(row), nil
}

func changed(who actor.Actor, action audit.Action, p Provider) audit.Record {
	return audit.Change(who, action, audit.SubjectModelProvider, p.ID.String()).With(map[string]any{
		"slug": p.Slug, "api": string(p.API), "base_url": p.BaseURL, "private": p.Private, "default_model": p.DefaultModel,
		"max_tokens_field": p.Dialect.MaxTokensField, "stream_usage": p.Dialect.StreamUsage,
	})
}

func notFound() error { return fault.New(fault.CodeModelProviderNotFound, "") }

// Get returns a provider of the tenant, or MODEL_PROVIDER_NOT_FOUND.
func (s *Service) Get(ctx context.Context, tenant, id uuid.UUID) (Provider, error) {
	row, err := s.q.GetModelProvider(ctx, s.d.DB.Tenant(tenant), dbsqlc.GetModelProviderParams{TenantID: tenant, ID: id})
	switch {
	case db.IsNoRows(err):
		return Provider{}, notFound()
	case err != nil:
		return Provider{}, fmt.Errorf("modelprovider: get: %w", err)
	}
	return s.provider(row), nil
}

// QueueFind adds the question for a provider by its slug to a batch of the tenant. Once the batch was
// sent, the function returned reads the answer: the tenant's own one, otherwise the one that the
// platform knows, otherwise MODEL_PROVIDER_NOT_FOUND.
func (s *Service) QueueFind(b *db.Batch, tenant uuid.UUID, slug string) func() (Provider, error) {
	answer := db.QueueOptional(b, s.q.FindModelProvider, dbsqlc.FindModelProviderParams{TenantID: tenant, Slug: slug})
	return func() (Provider, error) {
		if answer.Value != nil {
			return s.provider(*answer.Value), nil
		}
		if p, is := known(slug); is {
			return p, nil
		}
		return Provider{}, notFound()
	}
}

// Default returns the provider whose default model the steps of Maps ask: the newest that has one. ok
// is false where the tenant has none.
func (s *Service) Default(ctx context.Context, tenant uuid.UUID) (p Provider, ok bool, err error) {
	row, err := s.q.DefaultModelProvider(ctx, s.d.DB.Tenant(tenant), tenant)
	switch {
	case db.IsNoRows(err):
		return Provider{}, false, nil
	case err != nil:
		return Provider{}, false, fmt.Errorf("modelprovider: read the default: %w", err)
	}
	return s.provider(row), true, nil
}

// BaseURL returns where the models of a provider are, for what binds its credentials. The error is
// MODEL_PROVIDER_NOT_FOUND.
func (s *Service) BaseURL(ctx context.Context, tenant uuid.UUID, slug string) (string, error) {
	b := &db.Batch{}
	find := s.QueueFind(b, tenant, slug)
	if err := s.d.DB.Send(ctx, tenant, b); err != nil {
		return "", fmt.Errorf("modelprovider: find: %w", err)
	}
	p, err := find()
	return p.BaseURL, err
}

// Filter selects providers for a list.
type Filter struct {
	Before *uuid.UUID
	Limit  int
}

// List returns the tenant's own providers, newest first, and whether there are more after the last.
func (s *Service) List(ctx context.Context, tenant uuid.UUID, f Filter) (page []Provider, more bool, err error) {
	rows, err := s.q.ListModelProviders(ctx, s.d.DB.Tenant(tenant), dbsqlc.ListModelProvidersParams{TenantID: tenant, Most: int32(f.Limit + 1), Before: f.Before})
	if err != nil {
		return nil, false, fmt.Errorf("modelprovider: list: %w", err)
	}
	rows, more = db.Page(rows, f.Limit)
	page = make([]Provider, len(rows))
	for i, row := range rows {
		page[i] = s.provider(row)
	}
	return page, more, nil
}

// Update changes how a provider is asked: its default model, where that is not nil and "" for none, and its
// dialect. Where it is stays, because its credentials are bound to that. The error is VALIDATION_ERROR or
// MODEL_PROVIDER_NOT_FOUND. expect is asked about the provider before.
func (s *Service) Update(ctx context.Context, who actor.Actor, id uuid.UUID, defaultModel *string, change Change, expect fault.Expect[Provider]) (p Provider, err error) {
	err = s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		row, err := s.q.LockModelProvider(ctx, tx, dbsqlc.LockModelProviderParams{TenantID: who.TenantID, ID: id})
		if db.IsNoRows(err) {
			return notFound()
		}
		if err != nil {
			return err
		}
		p = s.provider(row)
		if err := expect.Check(p); err != nil {
			return err
		}
		if defaultModel != nil {
			p.DefaultModel = *defaultModel
		}
		if err := checkedModel(p.DefaultModel); err != nil {
			return err
		}
		if p.Dialect, err = p.Dialect.with(p.API, change); err != nil {
			return err
		}
		row, err = s.q.UpdateModelProvider(ctx, tx, dbsqlc.UpdateModelProviderParams{
			TenantID: who.TenantID, ID: id, DefaultModel: db.Optional(p.DefaultModel), MaxTokensField: p.Dialect.MaxTokensField, StreamUsage: p.Dialect.StreamUsage,
		})
		if err != nil {
			return err
		}
		p = s.provider(row)
		return audit.Append(ctx, tx, changed(who, audit.ModelProviderUpdated, p))
	})
	if err != nil {
		return Provider{}, fmt.Errorf("modelprovider: update: %w", err)
	}
	return p, nil
}

// Delete removes a provider. Its credentials stay, bound to where it was. A second time is
// MODEL_PROVIDER_NOT_FOUND. expect is asked about the provider before.
func (s *Service) Delete(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[Provider]) error {
	err := s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		row, err := s.q.LockModelProvider(ctx, tx, dbsqlc.LockModelProviderParams{TenantID: who.TenantID, ID: id})
		if db.IsNoRows(err) {
			return notFound()
		}
		if err != nil {
			return err
		}
		p := s.provider(row)
		if err := expect.Check(p); err != nil {
			return err
		}
		if _, err := s.q.DeleteModelProvider(ctx, tx, dbsqlc.DeleteModelProviderParams{TenantID: who.TenantID, ID: id}); err != nil {
			return err
		}
		return audit.Append(ctx, tx, changed(who, audit.ModelProviderDeleted, p))
	})
	if err != nil {
		return fmt.Errorf("modelprovider: delete: %w", err)
	}
	return nil
}

func (s *Service) provider(row dbsqlc.ModelProvider) Provider {
	p := Provider{
		ID: row.ID, Slug: row.Slug, API: API(row.Api), BaseURL: db.Text(row.BaseUrl), Private: db.Text(row.Private), DefaultModel: db.Text(row.DefaultModel),
		Dialect:   Dialect{MaxTokensField: row.MaxTokensField, StreamUsage: row.StreamUsage},
		CreatedBy: row.CreatedBy, CreatedAt: row.CreatedAt.UTC(),
	}
	if p.Private != "" {
		p.BaseURL = strings.TrimRight(s.d.Private[p.Private], "/")
	}
	return p
}
