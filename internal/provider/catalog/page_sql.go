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

// enabledSlugs selects the tenant's choice of the platform's providers, without those that
// one of its own hides.
const enabledSlugs = `(SELECT e.slug FROM enabled_providers e WHERE e.tenant_id = $1
	AND NOT EXISTS (SELECT FROM providers o WHERE o.tenant_id = $1 AND o.slug = e.slug)) e`

// columns are those of a verb. A plan is long, so it is read only where it is asked for.
func (f Filter) columns() string { return f.plainColumns() + ", v.quarantine" }

// sharedColumns are those of a verb of the platform, which no import of a tenant changes.
func (f Filter) sharedColumns() string { return f.plainColumns() + ", NULL::json AS quarantine" }

func (f Filter) plainColumns() string {
	const all = "v.provider, v.name, v.domain, v.description, v.risk_level, v.operation_type, v.idempotency, v.schema_hash, v.schema, v.security"
	if f.Routes {
		return all + ", coalesce(v.plan::json ->> 'method', '') AS method, coalesce(v.plan::json ->> 'path', '') AS path"
	}
	return all + ", '' AS method, '' AS path"
}

// scans reports whether the filter has a part that the summary counts do not know.
func (f Filter) scans() bool { return f.words() != nil || f.Operation != "" || f.Quarantined != nil }

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
	f.addClauses(&c)
	return c
}

func (f Filter) addClauses(c *clauses) {
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
}

// from returns where the tenant's own verbs v and the shared ones come from. The conditions
// on v follow. shared is "" where it is not asked for: each argument must occur in the statement.
func (f Filter) from(c *clauses, withShared bool) (own, shared string) {
	own = " FROM verbs v WHERE v.tenant_id = $1"
	if withShared {
		shared = " FROM " + enabledSlugs + " JOIN platform_verbs v ON v.provider = e.slug"
	}
	if f.Quarantined != nil {
		none := map[bool]string{true: " IS NOT NULL", false: " IS NULL"}
		own += " AND v.quarantine" + none[*f.Quarantined]
		if withShared && *f.Quarantined {
			shared += " AND false"
		}
	}
	if f.ConnectedOnly {
		own += " AND " + f.reach.own.verbs(c)
		if withShared {
			shared += " AND " + f.reach.shared.verbs(c)
		}
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
	if !f.scans() && f.ConnectedOnly {
		return f.partsSQL(&c, where, limit, offset)
	}
	fromOwn, fromShared := f.from(&c, withShared)
	if !withShared && (f.scans() || f.Offset < deepOffset) {
		return statement{"SELECT " + f.columns() + fromOwn + where + page, c.args}
	}
	own := "(SELECT " + f.columns() + fromOwn + where + order + head + ")"
	if f.scans() {
		shared := "(SELECT " + f.sharedColumns() + fromShared + where + order + head + ")"
		return statement{"SELECT v.* FROM (" + own + " UNION ALL " + shared + ") v" + page, c.args}
	}
	if f.Offset >= deepOffset {
		return f.partsSQL(&c, where, limit, offset)
	}
	_, sharedCounts := f.countsSQL(&c, true)
	// Both halves are in the order of the page, so that they are merged and not sorted.
	shared := "(SELECT v.* FROM " + parts(sharedCounts, "0::bigint", limit+" + "+offset) + " CROSS JOIN LATERAL (" +
		"SELECT " + f.sharedColumns() + " FROM platform_verbs v WHERE true" + stretch(where, "0::bigint", limit+" + "+offset) + ") v" + order + head + ")"
	return statement{"SELECT v.* FROM (" + own + " UNION ALL " + shared + ") v" + page, c.args}
}

// partsSQL selects the page by the providers that it has verbs of.
func (f Filter) partsSQL(c *clauses, where, limit, offset string) statement {
	ownCounts, sharedCounts := f.countsSQL(c, true)
	parts := parts(ownCounts+" UNION ALL "+sharedCounts, offset, limit+" + "+offset)
	some := func(r reached) string {
		if len(r.slugs) == 0 {
			return where
		}
		return where + " AND (NOT part.some OR " + r.some(c) + ")"
	}
	to := limit + " + " + offset
	own, shared := stretch(some(f.reach.own), offset, to), stretch(some(f.reach.shared), offset, to)
	return statement{"SELECT v.* FROM " + parts + " CROSS JOIN LATERAL (" +
		"(SELECT " + f.columns() + " FROM verbs v WHERE NOT part.shared AND v.tenant_id = $1" + own + ") UNION ALL " +
		"(SELECT " + f.sharedColumns() + " FROM platform_verbs v WHERE part.shared" + shared + ")) v" + f.order() + " LIMIT " + limit, c.args}
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
		where := c.and()
		fromOwn, fromShared := f.from(&c, withShared)
		if !withShared {
			return statement{"SELECT count(*)" + fromOwn + where, c.args}
		}
		return statement{"SELECT (SELECT count(*)" + fromOwn + where + ") + (SELECT count(*)" + fromShared + where + ")", c.args}
	}
	var c clauses
	c.arg(tenant)
	own, shared := f.countsSQL(&c, withShared)
	if f.Provider == "" && !f.ConnectedOnly && f.Domain != anyKey {
		own = "SELECT n.n FROM verb_counts n WHERE n.tenant_id = $1 AND n.provider = '" + anyKey + "'" + c.and() // one row has the sum
	}
	if !withShared {
		return statement{"SELECT coalesce(sum(n.n), 0)::bigint FROM (" + own + ") n", c.args}
	}
	return statement{"SELECT ((SELECT coalesce(sum(n.n), 0) FROM (" + own + ") n) + (SELECT coalesce(sum(n.n), 0) FROM (" + shared + ") n))::bigint", c.args}
}

// countsSQL selects the providers that have verbs of the filter: whether it is shared, whether only
// some of them can be called, its slug as provider, and n of them. It leaves the conditions on a
// count n in c.
func (f Filter) countsSQL(c *clauses, withShared bool) (own, shared string) {
	c.where = nil
	c.add("n.domain = %s", orAny(f.Domain))
	c.add("n.risk_level = %s", orAny(string(f.Risk)))
	if f.Provider != "" {
		c.add("n.provider = %s", f.Provider)
	}
	if f.Domain == anyKey {
		c.where = append(c.where, "false") // no verb has this domain
	}
	own = "SELECT false AS shared, false AS some, n.provider, n.n FROM verb_counts n WHERE n.tenant_id = $1 AND n.provider <> '" + anyKey + "'" +
		c.and() + f.reachedCounts(c, f.reach.own, "false", "verbs v WHERE v.tenant_id = $1")
	if withShared {
		shared = "SELECT true AS shared, false AS some, n.provider, n.n FROM " + enabledSlugs + " JOIN platform_verb_counts n ON n.provider = e.slug" +
			c.and() + f.reachedCounts(c, f.reach.shared, "true", enabledSlugs+" JOIN platform_verbs v ON v.provider = e.slug")
	}
	return own, shared
}

// reachedCounts continues a statement of counts with the condition that the verbs can be called, and
// counts those of providers of which only some can: from selects verbs v.
func (f Filter) reachedCounts(c *clauses, r reached, shared, from string) string {
	if !f.ConnectedOnly {
		return ""
	}
	whole := " AND n.provider = ANY (" + c.arg(orNone(r.whole)) + ")"
	if len(r.slugs) == 0 {
		return whole
	}
	v := clauses{args: c.args}
	f.addClauses(&v)
	c.args = v.args
	return whole + " UNION ALL SELECT " + shared + ", true, v.provider, count(*) FROM " + from + " AND " + r.some(c) + v.and() + " GROUP BY v.provider"
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
