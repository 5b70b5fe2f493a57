package openapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"agentruntime/internal/base/fault"
)

// referenceWork is what following one reference to a file takes.
const referenceWork = 2

// filesKey is the member of a document of several files under which the others are.
const filesKey = "x-files"

// absent stands in the tree for a file that is not there, and says why. An operation that refers to
// it cannot be called.
type absent struct{ why string }

// Error implements error.
func (a absent) Error() string { return a.why }

// bundle makes one document of several files: the others become members of the root, and each
// reference to a file a reference within the document.
type bundle struct {
	w      *work
	root   string            // name of the root document
	origin string            // scheme and host of files that were fetched, "" for an archive
	absent map[string]string // why files could not be fetched
	read   func(name string) ([]byte, error)
	files  map[string]any // by name, the root is not among them
	queue  []string       // names that are referred to and not yet read
	// addresses are those of the files in queue within the origin. Nil where no file is fetched.
	addresses map[string]string
	most      int // a walk ends once it has found more files, 0 for no bound
}

// parseArchive reads a document of several files.
func parseArchive(in ImportInput, w *work) (any, error) {
	files, err := w.openArchive(in.Document)
	if err != nil {
		return nil, err
	}
	root, err := files.root(in.Root)
	if err != nil {
		return nil, err
	}
	w.unchecked = true
	b := &bundle{w: w, root: root, origin: in.Origin, absent: in.Absent, read: files.read, files: map[string]any{}}
	return b.make()
}

// make reads the root and what it refers to, directly or not.
func (b *bundle) make() (any, error) {
	raw, err := b.read(b.root)
	if err != nil {
		return nil, fault.Invalid("/openapi", "files", "The root document cannot be read: "+err.Error()+".")
	}
	tree, _, err := b.w.decode(raw)
	root, ok := tree.(map[string]any)
	if err != nil || !ok {
		return tree, err
	}
	b.walk(b.root, root, false)
	if b.w.err != nil {
		return nil, b.w.err
	}
	for len(b.queue) > 0 {
		name := b.queue[0]
		b.queue = b.queue[1:]
		if !b.w.spend(10) {
			return nil, b.w.err
		}
		if err := b.add(name); err != nil {
			return nil, err
		}
	}
	if len(b.files) > 0 {
		root[filesKey] = b.files
	}
	b.splice(root)
	return root, nil
}

// add reads a file and what it refers to. A file that cannot be read fails the operations that
// use it, and no other.
func (b *bundle) add(name string) error {
	if _, is := b.files[name].(absent); is {
		return nil
	}
	if why, failed := b.absent[name]; failed {
		b.files[name] = absent{"the file " + clip(name) + " could not be fetched: " + why}
		return nil
	}
	raw, err := b.read(name)
	var tree any
	if err == nil {
		tree, _, err = b.w.decode(raw)
	}
	var missing absent
	switch f := fault.As(err); {
	case err == nil:
	case errors.As(err, &missing):
		b.files[name] = missing
		return nil
	case f == nil || slices.Contains([]string{"size", "maxLength"}, f.Details[0].Rule):
		return err
	default:
		b.files[name] = absent{"the file " + clip(name) + " cannot be read: " + strings.TrimSuffix(f.Details[0].Message, ".")}
		return nil
	}
	b.files[name] = tree
	b.walk(name, tree, false)
	return b.w.err
}

// hasNames are the keywords whose members have names that the author chooses.
func hasNames(key string) bool {
	return slices.Contains([]string{
		"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "schemas", "parameters", "responses", "requestBodies", "headers",
		"securitySchemes", "securityDefinitions", "paths", "pathItems", "callbacks", "content", "encoding", "links",
	}, key)
}

// isData are the keywords whose values are no part of the document: a reference in them is data.
func isData(key string) bool {
	return slices.Contains([]string{"example", "examples", "default", "enum", "const", "value", "dataValue"}, key)
}

// walk makes the references in a file lead within the document. named says that the members have
// names that the author chose. It leaves the rest of the file as it is where the work is over, or
// more files are found than are asked for.
func (b *bundle) walk(file string, value any, named bool) {
	if b.w.err != nil || b.most > 0 && len(b.queue) > b.most {
		return
	}
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			b.walk(file, item, false)
		}
	case map[string]any:
		if ref, is := v["$ref"].(string); is {
			v["$ref"] = b.refer(file, ref)
		}
		for key, below := range v {
			switch {
			case !named && isData(key):
			case !named && key == "mapping":
				b.mapping(file, below)
			default:
				b.walk(file, below, !named && hasNames(key))
			}
		}
	}
}

// mapping makes the references of a discriminator's mapping lead within the document. A name of a
// schema stays.
func (b *bundle) mapping(file string, value any) {
	names, _ := value.(map[string]any)
	for name, target := range names {
		if ref, is := target.(string); is && (strings.ContainsAny(ref, "#/") || isDocumentName(ref)) {
			names[name] = b.refer(file, ref)
		}
	}
}

// refer returns a reference of a file as one within the document, and has its file read.
func (b *bundle) refer(file, ref string) string {
	target, pointer, _ := strings.Cut(ref, "#")
	name, address, err := file, "", error(nil)
	if target != "" {
		if !b.w.spend(referenceWork) {
			return ref
		}
		name, address, err = b.resolve(file, target)
	}
	switch {
	case pointer != "" && !strings.HasPrefix(pointer, "/"):
		return "#" + pointer // an anchor, which is not supported
	case err != nil:
		name = target
		b.files[name] = err
	case name == b.root:
		return "#" + pointer
	}
	if _, known := b.files[name]; !known {
		b.files[name] = nil
		b.queue = append(b.queue, name)
		if b.addresses != nil {
			b.addresses[name] = address
		}
	}
	return "#/" + filesKey + "/" + fragmentToken(name) + pointer
}

// fragmentToken writes a name as a token of a pointer in a reference, which is a URI.
func fragmentToken(name string) string {
	return strings.NewReplacer("%", "%25", "#", "%23").Replace(fault.PointerToken(name))
}

// resolve returns the name of the file that a file refers to, and its address within the origin.
func (b *bundle) resolve(file, target string) (name, address string, err error) {
	u, err := url.Parse(target)
	if err != nil || len(target) > maxReference {
		return "", "", absent{"a reference is no address of a file"}
	}
	if b.origin == "" {
		name, err = inArchive(file, u)
		return name, "", err
	}
	base, err := url.Parse(b.origin + "/" + file)
	if err != nil {
		return "", "", absent{"a reference is no address of a file"}
	}
	u = base.ResolveReference(u)
	if !strings.EqualFold(u.Scheme+"://"+u.Host, b.origin) || u.User != nil {
		return "", "", absent{"a reference leads to another host: " + clip(u.Scheme+"://"+u.Host)}
	}
	name, ok := fileName(u)
	if !ok {
		return "", "", absent{"a reference is no usable address of a file: " + clip(u.EscapedPath())}
	}
	return name, u.RequestURI(), nil
}

// inArchive returns the name of the file of an archive that a file refers to.
func inArchive(file string, target *url.URL) (string, error) {
	if target.Scheme != "" || target.Host != "" {
		return "", absent{"a reference leads out of the archive, to " + clip(withoutSecrets(target))}
	}
	name := path.Join(path.Dir(file), target.Path)
	if strings.HasPrefix(target.Path, "/") {
		name = strings.TrimPrefix(path.Clean(target.Path), "/")
	}
	if name == ".." || strings.HasPrefix(name, "../") {
		return "", absent{"a reference leads out of the archive: " + clip(withoutSecrets(target))}
	}
	return name, nil
}

// withoutSecrets returns an address without its user and its query.
func withoutSecrets(u *url.URL) string {
	shown := *u
	shown.User, shown.RawQuery, shown.ForceQuery, shown.Fragment, shown.RawFragment = nil, "", false, "", ""
	return shown.String()
}

// RootName returns the name of a fetched document in its archive: its path. The query is left out,
// because it may contain a secret. usable is false where no file of an archive can have the name.
func RootName(u *url.URL) (name string, usable bool) {
	name = strings.TrimPrefix(u.EscapedPath(), "/")
	if name == "" || strings.HasSuffix(name, "/") {
		name += "index"
	}
	return name, usableFile(name)
}

// queryDigest is how many bytes of a digest tell files apart that differ in their query only.
const queryDigest = 6

// fileName is RootName for a file that a document refers to. Instead of a query it has a digest of
// the query.
func fileName(u *url.URL) (name string, usable bool) {
	name, usable = RootName(u)
	if u.RawQuery == "" {
		return name, usable
	}
	sum := sha256.Sum256([]byte(u.RawQuery))
	name += "?" + hex.EncodeToString(sum[:queryDigest])
	return name, usableFile(name)
}

// splice puts the parts of a document that are files of their own in their place: those that are
// read by name, and not by a reference. An overlay finds them there.
func (b *bundle) splice(root map[string]any) {
	d := &document{root: root, work: b.w}
	for _, key := range []string{"paths", "components", "definitions", "parameters", "responses", "securityDefinitions"} {
		d.spliceMember(root, key)
	}
	for _, key := range []string{"components", "paths"} {
		owner := field(root, key)
		for _, member := range sortedKeys(owner) {
			d.spliceMember(owner, member)
		}
	}
}

// spliceMember replaces a member that refers to another file by what is there. It takes a copy, so
// that no value comes to contain itself.
func (d *document) spliceMember(owner map[string]any, key string) {
	node := field(owner, key)
	for range maxRefHops {
		ref, is := node["$ref"].(string)
		if !is {
			owner[key] = node
			return
		}
		target, err := d.lookup(ref)
		next, isObject := target.(map[string]any)
		if err != nil || !isObject || !strings.HasPrefix(ref, "#/"+filesKey+"/") {
			return
		}
		node = maps.Clone(next)
	}
}

// Refers says which other files a file refers to.
type Refers struct {
	Files map[string]string // of the same origin: their addresses within it, by name
	Any   bool              // also to ones that cannot be had
}

// References returns what a file of an origin refers to. It ends once it has found more than most
// files. It is a VALIDATION_ERROR where the file cannot be read, and ErrNotSmall where small is set
// and it is too much.
func References(ctx context.Context, origin, name string, raw []byte, small bool, most int) (Refers, error) {
	w := newWork(ctx)
	w.small = small
	tree, _, err := w.decode(raw)
	if err != nil {
		return Refers{}, err
	}
	b := &bundle{w: w, root: name, origin: origin, files: map[string]any{}, addresses: map[string]string{}, most: most}
	b.walk(name, tree, false)
	return Refers{Files: b.addresses, Any: len(b.files) > 0}, w.err
}
