package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"

	"agentruntime/internal/provider/argdiff"
)

// Limits of comparing arguments.
const (
	// maxArgumentsTold is how many changes of arguments are told of one verb.
	maxArgumentsTold = 20
	// maxArgumentWork bounds the comparison of all arguments, in steps of about 20 ns. All
	// schemas that an import may have, before and after, take two thirds of it.
	maxArgumentWork = 200_000_000
)

// whatSchema is a change of a schema that is not told argument by argument.
const whatSchema = "schema"

// arguments compares the arguments of a verb with those that the provider's verb of its name has.
func (c *comparison) arguments(v knownVerb) {
	was, had := c.present[v.name]
	if !had || bytes.Equal(was.schema, v.schema) {
		return
	}
	diff := compareArguments(was.schema, v.schema, &c.argumentWork)
	c.diffs[v.name] = diff
	for _, d := range diff.List {
		c.found = append(c.found, change{What: string(d.Kind), Verb: v.name, Route: v.route, Pointer: d.Pointer, Before: d.Before, After: d.After})
	}
	if more := untold(diff); more != "" {
		c.add(whatSchema, v, "", more, false)
	}
}

// compareArguments compares two schemas with the work that is left.
func compareArguments(was, now json.RawMessage, left *int) argdiff.Result {
	if *left < 0 {
		return argdiff.Result{Incomplete: true}
	}
	return argdiff.Compare(was, now, maxArgumentsTold, left)
}

// untold says what the list of a comparison does not, "" where it says all.
func untold(r argdiff.Result) string {
	switch more := r.Total - len(r.List); {
	case r.Incomplete:
		return "more than can be compared"
	case more > 0:
		return fmt.Sprintf("%d more changes of arguments", more)
	}
	return ""
}

// argumentMessage says what changes about an argument; "" for a change of something else.
func (c change) argumentMessage(t tense) string {
	the := "the argument " + c.Pointer
	switch kind := argdiff.Kind(c.What); {
	case kind == argdiff.Removed:
		return the + " (" + c.Before + t.pick(") would be removed.", ") was removed.")
	case kind == argdiff.Added, kind == argdiff.Required && c.Before == "":
		return the + t.pick(" would be new (", " is new (") + c.After + ")."
	case kind == argdiff.Retyped, kind == argdiff.Required:
		return the + " " + t.from(c.Before, c.After)
	case kind == argdiff.Optional:
		return the + t.pick(" would no longer be required.", " is no longer required.")
	case c.What == whatSchema:
		return "the schema has " + c.After + "."
	}
	return ""
}
