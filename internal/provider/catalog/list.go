package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/credential"
)

// Filter selects verbs for a page. Empty fields select all.
type Filter struct {
	Provider      string
	Domain        string
	Risk          verb.Risk
	Operation     verb.Operation
	ConnectedOnly bool
	// Quarantined is whether verbs are quarantined; nil selects all.
	Quarantined *bool
	// Routes reads the method and the path of each verb too.
	Routes bool
	// Q has words that must all occur in a verb's name or description, in any case.
	Q      string
	Limit  int
	Offset int

	reach reach // set where ConnectedOnly is
}

// Page is one page of the catalog, ordered by provider and name.
type Page struct {
	Verbs              []Verb
	Total              int64 // verbs that the filter selects
	HasMore            bool
	ProvidersConnected []string // all of the tenant's, whatever the filter
}

// Limits on a search.
const (
	maxQuery = 255 // bytes
	maxWords = 10
)

// List returns a page and its total. It costs one round trip, and one more for a tenant that
// has enabled providers of the platform; with ConnectedOnly it costs two. The total comes from
// summary counts and the page from an index that fits each single filter, so both take as long in
// a large catalog as in a small one. Only a search (Q), a filter by operation type, and with
// ConnectedOnly providers of which only some verbs can be called read through verbs.
func (c *Catalog) List(ctx context.Context, tenant uuid.UUID, f Filter) (Page, error) {
	if err := f.check(); err != nil {
		return Page{}, err
	}
	if f.ConnectedOnly {
		return c.listConnected(ctx, tenant, f)
	}
	b := &db.Batch{}
	enabled := db.Queue(b, c.q.HasEnabledProviders, tenant)
	read := f.queue(b, tenant, false)
	rings := ringsOf(db.Queue(b, c.q.OwnConnectedProviders, tenant), func(r dbsqlc.OwnConnectedProvidersRow) dbsqlc.ConnectedProvidersRow {
		return dbsqlc.ConnectedProvidersRow(r)
	})
	err := c.db.SendReading(ctx, tenant, db.ListLimit, b)
	if err == nil && enabled.Value {
		b = &db.Batch{}
		read = f.queue(b, tenant, true)
		rings = ringsOf(db.Queue(b, c.q.ConnectedProviders, tenant), func(r dbsqlc.ConnectedProvidersRow) dbsqlc.ConnectedProvidersRow { return r })
		err = c.db.SendReading(ctx, tenant, db.ListLimit, b)
	}
	if err != nil {
		return Page{}, fmt.Errorf("catalog: list verbs: %w", err)
	}
	out := read()
	has, slugs := rings()
	out.ProvidersConnected = slugs
	for i, v := range out.Verbs {
		out.Verbs[i].Connected = serves(has[v.Name.Provider], v.Security)
	}
	return out, nil
}

// ringsOf returns what reads the credentials of the connected providers, and their slugs.
func ringsOf[R any](answer *db.Answer[[]R], as func(R) dbsqlc.ConnectedProvidersRow) func() (map[string]credential.Keyring, []string) {
	return func() (map[string]credential.Keyring, []string) {
		has, slugs := make(map[string]credential.Keyring, len(answer.Value)), make([]string, len(answer.Value))
		for i, row := range answer.Value {
			r := as(row)
			has[r.Slug], slugs[i] = keyring(r.Kind, r.Schemes), r.Slug
		}
		return has, slugs
	}
}

// listConnected lists verbs that can be called. Which those are is judged before the page is read.
func (c *Catalog) listConnected(ctx context.Context, tenant uuid.UUID, f Filter) (Page, error) {
	rows, err := c.q.ReachOfProviders(ctx, c.db.Reading(tenant, db.ListLimit), tenant)
	if err != nil {
		return Page{}, fmt.Errorf("catalog: read what can be called: %w", err)
	}
	f.reach = reachOf(rows)
	b := &db.Batch{}
	read := f.queue(b, tenant, f.reach.hasShared)
	if err := c.db.SendReading(ctx, tenant, db.ListLimit, b); err != nil {
		return Page{}, fmt.Errorf("catalog: list verbs: %w", err)
	}
	out := read()
	out.ProvidersConnected = f.reach.connected
	for i := range out.Verbs {
		out.Verbs[i].Connected = true
	}
	return out, nil
}

// queue adds the questions of a page to a batch: of the tenant's own verbs, or of the shared
// ones too. Once the batch was sent, the function returned reads the answers.
func (f Filter) queue(b *db.Batch, tenant uuid.UUID, shared bool) func() Page {
	verbs := db.Queue(b, readVerbs, f.pageSQL(tenant, shared))
	total := db.Queue(b, readTotal, f.totalSQL(tenant, shared))
	return func() Page {
		n := len(verbs.Value)
		return Page{Verbs: verbs.Value, Total: total.Value, HasMore: n > 0 && int64(f.Offset)+int64(n) < total.Value}
	}
}

// usualPage is the size of a page where the caller does not say.
const usualPage = 100

func readVerbs(ctx context.Context, tx dbsqlc.DBTX, s statement) ([]Verb, error) {
	rows, err := tx.Query(ctx, s.sql, s.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	verbs := make([]Verb, 0, usualPage)
	known := securities{}
	for rows.Next() {
		var v Verb
		var hash, mark []byte
		var security string
		if err := rows.Scan(&v.Name.Provider, &v.Name.Verb, &v.Domain, &v.Description, &v.Risk, &v.Operation,
			&v.Idempotency, &hash, (*[]byte)(&v.Schema), &security, &v.Method, &v.Path, &mark); err != nil {
			return nil, err
		}
		v.SchemaHash, v.Security, v.Quarantine = storedHash(hash), known.of(security), markOf(mark)
		verbs = append(verbs, v)
	}
	return verbs, rows.Err()
}

func readTotal(ctx context.Context, tx dbsqlc.DBTX, s statement) (total int64, err error) {
	err = tx.QueryRow(ctx, s.sql, s.args...).Scan(&total)
	return total, err
}

func (f Filter) check() error {
	for _, p := range []struct{ name, value string }{{"provider", f.Provider}, {"domain", f.Domain}, {"q", f.Q}} {
		if len(p.value) > maxQuery || !utf8.ValidString(p.value) || strings.ContainsRune(p.value, 0) {
			return fault.Invalid("query."+p.name, "pattern", fmt.Sprintf("%s is UTF-8 without NUL, at most %d bytes.", p.name, maxQuery))
		}
	}
	if len(strings.Fields(f.Q)) > maxWords {
		return fault.Invalid("query.q", "maxItems", fmt.Sprintf("q has at most %d words.", maxWords))
	}
	return nil
}

// Verb returns one verb; VERB_NOT_FOUND.
func (c *Catalog) Verb(ctx context.Context, tenant uuid.UUID, name verb.Name) (Verb, error) {
	return c.verb(ctx, c.db.Tenant(tenant), tenant, name)
}

func (c *Catalog) verb(ctx context.Context, on dbsqlc.DBTX, tenant uuid.UUID, name verb.Name) (Verb, error) {
	r, err := c.q.GetVerb(ctx, on, dbsqlc.GetVerbParams{TenantID: tenant, Provider: name.Provider, Name: name.Verb})
	if err != nil {
		return Verb{}, verbError(err)
	}
	trusted, err := c.trusted(ctx, on, tenant, name.Provider, &name.Verb)
	if err != nil {
		return Verb{}, err
	}
	said := trusted.of(name.Verb)
	security := storedSecurity(r.Security)
	return Verb{
		Trust: said.trust, Taint: said.taint, Egress: said.egress,
		Name: name, Domain: r.Domain, Description: r.Description, Risk: verb.Risk(r.RiskLevel), Operation: verb.Operation(r.OperationType),
		Idempotency: verb.Idempotency(r.Idempotency), SchemaHash: storedHash(r.SchemaHash), Schema: json.RawMessage(r.Schema),
		Security: security, Connected: serves(keyring(r.Kind, r.Schemes), security),
		Quarantine: markOf(r.Quarantine),
	}, nil
}
