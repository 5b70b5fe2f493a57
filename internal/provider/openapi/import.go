package openapi

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/correction"
	"agentruntime/internal/provider/credential"
)

// Limits of one import.
const (
	maxOperations  = 20_000
	maxVerbSchema  = 128 << 10 // bytes of one verb's schema; Stripe's largest takes 50 KB
	minVerbSchema  = 8 << 10   // bytes that remain to each once all are used up
	maxAllSchemas  = 16 << 20  // bytes of all of them together; Stripe's take 1.8 MB
	maxBytes       = 64 << 20  // bytes that one import stores
	maxReason      = 500       // bytes of one report
	maxPathsListed = 50_000
)

// ImportInput is a provider to import.
type ImportInput struct {
	Slug     string
	Name     string           // "" takes the document's title
	Domain   string           // "" takes the slug; the domain of verbs without a tag
	BaseURL  string           // "" takes the document's first server
	Auth     *credential.Auth // nil takes the document's security scheme
	Document []byte           // OpenAPI or Swagger, as JSON, YAML or a zip archive
	// Unchecked says that the document is a text of its own. As JSON it must keep the rules of a
	// request body. What is part of one keeps them, and so does what was imported before.
	Unchecked bool
	Files
	// Servers and ServerVariables say where the calls of the document's servers go.
	Servers         []verb.ServerChoice
	ServerVariables map[string]string
	// KeptServers and KeptVariables say that these are of an earlier import. What of them the
	// document no longer has is unused. Otherwise it is refused as misspelt.
	KeptServers, KeptVariables bool
	// Rules correct operations, in their order: of two about one thing, the later one counts.
	Rules []correction.Rule
	// Overlay is an OpenAPI Overlay document that is applied before the document is read; nil and
	// null are none.
	Overlay json.RawMessage
	// Loose: objects inside of arguments may have names that their schema does not list.
	Loose bool
}

// Files say how to read an archive of several files.
type Files struct {
	// Root is the name of the document that refers to the others; "" finds it.
	Root string
	// Origin is the scheme and host of files that were fetched: a reference to it means a file of
	// the archive.
	Origin string
	// Absent says of files that could not be fetched why.
	Absent map[string]string
}

// Imported is what an import made of a document.
type Imported struct {
	Form    Form // in which the document is written
	Slug    string
	Name    string
	Domain  string
	BaseURL string
	Auth    credential.Auth
	// Servers lists every base URL that a verb may call, BaseURL first. The
	// caller checks them all against its rules for outbound calls.
	Servers  []string
	Listed   []verb.Server // the document's servers, each with how many verbs use it
	Verbs    []verb.Definition
	Degraded []verb.Report // verbs that lost something, in the order of the document
	Rejected []verb.Report // operations that cannot be called
	// Hidden is how many operations a rule has hidden.
	Hidden int
	// Unused has JSON pointers to the corrections that were about nothing.
	Unused []string
	// UnusedNear has verbs that rules which were about nothing may mean.
	UnusedNear []correction.Near
	// EventTypes are the webhooks of the document, at most maxEventTypes of EventTypesTotal.
	EventTypes      []verb.EventType
	EventTypesTotal int
	// Reads are writes whose names say that they only read, at most maxSuggestions of ReadsTotal.
	Reads      []correction.Suggestion
	ReadsTotal int
}

// importer carries one import.
type importer struct {
	in      ImportInput
	doc     *document
	conv    *converter
	answers *answers
	names   *names
	unused  []string // actions of the overlay that were about nothing
	out     *Imported
	servers map[string]bool
	hosts   *servers
	scheme  verb.Scheme // what is presented where the document says nothing
	seen    int
	bytes   int
	// lost has what each of out.Verbs lost, by its position there; readBacks what waits for
	// all verbs to be known.
	lost      []loss
	readBacks []pendingReadBack
	rules     []rule
	// proposed are the names of verbs without rules, sorted. They are read where a rule needs them.
	proposed []string
	// renamed has the names that rules have given, by those before.
	renamed map[string]string
	// programs has what is wrong with the programs of the document that were read.
	programs map[string]string
	judged   judged
}

// loss is what one operation lost.
type loss struct {
	where string
	why   map[string]bool
}

// Import reads an OpenAPI document. A fault of one operation is reported and never fails the
// whole. A fault of the document is a VALIDATION_ERROR, and so is one that takes more work than one of
// its size may. References that leave the document are never followed.
func Import(ctx context.Context, in ImportInput) (*Imported, error) {
	return importWithin(in, newWork(ctx))
}

// ImportSmall is Import for a document of at most MaxSmallDocument bytes, within a tenth of the
// work and an eighth of the bytes that Import stores. It returns ErrNotSmall for any other.
func ImportSmall(ctx context.Context, in ImportInput) (*Imported, error) {
	if len(in.Document) > MaxSmallDocument {
		return nil, ErrNotSmall
	}
	return importWithin(in, newSmallWork(ctx))
}

func importWithin(in ImportInput, w *work) (*Imported, error) {
	if !verb.ValidSlug(in.Slug) {
		return nil, fault.Invalid("/slug", "pattern", "A slug is 1 to 40 lower-case letters, digits, hyphens and single underscores, and not \"tool\".")
	}
	w.unchecked = in.Unchecked
	doc, unused, err := parseDocument(in, w)
	if err != nil {
		return nil, err
	}
	im := &importer{in: in, doc: doc, unused: unused, conv: newConverter(doc, in.Loose), servers: map[string]bool{}, renamed: map[string]string{}, programs: map[string]string{}, judged: newJudged()}
	im.answers = newAnswers(doc, im.conv)
	im.hosts = &servers{im: im, seen: map[string]bool{}, refused: map[string]bool{}, uses: map[string]*verb.Server{}}
	im.names = &names{provider: in.Slug, taken: map[string]bool{}}
	if im.rules, err = readRules(in); err != nil {
		return nil, err
	}
	if err := im.provider(); err != nil {
		return nil, err
	}
	if err := im.operations(); err != nil {
		return nil, err
	}
	im.webhooks()
	im.remark()
	if err := im.hosts.check(); err != nil {
		return nil, err
	}
	if err := im.rename(); err != nil {
		return nil, err
	}
	if err := im.setReadBacks(); err != nil {
		return nil, err
	}
	for _, l := range im.lost {
		if lost := sorted(l.why); len(lost) > 0 {
			im.out.Degraded = append(im.out.Degraded, verb.Report{Operation: l.where, Reason: argschema.Shorten(strings.Join(lost, "; "), maxReason)})
		}
	}
	delete(im.servers, im.out.BaseURL)
	im.out.Servers = append([]string{im.out.BaseURL}, sorted(im.servers)...)
	im.out.Listed = im.hosts.report()

	return im.out, nil
}

// provider reads what concerns all operations.
func (im *importer) provider() error {
	im.out = &Imported{
		Unused: im.unused,
		Form:   im.doc.form, Slug: im.in.Slug, Name: im.in.Name, Domain: domainName(im.in.Domain),
		Verbs: []verb.Definition{}, Degraded: []verb.Report{}, Rejected: []verb.Report{},
	}
	if im.out.Name == "" {
		im.out.Name = argschema.Shorten(text(field(im.doc.root, "info"), "title"), maxArgName)
	}
	if im.out.Name == "" {
		im.out.Name = im.in.Slug
	}
	if im.out.Domain == "" {
		im.out.Domain = domainName(im.in.Slug)
	}
	if err := checkChoices(im.in.Servers); err != nil {
		return err
	}
	if err := im.hosts.setMain(); err != nil {
		return err
	}
	im.out.BaseURL = im.hosts.main
	var err error
	if im.out.Auth, im.scheme, err = im.auth(); err == nil && im.in.Auth != nil {
		im.in.Auth = &im.out.Auth
	}
	return err
}

// operations converts every method of every path, in the order of their names.
func (im *importer) operations() error {
	paths, ok := im.doc.root["paths"].(map[string]any)
	if !ok {
		if im.doc.old || im.doc.root["paths"] != nil {
			return fault.Invalid("/openapi/paths", "required", "The document must have an object `paths`.")
		}
		return nil // 3.1 allows a document of webhooks alone
	}
	if len(paths) > maxPathsListed {
		return fault.Invalid("/openapi/paths", "size", "The document has too many paths.")
	}
	for _, path := range sortedKeys(paths) {
		if strings.HasPrefix(path, "x-") {
			continue
		}
		if err := im.path(path, paths[path]); err != nil {
			return err
		}
	}
	im.doc.place, im.doc.at = "", ""
	return nil
}

func (im *importer) path(path string, entry any) error {
	item, why := im.doc.object(entry)
	if why != nil {
		im.reject(path, "its path cannot be read: "+why.Error())
		return nil //nolint:nilerr // reported, the other paths go on
	}
	if !im.doc.spend(len(item)) { // many paths may refer to one item
		return im.doc.err
	}
	for _, key := range sortedKeys(item) {
		if !isMethod(key) {
			continue
		}
		im.doc.place, im.doc.at = placeOf(path, key), ""
		if !im.doc.spend(20) {
			return im.doc.err
		}
		if im.seen++; im.seen > maxOperations {
			return fault.Invalid("/openapi/paths", "size", "The document has too many operations.")
		}
		method := strings.ToUpper(key)
		node, isObject := item[key].(map[string]any)
		switch {
		case !isObject:
			im.reject(label(method, path), "the operation is not an object")
		case !callable(method):
			im.reject(label(method, path), "the method is not supported")
		default:
			o := &operation{im: im, method: method, path: path, item: item, node: node}
			if err := im.add(o); err != nil {
				return err
			}
		}
	}
	return nil
}

// isMethod reports whether a member of a path item is an operation (OpenAPI 3.2's
// query is refused with its reason like OPTIONS).
func isMethod(key string) bool {
	return slices.Contains([]string{"get", "put", "post", "delete", "options", "head", "patch", "trace", "query"}, key)
}

func callable(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

// add converts one operation and files it under verbs or rejected.
func (im *importer) add(o *operation) error {
	where := label(o.method, o.path)
	before := im.conv.nodes
	v, err := o.verb()
	schemas := im.conv.nodes - before
	if err == nil {
		var args *argumentSchema
		args, err = o.schema(max(minVerbSchema, min(maxVerbSchema, maxAllSchemas-im.bytes)))
		if err == nil {
			args.nodes = schemas
			v.Schema = args.whole()
			err = im.compile(args, v.Schema)
		}
	}
	if im.doc.err != nil {
		return im.doc.err
	}
	if im.conv.nodes > maxNodes {
		return errTooLarge()
	}
	if err == nil {
		err = im.conv.refusal(o.scratch)
	}
	if err == nil {
		v.Plan, err = exactjson.Encode(o.plan)
	}
	if err != nil {
		if f := fault.As(err); f != nil {
			return f
		}
		im.reject(where, err.Error())
		return nil
	}
	im.names.taken[v.Name] = true
	if o.hidden {
		im.out.Hidden++
		return nil
	}
	im.suggest(o, v)
	v.Answer = im.answers.of(o)
	if im.bytes += len(v.Schema) + len(v.Plan); im.bytes > im.doc.bytes {
		return im.doc.exceeded("size", "The schemas of the document's operations take more than 64 MiB together. Split it.")
	}
	if o.readBack != nil {
		im.readBacks = append(im.readBacks, pendingReadBack{at: len(im.out.Verbs), plan: o.plan, declared: *o.readBack, by: o.readBackBy})
	}
	im.out.Verbs = append(im.out.Verbs, v)
	o.server.Verbs++
	im.lost = append(im.lost, loss{where: where, why: o.scratch.lost})
	return nil
}

func (im *importer) reject(operation, why string) {
	im.out.Rejected = append(im.out.Rejected, verb.Report{Operation: argschema.Shorten(operation, maxReason), Reason: argschema.Shorten(why, maxReason)})
}
