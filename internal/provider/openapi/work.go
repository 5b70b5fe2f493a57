package openapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"agentruntime/internal/kernel/exactjson"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/yamljson"
)

// maxWork is how much work one import may take, in units of about a microsecond on 2 cores.
// Stripe's and GitHub's whole documents take less than a tenth of it. Beyond it the
// document is refused, so that one document never keeps a core for long.
const maxWork = 15_000_000

// Bounds of a document that ImportSmall takes. They are in proportion to those of Import: Stripe's
// and GitHub's documents take less work and bytes for each MiB.
const (
	// MaxSmallDocument is the most bytes of a small document.
	MaxSmallDocument = 1 << 20
	maxSmallWork     = maxWork / 10
	maxSmallBytes    = maxBytes / 8
)

// ErrNotSmall is the error of ImportSmall for a document that only Import takes.
var ErrNotSmall = errors.New("openapi: the document takes more than a small one may")

// checkEvery is after how many units the import looks whether its caller has left.
const checkEvery = 10_000

// work counts what one import costs. The same document costs the same each time.
type work struct {
	ctx    context.Context //nolint:containedctx // of one import, which passes it nowhere else
	limit  int
	bytes  int // that the import may store
	small  bool
	values int // in what was read
	tree   int // bytes of memory that these take
	text   int // bytes of the texts, as they are written
	read   int // bytes of JSON that were read
	yaml   int // bytes of YAML that were read
	meter  yamljson.Meter
	// unchecked: the document was not part of a body that was checked.
	unchecked bool
	patterns  patterns
	spent     int
	checked   int
	err       error // why the import must end
	// place is the pointer to the operation that is read, empty before the first and after the last.
	place string
}

// spend adds units and reports whether the import may go on. What depends on how often a part
// of the document is used asks it; what reads each part once need not.
func (w *work) spend(units int) bool {
	if w.err != nil {
		return false
	}
	w.spent += units
	if w.spent > w.limit {
		w.err = w.exceeded("work", "The document takes too much work to import: its operations use too many or too large schemas. Split it.")
		return false
	}
	if w.checked == 0 || w.spent-w.checked > checkEvery {
		w.checked = w.spent
		if err := w.ctx.Err(); err != nil {
			w.err = fmt.Errorf("import: %w", err)
			return false
		}
	}
	return true
}

// exceeded returns the error of a document that takes too much of what the rule names.
func (w *work) exceeded(rule, message string) error {
	if w.small {
		return ErrNotSmall
	}
	return fault.Invalid(cmp.Or(w.place, "/openapi"), rule, message)
}

// placeOf is the pointer to an operation of a document. Names that no answer should repeat are left out.
func placeOf(path, method string) string {
	if len(path) > maxReason {
		return "/openapi/paths"
	}
	return "/openapi/paths/" + fault.PointerToken(path) + "/" + method
}

// compileWork returns what compiling a schema costs. The compiler looks each of its schemas up
// among all others, 5,000 take a third of a second, and follows the path to each. What each byte costs
// is counted where the schema is written.
func compileWork(schemas int, schema []byte) int {
	depth, _ := exactjson.Shape(schema)
	return schemas*schemas/100 + schemas*(15+depth/2)
}
