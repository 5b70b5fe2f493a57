package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"

	"agentruntime/internal/kernel/argdiff"
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

// argumentMessage says what would change about an argument; "" for a change of something else.
func (c change) argumentMessage() string {
	switch argdiff.Kind(c.What) {
	case argdiff.Removed:
		return fmt.Sprintf("the argument %s (%s) would be removed.", c.Pointer, c.Before)
	case argdiff.Retyped:
		return fmt.Sprintf("the argument %s is %s and would be %s.", c.Pointer, c.Before, c.After)
	case argdiff.Required:
		if c.Before == "" {
			return fmt.Sprintf("the argument %s would be new (%s).", c.Pointer, c.After)
		}
		return fmt.Sprintf("the argument %s is %s and would be %s.", c.Pointer, c.Before, c.After)
	case argdiff.Added:
		return fmt.Sprintf("the argument %s would be new (%s).", c.Pointer, c.After)
	case argdiff.Optional:
		return fmt.Sprintf("the argument %s would no longer be required.", c.Pointer)
	}
	if c.What == whatSchema {
		return "the schema has " + c.After + "."
	}
	return ""
}
