package catalog

import (
	"encoding/json"

	"agentruntime/internal/base/httpfield"
	"agentruntime/internal/provider/httpplan"
)

// argPlace is where an argument goes in a request, and how it is written there. Policies name
// arguments, so an argument that goes elsewhere would be judged in place of another.
type argPlace struct {
	param httpplan.Param // of a parameter; else the argument is of the body
	body  string         // kind, media type and argument of the body
	whole bool           // the argument is the body
	field httpplan.Encoding
}

// placesOf returns the place of each argument, nil where the plan is no HTTP request.
func placesOf(plan json.RawMessage, args []string) map[string]argPlace {
	p, err := httpplan.Parse(plan)
	if err != nil {
		return nil
	}
	places := make(map[string]argPlace, len(args))
	for _, param := range p.Params {
		places[param.Arg] = argPlace{param: param}
	}
	if p.Body == nil {
		return places
	}
	body := p.Body.Kind + " " + p.Body.Type + " " + p.Body.Arg
	for _, arg := range args {
		if _, isParam := places[arg]; !isParam {
			places[arg] = argPlace{body: body, whole: arg == p.Body.Arg, field: p.Body.Fields[arg]}
		}
	}
	for _, name := range p.Body.Names { // of a body that is one argument
		if _, has := places[name]; !has {
			places[name] = argPlace{body: body, field: p.Body.Fields[name]}
		}
	}
	return places
}

// argsOf returns the arguments that a schema declares.
func argsOf(schema json.RawMessage) []string {
	var declared struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &declared) != nil {
		return nil
	}
	args := make([]string, 0, len(declared.Properties))
	for name := range declared.Properties {
		args = append(args, name)
	}
	return args
}

// moved is what happens to the places of arguments: one goes elsewhere, or one is gone and no other does.
type moved string

const (
	stays     moved = ""
	elsewhere moved = "moved"
	gone      moved = "removed"
)

// moves returns whether an argument is gone, or goes elsewhere than before. A body that is
// one argument, beside arguments that were there, may have members of their names.
func moves(before, now map[string]argPlace) moved {
	for arg, place := range now {
		if _, had := before[arg]; !had && len(before) > 0 && place.whole {
			return elsewhere
		}
	}
	found := stays
	for arg, place := range before {
		switch there, has := now[arg]; {
		case !has:
			found = gone
		case there != place:
			return elsewhere
		}
	}
	return found
}

// choosesMethod reports whether frameworks take an argument for the method of the request.
func choosesMethod(places map[string]argPlace) bool {
	for arg, place := range places {
		name := arg
		if place.param.Arg != "" {
			name = place.param.Wire()
		}
		if place.param.In != httpplan.InPath && httpfield.ChoosesMethod(name) {
			return true
		}
	}
	return false
}

// spreads reports whether an argument may take the place of several segments of the path.
func spreads(places map[string]argPlace) bool {
	for _, place := range places {
		if place.param.In == httpplan.InPath && place.param.Reserved {
			return true
		}
	}
	return false
}
