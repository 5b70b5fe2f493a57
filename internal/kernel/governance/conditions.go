package governance

import "fmt"

// Conditions are those of a standing approval, ready to be held against calls. They
// are immutable and safe for concurrent use.
type Conditions struct{ list []*condition }

// CompileConditions reads conditions. The error names the first that cannot be read.
func CompileConditions(list []Condition) (*Conditions, error) {
	cs := &Conditions{}
	for i, source := range list {
		source.Operator = lower(source.Operator)
		c, problem := compileCondition(source)
		if problem != nil {
			return nil, fmt.Errorf("governance: condition %d: %w", i, problem)
		}
		cs.list = append(cs.list, c)
	}
	return cs, nil
}

// Hold reports whether all conditions surely hold, as those of a policy that allows:
// what the call lacks, gives in another type or cannot be judged does not hold. No
// conditions hold for each call; nil holds for none.
func (cs *Conditions) Hold(c Call) bool {
	if cs == nil {
		return false
	}
	e := evaluation{call: c, args: document{data: c.Args}}
	for _, one := range cs.list {
		if ok, _ := one.holds(&e, false); !ok {
			return false
		}
	}
	return true
}
