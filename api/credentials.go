package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/provider/vault"
	"agentruntime/internal/tenant/auth"
)

// Credentials is what the credential endpoints need of the vault.
type Credentials interface {
	Create(ctx context.Context, tenant uuid.UUID, n vault.New) (vault.Credential, error)
	Get(ctx context.Context, tenant, id uuid.UUID) (vault.Credential, error)
	List(ctx context.Context, tenant uuid.UUID, f vault.Filter) (page []vault.Credential, more bool, err error)
	Update(ctx context.Context, tenant, id uuid.UUID, p vault.Patch) (vault.Credential, error)
	Rotate(ctx context.Context, tenant, id uuid.UUID, data json.RawMessage) (vault.Credential, error)
	Delete(ctx context.Context, tenant, id uuid.UUID) error
	Validate(ctx context.Context, tenant, id uuid.UUID) (c vault.Credential, usable bool, err error)
}

// credentialView is a credential without its secret, which nothing ever shows.
type credentialView struct {
	ID           uuid.UUID    `json:"id"`
	Provider     string       `json:"provider"`
	Type         vault.Type   `json:"type"`
	Label        string       `json:"label"`
	CustomerID   *string      `json:"customer_id"`
	AllowedHosts []string     `json:"allowed_hosts"`
	Status       vault.Status `json:"status"`
	Version      int          `json:"version"`
	CreatedBy    string       `json:"created_by"`
	CreatedAt    time.Time    `json:"created_at"`
	UpdatedAt    time.Time    `json:"updated_at"`
	LastUsedAt   *time.Time   `json:"last_used_at"`
	RotatedAt    *time.Time   `json:"rotated_at"`
}

func viewCredential(c vault.Credential) credentialView {
	v := credentialView{
		ID: c.ID, Provider: c.Provider, Type: c.Type, Label: c.Label, AllowedHosts: list(c.AllowedHosts), Status: c.Status,
		Version: c.Version, CreatedBy: c.CreatedBy, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
		LastUsedAt: c.LastUsedAt, RotatedAt: c.RotatedAt,
	}
	if c.CustomerID != "" {
		v.CustomerID = &c.CustomerID
	}
	return v
}

type credentialBody struct {
	Provider     *string         `json:"provider"`
	Type         *string         `json:"type"`
	Label        *string         `json:"label"`
	CustomerID   *string         `json:"customer_id"`
	AllowedHosts []string        `json:"allowed_hosts"`
	Data         json.RawMessage `json:"data"`
}

func (s *Server) createCredential(ctx context.Context, c *call) (reply, error) {
	var b credentialBody
	if err := c.decode(&b); err != nil {
		return reply{}, err
	}
	var v problems
	n := vault.New{
		Provider: v.text("/provider", b.Provider, 255), Type: v.text("/type", b.Type, 255), Label: v.optionalText("/label", b.Label, 0, 255),
		CustomerID: v.optionalID("/customer_id", b.CustomerID), AllowedHosts: b.AllowedHosts, Data: b.Data, CreatedBy: c.actor(),
	}
	if err := v.err(); err != nil {
		return reply{}, err
	}
	cred, err := s.Credentials.Create(ctx, c.who.TenantID, n)
	if err != nil {
		return reply{}, err
	}
	return created("/v1/credentials/"+cred.ID.String(), viewCredential(cred)), nil
}

// actor names the caller in records: "user:<id>" or "key:<id>".
func (c *call) actor() string {
	if c.who.Kind == auth.KindKey {
		return "key:" + c.who.KeyID.String()
	}
	return "user:" + c.who.UserID.String()
}

// credentialID reads the id. One that is no UUID becomes the nil UUID, which no
// credential has: it is as unknown as any other, and found to be so as late.
func (c *call) credentialID() uuid.UUID {
	id, err := uuid.Parse(c.param("id"))
	if err != nil {
		return uuid.Nil
	}
	return id
}

func (s *Server) listCredentials(ctx context.Context, c *call) (reply, error) {
	var f vault.Filter
	var err error
	if f.Limit, err = c.limit(); err != nil {
		return reply{}, err
	}
	before, err := c.cursor()
	if err != nil {
		return reply{}, err
	}
	if before != nil {
		f.Before = *before
	}
	var v problems
	f.Provider, f.Status, f.CustomerID = v.queryText(c, "provider"), v.queryText(c, "status"), v.queryText(c, "customer_id")
	if err := v.err(); err != nil {
		return reply{}, err
	}
	credentials, more, err := s.Credentials.List(ctx, c.who.TenantID, f)
	if err != nil {
		return reply{}, err
	}
	views := make([]credentialView, len(credentials))
	var last uuid.UUID
	for i, cred := range credentials {
		views[i], last = viewCredential(cred), cred.ID
	}
	return reply{data: views, page: pageOf(f.Limit, more, last)}, nil
}

func (s *Server) getCredential(ctx context.Context, c *call) (reply, error) {
	cred, err := s.Credentials.Get(ctx, c.who.TenantID, c.credentialID())
	if err != nil {
		return reply{}, err
	}
	return ok(viewCredential(cred)), nil
}

type credentialPatch struct {
	Label        *string   `json:"label"`
	AllowedHosts *[]string `json:"allowed_hosts"`
	Status       *string   `json:"status"`
}

func (s *Server) patchCredential(ctx context.Context, c *call) (reply, error) {
	var b credentialPatch
	if err := c.decode(&b); err != nil {
		return reply{}, err
	}
	cred, err := s.Credentials.Update(ctx, c.who.TenantID, c.credentialID(), vault.Patch{Label: b.Label, AllowedHosts: b.AllowedHosts, Status: b.Status})
	if err != nil {
		return reply{}, err
	}
	return ok(viewCredential(cred)), nil
}

func (s *Server) deleteCredential(ctx context.Context, c *call) (reply, error) {
	if err := s.Credentials.Delete(ctx, c.who.TenantID, c.credentialID()); err != nil {
		return reply{}, err
	}
	return ok(map[string]bool{"deleted": true}), nil
}

type validation struct {
	ID     uuid.UUID    `json:"id"`
	Valid  bool         `json:"valid"`
	Status vault.Status `json:"status"`
}

// validateCredential says whether the stored credential opens and is active. It
// does not ask the provider.
func (s *Server) validateCredential(ctx context.Context, c *call) (reply, error) {
	cred, usable, err := s.Credentials.Validate(ctx, c.who.TenantID, c.credentialID())
	if err != nil {
		return reply{}, err
	}
	return ok(validation{ID: cred.ID, Valid: usable, Status: cred.Status}), nil
}

type rotation struct {
	Data json.RawMessage `json:"data"`
}

func (s *Server) rotateCredential(ctx context.Context, c *call) (reply, error) {
	var b rotation
	if err := c.decode(&b); err != nil {
		return reply{}, err
	}
	var v problems
	if b.Data == nil {
		v.add("/data", "required", "data is required.")
	}
	data := v.object("/data", b.Data, false) // its members depend on the stored type
	if err := v.err(); err != nil {
		return reply{}, err
	}
	cred, err := s.Credentials.Rotate(ctx, c.who.TenantID, c.credentialID(), data)
	if err != nil {
		return reply{}, err
	}
	return ok(viewCredential(cred)), nil
}
