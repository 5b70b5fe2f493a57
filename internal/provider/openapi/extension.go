package openapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/strictjson"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/provider/httpplan"
)

// timeout reads x-agent-runtime.timeout, seconds or a duration such as "90s". It returns
// milliseconds, and false for what is not between verb.MinTimeout and verb.MaxTimeout.
func timeout(value any) (int64, bool) {
	var d time.Duration
	switch v := value.(type) {
	case json.Number:
		seconds, err := strconv.ParseFloat(v.String(), 64)
		if err != nil || seconds > verb.MaxTimeout.Seconds() {
			return 0, false
		}
		d = time.Duration(seconds * float64(time.Second))
	case string:
		var err error
		if d, err = time.ParseDuration(v); err != nil {
			return 0, false
		}
	}
	if d < verb.MinTimeout || d > verb.MaxTimeout {
		return 0, false
	}
	return d.Milliseconds(), true
}

// unfit returns why a text of the document is no jq program, "" if it is one.
// Operations often have the same, which is read once.
func (im *importer) unfit(program string) string {
	why, known := im.programs[program]
	if known {
		return why
	}
	if !im.doc.spend(len(program)) {
		return "the import has ended"
	}
	why = expression.Unfit(program)
	im.programs[program] = why
	return why
}

// readBack is the function readBack for a value of the document, which many operations may share.
func (im *importer) readBack(value any) (*verb.ReadBack, error) {
	if !im.doc.spendValue(value) {
		return nil, im.doc.err
	}
	return readBack(value)
}

// readBack reads the form of x-agent-runtime.read_back. Its verb may be written as the
// operationId.
func readBack(value any) (*verb.ReadBack, error) {
	raw, err := exactjson.Encode(value)
	if err != nil {
		return nil, err
	}
	var r verb.ReadBack
	if err := strictjson.Decode(raw, &r, strictjson.Options{Free: []string{"/args", "/match/equals"}}); err != nil {
		return nil, reason("it is an object with verb, args and match {in, equals}")
	}
	r.Verb = snake(r.Verb)
	if err := r.Check(); err != nil {
		return nil, err
	}
	return &r, nil
}

// pendingReadBack is a declared read-back of a verb, before all verbs are known.
type pendingReadBack struct {
	at       int // in importer.out.Verbs
	plan     httpplan.Plan
	declared verb.ReadBack
	by       string // what declares it, for the report
}

// setReadBacks checks the declared read-backs against the verbs they name and stores them in
// the plans. One that cannot be used is reported.
func (im *importer) setReadBacks() error {
	for _, p := range im.readBacks {
		v := &im.out.Verbs[p.at]
		r := p.declared
		r.Verb = verb.Fit(im.in.Slug, r.Verb)
		if name, renamed := im.renamed[r.Verb]; renamed {
			r.Verb = name
		}
		if why := im.unreadable(*v, r); why != "" {
			im.lost[p.at].why[p.by+" is ignored: "+why] = true
			continue
		}
		p.plan.ReadBack = &r
		var err error
		if v.Plan, err = exactjson.Encode(p.plan); err != nil {
			return err
		}
	}
	return nil
}

// unreadable returns why a read-back of v cannot be used, "" if it can.
func (im *importer) unreadable(v verb.Definition, r verb.ReadBack) string {
	if v.Operation != verb.Write {
		return "a read needs none"
	}
	at := slices.IndexFunc(im.out.Verbs, func(other verb.Definition) bool { return other.Name == r.Verb })
	if at < 0 || im.out.Verbs[at].Operation != verb.Read {
		return "its verb is no read of this provider"
	}
	refs, err := r.References()
	if err != nil {
		return err.Error()
	}
	own := argumentsOf(v)
	for _, path := range refs {
		if name, _, _ := strings.Cut(path, "."); !own.knows(name) {
			return fmt.Sprintf("the operation has no argument %q", name)
		}
	}
	var given map[string]json.RawMessage
	if len(r.Args) > 0 && json.Unmarshal(r.Args, &given) != nil {
		return "args is not an object"
	}
	read := argumentsOf(im.out.Verbs[at])
	for _, name := range sortedKeys(given) {
		if !read.knows(name) {
			return fmt.Sprintf("%s has no argument %q", r.Verb, name)
		}
	}
	for _, name := range read.Required {
		if given[name] == nil {
			return fmt.Sprintf("%s needs the argument %q", r.Verb, name)
		}
	}
	return ""
}

// arguments are the names that a verb's schema has.
type arguments struct {
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Additional json.RawMessage            `json:"additionalProperties"` //nolint:tagliatelle // a keyword of JSON Schema
}

func argumentsOf(v verb.Definition) (a arguments) {
	_ = json.Unmarshal(v.Schema, &a) // the importer made it
	return a
}

func (a arguments) knows(name string) bool {
	return a.Properties[name] != nil || string(a.Additional) != "false"
}
