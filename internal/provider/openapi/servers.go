package openapi

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
)

// Limits on the servers of a document.
const (
	maxServerURL     = 2048 // bytes
	maxFilled        = 2 * maxServerURL
	maxServersListed = 500 // in the report
)

// servers resolves the servers of a document and counts which verbs use them.
type servers struct {
	im      *importer
	first   string          // the document's first server as it writes it, "" for none
	main    string          // the provider's base URL
	moved   string          // where the first server would be without a given base URL
	seen    map[string]bool // choices and variables that the document has
	refused map[string]bool // kept variables whose values the document does not allow
	uses    map[string]*verb.Server
	ordered []*verb.Server
}

// setMain finds the provider's base URL: the given one, otherwise the document's first server.
func (s *servers) setMain() error {
	list, _ := s.im.doc.root["servers"].([]any)
	s.note(list)
	if len(list) > 0 {
		server, _ := list[0].(map[string]any)
		s.first = text(server, "url")
	}
	var err error
	switch {
	case s.im.in.BaseURL != "":
		if s.main, err = cleanBase(s.im.in.BaseURL); err != nil {
			return fault.Invalid("/base_url", "format", "base_url: "+err.Error()+".")
		}
		if len(list) > 0 {
			if s.moved, err = s.resolve(list[0]); fault.As(err) != nil {
				return err
			}
		}
	case len(list) == 0:
		return fault.Invalid("/base_url", "required", "The document names no server; base_url is needed.")
	default:
		s.main, err = s.resolve(list[0])
		switch {
		case s.im.doc.err != nil:
			return s.im.doc.err
		case fault.As(err) != nil:
			return err
		case err != nil:
			return fault.Invalid("/openapi/servers/0", "format", "The document's server cannot be used ("+err.Error()+"); give base_url.")
		}
	}
	s.use(s.first, s.main, "")
	if len(list) > 1 {
		for _, entry := range list[1:] {
			s.listOther(entry)
		}
	}
	return s.im.doc.err
}

// listOther reports a further server of the document, which no call uses unless an operation
// names it too.
func (s *servers) listOther(entry any) {
	if !s.im.doc.spend(5) {
		return
	}
	server, _ := entry.(map[string]any)
	base, err := s.resolve(entry)
	if err != nil {
		s.use(text(server, "url"), "", err.Error())
		return
	}
	s.use(text(server, "url"), base, "")
}

// own returns the server that an operation calls, from the servers that it or its path names.
// ok is false where that is the provider's. An operation that repeats the document's first
// server means the provider's, wherever that was moved to.
func (s *servers) own(list []any) (base string, ok bool, err error) {
	s.note(list)
	base, err = s.resolve(list[0])
	return base, err == nil && base != s.main && base != s.moved, err
}

// use returns the report's entry of a server, a new one where there is none yet.
func (s *servers) use(name, base, why string) *verb.Server {
	key := name + "\n" + base
	u := s.uses[key]
	if u == nil {
		u = &verb.Server{URL: clip(shownURL(name)), BaseURL: base, Reason: why}
		s.uses[key] = u
		s.ordered = append(s.ordered, u)
	}
	return u
}

// shownURL returns a server's URL without its user, password, query and fragment: a report shows no secret.
func shownURL(name string) string {
	if end := strings.IndexAny(name, "?#"); end >= 0 {
		name = name[:end]
	}
	before, after, found := strings.Cut(name, "//")
	if !found {
		return name
	}
	authority, _, _ := strings.Cut(after, "/")
	return before + "//" + after[strings.LastIndexByte(authority, '@')+1:]
}

// clip bounds a text of the document in the report.
func clip(s string) string {
	if len(s) > maxServerURL {
		return strings.ToValidUTF8(s[:maxServerURL], "")
	}
	return s
}

// note remembers which choices and variables these servers of the document have.
func (s *servers) note(list []any) {
	for _, entry := range list {
		server, _ := entry.(map[string]any)
		name := text(server, "url")
		variables := field(server, "variables")
		if !s.im.doc.spend(1 + len(name)/8 + len(variables)) {
			return
		}
		s.seen["url "+name], s.seen["url "+shownURL(name)] = true, true
		for variable := range variables {
			s.seen["variable "+variable] = true
		}
	}
}

// resolve returns the base URL of a server object: that of its choice, otherwise its own with
// the given values of its variables or their defaults. A relative one stands at the provider's.
// The error is a fault where a given value is not allowed.
func (s *servers) resolve(entry any) (string, error) {
	server, ok := entry.(map[string]any)
	if !ok {
		return "", reason("it is not an object")
	}
	name := text(server, "url")
	if !s.im.doc.spend(5 + len(name)/4) {
		return "", s.im.doc.err
	}
	if len(name) > maxServerURL {
		return "", reason("its URL is too long")
	}
	// As the document writes it, or as the report shows it.
	for _, written := range []string{name, shownURL(name)} {
		for _, choice := range s.im.in.Servers {
			if choice.URL == written {
				return cleanBase(choice.BaseURL)
			}
		}
	}
	raw, err := s.fill(name, field(server, "variables"))
	if err != nil {
		return "", err
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "", reason("it is not a URL")
	}
	if u.IsAbs() {
		return cleanBase(raw)
	}
	if s.main == "" {
		return "", reason("it is relative, and nothing says to which address")
	}
	base, err := url.Parse(s.main)
	if err != nil {
		return "", reason("it is not a URL")
	}
	return cleanBase(base.ResolveReference(u).String())
}

// fill puts values in place of the variables of a server's URL.
func (s *servers) fill(name string, variables map[string]any) (string, error) {
	var problem error
	size := len(name)
	raw := templateName.ReplaceAllStringFunc(name, func(place string) string {
		if problem != nil {
			return ""
		}
		value, err := s.variable(place[1:len(place)-1], variables)
		if size += len(value); err == nil && size > maxFilled {
			err = reason("its URL is too long") // a name may stand in it hundreds of times
		}
		if err != nil {
			problem = err
			return ""
		}
		return value
	})
	return raw, problem
}

// variable returns the given value of a variable, otherwise its default.
func (s *servers) variable(name string, variables map[string]any) (string, error) {
	variable := field(variables, name)
	given, has := s.im.in.ServerVariables[name]
	if !has {
		value, ok := variable["default"].(string)
		if !ok {
			return "", reason("a variable of it has no default")
		}
		return value, nil
	}
	s.seen["variable "+name] = true
	list, _ := variable["enum"].([]any)
	if !s.im.doc.spend(len(list)) {
		return "", s.im.doc.err
	}
	if len(list) > 0 && !slices.Contains(list, any(given)) {
		if value, ok := variable["default"].(string); ok && s.im.in.KeptVariables {
			s.refused[name] = true
			return value, nil
		}
		return "", fault.Invalid("/server_variables/"+fault.PointerToken(name), "enum", "The document allows for this variable only: "+someOf(list)+".")
	}
	return given, nil
}

// maxNamed is how many allowed values a message names.
const maxNamed = 20

func someOf(list []any) string {
	var names []string
	for _, v := range list[:min(len(list), maxNamed)] {
		if word, ok := v.(string); ok {
			names = append(names, clip(word))
		}
	}
	if len(list) > maxNamed {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// check refuses choices and variables that the document has no use for: they are misspelt. Those
// of an earlier import are reported as unused.
func (s *servers) check() error {
	for i, choice := range s.im.in.Servers {
		at := fmt.Sprintf("/servers/%d", i)
		switch {
		case s.seen["url "+choice.URL]:
		case s.im.in.KeptServers:
			s.im.out.Unused = append(s.im.out.Unused, at)
		default:
			return fault.Invalid(at+"/url", "unknown", "The document has no such server. Write the URL as the document does.")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.im.in.ServerVariables)) {
		at := "/server_variables/" + fault.PointerToken(name)
		switch {
		case s.seen["variable "+name] && !s.refused[name]:
		case s.im.in.KeptVariables:
			s.im.out.Unused = append(s.im.out.Unused, at)
		default:
			return fault.Invalid(at, "unknown", "No server of the document has this variable.")
		}
	}
	return nil
}

// checkChoices refuses choices that no document can have, before the document is read.
func checkChoices(choices []verb.ServerChoice) error {
	have := map[string]bool{}
	for i, choice := range choices {
		if _, err := cleanBase(choice.BaseURL); err != nil {
			return fault.Invalid(fmt.Sprintf("/servers/%d/base_url", i), "format", "base_url: "+err.Error()+".")
		}
		if have[choice.URL] {
			return fault.Invalid(fmt.Sprintf("/servers/%d/url", i), "uniqueItems", "Two entries are about the same server.")
		}
		have[choice.URL] = true
	}
	return nil
}

// report lists the servers, those of the whole document first.
func (s *servers) report() []verb.Server {
	out := make([]verb.Server, 0, len(s.ordered))
	for _, u := range s.ordered[:min(len(s.ordered), maxServersListed)] {
		out = append(out, *u)
	}
	return out
}

// setServer keeps a server that the operation or its path names for itself.
func (o *operation) setServer() error {
	s := o.im.hosts
	o.server = s.use(s.first, s.main, "")
	for _, owner := range []map[string]any{o.node, o.item} {
		list, _ := owner["servers"].([]any)
		if len(list) == 0 {
			continue
		}
		base, own, err := s.own(list)
		switch {
		case fault.As(err) != nil:
			return err
		case err != nil:
			server, _ := list[0].(map[string]any)
			s.use(text(server, "url"), "", err.Error())
			o.scratch.lose("the operation's own server is not usable; the provider's is used")
		case own:
			server, _ := list[0].(map[string]any)
			o.plan.BaseURL, o.server = base, s.use(text(server, "url"), base, "")
			o.im.servers[base] = true
		}
		return nil
	}
	return nil
}
