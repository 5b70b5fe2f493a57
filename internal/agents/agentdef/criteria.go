package agentdef

import (
	"slices"
	"strconv"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/expression"
)

// Condition returns the check of the criterion, ready to be evaluated with `.`; the zero Condition where
// the criterion has none. wrong says what its author has to change; "" where it can be read.
func (c Criterion) Condition() (check expression.Condition, wrong string) {
	if c.Check == "" {
		return check, ""
	}
	t, faults := expression.ParseTemplate(c.Check)
	if len(faults) > 0 {
		return check, faults[0].Message
	}
	e := t.Single()
	if e == nil {
		return check, "must be one expression ${ … } and nothing beside it"
	}
	if err := e.Check(); err != nil {
		return check, err.Message
	}
	if r := e.References(); r.TriggerData || r.Vars || r.Context || r.Item || r.Index || r.Now || len(r.Steps) > 0 || len(r.Names) > 0 {
		return check, `reads "." only, such as .facts`
	}
	return expression.Condition{Template: t}, ""
}

// CheckCriteria returns what is wrong with criteria that stand at the path; nil where nothing is.
func CheckCriteria(path string, list []Criterion) []fault.Detail {
	f := &faults{}
	f.criteria(path, list)
	return f.list
}

func (f *faults) criteria(path string, list []Criterion) {
	f.count(path, len(list), MaxCriteria)
	var ids []string
	for i, c := range list {
		at := path + "/" + strconv.Itoa(i)
		f.fits(at+"/id", c.ID, slugText, "must begin with a-z or 0-9, and have at most 63 of a-z, 0-9, - and _")
		if slices.Contains(ids, c.ID) {
			f.add(at+"/id", "unique", "must differ from the ids of the other criteria")
		}
		ids = append(ids, c.ID)
		f.text(at+"/description", c.Description, maxWhen, true)
		f.text(at+"/check", c.Check, maxCheck, false)
		if _, wrong := c.Condition(); wrong != "" {
			f.add(at+"/check", "expression", wrong)
		}
	}
}
