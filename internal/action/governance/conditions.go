package governance

import (
	"errors"
	"fmt"
	"strings"
)

// Conditions are those of a standing approval, ready to judge calls. They are immutable
// and safe for concurrent use.
type Conditions struct{ list []clause }

// CompileConditions reads conditions. The error names the first one that cannot be read.
func CompileConditions(list []Condition) (*Conditions, error) {
	r := &clauseReader{}
	clauses := r.whole("", normalizeConditions(list))
	if len(r.problems) > 0 {
		first := r.problems[0]
		return nil, fmt.Errorf("governance: condition %s %s", strings.TrimPrefix(first.Path, "/"), first.Message)
	}
	if r.windows > 0 {
		return nil, errors.New("governance: a window " + onlyPolicies)
	}
	return &Conditions{clauses}, nil
}

// Work is how much work the conditions of several grants may take for one call together.
type Work struct{ left int }

// NewWork returns the work of one evaluation.
func NewWork() *Work { return &Work{left: maxWork} }

// compileWork is what compiling one instruction of a regular expression takes.
const compileWork = 20

// Met reports whether all conditions are met, as for a policy that allows. A condition is
// not met where the call lacks the field, has it in another type, or cannot be judged, also
// because no work is left. An empty list is met by every call, a nil list by none.
func (cs *Conditions) Met(c Call, work *Work) bool {
	if cs == nil {
		return false
	}
	e := evaluation{call: c, args: document{data: c.Args, left: work.left}}
	defer func() { work.left = e.args.left }()
	for one := range conditions(cs.list) {
		if one.re != nil {
			e.args.spend(compileWork * one.re.Size())
		}
	}
	for i := range cs.list {
		if !cs.list[i].isMet(&e, false) {
			return false
		}
	}
	return true
}
