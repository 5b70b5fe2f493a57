package stepmachine

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"agentruntime/internal/base/bytelru"
	"agentruntime/internal/maps/mapdef"
)

// Programs compiles definitions from their texts, and keeps those that were used last. To read and
// compile one takes longer than all else that the machine does for a short execution. It is safe for
// concurrent use.
type Programs struct {
	kept *bytelru.Cache[[sha256.Size]byte, *Program]
}

// mostKept is how many bytes of programs are kept.
const mostKept = 32 << 20

// NewPrograms returns an empty store of programs.
func NewPrograms() *Programs {
	kept, err := bytelru.New[[sha256.Size]byte, *Program](mostKept)
	if err != nil {
		panic(err) // mostKept is positive
	}
	return &Programs{kept}
}

// Of returns the program of a definition that was stored. The error says that it is none.
func (p *Programs) Of(source []byte) (*Program, error) {
	text := sha256.Sum256(source)
	if known, is := p.kept.Get(text); is {
		return known, nil
	}
	d := &mapdef.Definition{}
	if err := json.Unmarshal(source, d); err != nil {
		return nil, fmt.Errorf("compile a definition: %w", err)
	}
	made, err := Compile(d)
	if err != nil {
		return nil, err
	}
	p.kept.Add(text, made, d.Size(), nil)
	return made, nil
}
