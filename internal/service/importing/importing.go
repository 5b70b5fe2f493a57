// Package importing takes a provider's document into a tenant's catalog: the importer reads
// it, every server in it is checked, and the catalog stores what came of it. Credentials that
// waited for the provider are bound to it. Of the operator it takes providers into the platform's
// catalog. The API and the operator's commands call it. It calls no provider, but fetches the
// document of one.
package importing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/turns"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/openapi"
	"agentruntime/internal/provider/overlay"
	"agentruntime/internal/provider/vault"
)

// Service imports providers. It is safe for concurrent use.
type Service struct {
	catalog      *catalog.Catalog
	credentials  *vault.Vault
	egress       egress.Config
	transport    http.RoundTripper // of documents from other servers
	small, large lane
	fetches      fetches
}

// lane lets one import of its kind run at a time: a large document takes hundreds of megabytes
// while it is read. A small one has a lane of its own, so that it does not wait for a large one.
type lane struct {
	turns *turns.Turns
	read  importer
	yaml  func(source []byte, path string) (json.RawMessage, error)
	small bool
	// frugal has the process use less memory during a turn.
	frugal func() (done func())
}

// importer makes verbs of a document.
type importer func(context.Context, openapi.ImportInput) (*openapi.Imported, error)

// Bounds of imports.
const (
	// importTime bounds one import with its storing. The importer refuses by the counted work what
	// takes too long, which the largest documents do after about 15 s of CPU. So only a very busy
	// machine or database reaches it. A small document has as long: its work is counted too.
	importTime = time.Minute
	turnWait   = 30 * time.Second
	turnsEach  = 8  // imports of one tenant that may wait
	turnsMost  = 64 // imports that may wait in all
	retryLater = 10 * time.Second
)

// Deps are the collaborators of a Service.
type Deps struct {
	Catalog *catalog.Catalog
	Vault   *vault.Vault
	// Frugal has the process use less memory until done is called. It is called for each turn of a
	// large document. Nil changes nothing.
	Frugal func() (done func())
}

// New builds a Service. Catalog and vault are required; cfg says which servers calls may go to.
func New(cfg egress.Config, d Deps) (*Service, error) {
	if d.Catalog == nil || d.Vault == nil {
		return nil, errors.New("importing: a catalog and a vault are required")
	}
	usual := func() func() { return func() {} }
	if d.Frugal == nil {
		d.Frugal = usual
	}
	return &Service{
		catalog: d.Catalog, credentials: d.Vault, egress: cfg, transport: egress.NewTransport(cfg),
		small:   lane{newTurns(), openapi.ImportSmall, openapi.SmallYAML, true, usual},
		large:   lane{newTurns(), openapi.Import, openapi.YAML, false, d.Frugal},
		fetches: newFetches(),
	}, nil
}

func newTurns() *turns.Turns {
	return turns.New(turns.Config{Slots: 1, Wait: turnWait, Each: turnsEach, Most: turnsMost})
}

// Import reads a document and stores its provider and verbs in one transaction. It returns
// the provider as stored, with the report. A document that cannot be used is a
// VALIDATION_ERROR, and a server that may not be called is URL_NOT_ALLOWED. Tenants take turns;
// SERVICE_UNAVAILABLE where none comes in time, or the import takes too long.
func (s *Service) Import(ctx context.Context, who actor.Actor, in openapi.ImportInput) (catalog.Provider, error) {
	var kept *catalog.Corrections
	if err := s.keepCorrections(ctx, who, &in, &kept); err != nil {
		return catalog.Provider{}, err
	}
	return s.store(ctx, who, in, kept, nil)
}

// keepCorrections gives an import the corrections that its provider has, in place of those that
// it does not say. It sets kept to what it has read, and leaves it nil where the import says all.
func (s *Service) keepCorrections(ctx context.Context, who actor.Actor, in *openapi.ImportInput, kept **catalog.Corrections) error {
	if in.Rules != nil && in.Overlay != nil && in.Servers != nil && in.ServerVariables != nil {
		return nil
	}
	c, err := s.catalog.KeptCorrections(ctx, who.TenantID, in.Slug)
	if err != nil {
		return err
	}
	*kept = &c
	if in.Rules == nil {
		in.Rules = c.Rules
	}
	if in.Overlay == nil {
		in.Overlay = c.Overlay
	}
	if in.Servers == nil {
		in.Servers, in.KeptServers = c.Servers, true
	}
	if in.ServerVariables == nil {
		in.ServerVariables, in.KeptVariables = c.ServerVariables, true
	}
	return nil
}

// store reads the document and stores what came of it. update is nil where the document is new.
func (s *Service) store(ctx context.Context, who actor.Actor, in openapi.ImportInput, kept *catalog.Corrections, update *update) (p catalog.Provider, err error) {
	err = s.each(ctx, who, in, func(ctx context.Context, read reading) (err error) {
		read.Update, read.Kept = update.of(), kept
		if who.Kind == actor.User && update.confirms() {
			// A repeat under the call's Idempotency-Key imports nothing, so what an import does
			// is in one transaction.
			read.Also = func(ctx context.Context, tx pgx.Tx) error {
				return s.credentials.Bind(ctx, tx, who, read.Provider.Slug, read.Provider.BaseURL)
			}
		}
		p, err = s.catalog.Import(ctx, who, read.Import)
		return err
	})
	return p, err
}

// reading is what an import made of a document.
type reading struct {
	catalog.Import
	servers []string // base URLs that a verb may call
}

// each reads the document of an import when its turn comes, and gives it to use.
func (s *Service) each(ctx context.Context, who actor.Actor, in openapi.ImportInput, use func(context.Context, reading) error) error {
	return s.inTurn(ctx, who, len(in.Document), func(ctx context.Context, l lane) error {
		read, err := read(ctx, s.egress, l.read, in)
		if err == nil {
			err = use(ctx, read)
		}
		return err
	})
}

// YAML returns the JSON of a request body of YAML, read in the caller's turn like a document. It
// refuses what no document may be, with VALIDATION_ERROR.
func (s *Service) YAML(ctx context.Context, who actor.Actor, body []byte) (out json.RawMessage, err error) {
	err = s.inTurn(ctx, who, len(body), func(_ context.Context, l lane) (err error) {
		out, err = l.yaml(body, "")
		return err
	})
	return out, err
}

// inTurn does the work of a document of so many bytes when its turn comes: that of the small ones,
// and that of the large ones where it turns out not to be small.
func (s *Service) inTurn(ctx context.Context, who actor.Actor, size int, do func(context.Context, lane) error) error {
	if size <= openapi.MaxSmallDocument {
		err := s.small.do(ctx, who, do)
		if !errors.Is(err, openapi.ErrNotSmall) {
			return err
		}
	}
	return s.large.do(ctx, who, do)
}

// do waits for a turn of the lane, and works.
func (l lane) do(ctx context.Context, who actor.Actor, work func(context.Context, lane) error) error {
	free, err := l.turns.Take(ctx, who.TenantID.String())
	if errors.Is(err, turns.ErrBusy) || errors.Is(err, turns.ErrCrowded) {
		return later("Other imports are under way. Repeat the call later.", err)
	}
	if err != nil {
		return err
	}
	defer free()
	defer l.frugal()()
	limited, stop := context.WithTimeout(ctx, importTime)
	defer stop()
	err = work(limited, l)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return later("The import took too long and stored nothing. Repeat the call later.", err)
	}
	return err
}

func later(message string, cause error) error {
	f := fault.New(fault.CodeServiceUnavailable, message).Because(cause)
	f.Retryable, f.RetryAfter = true, retryLater
	return f
}

// read reads the document and checks its servers.
func read(ctx context.Context, cfg egress.Config, importer importer, in openapi.ImportInput) (reading, error) {
	read, err := importer(ctx, in)
	if err != nil {
		return reading{}, err
	}
	for _, server := range read.Servers {
		if err := cfg.CheckURL(server); err != nil {
			if f := fault.As(err); f != nil {
				return reading{}, fault.Newf(f.Code, "The server %s may not be called. %s", server, f.Message)
			}
			return reading{}, err
		}
	}
	authentication, err := json.Marshal(read.Auth)
	if err != nil {
		return reading{}, fmt.Errorf("importing: encode the provider's auth: %w", err)
	}
	corrections := catalog.Corrections{Rules: in.Rules, Servers: in.Servers, ServerVariables: in.ServerVariables}
	if !overlay.None(in.Overlay) {
		corrections.Overlay = in.Overlay
	}
	return reading{servers: read.Servers, Import: catalog.Import{
		Provider: catalog.Provider{
			Slug: read.Slug, Name: read.Name, Domain: read.Domain, BaseURL: read.BaseURL, AuthType: read.Auth.Type, Auth: authentication,
			DocumentHash: catalog.HashOf(in.Document), Degraded: read.Degraded, Rejected: read.Rejected, Servers: read.Listed, Corrections: corrections,
			Notes: catalog.Notes{
				Hidden: read.Hidden, Unused: read.Unused, UnusedNear: read.UnusedNear, Suggestions: read.Reads, SuggestionsTotal: read.ReadsTotal,
				EventTypes: read.EventTypes, EventTypesTotal: read.EventTypesTotal,
			},
		},
		Verbs: read.Verbs,
		Source: &catalog.Source{
			Document: in.Document,
			Settings: catalog.Settings{
				Form: string(read.Form), Root: in.Root, Origin: in.Origin, Absent: in.Absent,
				Name: in.Name, Domain: in.Domain, BaseURL: in.BaseURL, Auth: in.Auth, Loose: in.Loose, Corrections: corrections,
			},
		},
	}}, nil
}
