package catalog

import (
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// The statements of List are put together here and not in queries/, because a condition
// that may be absent ($1 IS NULL OR …) keeps Postgres from the index that fits the filter.
// There are as many texts as combinations of filters: each is prepared once per connection,
// and no value of a caller is ever part of one. $1 is always the tenant.

// statement is a text with its arguments.
type statement struct {
	sql  string
	args []any
}

// clauses collects conditions and their arguments.
type clauses struct {
	where []string
	args  []any
}

// arg adds an argument and returns its placeholder.
func (c *clauses) arg(v any) string {
	c.args = append(c.args, v)
	return "$" + strconv.Itoa(len(c.args))
}

// add appends a condition whose %s is the argument's placeholder.
func (c *clauses) add(condition string, arg any) {
	c.where = append(c.where, strings.ReplaceAll(condition, "%s", c.arg(arg)))
}

// and returns the conditions, each after an AND.
func (c *clauses) and() string {
	if len(c.where) == 0 {
		return ""
	}
	return " AND " + strings.Join(c.where, " AND ")
}

// connected is the condition that a provider p is connected.
const connected = `(p.auth_type = 'none' OR EXISTS (
	SELECT FROM credentials c WHERE c.tenant_id = $1 AND c.provider = p.slug AND c.status = 'active' AND c.customer_id IS NULL))`

// ownConnected and sharedConnected select the slugs of connected providers.
const (
	ownConnected    = "(SELECT p.slug FROM providers p WHERE p.tenant_id = $1 AND " + connected + ")"
	sharedConnected = "(SELECT p.slug FROM platform_providers p WHERE p.slug = e.slug AND " + connected + ")"
)

// enabledSlugs selects the tenant's choice of the platform's providers, without those that
// one of its own hides.
const enabledSlugs = `(SELECT e.slug FROM enabled_providers e WHERE e.tenant_id = $1
	AND NOT EXISTS (SELECT FROM providers o WHERE o.tenant_id = $1 AND o.slug = e.slug)) e`

// columns are those of a verb. A plan is long, so it is read only where it is asked for.
func (f Filter) columns() string {
	const all = "v.provider, v.name, v.domain, v.description, v.risk_level, v.operation_type, v.idempotency, v.schema_hash, v.schema"
	if f.Routes {
		return all + ", coalesce(v.plan::json ->> 'method', '') AS method, coalesce(v.plan::json ->> 'path', '') AS path"
	}
	return all + ", '' AS method, '' AS path"
}

// scans reports whether the filter has a part that the summary counts do not know.
func (f Filter) scans() bool { return f.words() != nil || f.Operation != "" }

// order is that of the pages. Where there is only one provider, its slug is left out: with it,
// Postgres sorts what an index has in order.
func (f Filter) order() string {
	if f.Provider != "" {
		return " ORDER BY v.name"
	}
	return " ORDER BY v.provider, v.name"
}

// deepOffset is from where on the summary counts find where a page of a tenant's own verbs
// begins. On first pages that is slower than to read from the index.
const deepOffset = 1000

// farthest is an offset beyond every catalog. The statements add to offsets, and a larger
// one could overflow.
const farthest = 1 << 40

// verbClauses are the conditions on a verb v beside its owner.
func (f Filter) verbClauses(tenant uuid.UUID) clauses {
	var c clauses
	c.arg(tenant)
	if f.Provider != "" {
		c.add("v.provider = %s", f.Provider)
	}
	if f.Domain != "" {
		c.add("v.domain = %s", f.Domain)
	}
	if f.Risk != "" {
		c.add("v.risk_level = %s", string(f.Risk))
	}
	if f.Operation != "" {
		c.add("v.operation_type = %s", string(f.Operation))
	}
	if words := f.words(); words != nil {
		c.add("v.search LIKE ALL (%s)", words)
	}
	return c
}

// from returns where the tenant's own verbs v and the shared ones come from. The conditions
// on v follow.
func (f Filter) from() (own, shared string) {
	own = " FROM verbs v WHERE v.tenant_id = $1"
	shared = " FROM " + enabledSlugs + " JOIN platform_verbs v ON v.provider = e.slug"
	if f.ConnectedOnly {
		own += " AND v.provider IN " + ownConnected
		shared += " AND EXISTS " + sharedConnected
	}
	return own, shared
}

// pageSQL selects the page: of the tenant's own verbs, or of the shared ones too.
func (f Filter) pageSQL(tenant uuid.UUID, withShared bool) statement {
	c := f.verbClauses(tenant)
	where := c.and()
	limit, offset := c.arg(f.Limit)+"::bigint", c.arg(min(f.Offset, farthest))+"::bigint"
	order := f.order()
	page := order + " LIMIT " + limit + " OFFSET " + offset
	head := " LIMIT " + limit + " + " + offset
	fromOwn, fromShared := f.from()
	if !withShared && (f.scans() || f.Offset < deepOffset) {
		return statement{"SELECT " + f.columns() + fromOwn + where + page, c.args}
	}
	own := "(SELECT " + f.columns() + fromOwn + where + order + head + ")"
	if f.scans() {
		shared := "(SELECT " + f.columns() + fromShared + where + order + head + ")"
		return statement{"SELECT v.* FROM (" + own + " UNION ALL " + shared + ") v" + page, c.args}
	}
	ownCounts, sharedCounts := f.countsSQL(&c)
	if f.Offset >= deepOffset {
		parts := parts(ownCounts+" UNION ALL "+sharedCounts, offset, limit+" + "+offset)
		part := stretch(where, offset, limit+" + "+offset)
		return statement{"SELECT v.* FROM " + parts + " CROSS JOIN LATERAL (" +
			"(SELECT " + f.columns() + " FROM verbs v WHERE NOT part.shared AND v.tenant_id = $1" + part + ") UNION ALL " +
			"(SELECT " + f.columns() + " FROM platform_verbs v WHERE part.shared" + part + ")) v" + order + " LIMIT " + limit, c.args}
	}
	// Both halves are in the order of the page, so that they are merged and not sorted.
	shared := "(SELECT v.* FROM " + parts(sharedCounts, "0::bigint", limit+" + "+offset) + " CROSS JOIN LATERAL (" +
		"SELECT " + f.columns() + " FROM platform_verbs v WHERE true" + stretch(where, "0::bigint", limit+" + "+offset) + ") v" + order + head + ")"
	return statement{"SELECT v.* FROM (" + own + " UNION ALL " + shared + ") v" + page, c.args}
}

// parts selects the providers that the verbs from one place to another of the page order are
// of. before is how many verbs of the filter the providers ahead have.
func parts(counts, from, to string) string {
	return "(SELECT * FROM (SELECT n.*, (sum(n.n) OVER (ORDER BY n.provider))::bigint - n.n AS before FROM (" + counts + ") n) n" +
		" WHERE n.before < " + to + " AND n.before + n.n > " + from + ") part"
}

// stretch ends a statement that selects those of a part's verbs v. It begins at the first of
// them, so that nothing ahead is read.
func stretch(where, from, to string) string {
	return " AND v.provider = part.provider" + where + " ORDER BY v.name LIMIT " + to + " - greatest(part.before, " + from + ")" +
		" OFFSET greatest(" + from + " - part.before, 0)"
}

// totalSQL counts the verbs of the filter: the tenant's own, or the shared ones too.
func (f Filter) totalSQL(tenant uuid.UUID, withShared bool) statement {
	if f.scans() {
		c := f.verbClauses(tenant)
		fromOwn, fromShared := f.from()
		if !withShared {
			return statement{"SELECT count(*)" + fromOwn + c.and(), c.args}
		}
		return statement{"SELECT (SELECT count(*)" + fromOwn + c.and() + ") + (SELECT count(*)" + fromShared + c.and() + ")", c.args}
	}
	var c clauses
	c.arg(tenant)
	own, shared := f.countsSQL(&c)
	if f.Provider == "" && !f.ConnectedOnly && f.Domain != anyKey {
		own = "SELECT n.n FROM verb_counts n WHERE n.tenant_id = $1 AND n.provider = '" + anyKey + "'" + c.and() // one row has the sum
	}
	if !withShared {
		return statement{"SELECT coalesce(sum(n.n), 0)::bigint FROM (" + own + ") n", c.args}
	}
	return statement{"SELECT ((SELECT coalesce(sum(n.n), 0) FROM (" + own + ") n) + (SELECT coalesce(sum(n.n), 0) FROM (" + shared + ") n))::bigint", c.args}
}

// countsSQL selects the providers that have verbs of the filter: whether it is shared, its
// slug as provider, and n of them. It leaves the conditions on a count n in c.
func (f Filter) countsSQL(c *clauses) (own, shared string) {
	c.where = nil
	c.add("n.domain = %s", orAny(f.Domain))
	c.add("n.risk_level = %s", orAny(string(f.Risk)))
	if f.Provider != "" {
		c.add("n.provider = %s", f.Provider)
	}
	if f.Domain == anyKey {
		c.where = append(c.where, "false") // no verb has this domain
	}
	own = "SELECT false AS shared, n.provider, n.n FROM verb_counts n WHERE n.tenant_id = $1 AND n.provider <> '" + anyKey + "'" + c.and()
	shared = "SELECT true AS shared, n.provider, n.n FROM " + enabledSlugs + " JOIN platform_verb_counts n ON n.provider = e.slug" + c.and()
	if f.ConnectedOnly {
		own += " AND n.provider IN " + ownConnected
		shared += " AND EXISTS " + sharedConnected
	}
	return own, shared
}

// words returns the patterns that a search looks for, nil where there is no search.
func (f Filter) words() []string {
	words := strings.Fields(strings.ToLower(f.Q))
	if len(words) == 0 {
		return nil
	}
	for i, w := range words {
		words[i] = "%" + likeLiteral(w) + "%"
	}
	return words
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
