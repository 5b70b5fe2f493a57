package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/verb"
)

// Filter selects verbs for a page. Empty fields select all.
type Filter struct {
	Provider      string
	Domain        string
	Risk          verb.Risk
	ConnectedOnly bool
	// Q holds words that must all occur in a verb's name or description, in any case.
	Q      string
	Limit  int
	Offset int
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

// List returns a page and its total. It costs one round trip. The total comes from
// summary counts and the page from an index that fits each single filter, so both
// take as long in a large catalog as in a small one; only a search (Q) reads
// through the tenant's verbs.
func (c *Catalog) List(ctx context.Context, tenant uuid.UUID, f Filter) (Page, error) {
	if err := f.check(); err != nil {
		return Page{}, err
	}
	b := &db.Batch{}
	verbs := db.Queue(b, readVerbs, f.pageSQL(tenant))
	total := db.Queue(b, readTotal, f.totalSQL(tenant))
	connectedProviders := db.Queue(b, c.q.ConnectedProviders, tenant)
	if err := c.db.Send(ctx, tenant, b); err != nil {
		return Page{}, fmt.Errorf("catalog: list verbs: %w", err)
	}
	out := Page{Verbs: verbs.Value, Total: total.Value, ProvidersConnected: connectedProviders.Value}
	connected := make(map[string]bool, len(out.ProvidersConnected))
	for _, slug := range out.ProvidersConnected {
		connected[slug] = true
	}
	for i := range out.Verbs {
		out.Verbs[i].Connected = connected[out.Verbs[i].Name.Provider]
	}
	out.HasMore = int64(f.Offset)+int64(len(out.Verbs)) < out.Total && len(out.Verbs) > 0
	return out, nil
}

// statement is one that List puts together, with its arguments.
type statement struct {
	sql  string
	args []any
}

func readVerbs(ctx context.Context, tx dbsqlc.DBTX, s statement) ([]Verb, error) {
	rows, err := tx.Query(ctx, s.sql, s.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	verbs := []Verb{}
	for rows.Next() {
		var v Verb
		var hash []byte
		if err := rows.Scan(&v.Name.Provider, &v.Name.Verb, &v.Domain, &v.Description, &v.Risk, &v.Operation,
			&v.Idempotency, &hash, (*[]byte)(&v.Schema)); err != nil {
			return nil, err
		}
		v.SchemaHash = storedHash(hash)
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

// clauses collects conditions and their arguments. The statements are put together
// here and not in queries/, because a condition that may be absent ($1 IS NULL OR
// …) keeps Postgres from the index that fits the filter. There are as many texts as
// combinations of filters, no more: each is prepared once per connection, and no
// value of a caller is ever part of one.
type clauses struct {
	where []string
	args  []any
}

// add appends a condition whose %s is the argument's placeholder.
func (c *clauses) add(condition string, arg any) {
	c.args = append(c.args, arg)
	c.where = append(c.where, strings.ReplaceAll(condition, "%s", "$"+strconv.Itoa(len(c.args))))
}

// connectedSlugs selects the slugs of connected providers; $1 is the tenant.
const connectedSlugs = `SELECT p.slug FROM providers p WHERE p.tenant_id = $1 AND (p.auth_type = 'none' OR EXISTS (
	SELECT FROM credentials c WHERE c.tenant_id = $1 AND c.provider = p.slug AND c.status = 'active' AND c.customer_id IS NULL))`

// verbClauses are the conditions on table verbs.
func (f Filter) verbClauses(tenant uuid.UUID) clauses {
	var c clauses
	c.add("v.tenant_id = %s", tenant)
	if f.Provider != "" {
		c.add("v.provider = %s", f.Provider)
	}
	if f.Domain != "" {
		c.add("v.domain = %s", f.Domain)
	}
	if f.Risk != "" {
		c.add("v.risk_level = %s", string(f.Risk))
	}
	if f.ConnectedOnly {
		c.where = append(c.where, "v.provider IN ("+connectedSlugs+")")
	}
	if words := strings.Fields(strings.ToLower(f.Q)); len(words) > 0 {
		for i, w := range words {
			words[i] = "%" + likeLiteral(w) + "%"
		}
		c.add("v.search LIKE ALL (%s)", words)
	}
	return c
}

const verbColumns = "v.provider, v.name, v.domain, v.description, v.risk_level, v.operation_type, v.idempotency, v.schema_hash, v.schema"

// deepOffset is from where on a page is found in the index alone before its rows
// are read: a third of the time at 100,000 verbs, but slower on first pages.
const deepOffset = 1000

func (f Filter) pageSQL(tenant uuid.UUID) statement {
	c := f.verbClauses(tenant)
	n := len(c.args)
	const order = " ORDER BY v.provider, v.name"
	tail := fmt.Sprintf(" FROM verbs v WHERE %s%s LIMIT $%d OFFSET $%d", strings.Join(c.where, " AND "), order, n+1, n+2)
	args := append(c.args, f.Limit, f.Offset)
	if f.Offset < deepOffset {
		return statement{"SELECT " + verbColumns + tail, args}
	}
	return statement{"SELECT " + verbColumns + " FROM (SELECT v.provider, v.name" + tail + ") k JOIN verbs v ON v.tenant_id = $1 AND v.provider = k.provider AND v.name = k.name" + order, args}
}

func (f Filter) totalSQL(tenant uuid.UUID) statement {
	if strings.TrimSpace(f.Q) != "" || f.Provider == anyKey || f.Domain == anyKey {
		c := f.verbClauses(tenant)
		return statement{"SELECT count(*) FROM verbs v WHERE " + strings.Join(c.where, " AND "), c.args}
	}
	var c clauses
	c.add("n.tenant_id = %s", tenant)
	c.add("n.domain = %s", orAny(f.Domain))
	c.add("n.risk_level = %s", orAny(string(f.Risk)))
	if f.ConnectedOnly {
		c.where = append(c.where, "n.provider IN ("+connectedSlugs+")")
	}
	if f.Provider != "" || !f.ConnectedOnly {
		c.add("n.provider = %s", orAny(f.Provider))
	}
	return statement{"SELECT coalesce(sum(n.n), 0)::bigint FROM verb_counts n WHERE " + strings.Join(c.where, " AND "), c.args}
}

func orAny(s string) string {
	if s == "" {
		return anyKey
	}
	return s
}

// likeLiteral escapes what LIKE would read as a pattern.
func likeLiteral(s string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s)
}

// Verb returns one verb; VERB_NOT_FOUND.
func (c *Catalog) Verb(ctx context.Context, tenant uuid.UUID, name verb.Name) (Verb, error) {
	r, err := c.q.GetVerb(ctx, c.db.Tenant(tenant), dbsqlc.GetVerbParams{TenantID: tenant, Provider: name.Provider, Name: name.Verb})
	if err != nil {
		return Verb{}, verbError(err)
	}
	return Verb{
		Name: name, Domain: r.Domain, Description: r.Description, Risk: verb.Risk(r.RiskLevel), Operation: verb.Operation(r.OperationType),
		Idempotency: verb.Idempotency(r.Idempotency), SchemaHash: storedHash(r.SchemaHash), Schema: json.RawMessage(r.Schema), Connected: r.Connected,
	}, nil
}
