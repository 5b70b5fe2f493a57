package openapi

import (
	"crypto/sha256"
	"encoding/json"
	"errors"

	"agentruntime/internal/base/argschema"
)

// judged remembers which schemas can be used, so that each is compiled once however many operations
// have it.
type judged struct {
	// whole has why schemas cannot be used, by their digest; nil for those that can.
	whole map[[sha256.Size]byte]error
	// parts has the schemas of arguments without their definitions, nil where only a whole one tells.
	parts map[[sha256.Size]byte]*argschema.Part
	// opaque is the definition that is given up.
	opaque *argschema.Part
}

func newJudged() judged {
	return judged{whole: map[[sha256.Size]byte]error{}, parts: map[[sha256.Size]byte]*argschema.Part{}}
}

// compile returns why a schema cannot be used. Most can, by what is known of their parts. Any other is
// compiled as a whole.
func (im *importer) compile(a *argumentSchema, whole json.RawMessage) error {
	if !im.doc.spend((len(whole)-len(a.own))/8) || im.fits(a) {
		return im.doc.err
	}
	digest := sha256.Sum256(whole)
	if why, known := im.judged.whole[digest]; known {
		return why
	}
	if !im.doc.spend(compileWork(a.schemas(), whole)) || im.conv.nodes > maxNodes {
		return im.doc.err // add looks at both
	}
	_, err := argschema.CompileWith(whole, im.doc.patterns.known())
	im.doc.spendPatterns()
	var why error
	switch {
	case errors.Is(err, argschema.ErrTooComplex):
		why = reason("its arguments' schema is too complex to be checked")
	case err != nil:
		why = reason("its arguments' schema cannot be compiled")
	}
	im.judged.whole[digest] = why
	return why
}

// fits reports that a schema can be used by what is known of its parts. False says nothing.
func (im *importer) fits(a *argumentSchema) bool {
	defs := map[string]*argschema.Part{}
	if a.defs != nil {
		for name, def := range a.defs.of {
			if defs[name] = im.partOf(def); defs[name] == nil {
				return false
			}
		}
	}
	digest := sha256.Sum256(a.own)
	own, known := im.judged.parts[digest]
	if !known {
		own = im.conv.compilePart(a.own, a.nodes, a.refs, a.inPlace)
		im.judged.parts[digest] = own
	}
	return own != nil && own.Fit(defs)
}

// partOf returns the part of a definition, that of an opaque one for nil.
func (im *importer) partOf(def *definition) *argschema.Part {
	if def != nil {
		return im.conv.part(def)
	}
	if im.judged.opaque == nil {
		im.judged.opaque = im.conv.compilePart(opaqueSchema(), 1, nil, nil)
	}
	return im.judged.opaque
}

// part compiles a definition by itself, once. It returns nil where only a whole schema tells. endless has
// looked at the definition.
func (c *converter) part(def *definition) *argschema.Part {
	if def.judged {
		return def.part
	}
	def.judged = true // a ring ends here
	for _, ref := range def.inPlace {
		c.part(c.defs[ref])
	}
	def.part = c.compilePart(def.raw, def.nodes, def.refs, def.inPlace)
	return def.part
}

// compilePart compiles a schema of so many schemas, with references to definitions.
func (c *converter) compilePart(raw json.RawMessage, nodes int, refs, inPlace []string) *argschema.Part {
	if !c.doc.spend(partWork+compileWork(nodes+len(refs), raw)) || c.nodes > maxNodes {
		return nil
	}
	names, parts := make([]string, len(refs)), make(map[string]*argschema.Part, len(inPlace))
	for i, ref := range refs {
		names[i] = c.defs[ref].name
	}
	for _, ref := range inPlace {
		def := c.defs[ref]
		parts[def.name] = c.part(def)
	}
	part, err := argschema.CompilePart(raw, names, parts, c.doc.patterns.known())
	c.doc.spendPatterns()
	if err != nil {
		return nil
	}
	return part
}
