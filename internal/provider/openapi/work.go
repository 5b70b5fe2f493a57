package openapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/yamljson"
)

// Bounds of the work of one import, in units of a microsecond on 2 cores or less. Any document may
// take spareWork, and workPerByte for each byte of JSON that it expands to, up to maxWork. So a small
// document never takes as long as the largest ones. Of 2,640 published documents the largest, of 20 MB,
// takes 8.9 million units, and each other takes less than an eighth of its bound: 1.3 for a byte at most.
// Beyond the bound the document is refused, so that one document never keeps a core for long.
const (
	spareWork   = 3_000_000
	workPerByte = 3
	maxWork     = 15_000_000
)

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
	spare  int             // units that any document may take
	limit  int             // units that the largest one may take
	bytes  int             // that the import may store
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
	at    string // the reference of the definition that is read
}

// spend adds units and reports whether the import may go on. What depends on how often a part
// of the document is used asks it; what reads each part once need not.
func (w *work) spend(units int) bool {
	if w.err != nil {
		return false
	}
	w.spent += units
	if w.spent > w.most() {
		w.err = w.exceeded("work", w.tooMuch())
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

// bytesPerUnit is how many bytes of a text take a unit to go through.
const bytesPerUnit = 32

// spendValue adds what it takes to go through a value of the document.
func (w *work) spendValue(value any) bool {
	switch t := value.(type) {
	case string:
		return w.spend(len(t) / bytesPerUnit)
	case json.Number:
		return w.spend(len(t) / bytesPerUnit)
	case []any:
		return w.spend(len(t)/4) && !slices.ContainsFunc(t, func(v any) bool { return !w.spendValue(v) })
	case map[string]any:
		if !w.spend(len(t)) {
			return false
		}
		for name, v := range t {
			if !w.spend(len(name)/bytesPerUnit) || !w.spendValue(v) {
				return false
			}
		}
	}
	return true
}

// newWork is the work of Import.
func newWork(ctx context.Context) *work {
	return &work{ctx: ctx, spare: spareWork, limit: maxWork, bytes: maxBytes}
}

// newSmallWork is the work of ImportSmall.
func newSmallWork(ctx context.Context) *work {
	return &work{ctx: ctx, spare: maxSmallWork, limit: maxSmallWork, bytes: maxSmallBytes, small: true}
}

// most returns how much work the document may take, as far as it was read.
func (w *work) most() int { return min(w.limit, w.spare+w.read*workPerByte) }

// tooMuch says what takes more work than the document may, and what to do.
func (w *work) tooMuch() string {
	where := ""
	if w.at != "" {
		where = " At the schema " + clip(schemaName(strings.TrimSuffix(w.at, anyMark))) + "."
	}
	return "The document takes too much work to import for its size: its operations use too many or too large schemas." +
		where + " Split it, or have fewer operations refer to schemas that lead to most of the others."
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

// partWork is what compiling takes beside the schemas, however few they are.
const partWork = 30

// compileWork returns what compiling a schema costs. The compiler looks each of its schemas up
// among all others, 5,000 take a third of a second, and follows the path to each. What each byte costs
// is counted where the schema is written.
func compileWork(schemas int, schema []byte) int {
	depth, _ := exactjson.Shape(schema)
	return schemas*schemas/100 + schemas*(15+depth/2)
}
