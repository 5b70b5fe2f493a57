package wire

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/strictjson"
	"agentruntime/internal/base/verb"
)

// Page sizes of lists: an absent limit means defaultLimit; more than maxLimit becomes
// maxLimit, and pagination.limit says so.
const (
	defaultLimit = 100
	maxLimit     = 500
)

// maxUnknown is how many unknown query parameters one answer names, and maxQueryName the most
// characters of such a name that it repeats.
const (
	maxUnknown   = 10
	maxQueryName = 64
)

// CheckQuery returns a VALIDATION_ERROR that names each query parameter that is not among known,
// and one for a query that cannot be read. A filter that is misspelt would return more than the
// caller asked for.
func (c *Call) CheckQuery(known []string) error {
	if c.Request.URL.RawQuery == "" {
		return nil
	}
	given, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return fault.Invalid("query", "format", "The query is not well formed. Write name=value, joined by &, and escape other characters by %.").Because(err)
	}
	takes := "Unknown query parameter: this endpoint takes none."
	if len(known) > 0 {
		takes = "Unknown query parameter: this endpoint takes " + strings.Join(known, ", ") + "."
	}
	var v Validation
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(known, name) || len(v.details) == maxUnknown {
			continue
		}
		where := "query"
		if VisibleASCII(name, maxQueryName) {
			where += "." + name
		}
		v.Add(where, strictjson.RuleUnknownField, takes+near.Sentence(name, known))
	}
	return v.Err()
}

// Query returns a query parameter that is given and not empty; the first one where the
// caller repeats it.
func (c *Call) Query(name string) (string, bool) {
	v := c.Request.URL.Query().Get(name)
	return v, v != ""
}

// Limit reads ?limit=, the number of items on a page.
func (c *Call) Limit() (int, error) {
	raw, given := c.Query("limit")
	if !given {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(raw)
	if err != nil && !errors.Is(err, strconv.ErrRange) || n < 1 {
		return 0, fault.Invalid("query.limit", "minimum", "limit is a whole number from 1 to 500.")
	}
	return min(n, maxLimit), nil
}

// Offset reads ?offset=, the number of items before a page; 0 where it is absent.
func (c *Call) Offset() (int, error) {
	raw, given := c.Query("offset")
	if !given {
		return 0, nil
	}
	n, err := strconv.Atoi(raw)
	if err != nil || n < 0 {
		return 0, fault.Invalid("query.offset", "minimum", "offset is a whole number from 0.")
	}
	return n, nil
}

// QueryVerb reads ?verb=. given is false where it is absent. It fails with INVALID_VERB.
func (c *Call) QueryVerb() (name verb.Name, given bool, err error) {
	raw, given := c.Query("verb")
	if !given {
		return verb.Name{}, false, nil
	}
	name, err = verb.Parse(raw)
	return name, true, err
}

// QueryBool reads a boolean query parameter; nil where it is absent.
func (c *Call) QueryBool(name string) (*bool, error) {
	raw, given := c.Query(name)
	if !given {
		return nil, nil //nolint:nilnil // an absent parameter is not an error
	}
	yes := strings.EqualFold(raw, "true")
	if !yes && !strings.EqualFold(raw, "false") {
		return nil, fault.Invalid("query."+name, "enum", near.Enum(name, raw, "true", "false"))
	}
	return &yes, nil
}

// QueryID reads a query parameter that is an id of ours; nil where it is absent.
func (v *Validation) QueryID(c *Call, name string) *uuid.UUID {
	raw, given := c.Query(name)
	if !given {
		return nil
	}
	id, err := uuid.Parse(raw)
	if err != nil {
		v.Add("query."+name, "format", name+" is a UUID.")
		return nil
	}
	return &id
}

// QueryText reads a query parameter that is compared with a stored text. Postgres
// stores UTF-8 without NUL.
func (v *Validation) QueryText(c *Call, name string) string {
	s, _ := c.Query(name)
	if storable(s) != s {
		v.Add("query."+name, "format", name+" is text in UTF-8 without NUL.")
	}
	return s
}

// QueryTime reads a query parameter in the form of RFC 3339; nil where it is absent.
func (v *Validation) QueryTime(c *Call, name string) *time.Time {
	raw, given := c.Query(name)
	if !given {
		return nil
	}
	t := v.parseTime("query."+name, name, raw)
	return &t
}

// QueryOneOf reads a query parameter that names one of the known values, in any case;
// "" where it is absent.
func QueryOneOf[T ~string](v *Validation, c *Call, name string, known ...T) T {
	raw, given := c.Query(name)
	if !given {
		return ""
	}
	names := make([]string, len(known))
	for i, k := range known {
		if strings.EqualFold(raw, string(k)) {
			return k
		}
		names[i] = string(k)
	}
	v.Add("query."+name, "enum", near.Enum(name, raw, names...))
	return ""
}
